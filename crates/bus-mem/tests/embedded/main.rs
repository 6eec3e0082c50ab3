//! The shell around the broker: waiting, waking, cancelling, closing, and what it all adds up to.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like the tests themselves"
)]

use std::{
    future::poll_fn,
    num::NonZeroUsize,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use bus_core::{
    Bus, ConsumerSpec, Deliveries, Delivery, Expect, Frame, FrameId, Overflow, Receipt, Result,
    Retention, StreamSpec, Subscription, TokioClock,
};
use bus_envelope::Timestamp;
use bus_mem::InMemoryBus;
use bus_subjects::{ConsumerName, Filter, StreamName, Subject};
use futures_util::Stream as _;
use tokio::task::coop::unconstrained;

mod blobs;
mod buckets;
mod claiming;
mod due_at_once;
mod faults;
mod hearing;
mod lifetime;
mod live;
mod live_edges;
mod many;
mod operators;
mod runtimes;
mod strangers;
mod timekeeping;

const LEASE: Duration = Duration::from_secs(30);
const TASK: &str = "vak.work.w1.coder.task";

/// A bus on tokio's clock, which the tests stop.
fn bus() -> InMemoryBus {
    let origin = Timestamp::from_unix_ns(1_800_000_000_000_000_000);
    InMemoryBus::with_clock(Arc::new(TokioClock::starting_at(origin)))
}

/// A bus with the work queue `WORK`.
async fn queue() -> InMemoryBus {
    let bus = bus();
    declare(&bus, "WORK", "vak.work.w1.*.task").await;
    bus
}

async fn declare(bus: &InMemoryBus, name: &str, filter: &str) {
    let filters = vec![Filter::parse(filter).unwrap()];
    let spec = StreamSpec::new(StreamName::parse(name).unwrap(), filters, Retention::WorkQueue);
    bus.declare(spec).await.unwrap();
}

fn coder() -> ConsumerSpec {
    ConsumerSpec {
        stream: StreamName::parse("WORK").unwrap(),
        name: ConsumerName::parse("coder").unwrap(),
        filter: Filter::parse(TASK).unwrap(),
        lease: LEASE,
    }
}

async fn member(bus: &InMemoryBus) -> Deliveries {
    bus.consume(coder()).await.unwrap()
}

async fn append(bus: &InMemoryBus, id: &str) -> Result<Receipt> {
    bus.append(frame(TASK, id), Expect::Any).await
}

async fn take(member: &mut Deliveries) -> Delivery {
    let next = tokio::time::timeout(Duration::from_secs(3600), member.next());
    next.await.expect("a delivery within an hour").unwrap().unwrap()
}

async fn publish(bus: &InMemoryBus, on: &str, id: &str) {
    bus.publish(frame(on, id)).await.unwrap();
}

async fn listen(bus: &InMemoryBus, on: &str, capacity: usize) -> Subscription {
    let overflow = Overflow::DropOldest { capacity: NonZeroUsize::new(capacity).unwrap() };
    bus.subscribe(Filter::parse(on).unwrap(), overflow).await.unwrap()
}

fn frame(on: &str, id: &str) -> Frame {
    Frame::new(Subject::parse(on).unwrap(), FrameId::parse(id).unwrap(), id.to_owned())
}

/// Lets `by` pass and everything that became due run.
async fn pass(by: Duration) {
    tokio::time::advance(by).await;
    settle_down().await;
}

/// Lets every other task of this thread come to rest.
async fn settle_down() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}

/// Counts how often it was woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Bell {
    fn rings(self: &Arc<Self>) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// Polls `member` once on this bell, as a stream: it keeps its place in line, where a call of
    /// `next` that is dropped gives it up.
    fn poll(self: &Arc<Self>, member: &mut Deliveries) -> Poll<Option<Result<Delivery>>> {
        let waker = Waker::from(Arc::clone(self));
        let next = poll_fn(|cx| Pin::new(&mut *member).poll_next(cx));
        pin!(unconstrained(next)).poll(&mut Context::from_waker(&waker))
    }

    fn waits(self: &Arc<Self>, member: &mut Deliveries) {
        assert!(self.poll(member).is_pending(), "nothing to claim");
    }

    fn claims(self: &Arc<Self>, member: &mut Deliveries) -> Delivery {
        match self.poll(member) {
            Poll::Ready(Some(Ok(delivery))) => delivery,
            other => panic!("expected a delivery, got {other:?}"),
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn bell() -> Arc<Bell> {
    Arc::default()
}
