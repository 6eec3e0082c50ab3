//! The publish pipeline: who gets a message, and what is recorded of it.

use std::{fs, time::Duration};

use super::support::{Stage, chat, definition, instance, texts, unread};
use crate::{BusEdge, BusError, CallerIdentity, CallerKind, DeliveryState, InboxItem, Recipient};

#[tokio::test]
async fn publish_writes_durable_jsonl_record() {
    let stage = Stage::new();
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let _inbox = stage.inbox(&coder).await;
    let sent = stage.send(&chief, &definition("coder"), "hello").await.unwrap();
    let path = stage.bus.log_path();
    assert_eq!(path, stage.logs.path().join("bus/2026-05-01.jsonl"));
    let line = [sent.json().as_ref(), b"\n"].concat();
    assert_eq!(fs::read(path).unwrap(), line);
}

#[tokio::test]
async fn nothing_is_made_before_the_first_publish() {
    let stage = Stage::new();
    let coder = stage.peer("coder").await;
    let _inbox = stage.inbox(&coder).await;
    let _path = stage.bus.log_path();
    assert_eq!(fs::read_dir(stage.logs.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn publish_reaches_only_target_instance() {
    let stage = Stage::new();
    let chief = stage.peer("chief").await;
    let (one, two) = (stage.peer("coder").await, stage.peer("coder").await);
    let (mut first, mut second) = (stage.inbox(&one).await, stage.inbox(&two).await);
    stage.send(&chief, &instance(&one), "for one").await.unwrap();
    assert_eq!(texts(&unread(&mut first)), ["for one"]);
    assert_eq!(unread(&mut second), []);
}

#[tokio::test]
async fn subscribe_to_dead_instance_errors() {
    let stage = Stage::new();
    let coder = stage.peer("coder").await;
    stage.bus.deregister(&coder.id, &coder.secret).await.unwrap();
    let refused = stage.bus.subscribe(&coder.id, &coder.secret).await.unwrap_err();
    assert_eq!(refused, BusError::InstanceGone { instance_id: coder.id });
}

#[tokio::test]
async fn publish_delivers_to_definition_addressed_instance() {
    let stage = Stage::new();
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let mut inbox = stage.inbox(&coder).await;
    let sent = stage.send(&chief, &definition("coder"), "hello").await.unwrap();
    assert_eq!(sent.delivery_state, DeliveryState::Delivered);
    assert_eq!(inbox.recv().await, Some(InboxItem::Envelope(sent)));
}

#[tokio::test]
async fn bypass_publish_stamps_both_ids() {
    let stage = Stage::new();
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let _inbox = stage.inbox(&coder).await;
    let sent = stage.send(&chief, &instance(&coder), "hello").await.unwrap();
    let both = Recipient { instance_id: Some(coder.id), definition_id: Some("coder".into()) };
    assert_eq!(sent.to, both);
    assert_eq!(stage.envelopes()[0].to, both);
}

#[tokio::test]
async fn publish_bypass_to_dead_instance_does_not_deliver_to_sibling() {
    let stage = Stage::new();
    let chief = stage.peer("chief").await;
    let (dead, sibling) = (stage.peer("coder").await, stage.peer("coder").await);
    let mut inbox = stage.inbox(&sibling).await;
    stage.bus.deregister(&dead.id, &dead.secret).await.unwrap();
    let refused = stage.send(&chief, &instance(&dead), "hello").await.unwrap_err();
    assert_eq!(refused, BusError::InstanceGone { instance_id: dead.id });
    assert_eq!(unread(&mut inbox), []);
}

#[tokio::test]
async fn failed_publish_logs_dropped_envelope() {
    let stage = Stage::new();
    let chief = stage.peer("chief").await;
    let refused = stage.send(&chief, &definition("coder"), "hello").await.unwrap_err();
    assert_eq!(refused, BusError::NoLiveInstance { definition_id: "coder".into() });
    let [record] = &stage.envelopes()[..] else { panic!("one record") };
    assert_eq!(record.delivery_state, DeliveryState::Dropped);
    let only = Recipient { instance_id: None, definition_id: Some("coder".into()) };
    assert_eq!((&record.to, &record.payload), (&only, &chat("hello")));
}

#[tokio::test]
async fn dropped_bypass_has_no_definition() {
    let stage = Stage::new();
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    stage.bus.deregister(&coder.id, &coder.secret).await.unwrap();
    stage.send(&chief, &instance(&coder), "hello").await.unwrap_err();
    let only = Recipient { instance_id: Some(coder.id), definition_id: None };
    assert_eq!(stage.envelopes()[0].to, only);
}

#[tokio::test]
async fn publish_without_subscriber_errors() {
    let stage = Stage::new();
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let refused = stage.send(&chief, &definition("coder"), "hello").await.unwrap_err();
    assert_eq!(refused, BusError::NoSubscriber { instance_id: coder.id });
}

#[tokio::test]
async fn no_subscriber_is_logged_as_dropped_not_delivered() {
    let stage = Stage::new();
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    stage.send(&chief, &instance(&coder), "hello").await.unwrap_err();
    let [record] = &stage.envelopes()[..] else { panic!("one record") };
    assert_eq!(record.delivery_state, DeliveryState::Dropped);
}

#[tokio::test]
async fn publish_threads_replies() {
    let stage = Stage::new();
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let (_one, mut two) = (stage.inbox(&coder).await, stage.inbox(&chief).await);
    let asked = stage.send(&chief, &definition("coder"), "will you?").await.unwrap();
    let reply = Some(asked.message_id.clone());
    let from = CallerIdentity::instance(&coder.id);
    let to = instance(&chief);
    stage.bus.publish(&coder.secret, from, &to, chat("yes"), reply.clone()).await.unwrap();
    let Some(InboxItem::Envelope(got)) = two.recv().await else { panic!("no answer") };
    assert_eq!(got.in_reply_to, reply);
    assert_eq!(stage.envelopes()[1].in_reply_to, reply);
}

#[tokio::test]
async fn published_envelope_edge_is_derived() {
    let stage = Stage::new();
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let _inbox = stage.inbox(&coder).await;
    let sent = stage.send(&chief, &definition("coder"), "hello").await.unwrap();
    assert_eq!(sent.edge, BusEdge::AssistantAssistant);
}

#[tokio::test]
async fn publish_restamps_sender_definition_from_registry() {
    let stage = Stage::new();
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let _inbox = stage.inbox(&coder).await;
    let from = CallerIdentity {
        definition_id: Some("overseer".into()),
        ..CallerIdentity::instance(&chief.id)
    };
    let to = definition("coder");
    let sent = stage.bus.publish(&chief.secret, from, &to, chat("hello"), None).await.unwrap();
    assert_eq!(sent.from.definition_id.as_deref(), Some("chief"));
    assert_eq!(stage.envelopes()[0].from.definition_id.as_deref(), Some("chief"));
}

#[tokio::test]
async fn publish_rejects_forged_user_kind() {
    let stage = Stage::new();
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let mut inbox = stage.inbox(&coder).await;
    let from = CallerIdentity { kind: CallerKind::User, ..CallerIdentity::instance(&chief.id) };
    let to = definition("coder");
    let refused = stage.bus.publish(&chief.secret, from, &to, chat("do it"), None).await;
    assert_eq!(refused, Err(BusError::CallerKindNotPermitted { kind: CallerKind::User }));
    assert_eq!(unread(&mut inbox), []);
}

#[tokio::test]
async fn publish_rejects_unattributable_caller() {
    let stage = Stage::new();
    let chief = stage.peer("chief").await;
    let from = CallerIdentity { instance_id: None, ..CallerIdentity::instance("") };
    let refused = stage.bus.publish(&chief.secret, from, &definition("x"), chat("a"), None).await;
    assert!(matches!(refused, Err(BusError::InvalidCaller { .. })));
}

#[tokio::test]
async fn publish_rejects_unregistered_sender() {
    let stage = Stage::new();
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let mut inbox = stage.inbox(&coder).await;
    let from = CallerIdentity::instance("chief~ffffffff");
    let to = definition("coder");
    let refused = stage.bus.publish(&chief.secret, from, &to, chat("a"), None).await;
    let instance_id = "chief~ffffffff".into();
    assert_eq!(refused, Err(BusError::UnregisteredSender { instance_id }));
    assert_eq!(unread(&mut inbox), []);
}

#[tokio::test]
async fn publish_rejects_deregistered_sender() {
    let stage = Stage::new();
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let _inbox = stage.inbox(&coder).await;
    stage.bus.deregister(&chief.id, &chief.secret).await.unwrap();
    let refused = stage.send(&chief, &definition("coder"), "hello").await.unwrap_err();
    assert_eq!(refused, BusError::UnregisteredSender { instance_id: chief.id });
}

#[tokio::test]
async fn rejected_publish_writes_no_durable_record() {
    let stage = Stage::new();
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let _inbox = stage.inbox(&coder).await;
    let bare = CallerIdentity { instance_id: None, ..CallerIdentity::instance("") };
    let user = CallerIdentity { kind: CallerKind::User, ..CallerIdentity::instance(&chief.id) };
    for from in [bare, user, CallerIdentity::instance("x~00000001")] {
        let to = definition("coder");
        stage.bus.publish(&chief.secret, from, &to, chat("a"), None).await.unwrap_err();
    }
    assert_eq!(fs::read_dir(stage.logs.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn what_is_too_long_is_refused_before_it_is_anything() {
    let stage = Stage::new();
    let chief = stage.peer("chief").await;
    let long = "x".repeat(1024 * 1024 + 1);
    let refused = stage.send(&chief, &definition("coder"), &long).await.unwrap_err();
    assert!(matches!(refused, BusError::TooLarge { field: "payload.text", .. }));
    assert_eq!(stage.envelopes(), []);
}

#[tokio::test]
async fn the_longest_text_has_a_line_however_it_is_escaped() {
    let stage = Stage::new();
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let _inbox = stage.inbox(&coder).await;
    let text = "\u{1}".repeat(1024 * 1024);
    stage.send(&chief, &definition("coder"), &text).await.unwrap();
    assert_eq!(stage.envelopes()[0].payload, chat(&text));
}

#[tokio::test]
async fn a_record_is_dated_when_it_is_written() {
    let stage = Stage::new();
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let _inbox = stage.inbox(&coder).await;
    stage.send(&chief, &definition("coder"), "before midnight").await.unwrap();
    // A minute at a time, as a lease is shorter than half a day.
    for _ in 0..12 * 60 {
        stage.clock.pass(Duration::from_secs(60));
        stage.bus.heartbeat(&chief.id, &chief.secret).await.unwrap();
        stage.bus.heartbeat(&coder.id, &coder.secret).await.unwrap();
    }
    stage.send(&chief, &definition("coder"), "after midnight").await.unwrap();
    let files = ["2026-05-01", "2026-05-02"].map(|day| {
        let path = stage.logs.path().join(format!("bus/{day}.jsonl"));
        fs::read_to_string(path).unwrap().lines().count()
    });
    assert_eq!(files, [1, 1]);
    assert!(stage.bus.log_path().ends_with("2026-05-02.jsonl"));
}
