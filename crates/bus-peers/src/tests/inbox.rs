//! Inboxes: bounded, each reader by itself, and nothing lost without a word.

use super::support::{Stage, definition, instance, now, spawned, texts, unread};
use crate::{BusError, DeliveryState, InboxItem, JournalRecord, Limits, PeerOptions};

fn small(inbox_max: usize) -> Stage {
    Stage::with(PeerOptions { inbox_max, ..PeerOptions::default() })
}

#[tokio::test]
async fn subscribe_stream_reports_lag_instead_of_swallowing_it() {
    let stage = small(3);
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let mut inbox = stage.inbox(&coder).await;
    for text in ["1", "2", "3", "4", "5"] {
        stage.send(&chief, &definition("coder"), text).await.unwrap();
    }
    assert_eq!(texts(&unread(&mut inbox)), ["lagged 2", "3", "4", "5"]);
}

#[tokio::test]
async fn an_inbox_holds_sixty_four() {
    let stage = Stage::new();
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let mut inbox = stage.inbox(&coder).await;
    for text in 0..65 {
        stage.send(&chief, &definition("coder"), &text.to_string()).await.unwrap();
    }
    let items = unread(&mut inbox);
    assert_eq!((items.len(), &items[0]), (65, &InboxItem::Lagged(1)));
}

#[tokio::test]
async fn a_wedged_client_does_not_refuse_publishes_for_a_healthy_co_subscriber() {
    let stage = small(2);
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let (_wedged, mut healthy) = (stage.inbox(&coder).await, stage.inbox(&coder).await);
    for text in ["1", "2", "3", "4"] {
        stage.send(&chief, &definition("coder"), text).await.unwrap();
        assert_eq!(texts(&unread(&mut healthy)), [text]);
    }
}

#[tokio::test]
async fn eviction_is_recorded_per_client_in_the_durable_log() {
    let stage = small(1);
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let wedged = stage.inbox(&coder).await;
    let first = stage.send(&chief, &definition("coder"), "1").await.unwrap();
    let mut late = stage.inbox(&coder).await;
    let second = stage.send(&chief, &definition("coder"), "2").await.unwrap();
    unread(&mut late);
    stage.send(&chief, &definition("coder"), "3").await.unwrap();
    let misses = stage.misses();
    assert_eq!(misses.len(), 2);
    for (miss, message, total) in [(&misses[0], first, 1), (&misses[1], second, 2)] {
        assert_eq!(miss.subscription_id, wedged.subscription_id());
        assert_eq!(miss.instance_id, coder.id);
        assert_eq!((&miss.message_id, &miss.message_ts), (&message.message_id, &message.ts));
        assert_eq!(miss.missed_total, total);
    }
}

#[tokio::test]
async fn a_loss_is_recorded_before_the_message_that_took_its_place() {
    let stage = small(1);
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let _wedged = stage.inbox(&coder).await;
    stage.send(&chief, &definition("coder"), "1").await.unwrap();
    stage.send(&chief, &definition("coder"), "2").await.unwrap();
    let kinds: Vec<bool> = stage
        .journal()
        .iter()
        .map(|record| matches!(record, JournalRecord::InboxMiss(_)))
        .collect();
    assert_eq!(kinds, [false, true, false]);
}

#[tokio::test]
async fn miss_records_are_distinguishable_from_envelopes() {
    let stage = small(1);
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let _wedged = stage.inbox(&coder).await;
    stage.send(&chief, &definition("coder"), "1").await.unwrap();
    stage.send(&chief, &definition("coder"), "2").await.unwrap();
    let text = std::fs::read_to_string(stage.bus.log_path()).unwrap();
    let records: Vec<Option<String>> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|value| value.get("record").map(|name| name.as_str().unwrap().to_owned()))
        .collect();
    assert_eq!(records, [None, Some("inbox_miss".to_owned()), None]);
}

#[tokio::test]
async fn two_subscribers_one_lagging_account_exactly() {
    let stage = small(4);
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let (mut lagging, mut healthy) = (stage.inbox(&coder).await, stage.inbox(&coder).await);
    let (mut got, mut missed, mut read) = (0, 0, 0);
    for text in 0..50 {
        stage.send(&chief, &definition("coder"), &text.to_string()).await.unwrap();
        read += unread(&mut healthy).len();
        if text % 7 == 0 {
            for item in unread(&mut lagging) {
                match item {
                    InboxItem::Lagged(lost) => missed += lost,
                    InboxItem::Envelope(_) => got += 1,
                }
            }
        }
    }
    got += unread(&mut lagging).len() as u64;
    assert_eq!(read, 50);
    assert_eq!(got + missed, 50);
    assert_eq!(stage.misses().len() as u64, missed);
}

#[tokio::test]
async fn a_detached_subscription_stops_costing_the_instance() {
    let stage = small(1);
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let (wedged, mut healthy) = (stage.inbox(&coder).await, stage.inbox(&coder).await);
    drop(wedged);
    for text in ["1", "2", "3"] {
        stage.send(&chief, &definition("coder"), text).await.unwrap();
        unread(&mut healthy);
    }
    assert_eq!(stage.misses(), []);
    let live = stage.bus.registry().resolve_instance(&coder.id).await.unwrap();
    assert_eq!(live.subscriptions, 1);
}

#[tokio::test]
async fn the_last_reader_that_goes_leaves_no_subscriber() {
    let stage = Stage::new();
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    drop(stage.inbox(&coder).await);
    let refused = stage.send(&chief, &definition("coder"), "1").await.unwrap_err();
    assert_eq!(refused, BusError::NoSubscriber { instance_id: coder.id });
}

#[tokio::test]
async fn deregister_ends_a_subscription_after_it_drains() {
    let stage = Stage::new();
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let mut inbox = stage.inbox(&coder).await;
    stage.send(&chief, &definition("coder"), "1").await.unwrap();
    stage.bus.deregister(&coder.id, &coder.secret).await.unwrap();
    assert!(matches!(inbox.recv().await, Some(InboxItem::Envelope(_))));
    assert_eq!(inbox.recv().await, None);
    assert_eq!(inbox.recv().await, None);
}

#[tokio::test]
async fn a_reader_that_waits_is_woken_by_the_end() {
    let stage = Stage::new();
    let coder = stage.peer("coder").await;
    let mut inbox = stage.inbox(&coder).await;
    let reading = spawned(async move { inbox.recv().await });
    tokio::task::yield_now().await;
    stage.bus.deregister(&coder.id, &coder.secret).await.unwrap();
    assert_eq!(reading.await.unwrap(), None);
}

#[tokio::test]
async fn a_reader_that_waits_is_woken_by_a_message() {
    let stage = Stage::new();
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let mut inbox = stage.inbox(&coder).await;
    let reading = spawned(async move { inbox.recv().await });
    tokio::task::yield_now().await;
    let sent = stage.send(&chief, &instance(&coder), "1").await.unwrap();
    assert_eq!(reading.await.unwrap(), Some(InboxItem::Envelope(sent)));
}

#[tokio::test]
async fn a_subscription_attached_after_deregistration_ends_rather_than_parking() {
    let stage = Stage::new();
    let coder = stage.peer("coder").await;
    let mut before = stage.inbox(&coder).await;
    stage.bus.deregister(&coder.id, &coder.secret).await.unwrap();
    let after = stage.bus.subscribe(&coder.id, &coder.secret).await.unwrap_err();
    assert_eq!(after, BusError::InstanceGone { instance_id: coder.id });
    assert_eq!(now(&mut before), Some(None));
}

#[tokio::test]
async fn an_instance_has_so_many_subscriptions_and_no_more() {
    let limits = Limits { subscriptions_max: 2, ..Limits::default() };
    let stage = Stage::with(PeerOptions { limits, ..PeerOptions::default() });
    let coder = stage.peer("coder").await;
    let (_one, two) = (stage.inbox(&coder).await, stage.inbox(&coder).await);
    let refused = stage.bus.subscribe(&coder.id, &coder.secret).await.unwrap_err();
    assert_eq!(refused, BusError::Full { what: "subscriptions", max: 2 });
    drop(two);
    stage.inbox(&coder).await;
}

#[tokio::test]
async fn every_subscriber_sees_the_same_order() {
    let stage = Stage::new();
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let (mut one, mut two) = (stage.inbox(&coder).await, stage.inbox(&coder).await);
    for text in 0..20 {
        stage.send(&chief, &definition("coder"), &text.to_string()).await.unwrap();
    }
    let (one, two) = (unread(&mut one), unread(&mut two));
    assert_eq!(one, two);
    assert!(stage.envelopes().iter().all(|e| e.delivery_state == DeliveryState::Delivered));
}

#[tokio::test]
async fn long_messages_give_way_before_an_inbox_is_full_of_them() {
    let stage = Stage::new();
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let mut wedged = stage.inbox(&coder).await;
    let long = "x".repeat(400 * 1024);
    for _ in 0..3 {
        stage.send(&chief, &definition("coder"), &long).await.unwrap();
    }
    let read = texts(&unread(&mut wedged));
    assert_eq!(read.iter().map(String::len).collect::<Vec<_>>(), [8, long.len(), long.len()]);
    assert_eq!(read[0], "lagged 1");
    assert_eq!(stage.misses().len(), 1);
    // One that is longer than all that fits is taken alone.
    stage.send(&chief, &definition("coder"), &"\n".repeat(1024 * 1024)).await.unwrap();
    assert_eq!(unread(&mut wedged).len(), 1);
}
