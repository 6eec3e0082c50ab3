//! Many clients, slow ones, and those that ask for too much.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bus_core::{BlobBody, BlobInfo, Blobs as _, Bus as _, FeedItem, Overflow};
use bus_subjects::{BucketKey, BucketName, Filter};
use futures_util::FutureExt as _;
use tokio::task::JoinSet;

use super::{
    common::People,
    support::{Raw, Site, append, coders, declare, event, settle_down, stored, stream},
};
use crate::{
    LinkBus, LinkLimits, LinkOptions,
    wire::{Answer, Call, Item, ToClient, ToServer},
};

fn subscribe(id: u64, capacity: usize) -> ToServer {
    let capacity = NonZeroUsize::new(capacity).unwrap();
    let call = Call::Subscribe {
        filter: ">".to_owned(),
        overflow: Overflow::DropOldest { capacity }.into(),
    };
    ToServer::Call { id, call }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_misses_exactly_what_it_is_told() {
    const MANY: u64 = 20_000;
    let site = Site::open();
    let mut slow = Raw::admitted(&site, "slow").await;
    slow.send(&subscribe(1, 64)).await;
    assert!(matches!(slow.next().await.unwrap().words, ToClient::Answer { answer: Ok(_), .. }));
    let bus = site.client("quick").await;
    for n in 0..MANY {
        let mut frame = event(&format!("e{n}"));
        frame.body = vec![7; 1024].into();
        bus.publish(frame).await.unwrap();
    }
    declare(&bus).await;
    slow.send(&ToServer::Bye).await;
    let (mut heard, mut missed) = (0, 0);
    while let Some(message) = slow.next().await {
        match message.words {
            ToClient::Item { item: Item::Frames, .. } => heard += message.parts.len() as u64,
            ToClient::Item { item: Item::Gap(gap), .. } => missed += gap,
            _ => {}
        }
    }
    assert_eq!(heard + missed, MANY);
    assert!(missed > MANY / 2, "{missed} were missed: the server keeps no more than its bound");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_in_is_ended() {
    let site = Site::open();
    let mut stuck = Raw::admitted(&site, "stuck").await;
    stuck.send(&subscribe(1, 4096)).await;
    let bus = site.client("quick").await;
    for n in 0..2_000 {
        let mut frame = event(&format!("e{n}"));
        frame.body = vec![7; 1024].into();
        bus.publish(frame).await.unwrap();
    }
    declare(&bus).await;
    assert_eq!(site.pipes.connections(), 2);
    tokio::time::advance(Duration::from_secs(31)).await;
    settle_down().await;
    assert_eq!(site.pipes.connections(), 1);
    append(&bus, "t1").await;
}

#[tokio::test(start_paused = true)]
async fn one_call_too_many_is_refused_and_the_others_are_not() {
    let limits = LinkLimits { calls_max: 4, ..LinkLimits::default() };
    let site = Site::with(People::open_admission, limits);
    let bus = site.client("a1").await;
    let _listener = bus
        .subscribe(Filter::all(), Overflow::DropOldest { capacity: NonZeroUsize::MIN })
        .await
        .unwrap();
    let mut raw = Raw::admitted(&site, "a2").await;
    for id in 1..=5 {
        let call = Call::Request { wait: Duration::from_secs(5) };
        let words = ToServer::Call { id, call };
        let packet = crate::wire::Packet::new(&words).unwrap();
        let frame = event(&format!("q{id}"));
        let packet = packet.with(crate::wire::frame_part(&frame)).unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut raw.0, packet.as_bytes()).await.unwrap();
    }
    let first = raw.next().await.unwrap().words;
    assert!(matches!(first, ToClient::Answer { id: 5, answer: Err(_) }), "{first:?}");
}

#[tokio::test(start_paused = true)]
async fn a_client_with_fewer_calls_than_it_makes_waits_its_turn() {
    let limits = LinkLimits { calls_max: 2, ..LinkLimits::default() };
    let site = Site::with(People::open_admission, limits);
    let bus = Arc::new(site.client("a1").await);
    declare(&bus).await;
    let mut appending = JoinSet::new();
    for n in 0..100 {
        let bus = bus.clone();
        appending.spawn(async move { append(&bus, &format!("t{n}")).await });
    }
    assert_eq!(appending.join_all().await.len(), 100);
}

#[tokio::test(start_paused = true)]
async fn appends_are_stored_in_the_order_they_were_sent() {
    let site = Site::open();
    let bus = site.client("a1").await;
    declare(&bus).await;
    let ids: Vec<_> = (0..300).map(|n| format!("t{n}")).collect();
    let appends = ids.iter().map(|id| append(&bus, id));
    futures_util::future::join_all(appends).await;
    assert_eq!(stored(&*site.engine).await, ids);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_clients_are_served() {
    const MANY: usize = 1_000;
    let limits = LinkLimits { connections_max: 2_000, ..LinkLimits::default() };
    let site = Site::with(People::open_admission, limits);
    let mut clients = Vec::new();
    for n in 0..MANY {
        clients.push(site.client(&format!("a{n}")).await);
    }
    declare(&clients[0]).await;
    for (n, client) in clients.iter().enumerate() {
        append(client, &format!("t{n}")).await;
    }
    assert_eq!(site.pipes.connections(), MANY);
    assert_eq!(clients[7].lag(stream()).await.unwrap().pending, MANY as u64);
    let mut heard = clients[1]
        .subscribe(Filter::all(), Overflow::DropOldest { capacity: NonZeroUsize::new(8).unwrap() })
        .await
        .unwrap();
    clients[2].publish(event("e1")).await.unwrap();
    assert!(matches!(heard.next().await, Some(FeedItem::Frame(_))));
    drop((clients, heard));
    settle_down().await;
    assert_eq!(site.pipes.connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_was_claimed_for_nobody_is_given_back_uncounted() {
    let site = Site::open();
    let bus = site.client("a1").await;
    declare(&bus).await;
    append(&bus, "t1").await;
    let mut gone = bus.consume(coders()).await.unwrap();
    // The server claims while the caller turns to something else.
    tokio::select! {
        biased;
        _none = gone.next() => panic!("it cannot be there yet"),
        () = std::future::ready(()) => {}
    }
    let mut stays = bus.consume(coders()).await.unwrap();
    let delivery = stays.next().await.unwrap().unwrap();
    assert_eq!(delivery.attempt, 1);
}

#[tokio::test(start_paused = true)]
async fn credit_beyond_reason_ends_the_connection() {
    let site = Site::open();
    let bus = site.client("a1").await;
    declare(&bus).await;
    append(&bus, "t1").await;
    let mut raw = Raw::admitted(&site, "a2").await;
    let stream = stream().as_str().to_owned();
    let call = Call::Replay { stream, filter: ">".to_owned(), from: 0, credit: 0 };
    raw.send(&ToServer::Call { id: 1, call }).await;
    let answered = raw.next().await.unwrap().words;
    assert!(matches!(answered, ToClient::Answer { answer: Ok(Answer::Done), .. }));
    raw.send(&ToServer::Credit { id: 1, items: u32::MAX }).await;
    assert!(raw.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_is_not_polled_holds_up_no_other_call() {
    let site = Site::open();
    let options = LinkOptions { outgoing_bytes: 1 << 10, ..LinkOptions::default() };
    let pipes = Arc::new(site.pipes.clone());
    let bus = LinkBus::dial(pipes, site.identity("a1"), options).await.unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let parts = std::iter::from_fn(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Some(Ok(vec![7; BlobInfo::PIECE_BYTES].into()))
    });
    let body = BlobBody::new(futures_util::stream::iter(parts));
    let (bucket, key) = (BucketName::parse("B").unwrap(), BucketKey::parse("k").unwrap());
    let mut upload = bus.put_blob(bucket, key, body);
    // The first part is more than may wait, so the second waits for its turn.
    while asked.load(Ordering::Relaxed) < 2 {
        assert!((&mut upload).now_or_never().is_none());
        settle_down().await;
    }
    tokio::time::timeout(Duration::from_secs(5), declare(&bus)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn large_deliveries_come_in_several_messages_and_uncounted() {
    const MANY: usize = 40;
    let site = Site::open();
    let bus = site.client("a1").await;
    declare(&bus).await;
    for n in 0..MANY {
        let mut frame = super::support::task(&format!("t{n}"));
        frame.body = vec![7; 900 << 10].into();
        bus.append(frame, bus_core::Expect::Any).await.unwrap();
    }
    let mut member = bus.consume(coders()).await.unwrap();
    let (mut all, max) = (std::collections::BTreeSet::new(), NonZeroUsize::new(1000).unwrap());
    while all.len() < MANY {
        for delivery in member.next_many(max).await.unwrap().unwrap() {
            assert_eq!(delivery.attempt, 1);
            all.insert(delivery.frame.id.clone());
            delivery.settle(bus_core::Verdict::Ack).await.unwrap();
        }
    }
    assert_eq!(bus.lag(stream()).await.unwrap(), bus_core::Lag::default());
}
