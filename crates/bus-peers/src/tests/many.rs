//! Many publishers at once.

use std::sync::Arc;

use super::support::{Peer, Stage, definition, spawned, unread};
use crate::{BusError, DeliveryState, InboxItem, PeerOptions};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_publishers_lose_nothing_without_a_record() {
    let stage = Arc::new(Stage::with(PeerOptions { inbox_max: 8, ..PeerOptions::default() }));
    let coder = stage.peer("coder").await;
    let (mut fast, _wedged) = (stage.inbox(&coder).await, stage.inbox(&coder).await);
    let reading = spawned(async move {
        let (mut got, mut missed) = (Vec::new(), 0);
        while let Some(item) = fast.recv().await {
            match item {
                InboxItem::Envelope(posted) => got.push(posted.message_id.clone()),
                InboxItem::Lagged(lost) => missed += lost,
            }
        }
        (fast.subscription_id(), got, missed)
    });
    let mut senders = Vec::new();
    for _ in 0..16 {
        let (stage, peer) = (Arc::clone(&stage), stage.peer("chief").await);
        senders.push(spawned(async move {
            for text in 0..50 {
                stage.send(&peer, &definition("coder"), &text.to_string()).await.unwrap();
            }
        }));
    }
    for sender in senders {
        sender.await.unwrap();
    }
    stage.bus.deregister(&coder.id, &coder.secret).await.unwrap();
    let (own, got, missed) = reading.await.unwrap();
    let sent: Vec<_> = stage.envelopes().into_iter().map(|e| e.message_id).collect();
    assert_eq!(sent.len(), 800);
    assert_eq!(got.len() as u64 + missed, 800);
    let misses = stage.misses();
    let (ours, others): (Vec<_>, Vec<_>) =
        misses.into_iter().partition(|miss| miss.subscription_id == own);
    assert_eq!((ours.len() as u64, others.len()), (missed, 792));
    // What was read and what was missed are together what was sent, and in the journal's order.
    let kept: Vec<_> = sent
        .iter()
        .filter(|id| !ours.iter().any(|miss| &miss.message_id == *id))
        .cloned()
        .collect();
    assert_eq!(got, kept);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_publish_racing_deregistration_is_not_recorded_delivered() {
    for _ in 0..50 {
        let stage = Arc::new(Stage::new());
        let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
        let mut inbox = stage.inbox(&coder).await;
        let (ours, Peer { id, secret, .. }) = (Arc::clone(&stage), coder);
        let ending = spawned(async move { ours.bus.deregister(&id, &secret).await });
        let sent = stage.send(&chief, &definition("coder"), "race").await;
        assert_eq!(ending.await.unwrap(), Ok(true));
        let [record] = &stage.envelopes()[..] else { panic!("one record") };
        let (state, read) = match sent {
            Ok(_) => (DeliveryState::Delivered, 1),
            // Where a bucket is shared, its inbox may be gone a moment before it is.
            Err(BusError::NoLiveInstance { .. } | BusError::NoSubscriber { .. }) => {
                (DeliveryState::Dropped, 0)
            }
            Err(other) => panic!("{other}"),
        };
        assert_eq!((record.delivery_state, unread(&mut inbox).len()), (state, read));
        let gone = stage.send(&chief, &definition("coder"), "later").await;
        assert!(matches!(gone, Err(BusError::NoLiveInstance { .. })), "{gone:?}");
    }
}

#[tokio::test]
async fn a_publish_that_is_given_up_is_delivered_and_recorded_all_the_same() {
    use std::{
        future::Future as _,
        pin::pin,
        task::{Context, Waker},
    };
    let stage = Stage::new();
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let mut inbox = stage.inbox(&coder).await;
    {
        let to = definition("coder");
        let mut given_up = pin!(stage.send(&chief, &to, "1"));
        let _ignored = given_up.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
    stage.send(&chief, &definition("coder"), "2").await.unwrap();
    assert_eq!((unread(&mut inbox).len(), stage.envelopes().len()), (2, 2));
}
