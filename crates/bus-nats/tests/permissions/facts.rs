//! What the design takes for granted of a server, so that another version that differs is noticed.

use bus_crypto::jwt::{Permissions, ResponsePermission, SubjectPermission};
use bus_subjects::Role;
use serde_json::json;

use crate::{
    raw::Raw,
    world::{Shape, World, consumer},
};

fn rules(allow: &[&str], deny: &[&str]) -> SubjectPermission {
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
    SubjectPermission { allow: texts(allow), deny: texts(deny) }
}

fn rights(publish: &[&str], subscribe: &[&str]) -> Permissions {
    Permissions { publish: rules(publish, &[]), subscribe: rules(subscribe, &[]), response: None }
}

#[test]
fn an_empty_list_of_what_is_allowed_allows_everything() {
    let world = World::start(Shape::Two);
    let mut nobody = world.agent("a1", rights(&[], &[]));
    assert!(nobody.may_publish("anything", "") && nobody.may_subscribe(">"));
    let denied = Permissions { publish: rules(&[], &[">"]), ..rights(&[], &["_INBOX.a1.>"]) };
    let mut denied = world.agent("a1", denied);
    assert!(!denied.may_publish("anything", "") && !denied.may_subscribe("anything"));
}

#[test]
fn a_star_at_the_end_lets_everything_below_be_heard_unless_that_is_denied() {
    let world = World::start(Shape::Two);
    for (deny, heard) in [(&[][..], 3), (&["t.*.>"][..], 1)] {
        let subscribe = rules(&["t.*"], deny);
        let mut agent = world.agent("a1", Permissions { subscribe, ..rights(&["x"], &[]) });
        agent.subscribe("t.>");
        assert!(agent.fence().is_empty());
        let mut resident = world.resident();
        for subject in ["t.a", "t.a.b", "t.a.b.c"] {
            resident.publish(subject, "", "");
        }
        resident.fence();
        agent.fence();
        assert_eq!(agent.heard().len(), heard, "{deny:?}");
    }
}

#[test]
fn a_star_in_a_publication_is_a_letter_like_others() {
    let world = World::start(Shape::Two);
    let mut agent = world.agent("a1", rights(&["t.*"], &["_INBOX.a1.>"]));
    assert!(agent.may_publish("t.*", ""));
    assert!(!agent.may_publish("t.a.b", ""));
}

#[test]
fn the_reply_subject_of_a_publication_is_not_judged_but_for_a_few_of_the_servers_own() {
    let world = World::start(Shape::Two);
    let mut agent = world.agent("a1", rights(&["t.a"], &["_INBOX.a1.>"]));
    assert!(agent.may_publish("t.a", "vak.work.w1.coder.task"));
    assert!(agent.may_publish("t.a", "$JS.API.STREAM.DELETE.VAK_DLQ"));
    for reply in ["$JS.ACK.VAK_WORK_w1.worker_judge.1.1.1.1.0", "_R_.a", "_GR_.a.b"] {
        assert!(!agent.may_publish("t.a", reply), "{reply}");
    }
}

#[test]
fn a_right_to_answer_goes_further_than_any_denial_and_is_used_up() {
    let world = World::start(Shape::Two);
    let answerer = Permissions {
        publish: rules(&["t.x"], &["vak.work.>"]),
        subscribe: rules(&["vak.call.w1.coder.*", "_INBOX.a1.>"], &[]),
        response: Some(ResponsePermission { answers_max: 2, ttl_ns: 60_000_000_000 }),
    };
    let mut agent = world.agent("a1", answerer);
    let call = agent.subscribe("vak.call.w1.coder.go");
    agent.fence();
    assert!(!agent.may_publish("vak.work.w1.coder.task", ""));
    world.resident().publish("vak.call.w1.coder.go", "vak.work.w1.coder.task", "");
    agent.wait(call, "").unwrap();
    let answers = [(); 3].map(|()| agent.may_publish("vak.work.w1.coder.task", ""));
    assert_eq!(answers, [true, true, false]);
}

#[test]
fn where_traces_go_is_judged() {
    let world = World::furnished(Shape::Two);
    let mut agent = world.agent("a1", rights(&["t.a"], &["_INBOX.a1.>"]));
    let trace = "Nats-Trace-Dest: vak.work.w1.judge.task\r\n";
    agent.publish_with("t.a", "", trace, "");
    assert!(!agent.fence().is_empty());
}

/// Makes a consumer in the form with the filter in the subject; the server's error, if any.
fn create(agent: &mut Raw, name: &str, config: serde_json::Value) -> Option<u64> {
    let filter = "vak.receipts.w1.s1.completed";
    let verb = format!("$JS.API.CONSUMER.CREATE.VAK_RECEIPTS.{name}.{filter}");
    let body = json!({"stream_name": "VAK_RECEIPTS", "config": config, "action": "create"});
    let answer = agent.ask(&verb, &body.to_string()).unwrap();
    answer.err_code()
}

#[test]
fn the_filter_and_the_name_in_the_subject_of_a_consumers_making_are_what_counts() {
    let world = World::furnished(Shape::Two);
    let mut admin = world.admin();
    let filter = "vak.receipts.w1.s1.completed";
    let config = |more: serde_json::Value| {
        let mut config = json!({"ack_policy": "none"});
        for (member, value) in more.as_object().unwrap() {
            config[member] = value.clone();
        }
        config
    };
    let of = |filter: &str| config(json!({"name": "c", "filter_subject": filter}));
    assert_eq!(create(&mut admin.0, "c", of("vak.receipts.w1.s2.completed")), Some(10_131));
    assert_eq!(create(&mut admin.0, "c", of("vak.receipts.>")), Some(10_131));
    assert_eq!(create(&mut admin.0, "c", config(json!({"name": "c"}))), Some(10_131));
    let several = config(json!({"name": "c", "filter_subjects": [filter, "vak.receipts.>"]}));
    assert!(create(&mut admin.0, "c", several).is_some());
    let durable = json!({"durable_name": "d", "filter_subject": filter});
    assert_eq!(create(&mut admin.0, "c", config(durable)), Some(10_017));
    let named = json!({"name": "other", "filter_subject": filter});
    assert_eq!(create(&mut admin.0, "c", config(named)), None);
    let found = admin.api("CONSUMER.NAMES.VAK_RECEIPTS", &json!({}));
    assert_eq!(found["consumers"], json!(["c"]));
}

#[test]
fn a_body_beside_a_get_by_subject_is_refused() {
    let world = World::furnished(Shape::Two);
    let mut admin = world.admin();
    admin.store("vak.receipts.w1.s1.completed", "mine");
    admin.store("vak.receipts.w1.s2.completed", "others");
    let verb = "$JS.API.DIRECT.GET.VAK_RECEIPTS.vak.receipts.w1.s1.completed";
    assert_eq!(admin.0.ask(verb, "").unwrap().body, "mine");
    let answer = admin.0.ask(verb, r#"{"last_by_subj":"vak.receipts.w1.s2.completed"}"#).unwrap();
    assert!(answer.headers.starts_with("NATS/1.0 408") && answer.body.is_empty(), "{answer:?}");
}

#[test]
fn a_narrow_part_of_the_api_cannot_be_imported_under_its_own_name() {
    let world = World::furnished(Shape::Two);
    let mut resident = world.resident();
    let own = resident.ask("$JS.API.STREAM.INFO.VAK_WORK_w1", "").unwrap();
    assert_eq!(own.err_code(), Some(10_039), "{}", own.body);
    let imported = resident.ask("vakj.STREAM.INFO.VAK_WORK_w1", "").unwrap();
    assert_eq!(imported.json()["config"]["name"], "VAK_WORK_w1");
}

#[test]
fn the_token_of_the_longest_names_stands_on_one_line() {
    let world = World::start(Shape::Two);
    let long = vec![format!("t.{}", "x".repeat(200)); 64];
    let mut wide = rights(&[], &["_INBOX.a1.>"]);
    wide.publish.allow = long.iter().enumerate().map(|(n, text)| format!("{text}.{n}")).collect();
    let (key, token) = world.token("a1", wide);
    assert!(token.len() > 16 * 1024, "{}", token.len());
    let mut agent = Raw::connect(world.server().url(), &key, &token, "a1").unwrap();
    assert!(!agent.may_publish("t.y", ""));
}

#[test]
fn what_is_imported_is_all_there_is() {
    let world = World::furnished(Shape::Two);
    // Even somebody who may say everything in the account of the agents.
    let mut resident = world.resident();
    for verb in ["STREAM.DELETE.VAK_DLQ", "STREAM.PURGE.VAK_DLQ", "STREAM.CREATE.X", "STREAM.NAMES"]
    {
        let answer = resident.ask(&format!("vakj.{verb}"), "{}").unwrap();
        assert!(answer.is_from_nobody(), "{verb}: {answer:?}");
        let answer = resident.ask(&format!("$JS.API.{verb}"), "{}").unwrap();
        assert_eq!(answer.err_code(), Some(10_039), "{verb}: {answer:?}");
    }
}

#[test]
fn a_worker_makes_its_own_consumer_and_no_other() {
    let world = World::furnished(Shape::Two);
    let mut worker = world.agent_in(Role::Worker, "a1");
    let filter = "vak.work.w1.coder.task";
    let verb = format!("vakj.CONSUMER.CREATE.VAK_WORK_w1.worker_coder.{filter}");
    let ask = |worker: &mut Raw, filter| {
        let body = consumer("VAK_WORK_w1", "worker_coder", filter).to_string();
        worker.ask(&verb, &body).unwrap()
    };
    assert_eq!(ask(&mut worker, filter).err_code(), None);
    assert_eq!(ask(&mut worker, "vak.work.w1.judge.task").err_code(), Some(10_131));
    let other = "vakj.CONSUMER.CREATE.VAK_WORK_w1.worker_coder.vak.work.w1.judge.task";
    assert_eq!(worker.ask(other, "{}").unwrap_err(), other);
}

/// What a worker can still do to others: a hint that is none. Nothing may rest on it.
#[test]
fn a_hint_that_a_consumer_was_removed_can_be_forged() {
    let world = World::furnished(Shape::Two);
    let mut other = world.agent_in(Role::Worker, "a2");
    let hint = "$JS.EVENT.ADVISORY.CONSUMER.DELETED.VAK_INBOX_w1.inbox_a2";
    let hints = other.subscribe(hint);
    assert!(other.fence().is_empty());
    let mut worker = world.agent_in(Role::Worker, "a1");
    worker.ask("$KV.VAK_CLAIMS_w1.k", "forged").unwrap();
    let filter = "$KV.VAK_CLAIMS_w1.k";
    let config = json!({
        "name": "p", "deliver_subject": hint, "filter_subject": filter, "ack_policy": "none",
    });
    let body = json!({"stream_name": "KV_VAK_CLAIMS_w1", "config": config, "action": "create"});
    let verb = format!("vakj.CONSUMER.CREATE.KV_VAK_CLAIMS_w1.p.{filter}");
    assert_eq!(worker.ask(&verb, &body.to_string()).unwrap().err_code(), None);
    assert_eq!(other.wait(hints, "").unwrap().body, "forged");
}
