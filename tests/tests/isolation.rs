//! C01: what is refused before it can change where a message lands, and workspaces side by side.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "the helpers of a story that cannot be told fail it"
)]

use std::{num::NonZeroUsize, sync::Mutex};

use bus_core::{Endpoint, ErrorKind, Frame, FrameId, Outcome, Overflow, Stop, TaskEvent, planes};
use bus_envelope::{Draft, Headers, wire};
use bus_stories::{Flaky, Scripted, Stage, task};
use bus_subjects::{
    AgentId, Filter, KeyName, KindName, ModuleName, Role, RoleName, RoomId, SessionId, Subject,
    SubjectError, VerbName, WorkspaceId,
};

/// Everything that is no id, whatever it is an id of.
fn bad_ids() -> Vec<String> {
    let bad = [
        "",
        "w1.x",
        ".",
        "*",
        ">",
        "a*",
        "a b",
        " a",
        "a ",
        "a\tb",
        "a\r\nPUB vak.work.w1.coder.task 2\r\nhi\r\n",
        "a\n",
        "a\0b",
        "$SYS",
        "é",
        "a/b",
        "a:b",
        "\u{202e}a",
    ];
    bad.into_iter().map(str::to_owned).chain(["x".repeat(65), "x".repeat(300)]).collect()
}

#[track_caller]
fn refuses_all<T: std::fmt::Debug>(field: &str, parse: fn(&str) -> Result<T, SubjectError>) {
    for bad in bad_ids() {
        let refused = parse(&bad).unwrap_err();
        let named = refused.to_string();
        assert!(named.starts_with(field), "{bad:?} is refused without naming {field}: {named}");
    }
    for good in ["a", "A-b_9~", &"x".repeat(64)] {
        parse(good).unwrap();
    }
}

#[test]
fn every_kind_of_id_refuses_what_would_change_the_subject_and_names_itself() {
    refuses_all("workspace", WorkspaceId::parse);
    refuses_all("agent", AgentId::parse);
    refuses_all("session", SessionId::parse);
    refuses_all("role", RoleName::parse);
    refuses_all("room", RoomId::parse);
    refuses_all("module", ModuleName::parse);
    refuses_all("verb", VerbName::parse);
    refuses_all("kind", KindName::parse);
    refuses_all("key", KeyName::parse);
}

#[tokio::test(start_paused = true)]
async fn an_agent_with_a_bad_name_never_comes_into_being() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    for bad in bad_ids() {
        let refused = stage.agent(&bad, Role::Worker).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{bad:?}");
        assert!(refused.to_string().contains("agent"), "{refused}");
    }
    assert!(flaky.calls().is_empty());
}

/// Something was refused as invalid, and the engine was not asked.
#[track_caller]
fn refused_at_once(flaky: &Flaky, what: &str, result: Result<impl Sized, bus_core::Error>) {
    let error = result.map(drop).expect_err(what);
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotDone), "{what}");
    assert!(flaky.calls().is_empty(), "{what} reached the engine");
}

#[tokio::test(start_paused = true)]
async fn a_line_break_in_any_field_is_refused_before_anything_is_sent() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    for bad in ["a\r\nce-type: other", "a\nb", "a\0b"] {
        let typed = Draft { event_type: bad.to_owned(), ..task(&stage, "x") };
        refused_at_once(&flaky, "type", boss.send(typed).await);
        let content = task(&stage, "x").content_type(format!("text/{bad}"));
        refused_at_once(&flaky, "content type", boss.send(content).await);
        refused_at_once(&flaky, "id", boss.send(task(&stage, "x").id(bad)).await);
        assert!(task(&stage, "x").extension("priority", bad).is_err());
        let mut smuggled = task(&stage, "x");
        smuggled.extensions.insert("priority".to_owned(), bad.to_owned());
        refused_at_once(&flaky, "extension", boss.send(smuggled).await);
        assert!(Headers::new().add("traceparent", bad).is_err());
        assert!(Headers::new().add(bad, "value").is_err());
        assert!(FrameId::parse(bad).is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_draft_leaves_the_chain_where_it_was() {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    boss.send(task(&stage, "a")).await.unwrap();
    boss.send(task(&stage, "x").id("a b")).await.unwrap_err();
    let next = boss.send(task(&stage, "b")).await.unwrap().frame;
    assert_eq!(wire::decode(&next.headers, &next.body).unwrap().lineage.seq_num, 2);
}

/// Runs the one task with this id to its end through claim mark, retry and acknowledgement.
async fn lives_through_a_retry(id: &str) {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    assert_eq!(boss.send(task(&stage, "x").id(id)).await.unwrap().id, id);
    let (stop, ends) = (Stop::default(), Mutex::new(Vec::new()));
    let worker = stage.worker("coder-1").unwrap();
    let report = |event: TaskEvent| {
        if let TaskEvent::Completed { task_id, attempt } = event {
            ends.lock().unwrap().push((task_id, attempt));
            stop.drain.cancel();
        }
    };
    worker.run(&Scripted::failing(1), &stop, report).await.unwrap();
    assert_eq!(ends.into_inner().unwrap(), [(id.to_owned(), 2)]);
}

#[tokio::test(start_paused = true)]
async fn task_ids_at_every_border_live_through_claim_and_retry() {
    for bytes in [1, 21, 22, 63, 64, 65, 127, 128] {
        lives_through_a_retry(&"i".repeat(bytes)).await;
        // Three bytes each in a claim mark's key.
        lives_through_a_retry(&"/".repeat(bytes)).await;
    }
    lives_through_a_retry("~").await;
    lives_through_a_retry("*.>").await;
    lives_through_a_retry("../../etc/passwd").await;
}

#[tokio::test(start_paused = true)]
async fn a_task_id_of_129_bytes_is_refused_before_anything_is_sent() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    refused_at_once(&flaky, "id", boss.send(task(&stage, "x").id("i".repeat(129))).await);
    refused_at_once(&flaky, "empty id", boss.send(task(&stage, "x").id("")).await);
    refused_at_once(&flaky, "id", boss.send(task(&stage, "x").id("é")).await);
}

#[tokio::test(start_paused = true)]
async fn a_payload_one_byte_too_large_is_refused_before_anything_is_sent() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let payload = vec![0; Endpoint::PAYLOAD_BYTES_MAX + 1].into();
    let refused = boss.send(Draft { payload, ..task(&stage, "") }).await.unwrap_err();
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::TooLarge, Outcome::NotDone));
    assert!(flaky.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_workspace_whose_name_begins_alike_is_another_one() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let room = Overflow::DropOldest { capacity: NonZeroUsize::MIN };
    for other in ["w10", "w", "W1", "w2"] {
        let subject = Subject::parse(&format!("vak.work.{other}.coder.task")).unwrap();
        let refused = boss.send(Draft::new(subject, "vak.task", "x")).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Denied, "{other}");
        let filter = Filter::parse(&format!("vak.events.{other}.>")).unwrap();
        let refused = boss.subscribe(filter, room).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Denied, "{other}");
    }
    assert!(flaky.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_message_of_another_workspace_is_not_opened_here() {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let frame = boss.send(task(&stage, "x")).await.unwrap().frame;
    let mut envelope = wire::decode(&frame.headers, &frame.body).unwrap();
    envelope.lineage.workspace = WorkspaceId::parse("w2").unwrap();
    let (headers, body) = wire::encode(wire::WireForm::Binary, &envelope);
    let refused = boss.open(&Frame { headers, body, ..frame }).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt);
    assert!(refused.to_string().contains("another workspace"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn two_roles_of_one_workspace_do_not_take_each_others_tasks() {
    let mut stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    boss.send(task(&stage, "for coders")).await.unwrap();
    stage.queue = RoleName::parse("tester").unwrap();
    boss.send(task(&stage, "for testers")).await.unwrap();
    let (stop, count) = (Stop::default(), Mutex::new(0));
    let report = |_| {
        *count.lock().unwrap() += 1;
        stop.drain.cancel();
    };
    stage.worker("tester-1").unwrap().run(&Scripted::failing(0), &stop, report).await.unwrap();

    assert_eq!(*count.lock().unwrap(), 1);
    let left = stage.stored(planes::work_stream(&stage.workspace).unwrap()).await.unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].subject.as_str(), "vak.work.w1.coder.task");
}
