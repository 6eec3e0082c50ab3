//! Who runs beside whom: a task that may have taken its worker down runs alone.
//!
//! When a worker dies, every task it ran has used up an attempt, and all of them become ready at
//! the same moment. Claimed together again they would die together again, until the innocent ones
//! are given up with the guilty one. So a task whose last attempt ended without a verdict has no
//! neighbours the next time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The tasks that one call of a worker runs.
#[derive(Debug, Default)]
pub(super) struct Company {
    /// How many run that are no suspects.
    others: AtomicUsize,
    /// Whether a suspect runs, or waits until it is alone.
    has_suspect: AtomicBool,
    /// Told when one of the others ends.
    left: Notify,
}

/// A task's place among those that run; left when it is dropped.
#[derive(Debug)]
pub(super) struct Place<'a> {
    company: &'a Company,
    is_suspect: bool,
}

impl Company {
    /// Whether one more task may be claimed.
    pub(super) fn is_open(&self) -> bool {
        !self.has_suspect.load(Ordering::Relaxed)
    }

    /// Takes a place; `None` when a suspect is there, which wants to be alone.
    pub(super) fn join(&self, is_suspect: bool) -> Option<Place<'_>> {
        if self.has_suspect.load(Ordering::Relaxed) {
            return None;
        }
        if is_suspect {
            self.has_suspect.store(true, Ordering::Relaxed);
        } else {
            self.others.fetch_add(1, Ordering::Relaxed);
        }
        Some(Place { company: self, is_suspect })
    }
}

impl Place<'_> {
    /// Returns when the task may begin: a suspect when it is alone, any other at once.
    pub(super) async fn ready(&self) {
        while self.is_suspect && self.company.others.load(Ordering::Relaxed) > 0 {
            self.company.left.notified().await;
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.is_suspect {
            self.company.has_suspect.store(false, Ordering::Relaxed);
        } else {
            self.company.others.fetch_sub(1, Ordering::Relaxed);
            // One suspect waits at most; told too early, it looks again.
            self.company.left.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::{Pin, pin},
        task::{Context, Waker},
    };

    use super::*;

    fn is_over(future: Pin<&mut impl Future<Output = ()>>) -> bool {
        future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn nobody_joins_a_suspect() {
        let company = Company::default();
        let suspect = company.join(true);
        assert!(suspect.is_some() && !company.is_open());
        assert!(company.join(false).is_none() && company.join(true).is_none());
        drop(suspect);
        assert!(company.is_open() && company.join(false).is_some());
    }

    #[test]
    fn a_suspect_waits_until_the_others_are_gone() {
        let company = Company::default();
        let (one, two) = (company.join(false).unwrap(), company.join(false).unwrap());
        let suspect = company.join(true).unwrap();
        let mut ready = pin!(suspect.ready());
        assert!(!is_over(ready.as_mut()));
        drop(one);
        assert!(!is_over(ready.as_mut()));
        drop(two);
        assert!(is_over(ready.as_mut()));
    }
}
