//! Waiters learn what is safe, in whatever order it is asked and told.

use std::{future::Future, pin::pin, task::Waker};

use bus_core::Durability;
use bus_mem::journal::{Change, Journal};

use super::*;
use crate::journal::DiskJournal;

fn journal() -> DiskJournal {
    let journal = DiskJournal::new(0, Durability::Synced, "here");
    for seq in 1..=3 {
        journal.record(Change::Removed { stream: 0, seq });
    }
    journal
}

fn is_told(future: &mut (impl Future<Output = Result<()>> + Unpin)) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    match Pin::new(future).poll(&mut context) {
        Poll::Ready(told) => {
            told.unwrap();
            true
        }
        Poll::Pending => false,
    }
}

#[test]
fn who_waits_for_a_position_is_told_when_it_is_safe_and_not_before() {
    let journal = journal();
    let (mut first, mut third) = (journal.safe(Position(1)), journal.safe(Position(3)));
    assert!(!is_told(&mut first) && !is_told(&mut third));
    journal.0.advance(2);
    assert!(is_told(&mut first) && !is_told(&mut third));
    journal.0.advance(3);
    assert!(is_told(&mut third));
}

#[test]
fn the_observer_is_called_before_those_who_wait_are_told() {
    let journal = journal();
    let waits = Arc::new(Mutex::new(journal.safe(Position(3))));
    let (seen, observed) = (Arc::clone(&waits), Arc::new(AtomicU64::new(0)));
    let told = Arc::clone(&observed);
    journal.observe(Arc::new(move |position| {
        assert!(!is_told(&mut *seen.lock().unwrap()), "told before the observer");
        told.store(position.0, Ordering::Relaxed);
    }));
    journal.0.advance(3);
    assert_eq!(observed.load(Ordering::Relaxed), 3);
    assert!(is_told(&mut *waits.lock().unwrap()));
}

#[test]
fn who_waits_when_writing_fails_does_not_know_whether_it_happened() {
    let journal = journal();
    let mut waits = pin!(journal.safe(Position(1)));
    assert!(!is_told(&mut waits));
    journal.0.fail("the disk is gone");
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(Err(error)) = waits.as_mut().poll(&mut context) else {
        panic!("still waits");
    };
    assert_eq!(error.outcome(), bus_core::Outcome::Unknown);
    assert_eq!(error.kind(), bus_core::ErrorKind::Unavailable);
    let refused = journal.admit("append", 1, false).unwrap_err();
    assert_eq!(refused.outcome(), bus_core::Outcome::NotDone);
}
