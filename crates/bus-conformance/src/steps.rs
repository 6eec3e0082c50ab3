//! Words for the steps of cases about queues: placed tasks, expected deliveries, the engine's time.

use std::time::Duration;

use bus_core::{
    ConsumerState, Deliveries, Delivery, Expect, Frame, FrameId, OrderKey, Placement, Priority,
    Receipt, Retention, Seq, Stored, Verdict,
};
use bus_subjects::{ConsumerName, StreamName, Subject};

use crate::{
    check::{CaseResult, Failure, equal},
    context::{Context, frame, text},
};

impl Context {
    /// Stores a message in a stream of its own and returns it: its time is the engine's time now.
    pub(crate) async fn now(&self) -> CaseResult<Stored> {
        let stream = self.stream("CLOCK", "history", Retention::Kept).await?;
        let subject = self.subject("history", "clock.tick")?;
        let tick = FrameId::parse(&format!("tick-{}", self.number()))?;
        let tick = Frame::new(subject, tick, Vec::new());
        let Seq(seq) = self.bus.append(tick, Expect::Any).await?.seq;
        let stored = self.bus.read(stream, Seq(seq)).await?;
        stored.ok_or_else(|| Failure::new("the engine tells no time: nothing at the receipt's seq"))
    }

    /// A placement that is due `after` from now.
    pub(crate) async fn due(&self, after: Duration) -> CaseResult<Placement> {
        let due = self.now().await?.time.plus(after);
        Ok(Placement { not_before: Some(due), ..Placement::default() })
    }

    /// Appends a task for `coder` whose id and body are `text`.
    pub(crate) async fn append_placed(
        &self,
        text: &str,
        placement: Placement,
    ) -> CaseResult<Receipt> {
        let frame = frame(&self.task("coder")?, text)?.placed(placement);
        Ok(self.bus.append(frame, Expect::Any).await?)
    }

    /// The work queue of the workspace and a member of the consumer of `coder`'s tasks.
    pub(crate) async fn coder(&self) -> CaseResult<(StreamName, Deliveries)> {
        let stream = self.work_queue().await?;
        let member = self.member(&stream, "coder").await?;
        Ok((stream, member))
    }

    /// Takes the next task, which must be there now and be `expected`: its text and its attempt.
    pub(crate) async fn claims(
        &self,
        member: &mut Deliveries,
        expected: (&str, u32),
    ) -> CaseResult<Delivery> {
        let task = self.take_now(member).await?;
        let got = (text(&task.frame), task.attempt);
        equal("task and attempt", got, (expected.0.to_owned(), expected.1))?;
        Ok(task)
    }

    /// Takes and acknowledges first attempts, which must be there now in the order of `texts`.
    pub(crate) async fn works_off(&self, member: &mut Deliveries, texts: &[&str]) -> CaseResult {
        for text in texts {
            self.claims(member, (text, 1)).await?.settle(Verdict::Ack).await?;
        }
        Ok(())
    }

    /// What the engine tells about the consumer `name` of `stream`.
    pub(crate) async fn state_of(
        &self,
        stream: &StreamName,
        name: &str,
    ) -> CaseResult<ConsumerState> {
        let states = self.bus.consumers(stream.clone()).await?;
        let state = states.into_iter().find(|state| state.spec.name.as_str() == name);
        state.ok_or_else(|| Failure::new(format!("the consumer {name} is not listed")))
    }

    /// Pauses the consumer `name` of `stream` for `time` from now.
    pub(crate) async fn pause_for(
        &self,
        stream: &StreamName,
        name: &str,
        time: Duration,
    ) -> CaseResult {
        let until = self.now().await?.time.plus(time);
        Ok(self.bus.pause(stream.clone(), ConsumerName::parse(name)?, Some(until)).await?)
    }

    /// Ends the pause of the consumer `name` of `stream`.
    pub(crate) async fn resume(&self, stream: &StreamName, name: &str) -> CaseResult {
        Ok(self.bus.pause(stream.clone(), ConsumerName::parse(name)?, None).await?)
    }

    /// Appends to `subject` of a stream that keeps everything, and returns the stream.
    pub(crate) async fn kept(&self, texts: &[&str]) -> CaseResult<(StreamName, Subject)> {
        let stream = self.stream("ROOMS", "room", Retention::Kept).await?;
        let subject = self.subject("room", "r1.message")?;
        self.append_all(&subject, texts).await?;
        Ok((stream, subject))
    }
}

/// A placement in the lane of `level`.
pub(crate) fn urgent(level: u8) -> CaseResult<Placement> {
    Ok(Placement { priority: Priority::new(level)?, ..Placement::default() })
}

/// A placement under the order key `key`.
pub(crate) fn keyed(key: &str) -> CaseResult<Placement> {
    Ok(Placement { key: Some(OrderKey::parse(key)?), ..Placement::default() })
}

/// A hand-back that does not rest.
pub(crate) fn hand_back() -> Verdict {
    Verdict::Release { after: Duration::ZERO }
}

/// A failure that rests for `after`.
pub(crate) fn fail_for(after: Duration) -> Verdict {
    Verdict::Retry { after }
}
