//! What operators did, and what they were told.

use bus_core::{ConsumerState, Lag, Result as BusResult, Seq};
use bus_envelope::Timestamp;

use super::{
    super::{
        super::{Violation, command::Plane},
        work::End,
    },
    Ledger,
};

impl Ledger {
    /// An operator removed a message, or there was none.
    pub(in crate::sim) fn discarded(
        &mut self,
        plane: Plane,
        seq: Seq,
        answer: &BusResult<bool>,
    ) -> Result<(), Violation> {
        let Some(work) = self.work.get_mut(&plane) else { return Ok(()) };
        let gone = work.queue_of(seq.0).and_then(|queue| queue.remove(seq.0));
        let was_there = gone.is_some();
        if let Some(gone) = gone {
            work.ended(seq.0, End::Discarded, gone.frame.id.as_str());
        }
        let answer = answer.as_ref().map_err(|error| error.kind());
        Violation::unless(answer == Ok(&was_there), "an operator's hand takes effect", || {
            format!("discarding {} was answered {answer:?}: it was there: {was_there}", seq.0)
        })
    }

    /// A queue was paused, or goes on.
    pub(in crate::sim) fn paused(
        &mut self,
        plane: Plane,
        queue: usize,
        until: Option<Timestamp>,
        now: Timestamp,
    ) {
        if let Some(queue) = self.work.get_mut(&plane).and_then(|work| work.queues.get_mut(&queue))
        {
            queue.advance(now);
            queue.pause(until, now);
        }
    }

    /// The consumer of a queue was removed.
    pub(in crate::sim) fn removed(&mut self, plane: Plane, queue: usize, now: Timestamp) {
        if let Some(queue) = self.work.get_mut(&plane).and_then(|work| work.queues.get_mut(&queue))
        {
            queue.advance(now);
            queue.restart(now);
        }
    }

    /// A gauge was read.
    pub(in crate::sim) fn counted(
        &mut self,
        plane: Plane,
        lag: Lag,
        now: Timestamp,
    ) -> Result<(), Violation> {
        self.work.get_mut(&plane).map_or(Ok(()), |work| work.counted(lag, now))
    }

    /// The consumer of a queue was looked at.
    pub(in crate::sim) fn consumer_counted(
        &mut self,
        (plane, queue): (Plane, usize),
        state: &ConsumerState,
        now: Timestamp,
    ) -> Result<(), Violation> {
        let Some(queue) = self.work.get_mut(&plane).and_then(|work| work.queues.get_mut(&queue))
        else {
            return Ok(());
        };
        queue.advance(now);
        queue.counted(state, now)
    }
}
