//! Attacks of the second order: a question whose answer goes where its asker may not publish.
//!
//! A server never looks at a reply subject. In one account the answer is sent there with the
//! server's own rights; through an import it is delivered, and no other import takes it up.

use bus_subjects::Role;
use serde_json::json;

use crate::{
    raw::Raw,
    world::{Shape, Snapshot, World},
};

/// Where answers are sent: what is stored there, or asked there, is not the attacker's to do.
const PLACES: [&str; 22] = [
    "vak.work.w1.judge.task",
    "vakp.9._.vak.work.w1.judge.task",
    "vak.agent.w1.a2.inbox",
    "vak.outbox.w1.a2.record",
    "vak.approvals.w1.s1.request",
    "vak.dlq.w1.a9.failed",
    "vak.events.w1.s9.telemetry",
    "$KV.VAK_CANCELS_w1.q",
    "$KV.VAK_CLAIMS_w1.deep.key",
    "vakq.VAK_WORK_w1.worker_judge.m._.1.state",
    "vakblob.VAK_RESULTS_w1.m.k",
    "API.STREAM.MSG.DELETE.VAK_DLQ",
    "API.STREAM.DELETE.VAK_DLQ",
    "API.STREAM.PURGE.VAK_WORK_w1",
    "API.STREAM.CREATE.EVIL",
    "API.CONSUMER.PAUSE.VAK_WORK_w1.worker_judge",
    "API.CONSUMER.DELETE.VAK_WORK_w1.worker_judge",
    "API.CONSUMER.DELETE.VAK_OUTBOX_w1.courier",
    "API.CONSUMER.CREATE.VAK_INBOX_w1.leak.vak.agent.w1.a2.inbox",
    "$JS.ACK.VAK_WORK_w1.worker_judge.1.1.1.1.0",
    "_R_.abc",
    "$SYS.REQ.SERVER.PING",
];

/// Both names of the API: the one that agents have, and the one that servers have everywhere.
fn places() -> Vec<String> {
    let both = |place: &&str| ["vakj", "$JS.API"].map(|api| place.replace("API", api));
    let places = PLACES.iter().flat_map(both);
    places.map(|place| place.replace("$JS.$JS", "$JS")).collect()
}

/// Lets every kind of answer that this role can cause go to `place`.
fn bounce(world: &World, attacker: &mut Raw, role: Role, place: &str) {
    let api = world.api();
    for (subject, headers, body) in causes(api, role, place) {
        let (headers, body) = (headers.as_str(), body.as_str());
        match headers {
            "" => attacker.publish(&subject, place, body),
            _ => attacker.publish_with(&subject, place, headers, body),
        }
        attacker.fence();
        // Its own answer to the same question comes after the one that went astray.
        let own = headers.replace("Batch-Id: x", "Batch-Id: y");
        let _refused = attacker.ask_with(&subject, &own, body);
    }
}

/// What a role may ask, whose answers an attacker can shape: subject, headers, body.
fn causes(api: &str, role: Role, place: &str) -> Vec<(String, String, String)> {
    let ask = |subject: String, headers: String, body: &str| (subject, headers, body.to_owned());
    let plain = |subject: &str, body: &str| ask(subject.to_owned(), String::new(), body);
    let mut causes = vec![plain("$SYS.REQ.USER.INFO", "")];
    let batch = format!("Nats-Batch-Id: x{}\r\nNats-Batch-Sequence: 1\r\n", place.len());
    if role == Role::Worker {
        let (own, get) = ("vak.receipts.w1.s1.completed", "DIRECT.GET.VAK_RECEIPTS");
        // Each body is what one of the places would take for an order.
        for body in ["{}", r#"{"seq":1}"#, EVIL, "+ACK", ""] {
            causes.push(plain(own, body));
            causes.push(plain(&format!("{api}.{get}.{own}"), ""));
        }
        causes.push(ask(own.to_owned(), batch.clone(), "b"));
        let next = format!("{api}.CONSUMER.MSG.NEXT.VAK_WORK_w1.worker_coder");
        causes.push(plain(&next, r#"{"batch":1,"no_wait":true}"#));
        causes.push(plain(&format!("{api}.CONSUMER.INFO.VAK_WORK_w1.worker_coder"), ""));
        causes.push(plain("vak.call.w1.coder.go", ""));
    } else {
        causes.push(plain("vak.work.w1.coder.task", "{}"));
        causes.push(plain("vak.agent.w1.a1.inbox", "{}"));
        causes.push(ask("vak.work.w1.coder.task".to_owned(), batch, "b"));
        causes.push(plain(&format!("{api}.DIRECT.GET.VAK_RECEIPTS"), r#"{"seq":1}"#));
        causes.push(plain(&format!("{api}.DIRECT.GET.VAK_RECEIPTS"), r#"{"seq":99}"#));
        causes.push(plain("vak.call.w1.coder.go", ""));
    }
    causes
}

/// What the attacker itself may write to, so that a change there proves nothing.
fn own_streams(role: Role) -> &'static [&'static str] {
    match role {
        Role::Worker => &["VAK_RECEIPTS"],
        _ => &["VAK_RECEIPTS", "VAK_WORK_w1", "VAK_INBOX_w1"],
    }
}

/// What stood in the streams before and after all attacks of a role.
fn attack(shape: Shape, role: Role) -> (Snapshot, Snapshot) {
    let world = World::furnished(shape);
    let before = prepare(&world, role);
    attack_all(&world, role);
    (before, world.admin().snapshot(own_streams(role)))
}

/// Puts something there to be taken, and says what there is.
fn prepare(world: &World, role: Role) -> Snapshot {
    let mut admin = world.admin();
    admin.consumer("VAK_WORK_w1", "worker_coder", "vak.work.w1.coder.task");
    for (subject, body) in [
        ("vak.dlq.w1.a9.failed", "a letter"),
        ("vak.work.w1.judge.task", "a task"),
        ("vak.receipts.w1.s2.completed", "{}"),
    ] {
        admin.store(subject, body);
    }
    admin.snapshot(own_streams(role))
}

fn attack_all(world: &World, role: Role) {
    let mut attacker = world.agent_in(role, "a1");
    for place in places() {
        bounce(world, &mut attacker, role, &place);
    }
    attacker.fence();
}

#[test]
fn no_answer_to_a_worker_becomes_a_question_or_a_stored_message() {
    let (before, after) = attack(Shape::Two, Role::Worker);
    assert_eq!(before, after);
}

#[test]
fn no_answer_to_an_orchestrator_becomes_a_question_or_a_stored_message() {
    let (before, after) = attack(Shape::Two, Role::Orchestrator);
    assert_eq!(before, after);
}

#[test]
fn no_answer_to_an_operator_becomes_a_question_or_a_stored_message() {
    let (before, after) = attack(Shape::Two, Role::Operator);
    assert_eq!(before, after);
}

#[test]
fn in_a_cluster_no_answer_becomes_a_question_or_a_stored_message_whatever_server_is_asked() {
    let mut world = World::cluster(Shape::Two);
    world.furnish();
    let before = prepare(&world, Role::Worker);
    for number in 0..3 {
        attack_all(world.seen_from(number), Role::Worker);
    }
    let after = world.admin().snapshot(own_streams(Role::Worker));
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before, after);
    }
    assert_eq!(before.len(), after.len());
}

/// That the tests above can see an attack, and why a workspace has two accounts.
#[test]
fn in_one_account_the_same_attacks_delete_streams_and_forge_tasks() {
    let (before, after) = attack(Shape::One, Role::Worker);
    let names = |snapshot: &Snapshot| -> Vec<String> {
        snapshot.iter().map(|(name, _)| name.clone()).collect()
    };
    assert!(names(&before).contains(&"VAK_DLQ".to_owned()));
    assert!(!names(&after).contains(&"VAK_DLQ".to_owned()), "{after:?}");
    assert!(names(&after).contains(&"EVIL".to_owned()), "{after:?}");
    let messages = |snapshot: &Snapshot, name: &str| {
        let stream = snapshot.iter().find(|(stream, _)| stream == name).unwrap();
        stream.1[0]["last_seq"].as_u64().unwrap()
    };
    assert!(messages(&after, "VAK_INBOX_w1") > messages(&before, "VAK_INBOX_w1"));
    assert!(messages(&after, "VAK_WORK_w1") > messages(&before, "VAK_WORK_w1"));
}

#[test]
fn with_a_right_to_acknowledge_alone_a_stream_is_deleted_in_one_account_and_not_in_two() {
    for (shape, survives) in [(Shape::One, false), (Shape::Two, true)] {
        let world = World::furnished(shape);
        let mut admin = world.admin();
        admin.consumer("VAK_WORK_w1", "worker_coder", "vak.work.w1.coder.task");
        admin.store("vak.work.w1.coder.task", "t");
        let mut worker = world.agent_in(Role::Worker, "a1");
        let next = format!("{}.CONSUMER.MSG.NEXT.VAK_WORK_w1.worker_coder", world.api());
        let task = worker.ask(&next, r#"{"batch":1}"#).unwrap();
        let ack = task.reply.unwrap();
        for place in ["$JS.API.STREAM.DELETE.VAK_DLQ", "vakj.STREAM.DELETE.VAK_DLQ"] {
            worker.publish(&ack, place, "+ACK");
        }
        worker.ask(&ack, "+ACK").unwrap();
        // Orders are carried out one after the other, but not at once.
        let is_gone = |_| !admin.stream_names().contains(&"VAK_DLQ".to_owned());
        let looks = if survives { 100 } else { 100_000 };
        assert_eq!((0..looks).any(is_gone), !survives, "{shape:?}");
    }
}

const EVIL: &str = r#"{"name":"EVIL","subjects":["evil"],"storage":"memory","retention":"limits","max_consumers":-1,"max_msgs":-1,"max_bytes":-1,"max_age":0,"num_replicas":1,"discard":"old"}"#;

#[test]
fn a_reader_that_delivers_elsewhere_changes_nothing() {
    let world = World::furnished(Shape::Two);
    let mut admin = world.admin();
    admin.store("$KV.VAK_CLAIMS_w1.k", "{}");
    let mut worker = world.agent_in(Role::Worker, "a1");
    let own = ["KV_VAK_CLAIMS_w1"];
    let before = admin.snapshot(&own);
    for (number, place) in places().into_iter().enumerate() {
        let (name, filter) = (format!("push{number}"), "$KV.VAK_CLAIMS_w1.k");
        let config = json!({
            "name": name, "deliver_subject": place, "filter_subject": filter,
            "ack_policy": "none", "deliver_policy": "all",
        });
        let body = json!({
            "stream_name": "KV_VAK_CLAIMS_w1", "config": config, "action": "create",
        });
        let verb = format!("vakj.CONSUMER.CREATE.KV_VAK_CLAIMS_w1.{name}.{filter}");
        worker.ask(&verb, &body.to_string()).unwrap();
    }
    // Somebody listens, so that what is pushed is sent at all.
    let mut resident = world.resident();
    for place in ["vak.work.w1.judge.task", "vak.agent.w1.a2.inbox", "$KV.VAK_CANCELS_w1.q"] {
        resident.subscribe(place);
    }
    resident.fence();
    admin.store("$KV.VAK_CLAIMS_w1.k", "again");
    assert_eq!(before, admin.snapshot(&own));
}
