//! How long a reader that has read everything gives way to others before it sleeps.

use std::{
    num::NonZeroUsize,
    pin::pin,
    task::{Context, Poll},
};

use tokio::task::yield_now;

use crate::publish::frames_between_turns;

/// The patience of one reader of a shared log.
///
/// Whoever sleeps must be woken, which costs its publisher more than the message does; and readers
/// on another core that look after each message slow its publisher down until that is all they
/// find. So a reader that has read everything lets the others run a few times, without a look at
/// what it shares with them, and then finds a run. Where that was in vain it sleeps at once, and
/// tries again now and then: a lone message now and then costs hardly more than a wake-up.
///
/// It never gives way so often that a publisher on its own thread could fill its capacity.
#[derive(Debug)]
pub(crate) struct Patience {
    /// How often it gives way before it looks.
    left: u8,
    /// What `left` begins with, and the most of it.
    hope: u8,
    hope_max: u8,
    /// It gave way since it read the last run.
    gave_way: bool,
    /// How often it slept without having given way.
    naps: u8,
}

impl Patience {
    /// The patience of one who may have `capacity` frames waiting.
    pub(crate) fn new(capacity: NonZeroUsize) -> Self {
        let capacity = capacity.get() as u64;
        let turns = (capacity / frames_between_turns(capacity)).saturating_sub(1);
        let hope_max = turns.min(TURNS_MAX) as u8;
        Self { left: 0, hope: hope_max, hope_max, gave_way: false, naps: 0 }
    }

    /// Gives way once more, if it should; its task is polled again then.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(left) = self.left.checked_sub(1) else { return Poll::Ready(()) };
        (self.left, self.gave_way) = (left, true);
        pin!(yield_now()).poll(cx)
    }

    /// It found a run of so many frames; `is_all` when it has read everything now, and shares the
    /// log.
    pub(crate) fn found(&mut self, frames: usize, is_all: bool) {
        if std::mem::take(&mut self.gave_way) || frames > 1 {
            self.hope = self.hope_max;
        }
        self.left = 0;
        if is_all {
            self.left = self.hope;
            if self.hope == 0 {
                self.naps = (self.naps + 1) % NAPS;
                self.left = if self.naps == 0 { self.hope_max } else { 0 };
            }
        }
    }

    /// It found nothing and sleeps.
    pub(crate) fn sleeps(&mut self) {
        if std::mem::take(&mut self.gave_way) {
            self.hope = self.hope.saturating_sub(1);
        }
    }
}

/// More of them gather longer runs, and cost more when nothing comes.
const TURNS_MAX: u64 = 4;
/// Of so many sleeps one tries whether patience pays.
const NAPS: u8 = 8;

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn patience(capacity: usize) -> Patience {
        Patience::new(NonZeroUsize::new(capacity).unwrap())
    }

    /// How often a reader gives way before it looks.
    fn turns(patience: &mut Patience) -> usize {
        let mut cx = Context::from_waker(Waker::noop());
        std::iter::from_fn(|| patience.poll(&mut cx).is_pending().then_some(())).count()
    }

    /// Reads a lone frame, then nothing, and returns how often it gave way between.
    fn lone_frame(patience: &mut Patience) -> usize {
        patience.found(1, true);
        let turns = turns(patience);
        patience.sleeps();
        turns
    }

    #[test]
    fn a_reader_that_has_read_everything_gives_way_before_it_looks_again() {
        let mut patience = patience(1024);
        patience.found(32, true);
        assert_eq!(turns(&mut patience), 4);
    }

    #[test]
    fn a_reader_with_more_to_read_does_not_give_way() {
        let mut patience = patience(1024);
        patience.found(32, false);
        assert_eq!(turns(&mut patience), 0);
    }

    #[test]
    fn lone_frames_cost_less_and_less_patience_until_only_every_eighth_sleep_tries() {
        let mut patience = patience(1024);
        let given: Vec<_> = (0..20).map(|_| lone_frame(&mut patience)).collect();
        assert_eq!(given, [4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 4]);
    }

    #[test]
    fn patience_comes_back_when_a_try_finds_a_frame() {
        let mut patience = patience(1024);
        assert_eq!((0..11).map(|_| lone_frame(&mut patience)).sum::<usize>(), 10);
        patience.found(1, true);
        assert_eq!(turns(&mut patience), 4, "the try");
        patience.found(1, true);
        assert_eq!(turns(&mut patience), 4);
    }

    #[test]
    fn patience_comes_back_with_a_run_of_several_frames() {
        let mut patience = patience(1024);
        assert_eq!((0..6).map(|_| lone_frame(&mut patience)).sum::<usize>(), 10);
        patience.found(2, true);
        assert_eq!(turns(&mut patience), 4);
    }

    #[test]
    fn a_publisher_on_the_same_thread_cannot_fill_a_capacity_while_its_reader_gives_way() {
        for capacity in 1..2000 {
            let most = u64::from(patience(capacity).hope_max) + 1;
            let frames = most * frames_between_turns(capacity as u64);
            assert!(most == 1 || frames <= capacity as u64, "capacity {capacity}");
        }
    }
}
