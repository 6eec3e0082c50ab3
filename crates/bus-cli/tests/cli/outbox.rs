//! What is sent to a hub that may be away: it waits here, arrives once, and says how it stands.

use std::{fs, os::unix::fs::PermissionsExt};

use bus_crypto::creds;
use bus_testserver::TestServer;
use serde_json::Value;

use crate::{
    daemon_support::{Daemon, ids, lines},
    nats_support::{Machine, server_with_accounts},
    support::{LIMIT, Outcome, Place},
};

/// Runs `vakbus` in `place` again and again until it says what is waited for.
fn until(place: &Place, args: &[&str], is_so: impl Fn(&Outcome) -> bool) -> Outcome {
    // Each try is a process of its own, and takes its time.
    let tries = LIMIT.as_millis() / 10;
    let found = (0..tries).map(|_| place.run(args)).find(|outcome| is_so(outcome));
    found.unwrap_or_else(|| panic!("{args:?}: it never was so: {:?}", place.run(args)))
}

fn status(outcome: &Outcome) -> (u64, u64, u64) {
    let counts: Value = serde_json::from_str(&outcome.stdout).unwrap_or_default();
    let count = |name: &str| counts[name].as_u64().unwrap_or(u64::MAX);
    (count("waiting"), count("at_hub"), count("refused"))
}

const STATUS: [&str; 3] = ["outbox", "status", "--json"];

/// A hub, a machine that has its streams there, and the same workspaces at home.
fn hub() -> (TestServer, Machine) {
    let server = TestServer::start();
    let machine = Machine::new(&server);
    machine.does(&["task", "ls"]);
    (server, machine)
}

/// The daemon of the machine's home, with its courier.
fn daemon(machine: &Machine, url: &str) -> Daemon {
    Daemon::with(&machine.place, &["--hub-url", url])
}

#[test]
fn what_is_sent_to_a_hub_that_is_away_arrives_once_when_it_is_back() {
    let (mut server, machine) = hub();
    let url = server.url().to_owned();
    server.kill();
    let daemon = daemon(&machine, &url);
    let place = &machine.place;
    let sent: Vec<String> = (0..3)
        .map(|n| {
            let sent = place.run(&["task", "send", "--to-hub", &format!("task {n}")]);
            assert_eq!(sent.code, Some(0), "{sent:?}");
            sent.stdout.trim_end().to_owned()
        })
        .collect();
    let waiting = place.run(&STATUS);
    assert_eq!((waiting.code, status(&waiting)), (Some(0), (3, 0, 0)), "{waiting:?}");
    let listed = lines(&place.run(&["outbox", "ls", "--json"]));
    let listed: Vec<&str> = listed.iter().map(|line| line["id"].as_str().unwrap()).collect();
    assert_eq!(listed, sent);
    // It is no task of this machine.
    assert!(ids(&place.run(&["task", "ls", "--json"])).is_empty());
    server.restart().unwrap();
    until(place, &STATUS, |outcome| status(outcome) == (0, 3, 0));
    assert_eq!(ids(&machine.run(&["task", "ls", "--json"])), sent);
    let states = lines(&place.run(&["outbox", "ls", "--state", "at-hub", "--json"]));
    assert_eq!(states.len(), 3);
    assert!(states.iter().all(|line| line["hub_stream"] == "VAK_WORK_default"), "{states:?}");
    assert_eq!(daemon.stop().code, Some(0));
}

#[test]
fn a_daemon_without_a_hub_tells_what_waits_for_one() {
    let (mut server, machine) = hub();
    let (url, place) = (server.url().to_owned(), &machine.place);
    server.kill();
    let first = daemon(&machine, &url);
    for n in 0..2 {
        let sent = place.run(&["task", "send", "--to-hub", &format!("task {n}")]);
        assert_eq!(sent.code, Some(0), "{sent:?}");
    }
    first.stop();
    let told = Daemon::start(place).stop().stderr;
    assert!(told.contains("2 records wait for a hub in the outboxes of default"), "{told}");
    assert!(told.contains("--hub-url URL"), "{told}");
}

#[test]
fn the_courier_of_a_workspace_that_was_made_again_ends() {
    let (server, machine) = hub();
    let mut daemon = daemon(&machine, server.url());
    let place = &machine.place;
    fs::remove_dir_all(place.workspace()).unwrap();
    assert_eq!(place.run(&["workspace", "new", "default"]).code, Some(0));
    daemon.running.says("the workspace default is not the one whose outboxes were carried");
    assert_eq!(daemon.stop().code, Some(0));
}

#[test]
fn a_message_for_an_agent_at_the_hub_arrives_in_its_mailbox() {
    let (server, machine) = hub();
    let daemon = daemon(&machine, server.url());
    let sent = machine.place.run(&["inbox", "send", "--to-hub", "cli", "hello"]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    until(&machine.place, &STATUS, |outcome| status(outcome).1 == 1);
    assert_eq!(machine.does(&["inbox", "read"]), "cli: hello");
    assert_eq!(daemon.stop().code, Some(0));
}

#[test]
fn without_a_hub_there_is_no_outbox_and_it_says_how_to_name_one() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    for args in [&["task", "send", "--to-hub", "x"][..], &["inbox", "send", "--to-hub", "cli", "x"]]
    {
        let refused = place.run(args);
        assert_eq!(refused.code, Some(1), "{args:?}: {refused:?}");
        assert!(refused.stderr.contains("vakbus up --hub-url URL"), "{args:?}: {refused:?}");
    }
    for args in [&["outbox", "ls", "--json"][..], &STATUS] {
        let empty = place.run(args);
        assert_eq!(empty.code, Some(0), "{args:?}: {empty:?}");
        assert!(empty.stderr.contains("no hub is named"), "{args:?}: {empty:?}");
    }
    daemon.stop();
}

#[test]
fn what_is_refused_is_told_by_the_exit_code_and_with_its_reason() {
    let (mut server, machine) = hub();
    let url = server.url().to_owned();
    let place = &machine.place;
    assert_eq!(place.run(&["agent", "add", "boss", "--role", "orchestrator"]).code, Some(0));
    server.kill();
    let first = daemon(&machine, &url);
    let sent = place.run(&["--as", "boss", "task", "send", "--to-hub", "x"]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    assert_eq!(place.run(&["agent", "revoke", "boss", "--yes"]).code, Some(0));
    // The next one has read of it before it carries anything.
    first.stop();
    let daemon = daemon(&machine, &url);
    server.restart().unwrap();
    let refused = until(place, &STATUS, |outcome| status(outcome) == (0, 0, 1));
    assert_eq!(refused.code, Some(3));
    let listed = lines(&place.run(&["outbox", "ls", "--json"]));
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0]["state"], &listed[0]["agent"]), (&"refused".into(), &"boss".into()));
    let reason = listed[0]["reason"].as_str().unwrap();
    assert!(reason.ends_with("no certificate of this workspace names the signing key"), "{reason}");
    daemon.stop();
}

#[test]
fn the_credentials_of_a_hub_come_from_a_private_file() {
    let (server, token, key) = server_with_accounts();
    let machine = Machine::new(&server);
    let place = &machine.place;
    place.write("hub.creds", &creds::render(&token, &key));
    let file = place.path("hub.creds");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let up = ["up", "--hub-url", server.url(), "--hub-creds", "hub.creds"];
    let refused = place.run(&up);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("hub.creds"), "{refused:?}");

    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let daemon = Daemon::with(place, &up[1..]);
    assert_eq!(place.run(&["task", "send", "--to-hub", "x"]).code, Some(0));
    // Nobody made the hub's streams yet: it waits and says why.
    let waits = until(place, &["outbox", "ls", "--json"], |outcome| {
        lines(outcome).iter().any(|line| line["tries"].as_u64() > Some(0))
    });
    assert!(lines(&waits)[0]["last_error"].is_string(), "{waits:?}");
    let told = daemon.stop().stderr;
    assert_eq!(told.matches("nothing is carried to the hub").count(), 1, "{told}");
}

#[test]
fn a_server_that_is_watched_over_has_a_courier_as_well() {
    let (server, machine) = hub();
    let (place, there) = (&machine.place, machine.copy());
    // The key that the first one makes for its own server is none of the hub's.
    for sent in 1..=2 {
        let mut command = place.command();
        command.args(["up", "--nats", "--json", "--hub-url", server.url()]);
        command.env("NATS_SERVER", crate::nats_support::program());
        let daemon = Daemon::of(command);
        assert_eq!(place.run(&["task", "send", "--to-hub", "x"]).code, Some(0));
        until(place, &STATUS, |outcome| status(outcome) == (0, sent, 0));
        assert_eq!(ids(&there.run(&["task", "ls", "--json"])).len() as u64, sent);
        assert_eq!(daemon.stop().code, Some(0));
    }
}

#[test]
fn a_password_in_the_address_of_a_hub_is_refused_and_never_shown() {
    let place = Place::new();
    let refused = place.run(&["up", "--hub-url", "nats://somebody:hunter2@127.0.0.1:4222"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(!refused.stderr.contains("hunter2"), "{refused:?}");
}
