//! Wakers and values of strangers, which may do anything as they are dropped: never under a lock.

use std::{
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{Arc, Mutex, mpsc},
    task::{Context, Wake, Waker},
    time::Duration,
};

use bus_core::{
    Buckets, Bus, Deliveries, ErrorKind, Expect, Frame, Put, Verdict, Watch, settle_all,
};
use bus_mem::InMemoryBus;
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::{runtime::Handle, task::coop::unconstrained};

use super::{
    Bell, TASK, append, bell,
    buckets::{bucket, key, waits, watch},
    coder, frame, member, queue, take,
};

/// Ends a watch as it is dropped.
struct Holder(#[expect(dead_code, reason = "it is here to be dropped")] Mutex<Watch>);

impl Wake for Holder {
    fn wake(self: Arc<Self>) {}
}

impl AsRef<[u8]> for Holder {
    fn as_ref(&self) -> &[u8] {
        &TOO_LARGE
    }
}

static TOO_LARGE: [u8; Frame::BYTES_MAX + 1] = [0; Frame::BYTES_MAX + 1];

/// Does `work` on a thread of its own, which must come to its end.
fn ends(work: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        work();
        done.send(()).unwrap();
    });
    assert_eq!(wait.recv_timeout(Duration::from_secs(10)), Ok(()), "it waits for itself");
}

/// A watch that waits with a waker which nobody else holds, and which ends another watch.
async fn waits_with_a_holder(bus: &InMemoryBus) -> Watch {
    let mut waiting = watch(bus, "k").await;
    let holder = Holder(Mutex::new(watch(bus, "l").await));
    let waker = Waker::from(Arc::new(holder));
    let next = pin!(unconstrained(waiting.next())).poll(&mut Context::from_waker(&waker));
    assert!(next.is_pending());
    waiting
}

#[tokio::test]
async fn a_waker_may_end_a_watch_as_its_own_ends() {
    let bus = InMemoryBus::new();
    let waiting = waits_with_a_holder(&bus).await;
    // The thread has the bus as well: should it wait for ever, nobody here waits with it.
    ends(move || drop((waiting, bus)));
}

#[tokio::test]
async fn a_waker_may_end_a_watch_as_another_takes_its_place() {
    let bus = InMemoryBus::new();
    let mut waiting = waits_with_a_holder(&bus).await;
    ends(move || {
        waits(&bell(), &mut waiting);
        drop(bus);
    });
}

#[tokio::test]
async fn a_value_that_is_too_large_may_end_a_watch_as_it_is_dropped() {
    let bus = InMemoryBus::new();
    let value = Bytes::from_owner(Holder(Mutex::new(watch(&bus, "k").await)));
    let runtime = Handle::current();
    ends(move || {
        let put = bus.put(bucket(), key("k"), Put::new(value));
        assert_eq!(runtime.block_on(put).unwrap_err().kind(), ErrorKind::TooLarge);
    });
}

/// A waker of an executor that is broken.
struct Broken;

impl Wake for Broken {
    fn wake(self: Arc<Self>) {
        panic!("a waker of the test's own");
    }
}

fn is_told_of_a_panic(call: impl FnOnce()) {
    assert!(catch_unwind(AssertUnwindSafe(call)).is_err(), "it is not hidden");
}

/// Lets `next`, which finds nothing, wait with `waker`.
fn waits_with(waker: impl Wake + Send + Sync + 'static, next: impl Future) {
    let waker = Waker::from(Arc::new(waker));
    assert!(pin!(unconstrained(next)).poll(&mut Context::from_waker(&waker)).is_pending());
}

#[tokio::test]
async fn a_waker_that_panics_costs_no_other_member_its_call() {
    let bus = queue().await;
    let (mut first, mut second) = (member(&bus).await, member(&bus).await);
    let bell = bell();
    waits_with(Broken, StreamExt::next(&mut first));
    bell.waits(&mut second);
    let batch = vec![frame(TASK, "1"), frame(TASK, "2")];
    let runtime = Handle::current();
    std::thread::scope(|scope| {
        let append = || is_told_of_a_panic(|| drop(runtime.block_on(bus.append_all(batch))));
        scope.spawn(append);
    });
    assert_eq!(bell.rings(), 1);
}

#[tokio::test]
async fn a_waker_that_panics_costs_no_other_member_the_end() {
    let bus = queue().await;
    let (mut first, mut second) = (member(&bus).await, member(&bus).await);
    let bell = bell();
    waits_with(Broken, StreamExt::next(&mut first));
    bell.waits(&mut second);
    is_told_of_a_panic(|| drop(bus));
    assert_eq!(bell.rings(), 1);
}

/// Eight watches that wait with the bell, and eight with a broken waker: they are woken in any
/// order.
async fn watches_beside_broken_ones(bus: &InMemoryBus) -> (Arc<Bell>, Vec<Watch>) {
    let (bell, mut all) = (bell(), Vec::new());
    for _ in 0..8 {
        let (mut broken, mut whole) = (watch(bus, "k").await, watch(bus, "k").await);
        waits_with(Broken, broken.next());
        waits(&bell, &mut whole);
        all.extend([broken, whole]);
    }
    (bell, all)
}

#[tokio::test]
async fn a_waker_that_panics_costs_no_other_watch_its_call() {
    let bus = InMemoryBus::new();
    let (bell, _watches) = watches_beside_broken_ones(&bus).await;
    let put = pin!(unconstrained(bus.put(bucket(), key("k"), Put::new("v"))));
    is_told_of_a_panic(|| drop(put.poll(&mut Context::from_waker(Waker::noop()))));
    assert_eq!(bell.rings(), 8);
}

#[tokio::test]
async fn a_waker_that_panics_costs_no_other_watch_the_end() {
    let bus = InMemoryBus::new();
    let (bell, _watches) = watches_beside_broken_ones(&bus).await;
    is_told_of_a_panic(|| drop(bus));
    assert_eq!(bell.rings(), 8);
}

/// Leaves its consumer as it is dropped.
struct Colleague(#[expect(dead_code, reason = "it is here to be dropped")] Mutex<Deliveries>);

impl Wake for Colleague {
    fn wake(self: Arc<Self>) {}
}

impl AsRef<[u8]> for Colleague {
    fn as_ref(&self) -> &[u8] {
        b"body"
    }
}

/// A member that waits, as what only it knows is dropped.
async fn colleague(bus: &InMemoryBus) -> Colleague {
    let mut member = member(bus).await;
    bell().waits(&mut member);
    Colleague(Mutex::new(member))
}

#[tokio::test]
async fn a_waker_may_leave_its_consumer_as_its_own_member_leaves() {
    let bus = queue().await;
    let mut waiting = member(&bus).await;
    waits_with(colleague(&bus).await, waiting.next());
    ends(move || drop((waiting, bus)));
}

#[tokio::test]
async fn a_waker_may_leave_its_consumer_as_another_takes_its_place() {
    let bus = queue().await;
    let mut waiting = member(&bus).await;
    waits_with(colleague(&bus).await, waiting.next());
    ends(move || {
        bell().waits(&mut waiting);
        drop(bus);
    });
}

#[tokio::test]
async fn a_body_that_is_not_stored_may_leave_a_consumer_as_it_is_dropped() {
    let bus = queue().await;
    append(&bus, "1").await.unwrap();
    // No lease is left: a timekeeper would wait for the lock as this runtime ends.
    take(&mut member(&bus).await).await.settle(Verdict::Ack).await.unwrap();
    let body = Bytes::from_owner(colleague(&bus).await);
    let again = Frame { body, ..frame(TASK, "1") };
    let runtime = Handle::current();
    ends(move || assert!(runtime.block_on(bus.append(again, Expect::Any)).unwrap().duplicate));
}

/// A message whose body ends a member that waits.
async fn strange_frame(bus: &InMemoryBus) -> Frame {
    let body = Bytes::from_owner(colleague(bus).await);
    Frame { body, ..frame(TASK, "1") }
}

#[tokio::test]
async fn a_body_may_leave_a_consumer_as_its_message_is_discarded() {
    let bus = queue().await;
    let frame = strange_frame(&bus).await;
    let seq = bus.append(frame, Expect::Any).await.unwrap().seq;
    let runtime = Handle::current();
    ends(move || assert!(runtime.block_on(bus.discard(coder().stream, seq)).unwrap()));
}

#[tokio::test]
async fn a_body_may_leave_a_consumer_as_its_message_is_settled() {
    let bus = queue().await;
    bus.append(strange_frame(&bus).await, Expect::Any).await.unwrap();
    let mut delivery = take(&mut member(&bus).await).await;
    delivery.frame = Arc::new(frame(TASK, "another")).into();
    let runtime = Handle::current();
    ends(move || {
        runtime.block_on(delivery.settle(Verdict::Ack)).unwrap();
        drop(bus);
    });
}

#[tokio::test]
async fn a_body_may_leave_a_consumer_as_its_message_is_settled_with_others() {
    let bus = queue().await;
    // Not the first of the batch, which is held until the last is settled.
    let strange = strange_frame(&bus).await;
    append(&bus, "0").await.unwrap();
    bus.append(strange, Expect::Any).await.unwrap();
    let many = NonZeroUsize::new(2).unwrap();
    let taken = member(&bus).await.next_many(many).await.unwrap().unwrap();
    let done = taken.into_iter().map(|delivery| (delivery, Verdict::Ack)).collect::<Vec<_>>();
    assert_eq!(done.len(), 2);
    let runtime = Handle::current();
    ends(move || {
        runtime.block_on(settle_all(done)).into_iter().for_each(|settled| settled.unwrap());
        drop(bus);
    });
}
