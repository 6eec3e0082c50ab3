//! Who waits in one runtime depends on no other: some stand still although they are there.

use std::time::Duration;

use bus_core::{Buckets, Bus, Expect, KeyState, Placement, Put, WatchItem};
use bus_envelope::Timestamp;
use bus_mem::InMemoryBus;
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinSet,
};

use super::{
    TASK, append, bell,
    buckets::{bucket, key, waits, watch},
    coder, declare, frame, settle_down, take,
};

const SOON: Duration = Duration::from_millis(50);

/// A runtime that runs only as long as somebody blocks on it.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

/// What the one task of `waiting` ends with. The limit looks at it from outside: polling what it
/// waits for would look at the time.
async fn end<T: 'static>(mut waiting: JoinSet<T>) -> T {
    let limit = tokio::time::timeout(Duration::from_secs(10), waiting.join_next());
    limit.await.expect("it was woken").unwrap().unwrap()
}

async fn append_for_later(bus: &InMemoryBus, id: &str) {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let not_before = Some(Timestamp::from_unix_ns(0).plus(now + SOON));
    let frame = frame(TASK, id).placed(Placement { not_before, ..Placement::default() });
    bus.append(frame, Expect::Any).await.unwrap();
}

async fn put_for_a_while(bus: &InMemoryBus, of: &str) {
    bus.put(bucket(), key(of), Put::new("v").ttl(SOON)).await.unwrap();
}

#[test]
fn a_scheduled_task_comes_although_the_runtime_that_stored_it_stands_still() {
    let bus = InMemoryBus::new();
    let (stands, runs) = (runtime(), runtime());
    let mut waiting = JoinSet::new();
    runs.block_on(async {
        declare(&bus, "WORK", "vak.work.w1.*.task").await;
        let mut worker = bus.consume(coder()).await.unwrap();
        waiting.spawn(async move { take(&mut worker).await.frame.id.to_string() });
        settle_down().await;
    });
    stands.block_on(append_for_later(&bus, "1"));
    assert_eq!(runs.block_on(end(waiting)), "1");
}

#[test]
fn a_scheduled_task_comes_although_another_who_waits_stands_still() {
    let bus = InMemoryBus::new();
    let (stands, runs) = (runtime(), runtime());
    let mut waiting = JoinSet::new();
    let _stuck = stands.block_on(async {
        declare(&bus, "WORK", "vak.work.w1.*.task").await;
        append(&bus, "leased").await.unwrap();
        let mut worker = bus.consume(coder()).await.unwrap();
        let leased = take(&mut worker).await;
        bell().waits(&mut worker);
        settle_down().await;
        (worker, leased)
    });
    runs.block_on(async {
        let mut worker = bus.consume(coder()).await.unwrap();
        waiting.spawn(async move { take(&mut worker).await.frame.id.to_string() });
        settle_down().await;
        append_for_later(&bus, "1").await;
    });
    assert_eq!(runs.block_on(end(waiting)), "1");
}

#[test]
fn a_value_ends_although_the_runtime_that_put_another_stands_still() {
    let bus = InMemoryBus::new();
    let (stands, runs) = (runtime(), runtime());
    let mut waiting = JoinSet::new();
    runs.block_on(async {
        let mut watch = watch(&bus, "k").await;
        waiting.spawn(async move { until_expired(&mut watch).await });
        settle_down().await;
    });
    // It ends earlier, and nobody watches it.
    stands.block_on(put_for_a_while(&bus, "other"));
    runs.block_on(put_for_a_while(&bus, "k"));
    assert_eq!(runs.block_on(end(waiting)), KeyState::Expired);
}

#[test]
fn a_value_ends_although_another_who_watches_stands_still() {
    let bus = InMemoryBus::new();
    let (stands, runs) = (runtime(), runtime());
    let mut waiting = JoinSet::new();
    let _stuck = stands.block_on(async {
        put_for_a_while(&bus, "k").await;
        let mut watch = watch(&bus, ">").await;
        waits(&bell(), &mut watch);
        settle_down().await;
        watch
    });
    runs.block_on(async {
        let mut watch = watch(&bus, "k").await;
        waiting.spawn(async move { until_expired(&mut watch).await });
        settle_down().await;
    });
    assert_eq!(runs.block_on(end(waiting)), KeyState::Expired);
}

async fn until_expired(watch: &mut bus_core::Watch) -> KeyState {
    loop {
        let item = watch.next().await.unwrap().unwrap();
        if let WatchItem::Changed(change) = item
            && change.state == KeyState::Expired
        {
            return change.state;
        }
    }
}
