//! The time after which a task is not begun any more.

use bus_envelope::{Draft, EnvelopeError, MessageEnvelope, Timestamp};

use crate::{Error, ErrorKind, Result};

/// A task's deadline: an attribute of its envelope, so it is bound and signed like its payload.
///
/// A worker that gets the task at this time or later does not run it: the task is given up, and its
/// dead letter says why. An attempt that began before may end after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(pub Timestamp);

impl Deadline {
    /// The name of the attribute.
    pub const ATTRIBUTE: &'static str = "deadline";

    /// Gives `draft` this deadline, in place of an earlier one.
    ///
    /// # Errors
    /// None in practice: the name and a time in canonical form follow the rules for attributes.
    pub fn set(self, draft: Draft) -> Result<Draft, EnvelopeError> {
        draft.extension(Self::ATTRIBUTE, self.0.to_string())
    }

    /// The deadline of a message; `None` when it has none.
    ///
    /// # Errors
    /// `Corrupt` when the attribute is no time in canonical form.
    pub fn of(envelope: &MessageEnvelope) -> Result<Option<Self>> {
        let Some(text) = envelope.extensions.get(Self::ATTRIBUTE) else { return Ok(None) };
        let time = Timestamp::parse(text).map_err(|error| {
            Error::new(ErrorKind::Corrupt, "deadline", "the deadline is no time")
                .at(&envelope.subject)
                .because(error)
        })?;
        Ok(Some(Self(time)))
    }

    /// Whether it is over at `now`.
    #[must_use]
    pub fn is_over(self, now: Timestamp) -> bool {
        now >= self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_over_from_its_time_on() {
        let at = |s: i128| Timestamp::from_unix_ns(s * 1_000_000_000);
        let deadline = Deadline(at(10));
        assert!(!deadline.is_over(at(9)) && deadline.is_over(at(10)) && deadline.is_over(at(11)));
    }

    #[test]
    fn a_deadline_is_kept_with_the_draft_in_canonical_form() {
        let subject = "vak.work.w1.coder.task".parse().unwrap();
        let time = Timestamp::parse_rfc3339("2026-01-02T03:04:05.5Z").unwrap();
        let draft = Deadline(time).set(Draft::new(subject, "vak.task", "x")).unwrap();
        assert_eq!(draft.extensions["deadline"], "2026-01-02T03:04:05.500000000Z");
    }
}
