//! What is held against what servers say.

use super::{facts, read, wire::Stats};

fn stats(name: &str, more: &str) -> Stats {
    let text = format!(
        r#"{{"server":{{"name":"{name}","id":"N{name}","cluster":"vak","domain":"hub","ver":"2.15.1",
            "feature_flags":{{"js_ack_fc_v2":true}}}},
            "statsz":{{"jetstream":{{"config":{{"sync_always":true}},
            "limits":{{"default_max_consumers":-1}},"meta":{{"name":"vak"{more}}}}}}}}}"#
    );
    read("ask the servers", text.as_bytes()).unwrap()
}

const LEADS: &str = r#","leader":"n1","replicas":[{"name":"n2"},{"name":"n3"}],"cluster_size":3"#;
const FOLLOWS: &str = r#","leader":"n1","cluster_size":3"#;
const WAITS: &str = r#","cluster_size":3"#;

#[test]
fn the_leader_of_a_cluster_names_who_is_away() {
    let servers = facts::of(vec![stats("n2", FOLLOWS), stats("n1", LEADS)]);
    let names: Vec<_> = servers.answered.iter().map(|facts| facts.name.as_str()).collect();
    assert_eq!((names, servers.away), (vec!["n1", "n2"], vec!["n3".to_owned()]));
}

#[test]
fn while_nobody_leads_those_that_are_away_have_no_names() {
    let servers = facts::of(vec![stats("n2", FOLLOWS), stats("n3", FOLLOWS)]);
    assert_eq!(servers.away, ["a server of vak"]);
}

#[test]
fn a_leader_counts_while_it_says_so_itself() {
    let led = |all: Vec<Stats>| facts::of(all).leaderless.is_empty();
    assert!(!led(vec![stats("n2", WAITS), stats("n3", WAITS)]));
    assert!(!led(vec![stats("n2", FOLLOWS), stats("n3", FOLLOWS)]));
    assert!(led(vec![stats("n2", FOLLOWS), stats("n1", LEADS)]));
}

#[test]
fn a_whole_cluster_misses_nobody() {
    let all = vec![stats("n1", LEADS), stats("n2", FOLLOWS), stats("n3", FOLLOWS)];
    let servers = facts::of(all);
    assert!(servers.away.is_empty() && servers.leaderless.is_empty());
    assert!(servers.answered.iter().all(|facts| facts.shortcomings().is_empty()));
}

#[test]
fn a_server_that_says_nothing_of_what_it_keeps_lacks_all_of_it() {
    let text = r#"{"server":{"name":"n1","id":"N1","domain":"d"},
        "statsz":{"jetstream":{"config":{}}}}"#;
    let servers = facts::of(vec![read("ask the servers", text.as_bytes()).unwrap()]);
    assert_eq!(servers.answered[0].shortcomings().len(), 3);
    let text = r#"{"server":{"name":"n1","id":"N1"},"statsz":{}}"#;
    let servers = facts::of(vec![read("ask the servers", text.as_bytes()).unwrap()]);
    assert_eq!(servers.answered[0].shortcomings(), ["it has no JetStream"]);
}
