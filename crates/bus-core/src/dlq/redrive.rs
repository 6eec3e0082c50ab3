//! Sending a given-up task again: its envelope as it was, under a new frame id.

use bus_subjects::{Address, AgentId};

use super::{DeadLetters, LetterContent, letter::redrives};
use crate::{
    Error, ErrorKind, Expect, Frame, FrameId, Opened, Outcome, Receipt, Result, Seq,
    outbox::Record, planes,
};

/// How letters are redriven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Redrive {
    /// How often one envelope may be sent again, 3 by default: what came back that often would come
    /// back once more.
    pub redrives_max: u32,
    /// Whether it is sent again all the same. Off by default.
    pub is_forced: bool,
}

/// A task that is in its queue again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redriven {
    /// The letter that is gone now.
    pub letter: Seq,
    /// The id of the task's envelope, which is as it was.
    pub task_id: String,
    /// The id it was stored under this time: `<id>.r<n>`.
    pub frame_id: FrameId,
    /// The engine's word. It says `duplicate` when an earlier call had stored it.
    pub receipt: Receipt,
}

impl Default for Redrive {
    fn default() -> Self {
        Self { redrives_max: 3, is_forced: false }
    }
}

impl DeadLetters {
    /// Stores the task of the letter at `seq` in its queue again, and then removes the letter.
    ///
    /// The envelope is the very one that was given up; the frame's id becomes `<id>.r<n>`, so that
    /// it is no duplicate of its earlier life, whose attempts and claim marks do not count. It
    /// keeps its priority and its order key, and takes its place behind what waits. The letter goes
    /// only when the task is stored: after a crash in between, or an unknown outcome, a repeat of
    /// the call finds the task by its id, within the time in which its queue knows ids again, and
    /// removes the letter.
    ///
    /// # Errors
    /// `NotFound` when there is no such letter; `Denied` when the agent may not send to the queue
    /// or not discard; `Conflict` when the task was sent again as often as `how` allows; `Corrupt`,
    /// `Denied` or `UnknownKey` when the letter or the task in it cannot be opened and checked, so
    /// that nobody could work on it; those of [`crate::Bus::append`]; outcome unknown when the
    /// task may be stored and the letter is not removed.
    pub async fn redrive(&self, seq: Seq, how: &Redrive) -> Result<Redriven> {
        const OP: &str = "redrive";
        self.may_discard(OP)?;
        let letter = self.open(self.stored(OP, seq).await?);
        let content = letter.content?;
        let frame = self.again(&content, how)?;
        let receipt = self.append_again(&frame).await?;
        let removed = self.remove(seq).await.map_err(|error| {
            let detail = "the task is in its queue again, and its letter could not be removed";
            Error::new(error.kind(), OP, detail).at(&frame.subject).because(error).unknown()
        })?;
        if !removed && !receipt.duplicate {
            // Somebody discarded the letter in between; the task is in its queue all the same.
            tracing::warn!(seq = seq.0, "a dead letter went away while it was redriven");
        }
        let (task_id, frame_id) = (content.event.envelope_id, frame.id);
        let by = self.endpoint.agent();
        tracing::info!(seq = seq.0, task = %task_id, frame = %frame_id, %by, "task redriven");
        Ok(Redriven { letter: seq, task_id, frame_id, receipt })
    }

    /// The task of a letter, opened and checked: it is what its own sender signed, and the one that
    /// the letter names.
    ///
    /// # Errors
    /// `Corrupt`, `Denied` or `UnknownKey` when it cannot be.
    pub fn original(&self, content: &LetterContent) -> Result<Opened> {
        let subject = content.subject()?;
        self.open_original(content, &content.event.original.to_frame(subject)?)
    }

    /// A letter is its writer's word. What it holds must be what its own sender signed: else an
    /// operator could be made to send a task that nobody was allowed to.
    fn open_original(&self, content: &LetterContent, frame: &Frame) -> Result<Opened> {
        let (event, opened) = (&content.event, self.endpoint.open(frame)?);
        // A worker that could not read the task named the frame instead, and no cause.
        let id = &opened.envelope.id;
        let is_named = event.envelope_id == *id || event.envelope_id == event.original.id;
        if !is_named || content.cause.is_some_and(|cause| cause != opened.hash) {
            let detail = "the letter holds another task than it names";
            return Err(Error::new(ErrorKind::Corrupt, "redrive", detail).at(&frame.subject));
        }
        Ok(opened)
    }

    /// The frame that sends the task of a letter again.
    pub(super) fn again(&self, content: &LetterContent, how: &Redrive) -> Result<Frame> {
        const OP: &str = "redrive";
        let (event, subject) = (&content.event, content.subject()?);
        self.endpoint.may_publish(OP, &subject)?;
        let is_queue =
            matches!(Address::parse(&subject), Ok(Address::Task { .. } | Address::Inbox { .. }));
        if !is_queue {
            let detail = "the letter names no work queue and no mailbox";
            return Err(Error::new(ErrorKind::Corrupt, OP, detail).at(&subject));
        }
        let mut frame = event.original.to_frame(subject)?;
        let opened = self.open_original(content, &frame)?;
        let id = &opened.envelope.id;
        let done = redrives(&event.original.id, id);
        if done >= how.redrives_max && !how.is_forced {
            let detail = format!(
                "the task was sent again {done} times and came back: at most {} are allowed",
                how.redrives_max
            );
            return Err(Error::new(ErrorKind::Conflict, OP, detail).at(&frame.subject));
        }
        frame.id = FrameId::parse(&format!("{id}.r{}", done.saturating_add(1)))?;
        self.where_it_was(content, frame, &opened.envelope.lineage.agent)
    }

    /// What was on its way to a hub goes back to the outbox of its author, all else to its queue.
    fn where_it_was(
        &self,
        content: &LetterContent,
        frame: Frame,
        author: &AgentId,
    ) -> Result<Frame> {
        let workspace = self.endpoint.workspace();
        if content.event.stream != planes::outbox_stream(workspace)?.as_str() {
            return Ok(frame);
        }
        let record = Record::pack(workspace, author, &frame)?;
        self.endpoint.may_publish("redrive", &record.subject)?;
        Ok(record)
    }

    /// Appends the same bytes until the engine's word is there, a few times at most.
    async fn append_again(&self, frame: &Frame) -> Result<Receipt> {
        let (engine, mut sends) = (self.endpoint.engine(), 1);
        loop {
            match engine.append(frame.clone(), Expect::Any).await {
                Ok(receipt) => {
                    if receipt.duplicate {
                        self.check_same(frame, &receipt).await?;
                    } else {
                        self.endpoint.metrics().published(frame.bytes());
                    }
                    return Ok(receipt);
                }
                Err(error) if error.outcome() == Outcome::Unknown && sends < SENDS_MAX => {
                    sends += 1;
                }
                Err(error) if sends > 1 => return Err(error.unknown()),
                Err(error) => return Err(error),
            }
        }
    }

    /// What is stored under the new id must be this task; what is there no more was worked on.
    async fn check_same(&self, frame: &Frame, receipt: &Receipt) -> Result<()> {
        let stored = self.endpoint.engine().read(receipt.stream.clone(), receipt.seq).await;
        let is_other = stored.map_err(Error::unknown)?.is_some_and(|stored| {
            (&stored.frame.headers, &stored.frame.body) != (&frame.headers, &frame.body)
        });
        if is_other {
            let detail = format!("something else is stored under the id {}", frame.id);
            return Err(Error::new(ErrorKind::Conflict, "redrive", detail).at(&frame.subject));
        }
        Ok(())
    }
}

/// How often the same bytes are sent when the engine's answer does not arrive.
const SENDS_MAX: u32 = 3;
