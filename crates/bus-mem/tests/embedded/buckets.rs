//! Buckets as callers hold them: ends that come by themselves, watches that wait, how one ends.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

use bus_core::{
    BucketMirror, Buckets, Bus, Change, ErrorKind, ExpectRevision, KeyState, Put, Revision,
    TokioClock, Watch, WatchItem,
};
use bus_envelope::Timestamp;
use bus_mem::{InMemoryBus, Limits};
use bus_subjects::{BucketKey, BucketName, Filter};
use bytes::Bytes;
use tokio::{
    runtime::{Builder, Handle},
    task::coop::unconstrained,
};

use super::{Bell, bell, bus, pass, settle_down};

pub(super) fn bucket() -> BucketName {
    BucketName::parse("b").unwrap()
}

pub(super) fn key(text: &str) -> BucketKey {
    BucketKey::parse(text).unwrap()
}

async fn put(bus: &InMemoryBus, of: &str) -> Revision {
    bus.put(bucket(), key(of), Put::new(of.to_owned())).await.unwrap()
}

async fn put_for(bus: &InMemoryBus, of: &str, ttl: Duration) -> Revision {
    bus.put(bucket(), key(of), Put::new(of.to_owned()).ttl(ttl)).await.unwrap()
}

/// A watch of the keys `keys` that is current.
pub(super) async fn watch(bus: &InMemoryBus, keys: &str) -> Watch {
    let mut watch =
        bus.watch(bucket(), Filter::parse(keys).unwrap(), Revision::START).await.unwrap();
    while item(&mut watch).await != WatchItem::Current {}
    watch
}

async fn item(watch: &mut Watch) -> WatchItem {
    let next = tokio::time::timeout(Duration::from_secs(3600), watch.next());
    next.await.expect("an item within an hour").unwrap().unwrap()
}

/// The item that says what became of `of`.
fn changed(of: &str, revision: u64, state: KeyState) -> WatchItem {
    WatchItem::Changed(Change { key: key(of), revision: Revision(revision), state })
}

fn value(of: &str) -> KeyState {
    KeyState::Value(Bytes::from(of.to_owned()))
}

/// Polls `watch` once on `bell`, and finds nothing.
pub(super) fn waits(bell: &Arc<Bell>, watch: &mut Watch) {
    let waker = Waker::from(Arc::clone(bell));
    let next = pin!(unconstrained(watch.next())).poll(&mut Context::from_waker(&waker));
    assert!(next.is_pending(), "nothing to tell, got {next:?}");
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_waiting_watch_is_told_of_an_expiry_at_its_time() {
    let bus = bus();
    put_for(&bus, "k", 5 * SECOND).await;
    let mut watch = watch(&bus, ">").await;
    let started = tokio::time::Instant::now();
    assert_eq!(item(&mut watch).await, changed("k", 2, KeyState::Expired));
    assert_eq!(started.elapsed().as_millis(), 5_000);
    assert_eq!(bus.get(bucket(), key("k")).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_waits_already_is_told_of_an_end_set_later() {
    let bus = bus();
    let mut watch = watch(&bus, "k").await;
    let bell = bell();
    waits(&bell, &mut watch);
    put_for(&bus, "other", 9 * SECOND).await;
    // The timekeeper sleeps until then, which is later than what comes now.
    settle_down().await;
    put_for(&bus, "k", SECOND).await;
    assert_eq!(bell.rings(), 1);
    assert_eq!(item(&mut watch).await, changed("k", 2, value("k")));
    waits(&bell, &mut watch);
    pass(SECOND - Duration::from_millis(1)).await;
    assert_eq!(bell.rings(), 1);
    pass(Duration::from_millis(1)).await;
    assert_eq!(bell.rings(), 2);
    assert_eq!(item(&mut watch).await, changed("k", 3, KeyState::Expired));
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_put_again_in_time_does_not_expire() {
    let bus = bus();
    put_for(&bus, "k", 5 * SECOND).await;
    let mut watch = watch(&bus, ">").await;
    pass(4 * SECOND).await;
    put(&bus, "k").await;
    assert_eq!(item(&mut watch).await, changed("k", 2, value("k")));
    pass(60 * SECOND).await;
    waits(&bell(), &mut watch);
}

#[tokio::test(start_paused = true)]
async fn there_is_no_timekeeper_without_a_watch_that_waits_or_a_value_that_ends() {
    let bus = bus();
    put_for(&bus, "k", 5 * SECOND).await;
    assert_eq!(tasks(), 0, "a value that ends needs none alone");
    let mut watch = watch(&bus, ">").await;
    waits(&bell(), &mut watch);
    assert_eq!(tasks(), 1);
    pass(5 * SECOND).await;
    assert_eq!(tasks(), 0);
    waits_for_another_end(&bus, &mut watch).await;
}

async fn waits_for_another_end(bus: &InMemoryBus, watch: &mut Watch) {
    assert_eq!(item(watch).await, changed("k", 2, KeyState::Expired));
    waits(&bell(), watch);
    assert_eq!(tasks(), 0, "a watch needs none alone");
    put_for(bus, "k", SECOND).await;
    assert_eq!(item(watch).await, changed("k", 3, value("k")));
    assert_eq!(item(watch).await, changed("k", 4, KeyState::Expired));
}

#[tokio::test(start_paused = true)]
async fn the_timekeeper_of_values_ends_with_its_bus() {
    let bus = bus();
    put_for(&bus, "k", 5 * SECOND).await;
    let mut watch = watch(&bus, ">").await;
    waits(&bell(), &mut watch);
    settle_down().await;
    assert_eq!(tasks(), 1);
    drop((watch, bus));
    settle_down().await;
    assert_eq!(tasks(), 0);
}

#[test]
fn a_value_expires_although_the_runtime_that_swept_ended() {
    let start = || Builder::new_current_thread().enable_time().build().unwrap();
    let bus = InMemoryBus::new();
    let (first, second) = (start(), start());
    let mut watch = first.block_on(async {
        put_for(&bus, "k", Duration::from_millis(50)).await;
        let mut watch = watch(&bus, ">").await;
        waits(&bell(), &mut watch);
        settle_down().await;
        watch
    });
    let mut waiting = tokio::task::JoinSet::new();
    second.block_on(async {
        waiting.spawn(async move { watch.next().await.unwrap().unwrap() });
        settle_down().await;
    });
    drop(first);
    // The limit looks at the task from outside: polling the watch itself would sweep.
    let done = second.block_on(async {
        let limit = Duration::from_secs(20);
        tokio::time::timeout(limit, waiting.join_next()).await.expect("the value expired")
    });
    assert_eq!(done.unwrap().unwrap(), changed("k", 2, KeyState::Expired));
}

#[tokio::test(start_paused = true)]
async fn a_watch_sees_the_writes_of_other_connections() {
    let bus = bus();
    let other = bus.connect();
    let mut watch = watch(&bus, ">").await;
    put(&other, "k").await;
    assert_eq!(item(&mut watch).await, changed("k", 1, value("k")));
    other.delete(bucket(), key("k"), ExpectRevision::Any).await.unwrap();
    assert_eq!(item(&mut watch).await, changed("k", 2, KeyState::Deleted));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_waits_is_woken_once_for_many_changes() {
    let bus = bus();
    let mut watch = watch(&bus, ">").await;
    let bell = bell();
    waits(&bell, &mut watch);
    for _ in 0..100 {
        put(&bus, "k").await;
    }
    assert_eq!(bell.rings(), 1);
    assert_eq!(item(&mut watch).await, changed("k", 100, value("k")));
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_other_keys_is_not_woken() {
    let bus = bus();
    let mut watch = watch(&bus, "mine.*").await;
    let bell = bell();
    waits(&bell, &mut watch);
    put(&bus, "yours.1").await;
    assert_eq!(bell.rings(), 0);
    put(&bus, "mine.1").await;
    assert_eq!(bell.rings(), 1);
}

#[tokio::test(start_paused = true)]
async fn closing_ends_the_watches_of_one_connection() {
    let bus = bus();
    let other = bus.connect();
    let (mut mine, mut theirs) = (watch(&bus, ">").await, watch(&other, ">").await);
    let bell = bell();
    waits(&bell, &mut mine);
    waits(&super::bell(), &mut theirs);
    bus.close().await.unwrap();
    assert_eq!(bell.rings(), 1);
    assert!(mine.next().await.is_none());
    put(&other, "k").await;
    assert_eq!(item(&mut theirs).await, changed("k", 1, value("k")));
    let refused = bus.watch(bucket(), Filter::all(), Revision::START).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn the_last_clone_ends_a_watch() {
    let bus = bus();
    let mut watch = watch(&bus, ">").await;
    put(&bus, "k").await;
    drop(bus);
    assert!(watch.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_watch_makes_room_for_another() {
    let clock = TokioClock::starting_at(Timestamp::from_unix_ns(0));
    let limits = Limits { watches_max: 1, ..Limits::default() };
    let bus = InMemoryBus::with_limits(Arc::new(clock), limits);
    let first = watch(&bus, ">").await;
    let refused = bus.watch(bucket(), Filter::all(), Revision::START).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Full);
    drop(first);
    drop(watch(&bus, ">").await);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_next_loses_nothing() {
    let bus = bus();
    let mut watch = watch(&bus, ">").await;
    for n in 1..=20 {
        tokio::select! {
            biased;
            _ = watch.next() => panic!("nothing happened yet"),
            () = tokio::task::yield_now() => {}
        }
        put(&bus, "k").await;
        assert_eq!(item(&mut watch).await, changed("k", n, value("k")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_awaits_nothing_else_does_not_starve_a_watch_of_its_thread() {
    let bus = bus();
    let mut watch = watch(&bus, ">").await;
    let mut seeing = tokio::task::JoinSet::new();
    seeing.spawn(async move {
        let mut seen = 0;
        while item(&mut watch).await != changed("last", 10_001, value("last")) {
            seen += 1;
        }
        seen
    });
    for _ in 0..10_000 {
        put(&bus, "k").await;
    }
    put(&bus, "last").await;
    let seen = seeing.join_next().await.unwrap().unwrap();
    assert!(seen >= 50, "the watch had its turn now and then: {seen} times");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_always_finds_something_lets_others_run() {
    let bus = bus();
    for n in 0..2_000 {
        put(&bus, &n.to_string()).await;
    }
    let mut ticking = tokio::task::JoinSet::new();
    ticking.spawn(async {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    });
    let mut mirror = BucketMirror::new();
    let mut watch = bus.watch(bucket(), Filter::all(), Revision::START).await.unwrap();
    while !mirror.is_current() {
        mirror.apply(item(&mut watch).await);
    }
    assert_eq!(mirror.len(), 2_000);
    assert!(ticking.try_join_next().is_some());
}

/// Writes, deletes and lets expire, as fast as it goes.
async fn write(bus: InMemoryBus, writer: u64) {
    for n in 0..2_000_u64 {
        let of = format!("k{}", (n * 7 + writer) % 50);
        match n % 5 {
            0 => bus.delete(bucket(), key(&of), ExpectRevision::Any).await.unwrap(),
            1 => drop(put_for(&bus, &of, Duration::from_micros(n)).await),
            _ => drop(put(&bus, &of).await),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mirrors_of_other_threads_end_with_what_the_bucket_holds() {
    let bus = InMemoryBus::new();
    let (mut writing, mut mirroring) = (tokio::task::JoinSet::new(), tokio::task::JoinSet::new());
    for _ in 0..3 {
        let connection = bus.connect();
        let mut watch = watch(&connection, ">").await;
        mirroring.spawn(async move {
            let _stays_open = connection;
            let mut mirror = BucketMirror::new();
            while mirror.get(&key("end")).is_none() || mirror.len() > 1 {
                mirror.apply(item(&mut watch).await);
            }
            mirror.seen()
        });
    }
    for writer in 0..3 {
        writing.spawn(write(bus.connect(), writer));
    }
    writing.join_all().await;
    // The end, and the end of all others: whoever missed one change waits for it in vain.
    let end = put(&bus, "end").await;
    for n in 0..50 {
        bus.delete(bucket(), key(&format!("k{n}")), ExpectRevision::Any).await.unwrap();
    }
    let seen = tokio::time::timeout(Duration::from_secs(20), mirroring.join_all());
    for seen in seen.await.expect("every mirror comes to the end") {
        assert!(seen >= end);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stored_value_does_not_keep_the_buffer_it_was_part_of() {
    let bus = bus();
    let buffer = Bytes::from(vec![7; 100_000]);
    bus.put(bucket(), key("k"), Put::new(buffer.slice(..10))).await.unwrap();
    assert!(buffer.is_unique());
    assert_eq!(bus.get(bucket(), key("k")).await.unwrap().unwrap().value, vec![7; 10]);
}
