//! Watches: ends told apart, readers that are slow, and nothing left on the server.

use std::time::Duration;

use bus_core::{BucketMirror, Buckets, KeyState, Put, Revision, WatchItem};
use bus_subjects::Filter;
use futures_util::StreamExt;

use crate::common::{Place, bucket, held, put, see, see_change, see_current, value};

#[tokio::test(flavor = "multi_thread")]
async fn deletions_and_expiries_are_told_apart_live_and_afterwards() {
    let place = Place::open().await;
    put(&place.bus, "by-time", Put::new("v").ttl(Duration::from_secs(1))).await;
    let last = place.put("by-hand", "v").await;
    let mut live = place.watch(last).await;
    assert_eq!(see_current(&mut live).await, []);
    place.delete("by-hand").await;
    let ends =
        [("by-hand".to_owned(), KeyState::Deleted), ("by-time".to_owned(), KeyState::Expired)];
    assert_eq!([see_change(&mut live).await, see_change(&mut live).await], ends);
    let mut afterwards = place.watch(last).await;
    assert_eq!([see_change(&mut afterwards).await, see_change(&mut afterwards).await], ends);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_client_deletes_is_told_as_deleted() {
    let place = Place::open().await;
    let last = place.put("a", "v").await.max(place.put("b", "v").await);
    let mut watch = place.watch(last).await;
    assert_eq!(see_current(&mut watch).await, []);
    for (name, operation) in [("a", "DEL"), ("b", "PURGE")] {
        let mut headers = async_nats::HeaderMap::new();
        headers.insert("KV-Operation", operation);
        if operation == "PURGE" {
            headers.insert("Nats-Rollup", "sub");
        }
        let subject = format!("$KV.STATE.{name}");
        let sent = place.raw.publish_with_headers(subject, headers, "".into()).await.unwrap();
        sent.await.unwrap();
        assert_eq!(see_change(&mut watch).await, (name.to_owned(), KeyState::Deleted));
        assert_eq!(place.value(name).await, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_watches_leave_no_consumers_behind() {
    let place = Place::open().await;
    place.put("k", "v").await;
    let deleted = "$JS.EVENT.ADVISORY.CONSUMER.DELETED.KV_STATE.>";
    let mut deletions = place.client.subscribe(deleted).await.unwrap();
    place.state().await;
    for round in 1..=3 {
        let mut watches = Vec::new();
        for _ in 0..20 {
            watches.push(place.watch(Revision::START).await);
        }
        for watch in &mut watches {
            assert_eq!(see_current(watch).await.len(), 1);
        }
        assert_eq!(place.state().await.consumer_count, 20, "round {round}");
        drop(watches);
        for _ in 0..20 {
            let deletion = tokio::time::timeout(Duration::from_secs(5), deletions.next()).await;
            deletion.expect("a deletion at once").unwrap();
        }
        // The server tells of a deletion a moment before it counts it.
        let gone = async { while place.state().await.consumer_count > 0 {} };
        let gone = tokio::time::timeout(Duration::from_secs(5), gone).await;
        assert!(gone.is_ok(), "consumers are left in round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_opened_and_dropped_half_way_leaves_no_consumer_behind() {
    let place = Place::open().await;
    place.put("k", "v").await;
    // Dropped a little later each time, up to the first one that is opened whole.
    for _ in 0..3 {
        let mut patience = Duration::ZERO;
        let opening = || place.bus.watch(bucket(), Filter::all(), Revision::START);
        while tokio::time::timeout(patience, opening()).await.is_err() {
            patience += Duration::from_micros(50);
        }
    }
    // Long before the server itself would find them without a reader.
    let gone = async {
        while place.state().await.consumer_count > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), gone).await.expect("no consumer is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_nobody_polls_keeps_little_in_memory() {
    let place = Place::open().await;
    let mut watch = place.watch(Revision::START).await;
    assert_eq!(see_current(&mut watch).await, []);
    let large = "x".repeat(64 * 1024);
    let rounds = 600;
    for n in 0..rounds {
        place.put("k", &format!("{n} {large}")).await;
    }
    place.put("end", "end").await;
    let mut mirror = BucketMirror::new();
    let mut told = 0;
    while !held(&mirror).contains_key("end") {
        mirror.apply(see(&mut watch).await);
        told += 1;
    }
    assert!(told < rounds / 2, "{told} of {rounds} changes lay in memory");
    assert_eq!(held(&mirror)["k"], format!("{} {large}", rounds - 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_made_anew_under_a_watch_is_told_anew() {
    let place = Place::open().await;
    for name in ["a", "b", "c"] {
        place.put(name, "old").await;
    }
    let mut watch = place.watch(Revision::START).await;
    let mut mirror = BucketMirror::new();
    while !mirror.is_current() {
        mirror.apply(see(&mut watch).await);
    }
    place.raw.delete_stream("KV_STATE").await.unwrap();
    for name in ["b", "d", "e", "f"] {
        place.put(name, "new").await;
    }
    let first = see(&mut watch).await;
    assert_eq!(first, WatchItem::Resync);
    mirror.apply(first);
    while !mirror.is_current() {
        mirror.apply(see(&mut watch).await);
    }
    let expected = ["b", "d", "e", "f"].map(|name| (name.to_owned(), "new".to_owned()));
    assert_eq!(held(&mirror), expected.into());
    place.put("g", "later").await;
    assert_eq!(see_change(&mut watch).await, ("g".to_owned(), value("later")));
}
