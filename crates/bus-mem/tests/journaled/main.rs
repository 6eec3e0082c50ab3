//! A bus with a journal: nothing is shown or answered before it is safe, nothing is lost after.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail like the tests themselves"
)]

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use bus_core::{
    Bus, ConsumerSpec, Deliveries, Durability, Expect, Frame, FrameId, Receipt, Result, Retention,
    StreamSpec, SystemClock,
};
use bus_mem::{InMemoryBus, Limits};
use bus_subjects::{ConsumerName, Filter, StreamName, Subject};

use common::journal::{MemoryJournal, image_of};

#[path = "../common/journal.rs"]
mod journal;
#[path = "../common/journaled.rs"]
mod journaled;

mod buckets;
mod lives;
mod queues;

mod common {
    pub(crate) use crate::journal;
}

const TASK: &str = "work.a";

/// A bus with the work queue `W`, and its journal, which becomes safe when it is told.
async fn queue() -> (InMemoryBus, Arc<MemoryJournal>) {
    let journal = MemoryJournal::holding(Vec::new(), Durability::Synced);
    let bus = of(&journal, 1);
    let filters = vec![filter("work.*")];
    let mut declared = bus.declare(StreamSpec::new(stream(), filters, Retention::WorkQueue));
    assert!(poll(&mut declared).is_pending(), "it is not safe yet");
    journal.settle();
    declared.await.unwrap();
    (bus, journal)
}

/// The bus that `journal` makes in its life `epoch`.
fn of(journal: &Arc<MemoryJournal>, epoch: u64) -> InMemoryBus {
    let (image, clock) = (image_of(&journal.safe_changes()), Arc::new(SystemClock::new()));
    InMemoryBus::journaled(clock, Limits::default(), Arc::clone(journal) as _, image, epoch)
}

/// The bus of the next life, on what was safe.
fn next_life(journal: &MemoryJournal) -> (InMemoryBus, Arc<MemoryJournal>) {
    let next = MemoryJournal::holding(journal.safe_changes(), Durability::Synced);
    (of(&next, 2), next)
}

async fn member(bus: &InMemoryBus, journal: &MemoryJournal) -> Deliveries {
    let (name, lease) = (ConsumerName::parse("c").unwrap(), Duration::from_secs(30));
    let spec = ConsumerSpec { stream: stream(), name, filter: filter(TASK), lease };
    let mut joined = bus.consume(spec);
    if let Poll::Ready(joined) = poll(&mut joined) {
        return joined.unwrap();
    }
    journal.settle();
    joined.await.unwrap()
}

/// Stores a task that is safe when this returns.
async fn append(bus: &InMemoryBus, journal: &MemoryJournal, id: &str) -> Receipt {
    let mut stored = bus.append(task(id), Expect::Any);
    assert!(poll(&mut stored).is_pending(), "it is not safe yet");
    journal.settle();
    stored.await.unwrap()
}

fn task(id: &str) -> Frame {
    Frame::new(Subject::parse(TASK).unwrap(), FrameId::parse(id).unwrap(), id.to_owned())
}

fn filter(text: &str) -> Filter {
    Filter::parse(text).unwrap()
}

fn stream() -> StreamName {
    StreamName::parse("W").unwrap()
}

/// Asks a future once.
fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// The id of what a member claims right now.
fn claim(member: &mut Deliveries) -> Option<String> {
    match poll(&mut Box::pin(member.next())) {
        Poll::Ready(claimed) => Some(claimed.unwrap().unwrap().frame.id.as_str().to_owned()),
        Poll::Pending => None,
    }
}

/// Counts how often it was called.
#[derive(Default)]
struct Called(AtomicUsize);

impl Wake for Called {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Called {
    fn times(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

fn kinds<T>(answers: &[Result<T>]) -> Vec<Option<bus_core::ErrorKind>> {
    answers.iter().map(|answer| answer.as_ref().err().map(bus_core::Error::kind)).collect()
}
