//! Appending, discarding, and comparing what is stored.

use std::collections::BTreeSet;

use bus_core::{ErrorKind, Expect, Frame, FrameId, OrderKey, Placement, Priority, Retention, Seq};

use super::{Player, pick};
use crate::{
    check::{CaseResult, Failure, equal, holds, refused},
    model::{
        operation::{Head, Message},
        stored::{Appended, Kept},
    },
};

impl Player<'_> {
    /// The frame that stands for a message of the model.
    fn frame(&self, stream: usize, message: &Kept) -> CaseResult<Frame> {
        let id = FrameId::parse(&message.id)?;
        let frame = Frame::new(self.subject(stream, message.subject)?, id, message.id.clone());
        let key = message.key.map(|key| OrderKey::parse(&format!("k{key}"))).transpose()?;
        let not_before = message.not_before.map(|due| self.origin.time.plus(due));
        let priority = Priority::new(message.level)?;
        Ok(frame.placed(Placement { not_before, priority, key }))
    }

    pub(super) async fn append(
        &mut self,
        stream: u8,
        message: &Message,
        expect: Head,
    ) -> CaseResult {
        let (index, ..) = self.stream(stream)?;
        let message = self.kept(index, message, expect != Head::Any);
        let frame = self.frame(index, &message)?;
        let (_, _, model) = self.stream(stream)?;
        let last = model.last_of(message.subject);
        let head = match expect {
            Head::Any => None,
            Head::Right => Some(last),
            Head::Wrong => Some(last + 7),
        };
        let expected = model.append(message, head);
        let expect = head.map_or(Expect::Any, |seq| Expect::LastOfSubject(Seq(seq)));
        let appended = self.context.bus.append(frame.clone(), expect).await;
        match (expected, appended) {
            // Which of two reasons a refusal names is left to the engine.
            (Appended::Conflict, Err(error)) if error.kind() == ErrorKind::Full => Ok(()),
            (Appended::Conflict, appended) => refused("append", appended, ErrorKind::Conflict),
            (Appended::Full, appended) => refused("append", appended, ErrorKind::Full),
            (expected, appended) => {
                let receipt = appended?;
                self.is_as_expected(index, expected, &frame, receipt.seq, receipt.duplicate)
            }
        }
    }

    pub(super) async fn append_all(
        &mut self,
        stream: u8,
        messages: &[Message],
        repeats_itself: bool,
    ) -> CaseResult {
        let (index, ..) = self.stream(stream)?;
        let mut batch: Vec<_> =
            messages.iter().map(|message| self.kept(index, message, false)).collect();
        if let (true, Some(first)) = (repeats_itself, batch.first()) {
            batch.push(first.clone());
        }
        let frames: CaseResult<Vec<_>> =
            batch.iter().map(|message| self.frame(index, message)).collect();
        let frames = frames?;
        let ids: BTreeSet<_> = batch.iter().map(|message| &message.id).collect();
        let appended = self.context.bus.append_all(frames.clone());
        if ids.len() < batch.len() {
            return refused("a batch with an id twice", appended.await, ErrorKind::Invalid);
        }
        let appended = appended.await;
        let (_, _, model) = self.stream(stream)?;
        let expected = match model.append_all(batch) {
            Ok(expected) => expected,
            Err(kind) => return refused("a batch", appended, kind),
        };
        let receipts = appended?;
        equal("receipts of a batch", receipts.len(), expected.len())?;
        for ((expected, receipt), frame) in expected.into_iter().zip(receipts).zip(&frames) {
            self.is_as_expected(index, expected, frame, receipt.seq, receipt.duplicate)?;
        }
        Ok(())
    }

    fn is_as_expected(
        &mut self,
        stream: usize,
        expected: Appended,
        frame: &Frame,
        Seq(seq): Seq,
        duplicate: bool,
    ) -> CaseResult {
        let got = if duplicate { Appended::Duplicate(seq) } else { Appended::Stored(seq) };
        if !duplicate {
            self.frames.insert((stream, seq), frame.clone());
        }
        equal(&format!("append of {}", frame.id), got, expected)
    }

    pub(super) async fn discard(&mut self, stream: u8, message: u8) -> CaseResult {
        let (index, name, model) = self.stream(stream)?;
        // One beyond the last as well.
        let seq = pick(message, model.ids.len() + 1).unwrap_or(0) as u64 + 1;
        let is_append_only = model.retention == Retention::AppendOnly;
        let expected = !is_append_only && model.discard(seq);
        for held in self.held.iter_mut().filter(|_| !is_append_only) {
            let is_it = held.delivery.seq.0 == seq && usize::from(held.consumer / 2) == index;
            held.was_discarded |= is_it;
        }
        let discarded = self.context.bus.discard(name, Seq(seq)).await;
        if is_append_only {
            return refused("a discard", discarded, ErrorKind::Denied);
        }
        equal(&format!("there was one at {seq} to discard"), discarded?, expected)
    }

    /// Compares what is stored, what waits, and the consumers.
    pub(super) async fn compare(&mut self, stream: u8) -> CaseResult {
        let now = self.now();
        let (index, name, model) = self.stream(stream)?;
        let lag = (model.retention == Retention::WorkQueue).then(|| model.lag(now));
        let stored: Vec<_> = model.messages.iter().map(|(seq, m)| (*seq, m.id.clone())).collect();
        let lasts = [0, 1].map(|subject| (subject, model.last_of(subject)));
        let got = self.context.stored(&name, 0).await?;
        for one in &got {
            let frame = self.frames.get(&(index, one.seq.0));
            let is_same = frame == Some(&one.frame);
            holds(is_same, || format!("{:?} was appended as {frame:?}", one.frame))?;
        }
        let got: Vec<_> = got.iter().map(|one| (one.seq.0, one.frame.id.to_string())).collect();
        equal(&format!("stored in {name}"), got, stored)?;
        for (subject, last) in lasts {
            let subject = self.subject(index, subject)?;
            let got = self.context.bus.last(subject).await?.map_or(0, |stored| stored.seq.0);
            equal("the last of a subject", got, last)?;
        }
        if let Some(lag) = lag {
            let got = self.context.bus.lag(name).await?;
            let got = (got.pending, got.in_flight, got.oldest.filter(|_| self.time));
            let lag = (lag.0, lag.1, lag.2.filter(|_| self.time));
            equal("waiting, held and oldest of the stream", got, lag)?;
        }
        self.compare_consumers(stream).await
    }

    async fn compare_consumers(&mut self, stream: u8) -> CaseResult {
        let (now, time, start) = (self.now(), self.time, self.origin.clone());
        let (_, name, model) = self.stream(stream)?;
        let expected: Vec<_> = model
            .consumers
            .iter()
            .map(|(consumer, queue)| {
                let (waiting, held, oldest) = queue.lag(now);
                let paused = queue.paused_until.map(|until| start.time.plus(until));
                let is_paused = paused.filter(|_| time);
                (format!("c{consumer}"), waiting, held, oldest.filter(|_| time), is_paused)
            })
            .collect();
        let listed = self.context.bus.consumers(name.clone()).await?;
        let got: Vec<_> = listed
            .into_iter()
            .map(|state| {
                let (lag, paused) = (state.lag, state.paused_until.filter(|_| time));
                let oldest = lag.oldest.filter(|_| time);
                (state.spec.name.to_string(), lag.pending, lag.in_flight, oldest, paused)
            })
            .collect();
        if got == expected {
            return Ok(());
        }
        Err(Failure::new(format!("consumers of {name}: expected {expected:?}, got {got:?}")))
    }
}
