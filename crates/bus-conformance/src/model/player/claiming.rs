//! Claiming, settling, pausing and removing.

use std::time::Duration;

use bus_core::{ConsumerSpec, ErrorKind, Verdict};

use super::{Held, Player, pick};
use crate::{
    check::{CaseResult, Failure, equal, holds, refused},
    model::{operation::How, queue::Queue, stored::StreamModel},
};

impl Player<'_> {
    fn queue(&mut self, consumer: u8) -> CaseResult<(&mut StreamModel, u8)> {
        let (_, _, model) = self.stream(consumer / 2)?;
        Ok((model, consumer))
    }

    /// Makes sure that two members are there.
    async fn join(&mut self, consumer: u8) -> CaseResult {
        if self.members.contains_key(&consumer) {
            return Ok(());
        }
        let now = self.now();
        let (stream, name, filter, mut queue) = self.consumer(consumer)?;
        let lease = queue.lease;
        let (_, stream, model) = self.stream(stream)?;
        if let std::collections::btree_map::Entry::Vacant(vacant) = model.consumers.entry(consumer)
        {
            for (seq, message) in &model.messages {
                queue.take_in(*seq, message, now);
            }
            vacant.insert(queue);
        }
        let spec = ConsumerSpec { stream, name, filter, lease };
        let mut members = Vec::new();
        for _ in 0..2 {
            members.push(self.context.bus.consume(spec.clone()).await?);
        }
        self.members.insert(consumer, members);
        Ok(())
    }

    pub(super) async fn claim(&mut self, consumer: u8) -> CaseResult {
        self.join(consumer).await?;
        let (now, lease) = (self.now(), self.number());
        let context = self.context;
        let allowed = self.queue(consumer)?.0.consumers.get(&consumer).map(Queue::next);
        let allowed = allowed.unwrap_or_default();
        let members = self.members.get_mut(&consumer);
        // The members take turns; what they give up in between, the other one must get.
        let member = members.and_then(|members| {
            members.rotate_left(1);
            members.first_mut()
        });
        let member = member.ok_or_else(|| Failure::new("the consumer has no members"))?;
        if allowed.is_empty() {
            return context.gets_nothing(member).await;
        }
        let delivery = context.take_now(member).await?;
        let seq = delivery.seq.0;
        holds(allowed.contains(&seq), || {
            format!("c{consumer} got position {seq}: expected one of {allowed:?}")
        })?;
        let (model, _) = self.queue(consumer)?;
        if let Some(queue) = model.consumers.get_mut(&consumer) {
            let attempt = queue.items.get(&seq).map(|item| item.attempt);
            equal(&format!("attempt at position {seq}"), Some(delivery.attempt), attempt)?;
            equal("lease", delivery.lease, queue.lease)?;
            queue.claim(seq, lease, now);
        }
        let frame = self.frames.get(&(usize::from(consumer / 2), seq));
        equal("delivered frame", Some(&*delivery.frame), frame)?;
        self.held.push(Held { consumer, lease, delivery, was_discarded: false });
        Ok(())
    }

    /// Whether the engine must take a verdict on it.
    fn is_held(&mut self, consumer: u8, seq: u64, lease: u64) -> CaseResult<bool> {
        let (model, _) = self.queue(consumer)?;
        Ok(model.consumers.get(&consumer).is_some_and(|queue| queue.holds(seq, lease)))
    }

    pub(super) async fn settle(&mut self, held: u8, how: How) -> CaseResult {
        let Some(held) = pick(held, self.held.len()) else { return Ok(()) };
        let now = self.now();
        let Held { consumer, lease, delivery, was_discarded } = self.held.swap_remove(held);
        let seq = delivery.seq.0;
        let is_held = self.is_held(consumer, seq, lease)?;
        let settled = delivery.settle(verdict(how)).await;
        if !is_held {
            // Whether a verdict on what an operator discarded is refused is left to the engine.
            let may_pass = was_discarded && settled.is_ok();
            let what = format!("{how:?} on position {seq}, whose lease is over");
            return if may_pass { Ok(()) } else { refused(&what, settled, ErrorKind::LeaseLost) };
        }
        settled?;
        let (model, _) = self.queue(consumer)?;
        let queue = model.consumers.get_mut(&consumer);
        if queue.is_some_and(|queue| queue.settle(seq, how, now)) {
            model.leave(seq);
        }
        Ok(())
    }

    pub(super) async fn extend(&mut self, held: u8) -> CaseResult {
        let Some(held) = pick(held, self.held.len()) else { return Ok(()) };
        let now = self.now();
        let Some(Held { consumer, lease, delivery, was_discarded }) = self.held.get(held) else {
            return Ok(());
        };
        let (consumer, lease, seq) = (*consumer, *lease, delivery.seq.0);
        let (extended, was_discarded) = (delivery.extend().await, *was_discarded);
        if !self.is_held(consumer, seq, lease)? {
            let may_pass = was_discarded && extended.is_ok();
            let what = format!("an extension of position {seq}, whose lease is over");
            return if may_pass { Ok(()) } else { refused(&what, extended, ErrorKind::LeaseLost) };
        }
        extended?;
        let (model, _) = self.queue(consumer)?;
        if let Some(queue) = model.consumers.get_mut(&consumer) {
            queue.extend(seq, lease, now);
        }
        Ok(())
    }

    pub(super) async fn pause(&mut self, consumer: u8, seconds: Option<u8>) -> CaseResult {
        let (stream, name, ..) = self.consumer(consumer)?;
        let now = self.now();
        let until = seconds.map(|seconds| now + Duration::from_secs(u64::from(seconds)));
        let at = until.map(|until| self.origin.time.plus(until));
        let context = self.context;
        let (_, stream, model) = self.stream(stream)?;
        let paused = context.bus.pause(stream, name, at).await;
        match model.consumers.get_mut(&consumer) {
            None => refused("a pause of no consumer", paused, ErrorKind::NotFound),
            Some(queue) => {
                queue.paused_until = until;
                Ok(paused?)
            }
        }
    }

    pub(super) async fn remove(&mut self, consumer: u8) -> CaseResult {
        let (stream, name, ..) = self.consumer(consumer)?;
        let context = self.context;
        let (_, stream, model) = self.stream(stream)?;
        let expected = model.consumers.remove(&consumer).is_some();
        let removed = context.bus.remove_consumer(stream, name).await?;
        equal("there was a consumer to remove", removed, expected)?;
        for mut member in self.members.remove(&consumer).unwrap_or_default() {
            let item = context.at_once("a member of a removed consumer", member.next()).await?;
            let item = item.ok_or_else(|| Failure::new("a member ended without a word"))?;
            refused("the next item of a member", item, ErrorKind::NotFound)?;
        }
        Ok(())
    }
}

fn verdict(how: How) -> Verdict {
    let rest = |seconds: u8| Duration::from_secs(u64::from(seconds));
    match how {
        How::Ack => Verdict::Ack,
        How::Reject => Verdict::Reject { reason: "the model says so".to_owned() },
        How::Retry { seconds } => Verdict::Retry { after: rest(seconds) },
        How::Release { seconds } => Verdict::Release { after: rest(seconds) },
    }
}
