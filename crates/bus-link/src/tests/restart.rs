//! Servers that come and go, and clients that do.

use std::{num::NonZeroUsize, time::Duration};

use bus_core::{
    Buckets as _, Bus as _, ErrorKind, Expect, FeedItem, Outcome, Overflow, Put, Revision, Verdict,
    WatchItem,
};
use bus_subjects::{BucketKey, BucketName, Filter};

use super::support::{Site, append, coders, declare, event, settle_down, stored, stream, task};
use crate::LinkState;

const CAPACITY: Overflow = Overflow::DropOldest { capacity: NonZeroUsize::new(64).unwrap() };

#[tokio::test(start_paused = true)]
async fn every_acknowledged_append_is_there_once_whatever_happens_to_the_server() {
    let site = Site::open();
    let bus = std::sync::Arc::new(site.client("a1").await);
    declare(&bus).await;
    let mut appending = tokio::task::JoinSet::new();
    for n in 0..200 {
        let bus = bus.clone();
        appending.spawn(async move {
            let id = format!("t{n}");
            (id.clone(), bus.append(task(&id), Expect::Any).await)
        });
        if n % 40 == 20 {
            tokio::task::yield_now().await;
            site.kill();
            tokio::task::yield_now().await;
            site.start();
        }
    }
    let mut acknowledged = Vec::new();
    while let Some(done) = appending.join_next().await {
        match done.unwrap() {
            (id, Ok(receipt)) => {
                assert!(!receipt.duplicate, "{id} is ours, however often it was sent");
                acknowledged.push(id);
            }
            (id, Err(error)) => assert_eq!(error.outcome(), Outcome::Unknown, "{id}: {error}"),
        }
    }
    let all = stored(&*site.engine).await;
    let mut once = all.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), all.len(), "nothing is there twice");
    assert!(acknowledged.iter().all(|id| all.contains(id)), "nothing acknowledged is missing");
    assert!(acknowledged.len() > 100, "{} were acknowledged", acknowledged.len());
}

#[tokio::test(start_paused = true)]
async fn a_subscription_goes_on_with_a_gap_after_a_restart() {
    let site = Site::open();
    let bus = site.client("a1").await;
    let mut heard = bus.subscribe(Filter::all(), CAPACITY).await.unwrap();
    bus.publish(event("before")).await.unwrap();
    assert!(matches!(heard.next().await, Some(FeedItem::Frame(_))));
    site.start();
    assert_eq!(heard.next().await, Some(FeedItem::Gap { missed: 1 }));
    let mut states = bus.states();
    while states.now() != LinkState::Up {
        states.next().await;
    }
    settle_down().await;
    bus.publish(event("after")).await.unwrap();
    let Some(FeedItem::Frame(frame)) = heard.next().await else { panic!("no frame") };
    assert_eq!(frame.id.as_str(), "after");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_member_joins_again_after_a_restart() {
    let site = Site::open();
    let bus = site.client("a1").await;
    declare(&bus).await;
    let mut member = bus.consume(coders()).await.unwrap();
    let working = crate::task::start(async move { member.next().await.unwrap().unwrap() });
    settle_down().await;
    site.start();
    append(&bus, "t1").await;
    let delivery = working.await.unwrap();
    assert_eq!((delivery.frame.id.as_str(), delivery.attempt), ("t1", 1));
    delivery.settle(Verdict::Ack).await.unwrap();
    assert!(stored(&*site.engine).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_verdict_reaches_the_server_over_another_connection() {
    let site = Site::open();
    let identity = site.identity("a1");
    let bus = site.try_client(identity).await.unwrap();
    declare(&bus).await;
    append(&bus, "t1").await;
    let mut member = bus.consume(coders()).await.unwrap();
    let delivery = member.next().await.unwrap().unwrap();
    site.pipes.cut();
    settle_down().await;
    delivery.extend().await.unwrap();
    delivery.settle(Verdict::Ack).await.unwrap();
    assert!(stored(&*site.engine).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_verdict_on_what_another_server_handed_out_is_late() {
    let site = Site::open();
    let bus = site.client("a1").await;
    declare(&bus).await;
    append(&bus, "t1").await;
    let mut member = bus.consume(coders()).await.unwrap();
    let delivery = member.next().await.unwrap().unwrap();
    site.start();
    settle_down().await;
    let error = delivery.settle(Verdict::Ack).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LeaseLost, "{error}");
}

#[tokio::test(start_paused = true)]
async fn nobody_settles_what_another_client_holds() {
    let site = Site::open();
    let (bus, other) = (site.client("a1").await, site.client("a2").await);
    declare(&bus).await;
    append(&bus, "t1").await;
    let mut member = bus.consume(coders()).await.unwrap();
    let delivery = member.next().await.unwrap().unwrap();
    let (_, id) = delivery.settler();
    let held = crate::wire::Call::Settle(vec![(id, Verdict::Ack.into())]);
    let answer = other.say("settle", held, crate::client::Repeat::Never).await.unwrap();
    assert!(format!("{answer:?}").contains("knows no such delivery"), "{answer:?}");
    delivery.settle(Verdict::Ack).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_a_killed_client_held_comes_back_after_its_lease_and_counts() {
    let site = Site::open();
    let (bus, killed) = (site.client("a1").await, site.client("a2").await);
    declare(&bus).await;
    append(&bus, "t1").await;
    let mut theirs = killed.consume(coders()).await.unwrap();
    let held = theirs.next().await.unwrap().unwrap();
    drop((held, theirs, killed));
    settle_down().await;
    let mut mine = bus.consume(coders()).await.unwrap();
    let started = tokio::time::Instant::now();
    let again = mine.next().await.unwrap().unwrap();
    assert_eq!(again.attempt, 2);
    assert!(started.elapsed() >= Duration::from_secs(29), "not before its lease was over");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_waits_for_any_more_claims_nothing() {
    let site = Site::open();
    let (bus, other) = (site.client("a1").await, site.client("a2").await);
    declare(&bus).await;
    let mut mine = bus.consume(coders()).await.unwrap();
    tokio::select! {
        biased;
        _none = mine.next() => panic!("there is nothing"),
        () = settle_down() => {}
    }
    append(&other, "t1").await;
    settle_down().await;
    let lag = other.lag(stream()).await.unwrap();
    assert_eq!((lag.pending, lag.in_flight), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_behind_what_it_told() {
    let site = Site::open();
    let bus = site.client("a1").await;
    let (bucket, key) = (BucketName::parse("B").unwrap(), BucketKey::parse("k").unwrap());
    bus.put(bucket.clone(), key.clone(), Put::new("1")).await.unwrap();
    let mut watch = bus.watch(bucket.clone(), Filter::all(), Revision::START).await.unwrap();
    assert!(matches!(watch.next().await, Some(Ok(WatchItem::Changed(_)))));
    assert!(matches!(watch.next().await, Some(Ok(WatchItem::Current))));
    site.start();
    settle_down().await;
    bus.put(bucket, key, Put::new("2")).await.unwrap();
    let Some(Ok(WatchItem::Changed(change))) = watch.next().await else { panic!("no change") };
    assert_eq!(change.state, bus_core::KeyState::Value("2".into()));
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_the_server_as_long_as_it_is_patient() {
    let site = Site::open();
    let bus = site.client("a1").await;
    declare(&bus).await;
    site.kill();
    settle_down().await;
    let started = tokio::time::Instant::now();
    let error = bus.append(task("t1"), Expect::Any).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unavailable, Outcome::NotDone));
    assert_eq!(started.elapsed().as_secs(), 10);
    site.start();
    append(&bus, "t1").await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_closes_answers_what_it_accepted() {
    let site = Site::open();
    let bus = site.client("a1").await;
    declare(&bus).await;
    let mut heard = bus.subscribe(Filter::all(), CAPACITY).await.unwrap();
    for n in 0..50 {
        bus.publish(event(&format!("e{n}"))).await.unwrap();
    }
    append(&bus, "t1").await;
    let server = site.pipes.lead_to(None).unwrap();
    server.close().await;
    for n in 0..50 {
        let Some(FeedItem::Frame(frame)) = heard.next().await else { panic!("no frame {n}") };
        assert_eq!(frame.id.as_str(), format!("e{n}"));
    }
    assert_eq!(bus.states().now(), LinkState::Away);
}

#[tokio::test(start_paused = true)]
async fn every_task_is_done_though_the_server_comes_and_goes() {
    let site = Site::open();
    let bus = site.client("a1").await;
    declare(&bus).await;
    for n in 0..60 {
        append(&bus, &format!("t{n}")).await;
    }
    let mut member = bus.consume(coders()).await.unwrap();
    let mut done = std::collections::BTreeSet::new();
    for n in 0.. {
        if n % 10 == 5 && n < 60 {
            site.start();
        }
        let next = tokio::time::timeout(Duration::from_secs(60), member.next()).await;
        let Ok(next) = next else { break };
        let delivery = next.unwrap().unwrap();
        let id = delivery.frame.id.as_str().to_owned();
        match delivery.settle(Verdict::Ack).await {
            Ok(()) => assert!(done.insert(id.clone()), "{id} was done before"),
            // It comes again after its lease, or it is gone: nobody was told that it was done.
            Err(error) => {
                let kinds = [ErrorKind::LeaseLost, ErrorKind::Unavailable];
                assert!(kinds.contains(&error.kind()), "{error}");
            }
        }
    }
    assert!(stored(&*site.engine).await.is_empty());
    assert!(done.len() >= 50, "{} were confirmed", done.len());
}
