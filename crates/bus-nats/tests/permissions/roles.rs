//! What each role needs works with the rights made for it, through the imports made for it.

use bus_subjects::Role;
use serde_json::json;

use crate::{
    raw::{Heard, Raw},
    world::{Shape, World, consumer},
};

fn ok(agent: &mut Raw, subject: &str, body: &str) -> Heard {
    let answer = agent.ask(subject, body);
    let answer = answer.unwrap_or_else(|subject| panic!("{subject} is refused"));
    assert_eq!(answer.err_code(), None, "{subject}: {}", answer.body);
    assert!(!answer.is_from_nobody(), "{subject}: nobody answers");
    answer
}

fn create(agent: &mut Raw, stream: &str, name: &str, filter: &str, config: serde_json::Value) {
    let mut body = consumer(stream, name, filter);
    for (member, value) in config.as_object().unwrap() {
        body["config"][member] = value.clone();
    }
    ok(agent, &format!("vakj.CONSUMER.CREATE.{stream}.{name}.{filter}"), &body.to_string());
}

fn pull(agent: &mut Raw, stream: &str, name: &str) -> Heard {
    let next = format!("vakj.CONSUMER.MSG.NEXT.{stream}.{name}");
    ok(agent, &next, r#"{"batch":1,"expires":5000000000}"#)
}

/// A reader that nobody else knows: records or values as they are, and as they change.
fn view(agent: &mut Raw, stream: &str, name: &str, filter: &str) {
    let mut body = consumer(stream, name, filter);
    body["config"] = json!({
        "name": name, "filter_subject": filter, "ack_policy": "none",
        "deliver_policy": "last_per_subject", "mem_storage": true,
        "inactive_threshold": 10_000_000_000_u64,
    });
    ok(agent, &format!("vakj.CONSUMER.CREATE.{stream}.{name}.{filter}"), &body.to_string());
}

#[test]
fn a_worker_takes_plain_and_placed_tasks_and_acknowledges_them() {
    let world = World::furnished(Shape::Two);
    let mut worker = world.agent_in(Role::Worker, "a1");
    let mut boss = world.agent_in(Role::Orchestrator, "o1");
    let (stream, plain) = ("VAK_WORK_w1", "vak.work.w1.coder.task");
    let placed = format!("vakp.*.*.{plain}");
    worker.subscribe(&placed);
    create(&mut worker, stream, "worker_coder", plain, json!({}));
    create(&mut worker, stream, "worker_coder+p", &placed, json!({}));
    ok(&mut boss, plain, "one");
    ok(&mut boss, &format!("vakp.9._.{plain}"), "two");
    for (name, body) in [("worker_coder", "one"), ("worker_coder+p", "two")] {
        let task = pull(&mut worker, stream, name);
        assert_eq!(task.body, body);
        ok(&mut worker, &task.reply.unwrap(), "+ACK");
        ok(&mut worker, &format!("vakj.CONSUMER.INFO.{stream}.{name}"), "");
    }
    let record = format!("vakq.{stream}.worker_coder.m._.7.state");
    ok(&mut worker, &record, "{}");
    ok(&mut worker, &format!("vakj.DIRECT.GET.VAK_BOARD.{record}"), "");
    view(&mut worker, "VAK_BOARD", "v1", &format!("vakq.{stream}.worker_coder.>"));
    assert_eq!(pull(&mut worker, "VAK_BOARD", "v1").body, "{}");
}

#[test]
fn a_mailbox_is_read_by_its_owner() {
    let world = World::furnished(Shape::Two);
    let mut boss = world.agent_in(Role::Orchestrator, "o1");
    let inbox = "vak.agent.w1.a1.inbox";
    ok(&mut boss, inbox, "hello");
    for role in [Role::Worker, Role::Operator] {
        let mut owner = world.agent_in(role, "a1");
        create(
            &mut owner,
            "VAK_INBOX_w1",
            "inbox_a1",
            inbox,
            json!({"ack_wait": 30_000_000_000_u64}),
        );
        ok(&mut owner, &format!("vakj.DIRECT.GET.VAK_INBOX_w1.{inbox}"), "");
    }
    let mut owner = world.agent_in(Role::Worker, "a1");
    let letter = pull(&mut owner, "VAK_INBOX_w1", "inbox_a1");
    ok(&mut owner, &letter.reply.unwrap(), "+ACK");
}

#[test]
fn a_worker_reports_and_keeps_its_results() {
    let world = World::furnished(Shape::Two);
    let mut worker = world.agent_in(Role::Worker, "a1");
    let mut operator = world.agent_in(Role::Operator, "p1");
    for subject in [
        "vak.receipts.w1.s1.completed",
        "vak.approvals.w1.s1.request",
        "vak.dlq.w1.a1.failed",
        "$KV.VAK_CLAIMS_w1.k",
        "$KV.VAK_RESULTS_w1.k",
        "vakblob.VAK_RESULTS_w1.p.u",
        "vakblob.VAK_RESULTS_w1.m.k",
        "vakblob.VAK_RESULTS_w1.d.u",
    ] {
        ok(&mut worker, subject, "x");
    }
    for get in [
        "VAK_RECEIPTS.vak.receipts.w1.s1.completed",
        "VAK_DLQ.vak.dlq.w1.a1.failed",
        "KV_VAK_CLAIMS_w1.$KV.VAK_CLAIMS_w1.k",
        "VKB_VAK_RESULTS_w1.vakblob.VAK_RESULTS_w1.m.k",
    ] {
        assert_eq!(ok(&mut worker, &format!("vakj.DIRECT.GET.{get}"), "").body, "x");
    }
    view(&mut worker, "KV_VAK_CANCELS_w1", "c1", "$KV.VAK_CANCELS_w1.k");
    ok(&mut operator, "$KV.VAK_CANCELS_w1.k", "stop");
    assert_eq!(pull(&mut worker, "KV_VAK_CANCELS_w1", "c1").body, "stop");
}

#[test]
fn a_worker_answers_whoever_called_it() {
    let world = World::furnished(Shape::Two);
    let mut worker = world.agent_in(Role::Worker, "a1");
    let mut boss = world.agent_in(Role::Orchestrator, "o1");
    let call = worker.subscribe("vak.call.w1.coder.go");
    worker.fence();
    let inbox = "_INBOX.o1.call.k";
    let answers = boss.subscribe(inbox);
    boss.publish("vak.call.w1.coder.go", inbox, "?");
    let asked = worker.wait(call, "").unwrap();
    worker.publish(&asked.reply.unwrap(), "", "!");
    assert_eq!(boss.wait(answers, "").unwrap().body, "!");
}

#[test]
fn samples_are_kept_by_the_store_and_events_are_heard() {
    let world = World::furnished(Shape::Two);
    let mut worker = world.agent_in(Role::Worker, "a1");
    let mut observer = world.agent_in(Role::Observer, "b1");
    let events = observer.subscribe("vak.events.w1.>");
    observer.fence();
    worker.publish("vak.events.w1.s1.telemetry", "", "42");
    worker.fence();
    assert_eq!(observer.wait(events, "").unwrap().body, "42");
    world.admin().snapshot(&[]);
    let wanted = r#"{"seq":1,"next_by_subj":"vak.events.w1.>"}"#;
    assert_eq!(ok(&mut observer, "vakj.DIRECT.GET.VAK_LATEST", wanted).body, "42");
}

#[test]
fn auditors_and_operators_read_records_whole() {
    let world = World::furnished(Shape::Two);
    let mut admin = world.admin();
    for stream in ["receipts.w1.s1.completed", "approvals.w1.s1.request", "dlq.w1.a1.failed"] {
        admin.store(&format!("vak.{stream}"), "first");
    }
    for role in [Role::Auditor, Role::Operator] {
        let mut reader = world.agent_in(role, "a1");
        for stream in ["VAK_RECEIPTS", "VAK_APPROVALS", "VAK_DLQ"] {
            let page = r#"{"seq":1,"next_by_subj":">","batch":10}"#;
            assert_eq!(ok(&mut reader, &format!("vakj.DIRECT.GET.{stream}"), page).body, "first");
        }
    }
}

#[test]
fn operators_see_pause_and_clear_the_queue_of_tasks_and_keepers_clear_letters() {
    let world = World::furnished(Shape::Two);
    let mut admin = world.admin();
    let task = admin.store("vak.work.w1.judge.task", "t");
    let letter = admin.store("vak.dlq.w1.a1.failed", "l");
    let mut operator = world.agent_in(Role::Operator, "a1");
    for (verb, body) in [
        ("STREAM.INFO.VAK_WORK_w1", String::new()),
        ("CONSUMER.LIST.VAK_WORK_w1", String::new()),
        ("CONSUMER.INFO.VAK_WORK_w1.worker_judge", String::new()),
        (
            "CONSUMER.PAUSE.VAK_WORK_w1.worker_judge",
            json!({"pause_until": "2100-01-01T00:00:00Z"}).to_string(),
        ),
        ("STREAM.MSG.DELETE.VAK_WORK_w1", json!({"seq": task}).to_string()),
    ] {
        ok(&mut operator, &format!("vakj.{verb}"), &body);
    }
    for record in ["worker_judge.m._.pause", "worker_judge.m._.1.state", "worker_judge.frame.m.1"] {
        ok(&mut operator, &format!("vakq.VAK_WORK_w1.{record}"), "{}");
    }
    view(&mut operator, "VAK_BOARD", "v1", "vakq.VAK_WORK_w1.>");
    pull(&mut operator, "VAK_BOARD", "v1");
    let mut keeper = world.agent_in(Role::Keeper, "k1");
    let body = json!({"seq": letter}).to_string();
    ok(&mut keeper, "vakj.STREAM.MSG.DELETE.VAK_DLQ", &body);
    ok(&mut keeper, "vak.dlq.w1.a9.failed", "x");
}

#[test]
fn letters_are_deleted_by_operators_and_by_nobody_who_only_reads_or_writes_them() {
    let world = World::furnished(Shape::Two);
    let letter = world.admin().store("vak.dlq.w1.a1.failed", "l");
    let (delete, body) = ("vakj.STREAM.MSG.DELETE.VAK_DLQ", json!({"seq": letter}).to_string());
    for role in [Role::Auditor, Role::Orchestrator, Role::Worker, Role::Observer, Role::View] {
        let mut other = world.agent_in(role, "a1");
        assert!(other.ask(delete, &body).is_err(), "{role} deletes a letter");
    }
    let mut operator = world.agent_in(Role::Operator, "p1");
    ok(&mut operator, delete, &body);
    // Its place in its queue again, and nothing else of another workspace.
    ok(&mut operator, "vak.work.w1.coder.task", "again");
    assert!(operator.ask("vak.work.w2.coder.task", "again").is_err(), "another workspace");
}

#[test]
fn what_an_orchestrator_leaves_in_its_outbox_is_carried_by_a_keeper() {
    let world = World::furnished(Shape::Two);
    let mut boss = world.agent_in(Role::Orchestrator, "o1");
    let mut keeper = world.agent_in(Role::Keeper, "k1");
    let (stream, own, all) = ("VAK_OUTBOX_w1", "vak.outbox.w1.o1.record", "vak.outbox.w1.*.record");
    ok(&mut boss, own, "record");
    assert_eq!(ok(&mut boss, &format!("vakj.DIRECT.GET.{stream}.{own}"), "").body, "record");
    ok(&mut keeper, &format!("vakj.CONSUMER.DELETE.{stream}.courier"), "");
    create(&mut keeper, stream, "courier", all, json!({}));
    let record = pull(&mut keeper, stream, "courier");
    assert_eq!(record.body, "record");
    ok(&mut keeper, &record.reply.unwrap(), "+ACK");
    ok(&mut keeper, "$KV.VAK_OUTBOX_w1.k", "at hub");
    view(&mut boss, "KV_VAK_OUTBOX_w1", "s1", "$KV.VAK_OUTBOX_w1.*");
    assert_eq!(pull(&mut boss, "KV_VAK_OUTBOX_w1", "s1").body, "at hub");
    let mut operator = world.agent_in(Role::Operator, "p1");
    ok(&mut operator, &format!("vakj.STREAM.INFO.{stream}"), "");
    ok(&mut operator, own, "again");
}

#[test]
fn an_agent_fences_itself_with_a_message_to_its_own_inbox() {
    let world = World::furnished(Shape::Two);
    for role in Role::ALL {
        let mut agent = world.agent_in(role, "a1");
        let inbox = agent.new_inbox();
        let own = agent.subscribe(&inbox);
        agent.publish(&inbox, "", "here");
        assert_eq!(agent.wait(own, &inbox).unwrap().body, "here");
        ok(&mut agent, "$SYS.REQ.USER.INFO", "");
    }
}

#[test]
fn a_batch_is_stored_whole_and_a_repeat_of_it_is_known() {
    let world = World::furnished(Shape::Two);
    let mut boss = world.agent_in(Role::Orchestrator, "o1");
    let task = "vak.work.w1.coder.task";
    let mut batch = |name: &str, ids: [&str; 2]| {
        let headers = |number: usize, id: &str, end: &str| {
            format!(
                "Nats-Batch-Id: {name}\r\nNats-Batch-Sequence: {number}\r\nNats-Msg-Id: {id}\r\n{end}"
            )
        };
        boss.ask_with(task, &headers(1, ids[0], ""), "one").unwrap();
        boss.ask_with(task, &headers(2, ids[1], "Nats-Batch-Commit: 1\r\n"), "two").unwrap()
    };
    let stored = batch("b1", ["t1", "t2"]).json();
    assert_eq!((&stored["count"], &stored["seq"]), (&json!(2), &json!(2)), "{stored}");
    let repeated = batch("b2", ["t1", "t2"]);
    assert!(repeated.err_code().is_some() || repeated.json()["duplicate"] == true, "{repeated:?}");
    let state = world.admin().api("STREAM.INFO.VAK_WORK_w1", &json!({}));
    assert_eq!(state["state"]["messages"], 2);
}

#[test]
fn a_lost_compare_and_set_is_told_through_the_import() {
    let world = World::furnished(Shape::Two);
    let mut worker = world.agent_in(Role::Worker, "a1");
    let receipts = "vak.receipts.w1.s1.completed";
    let first = "Nats-Expected-Last-Subject-Sequence: 0\r\n";
    assert_eq!(worker.ask_with(receipts, first, "one").unwrap().err_code(), None);
    assert_eq!(worker.ask_with(receipts, first, "two").unwrap().err_code(), Some(10_071));
}
