//! Many messages that become ready at one time: no call moves all of them under the lock.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bus_core::{Bus, Clock, Deliveries, Delivery, Frame, Placement, Verdict, settle_all};
use bus_envelope::Timestamp;
use bus_mem::InMemoryBus;
use futures_util::FutureExt;

use super::{Bell, TASK, append, bell, declare, frame, member};

/// A clock that a test moves: outside of a runtime nothing but calls looks at it.
#[derive(Clone, Default)]
struct Hand(Arc<AtomicU64>);

impl Hand {
    fn pass(&self, by: Duration) {
        self.0.fetch_add(by.as_nanos() as u64, Ordering::SeqCst);
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ns(0).plus(Duration::from_nanos(self.0.load(Ordering::SeqCst)))
    }

    fn coarse(&self) -> Timestamp {
        self.now()
    }
}

/// What does not wait.
fn now<T>(of: impl Future<Output = T>) -> T {
    of.now_or_never().expect("it does not wait")
}

fn claim(worker: &mut Deliveries, max: usize) -> Vec<Delivery> {
    now(worker.next_many(NonZeroUsize::new(max).unwrap())).unwrap().unwrap()
}

/// Stores 3,000 tasks that are due in a second.
fn store_many_for_later(bus: &InMemoryBus, clock: &Hand) {
    let not_before = Some(clock.now().plus(SECOND));
    let later = |n: usize| -> Frame {
        let placement = Placement { not_before, ..Placement::default() };
        frame(TASK, &format!("later-{n}")).placed(placement)
    };
    for from in [0, 1_000, 2_000] {
        now(bus.append_all((from..from + 1_000).map(later).collect())).unwrap();
    }
}

fn waiting(bus: &InMemoryBus, bell: &Arc<Bell>, count: usize) -> Vec<Deliveries> {
    let waits = |_| {
        let mut member = now(member(bus));
        bell.waits(&mut member);
        member
    };
    (0..count).map(waits).collect()
}

fn queue() -> (InMemoryBus, Hand) {
    let clock = Hand::default();
    let bus = InMemoryBus::with_clock(Arc::new(clock.clone()));
    now(declare(&bus, "WORK", "vak.work.w1.*.task"));
    (bus, clock)
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_batch_that_is_claimed_moves_no_more_than_one_claim() {
    let (bus, clock) = queue();
    store_many_for_later(&bus, &clock);
    let bell = bell();
    let _waiting = waiting(&bus, &bell, 100);
    let mut worker = now(member(&bus));
    clock.pass(SECOND);
    assert_eq!(claim(&mut worker, 1_000).len(), 1_000);
    assert_eq!(bell.rings(), 24, "1,024 were moved, and as many are called as are left");
}

#[test]
fn batches_one_after_the_other_get_all_that_is_due() {
    let (bus, clock) = queue();
    store_many_for_later(&bus, &clock);
    let mut worker = now(member(&bus));
    clock.pass(SECOND);
    let mut claimed: Vec<_> = Vec::new();
    while claimed.len() < 3_000 {
        claimed.extend(claim(&mut worker, 1_000));
    }
    let ids: Vec<_> = claimed.iter().map(|task| task.frame.id.to_string()).collect();
    assert_eq!(ids, (0..3_000).map(|n| format!("later-{n}")).collect::<Vec<_>>());
}

#[test]
fn leases_and_rests_that_end_at_once_are_moved_together() {
    let (bus, clock) = queue();
    let mut worker = now(member(&bus));
    for n in 0..1_000 {
        now(append(&bus, &n.to_string())).unwrap();
    }
    let leased = claim(&mut worker, 1_000);
    store_many_for_later(&bus, &clock);
    let bell = bell();
    let _waiting = waiting(&bus, &bell, 100);
    clock.pass(super::LEASE);
    assert_eq!(claim(&mut worker, 1_000).len(), leased.len());
    assert_eq!(bell.rings(), 24);
}

#[test]
fn verdicts_that_are_given_together_move_nothing_else() {
    let (bus, clock) = queue();
    let mut worker = now(member(&bus));
    for n in 0..100 {
        now(append(&bus, &n.to_string())).unwrap();
    }
    let held = claim(&mut worker, 100);
    store_many_for_later(&bus, &clock);
    let bell = bell();
    let _waiting = waiting(&bus, &bell, 200);
    clock.pass(SECOND);
    let again = Verdict::Retry { after: Duration::ZERO };
    let settled = now(settle_all(held.into_iter().map(|task| (task, again.clone())).collect()));
    assert!(settled.iter().all(Result::is_ok));
    assert_eq!(bell.rings(), 100, "one for each that was given back");
}
