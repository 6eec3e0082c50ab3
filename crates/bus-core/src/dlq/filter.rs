//! Which dead letters are meant, and in which order they come.

use std::time::Duration;

use bus_envelope::Timestamp;
use bus_subjects::{AgentId, Filter};

use super::DeadLetter;
use crate::GivenUpCause;

/// Which letters are meant: those for which everything holds that is set.
///
/// A letter that cannot be opened tells nothing of its reason and its task, so it is always among
/// those that are meant by them. Nothing is thrown away by such a guess
/// ([`DeadLetters::discard_all`](crate::DeadLetters::discard_all)).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LetterFilter {
    /// Given up by this agent.
    pub agent: Option<AgentId>,
    /// Given up for this cause; a letter that names none is not meant.
    pub kind: Option<GivenUpCause>,
    /// The reason holds this text, as it is written.
    pub reason: Option<String>,
    /// The task was sent to one of these subjects; the queue of a role is
    /// `vak.work.<workspace>.<role>.task`.
    pub subject: Option<Filter>,
    /// Stored at least this long ago.
    pub older_than: Option<Duration>,
    /// Stored less than this long ago.
    pub newer_than: Option<Duration>,
}

/// In which order letters come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LetterOrder {
    /// The one stored last first.
    #[default]
    NewestFirst,
    /// The one stored first first.
    OldestFirst,
}

impl LetterFilter {
    /// Whether it asks for what only a letter that can be opened tells.
    #[must_use]
    pub const fn needs_content(&self) -> bool {
        self.kind.is_some() || self.reason.is_some() || self.subject.is_some()
    }

    /// Whether `letter` is meant at the time `now`.
    #[must_use]
    pub fn admits(&self, letter: &DeadLetter, now: Timestamp) -> bool {
        let age = now.since(letter.stored);
        let is_of = |agent: &AgentId| letter.agent.as_ref() == Some(agent);
        self.agent.as_ref().is_none_or(is_of)
            && self.older_than.is_none_or(|limit| age >= limit)
            && self.newer_than.is_none_or(|limit| age < limit)
            && letter.content.as_ref().ok().is_none_or(|content| {
                let has = |text: &String| content.event.failure_reason.contains(text.as_str());
                let goes =
                    |to: &Filter| content.subject().is_ok_and(|subject| to.matches(&subject));
                self.kind.is_none_or(|kind| content.kind == Some(kind))
                    && self.reason.as_ref().is_none_or(has)
                    && self.subject.as_ref().is_none_or(goes)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeadLetterEvent, Error, ErrorKind, LetterContent, OriginalFrame, Result, Seq};

    fn letter(content: Result<Box<LetterContent>>) -> DeadLetter {
        DeadLetter { seq: Seq(1), stored: at(100), agent: Some("ann".parse().unwrap()), content }
    }

    fn readable() -> DeadLetter {
        of_kind(Some(GivenUpCause::Exhausted))
    }

    fn of_kind(kind: Option<GivenUpCause>) -> DeadLetter {
        let original = OriginalFrame {
            id: "task-1".to_owned(),
            headers: Vec::new(),
            body_base64: String::new(),
            placement: None,
        };
        let event = DeadLetterEvent {
            envelope_id: "task-1".to_owned(),
            subject: "vak.work.w1.coder.task".to_owned(),
            stream: "VAK_WORK_w1".to_owned(),
            seq: 1,
            attempts: 4,
            failure_reason: "exit code 1".to_owned(),
            failed_at: String::new(),
            worker_id: None,
            original,
        };
        letter(Ok(Box::new(LetterContent { event, kind, cause: None, redrives: 0 })))
    }

    fn unreadable() -> DeadLetter {
        letter(Err(Error::new(ErrorKind::UnknownKey, "open", "no key")))
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_unix_ns(0).plus(Duration::from_secs(seconds))
    }

    fn admits(filter: LetterFilter, letter: &DeadLetter) -> bool {
        filter.admits(letter, at(160))
    }

    #[test]
    fn a_letter_is_found_by_its_agent() {
        let of = |agent: &str| LetterFilter {
            agent: Some(agent.parse().unwrap()),
            ..LetterFilter::default()
        };
        assert!(admits(of("ann"), &readable()));
        assert!(!admits(of("bob"), &readable()));
        assert!(!admits(of("bob"), &unreadable()));
    }

    #[test]
    fn a_letter_is_found_by_a_part_of_its_reason() {
        let with =
            |text: &str| LetterFilter { reason: Some(text.to_owned()), ..Default::default() };
        assert!(admits(with("code 1"), &readable()));
        assert!(!admits(with("code 2"), &readable()));
    }

    #[test]
    fn a_letter_is_found_by_its_kind_and_one_that_names_none_is_not() {
        let of = |kind| LetterFilter { kind: Some(kind), ..Default::default() };
        assert!(admits(of(GivenUpCause::Exhausted), &readable()));
        assert!(!admits(of(GivenUpCause::Hopeless), &readable()));
        assert!(!admits(of(GivenUpCause::Exhausted), &of_kind(None)));
        assert!(admits(of(GivenUpCause::Hopeless), &unreadable()));
    }

    #[test]
    fn a_letter_is_found_by_where_its_task_was_sent() {
        let to = |text: &str| LetterFilter {
            subject: Some(Filter::parse(text).unwrap()),
            ..LetterFilter::default()
        };
        assert!(admits(to("vak.work.w1.coder.task"), &readable()));
        assert!(admits(to("vak.work.w1.*.task"), &readable()));
        assert!(!admits(to("vak.work.w1.tester.task"), &readable()));
    }

    #[test]
    fn a_letter_is_found_by_its_age() {
        let older = |s| LetterFilter {
            older_than: Some(Duration::from_secs(s)),
            ..LetterFilter::default()
        };
        let newer = |s| LetterFilter {
            newer_than: Some(Duration::from_secs(s)),
            ..LetterFilter::default()
        };
        assert!(admits(older(60), &readable()) && !admits(older(61), &readable()));
        assert!(admits(newer(61), &readable()) && !admits(newer(60), &readable()));
    }

    #[test]
    fn a_letter_that_cannot_be_opened_is_not_hidden_by_what_it_may_say() {
        let filter = LetterFilter {
            reason: Some("code 2".to_owned()),
            subject: Some(Filter::parse("vak.work.w1.tester.task").unwrap()),
            ..LetterFilter::default()
        };
        assert!(admits(filter, &unreadable()));
    }
}
