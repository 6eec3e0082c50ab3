//! How a stream is filled with what survived.

use std::sync::Arc;

use bus_core::{ConsumerSpec, Frame};
use bus_envelope::Timestamp;

use super::{Consumer, Digest, Stream};

impl Stream {
    /// Puts a message back; its position is behind all others.
    pub(crate) fn restore_message(&mut self, seq: u64, frame: Arc<Frame>, time: Timestamp) {
        self.log.skip_to(seq.saturating_sub(1));
        let subject = self.subjects.push(&frame.subject, seq);
        self.log.push(frame, time, subject);
    }

    /// Remembers an id again; it was stored after all others.
    pub(crate) fn restore_id(&mut self, digest: Digest, seq: u64, time: Timestamp) {
        self.dedupe.remember(digest, seq, time);
    }

    /// The positions up to `last` were given before.
    pub(crate) fn restore_last(&mut self, last: u64) {
        self.log.skip_to(last);
    }

    /// Adds a consumer that was there before, and holds nothing yet; returns its index.
    pub(crate) fn restore_consumer(
        &mut self,
        spec: ConsumerSpec,
        (number, token): (u64, u64),
        paused_until: Option<Timestamp>,
    ) -> usize {
        self.insert(Consumer::restored(spec, (number, token), paused_until))
    }

    /// Every consumer.
    pub(crate) fn members_mut(&mut self) -> impl Iterator<Item = &mut Consumer> {
        self.consumers.iter_mut().flatten().map(|member| &mut member.consumer)
    }

    /// The consumer at `index`.
    pub(crate) fn member_mut(&mut self, index: usize) -> Option<&mut Consumer> {
        Some(&mut self.consumers.get_mut(index)?.as_mut()?.consumer)
    }

    /// The index and the number of each consumer.
    pub(crate) fn consumer_numbers(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let members = self.consumers.iter().enumerate();
        members.filter_map(|(index, member)| Some((index, member.as_ref()?.consumer.number())))
    }
}
