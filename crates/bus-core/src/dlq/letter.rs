//! One dead letter, opened as far as it can be.

use bus_envelope::{EventHash, Timestamp};
use bus_subjects::{Address, AgentId, Subject};

use crate::{
    DeadLetterEvent, Endpoint, Error, ErrorKind, Frame, GivenUpCause, Result, Seq, Stored,
};

/// A dead letter as it is stored.
#[derive(Debug)]
pub struct DeadLetter {
    /// Its position; what the other methods take.
    pub seq: Seq,
    /// When it was stored.
    pub stored: Timestamp,
    /// The agent whose letter it is, as its subject says; `None` when that is no letter's address.
    pub agent: Option<AgentId>,
    /// What it says, or why that cannot be known.
    pub content: Result<Box<LetterContent>>,
}

/// What a dead letter says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LetterContent {
    /// The letter.
    pub event: DeadLetterEvent,
    /// Why the task was given up, of the fixed list; `None` when the letter does not name it, as
    /// those of old.
    pub kind: Option<GivenUpCause>,
    /// The leaf hash of the task that was given up, where it could be read.
    pub cause: Option<EventHash>,
    /// How often the task had been sent again when it was given up.
    pub redrives: u32,
}

impl DeadLetter {
    /// The id of the task's envelope, where the letter could be opened.
    #[must_use]
    pub fn task_id(&self) -> Option<&str> {
        self.content.as_ref().ok().map(|content| content.event.envelope_id.as_str())
    }

    pub(super) fn open(endpoint: &Endpoint, stored: Stored) -> Self {
        let Stored { frame, seq, time } = stored;
        let agent = match Address::parse(&frame.subject) {
            Ok(Address::DeadLetter { agent, .. }) => Some(agent),
            _ => None,
        };
        let content = LetterContent::open(endpoint, &frame).map(Box::new);
        Self { seq, stored: time, agent, content }
    }
}

impl LetterContent {
    fn open(endpoint: &Endpoint, frame: &Frame) -> Result<Self> {
        let opened = endpoint.open(frame)?;
        if opened.envelope.event_type != DeadLetterEvent::EVENT_TYPE {
            let detail = "the message is no dead letter";
            return Err(Error::new(ErrorKind::Corrupt, "open", detail).at(&frame.subject));
        }
        let event = DeadLetterEvent::from_json(&opened.payload)?;
        let redrives = redrives(&event.original.id, &event.envelope_id);
        let kind = GivenUpCause::of(&opened.envelope);
        Ok(Self { event, kind, cause: opened.envelope.lineage.cause, redrives })
    }

    /// Where the task was sent.
    ///
    /// # Errors
    /// `Corrupt` when the letter does not say so.
    pub fn subject(&self) -> Result<Subject> {
        Subject::parse(&self.event.subject).map_err(|error| {
            let detail = "the letter does not say where its original was sent";
            Error::new(ErrorKind::Corrupt, "dead letter", detail).because(error)
        })
    }
}

/// Which redrive of the envelope `envelope` the frame `frame` is: `<id>.r<n>` is the n-th, and the
/// id itself none. The frame of a task that could not be read has no such id and counts as none.
pub(super) fn redrives(frame: &str, envelope: &str) -> u32 {
    let rest = frame.strip_prefix(envelope).and_then(|rest| rest.strip_prefix(".r"));
    rest.and_then(|n| n.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frame_of_a_redriven_task_tells_how_often_it_was() {
        assert_eq!(redrives("task-1", "task-1"), 0);
        assert_eq!(redrives("task-1.r2", "task-1"), 2);
        assert_eq!(redrives("task-1.r2.r1", "task-1.r2"), 1);
        assert_eq!(redrives("task-1.r2", "task-1.r2"), 0);
        assert_eq!(redrives("other", "task-1"), 0);
    }
}
