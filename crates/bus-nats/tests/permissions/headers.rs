//! Attacks by what stands beside a message that may be published: headers that servers obey.

use bus_subjects::Role;

use crate::world::{Shape, World};

/// Who writes where, apart from buckets.
const WRITES: [(Role, &str); 11] = [
    (Role::Worker, "vak.receipts.w1.s1.completed"),
    (Role::Worker, "vak.approvals.w1.s1.request"),
    (Role::Worker, "vak.dlq.w1.a1.failed"),
    (Role::Worker, "vak.events.w1.s1.telemetry"),
    (Role::Worker, "vakq.VAK_WORK_w1.worker_coder.m._.1.state"),
    (Role::Orchestrator, "vak.work.w1.coder.task"),
    (Role::Orchestrator, "vakp.9._.vak.work.w1.coder.task"),
    (Role::Orchestrator, "vak.agent.w1.a2.inbox"),
    (Role::Orchestrator, "vak.outbox.w1.a1.record"),
    (Role::Operator, "vak.approvals.w1.s2.request"),
    (Role::Keeper, "vak.dlq.w1.a2.failed"),
];

/// Headers that remove what was stored before, or store something else, elsewhere or later.
const OBEYED: [&str; 7] = [
    "Nats-Rollup: all\r\n",
    "Nats-Rollup: sub\r\n",
    "Nats-Schedule: @at 2100-01-01T00:00:00Z\r\nNats-Schedule-Target: vak.work.w1.judge.task\r\n",
    "Nats-Schedule: @every 1s\r\nNats-Schedule-Target: vak.agent.w1.a2.inbox\r\n",
    "Nats-Schedule: @at 2100-01-01T00:00:00Z\r\n",
    "Nats-Incr: +1\r\n",
    "Nats-Expected-Last-Msg-Id: never\r\n",
];

#[test]
fn no_header_removes_what_is_stored_or_stores_something_elsewhere_or_later() {
    let world = World::furnished(Shape::Two);
    let mut admin = world.admin();
    for (_, subject) in WRITES {
        admin.store(subject, "there before");
    }
    let before = admin.snapshot(&[]);
    for (role, subject) in WRITES {
        let mut agent = world.agent_in(role, "a1");
        for headers in OBEYED {
            let answer = agent.ask_with(subject, headers, "attack").unwrap();
            assert!(answer.err_code().is_some(), "{role} {subject} {headers}: {answer:?}");
        }
    }
    assert_eq!(before, admin.snapshot(&[]));
}

/// A stated limit: a bucket belongs to one kind of writer, for any of them can empty it.
#[test]
fn who_writes_to_a_bucket_can_empty_that_one_and_no_other() {
    let world = World::furnished(Shape::Two);
    let mut admin = world.admin();
    for bucket in ["CLAIMS", "RESULTS", "CANCELS", "AGENTS"] {
        admin.store(&format!("$KV.VAK_{bucket}_w1.k"), "there before");
    }
    admin.store("vakblob.VAK_RESULTS_w1.m.k", "there before");
    let own = ["KV_VAK_CLAIMS_w1", "KV_VAK_RESULTS_w1", "VKB_VAK_RESULTS_w1"];
    let before = admin.snapshot(&own);
    let mut worker = world.agent_in(Role::Worker, "a1");
    for subject in ["$KV.VAK_CLAIMS_w1.x", "$KV.VAK_RESULTS_w1.x", "vakblob.VAK_RESULTS_w1.m.x"] {
        let answer = worker.ask_with(subject, "Nats-Rollup: all\r\n", "attack").unwrap();
        assert_eq!(answer.err_code(), None, "{subject}: {answer:?}");
    }
    assert_eq!(before, admin.snapshot(&own));
    for stream in own {
        let state = admin.api(&format!("STREAM.INFO.{stream}"), &serde_json::Value::Null);
        assert_eq!(state["state"]["messages"], 1, "{stream}");
    }
}
