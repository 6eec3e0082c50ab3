//! What hooks are told: the records of a stream as one JSON object each.

use bus_core::{
    ApprovalRequest, DeadLetterEvent, Endpoint, Error, ErrorKind, GivenUpCause, OpenApproval, Seq,
    Stored, planes,
};
use bus_crypto::CryptoError;
use bus_subjects::{Address, AddressKind, Filter, StreamName, Subject};
use serde_json::{Value, json};

use crate::error::CliError;

/// What a hook is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topic {
    /// Tasks that were given up.
    DeadLetter,
    /// Approvals that were asked for.
    Approval,
}

/// One thing to tell.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct News {
    /// Where its record is stored.
    pub(super) seq: Seq,
    /// What is told.
    pub(super) body: Value,
}

impl Topic {
    /// Its name, as hooks are told it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::DeadLetter => "dead-letter",
            Self::Approval => "approval",
        }
    }

    /// Several of them, in words.
    pub(super) const fn plural(self) -> &'static str {
        match self {
            Self::DeadLetter => "dead letters",
            Self::Approval => "approvals",
        }
    }

    /// The file of its cursors.
    pub(super) const fn file(self) -> &'static str {
        match self {
            Self::DeadLetter => "hook-dead-letter.json",
            Self::Approval => "hook-approval.json",
        }
    }

    /// Where its records are stored.
    pub(super) fn source(self, endpoint: &Endpoint) -> Result<(StreamName, Filter), CliError> {
        let (stream, kind) = match self {
            Self::DeadLetter => (planes::dead_letters_stream()?, AddressKind::DeadLetter),
            Self::Approval => (planes::approvals_stream()?, AddressKind::Approval),
        };
        Ok((stream, kind.filter(Some(endpoint.workspace()))))
    }
}

/// What some records come to. Holds what is told of them, and not the records themselves.
#[derive(Debug)]
pub(super) struct Batch {
    topic: Topic,
    news: Vec<News>,
    /// Where approvals were asked for.
    asked: Vec<Seq>,
    waits: Option<Waits>,
}

/// A record that cannot be opened yet: nothing from there on is told before it can be.
#[derive(Debug)]
pub(super) struct Waits {
    pub(super) seq: Seq,
    pub(super) error: Error,
}

impl Batch {
    /// An empty one.
    pub(super) const fn of(topic: Topic) -> Self {
        Self { topic, news: Vec::new(), asked: Vec::new(), waits: None }
    }

    /// Looks at the next record.
    pub(super) fn see(&mut self, endpoint: &Endpoint, stored: &Stored) {
        if self.waits.is_some() {
            return;
        }
        match self.topic {
            Topic::DeadLetter => self.news.push(letter(endpoint, stored)),
            Topic::Approval => match endpoint.open_record(stored) {
                // Verdicts alone are no news.
                Ok(it) if it.envelope.event_type != ApprovalRequest::EVENT_TYPE => {}
                Ok(_request) => self.asked.push(stored.seq),
                Err(error) if may_open_later(&error) => {
                    self.waits = Some(Waits { seq: stored.seq, error });
                }
                Err(error) => self.news.push(unreadable(endpoint, stored, &error)),
            },
        }
    }

    /// What is told, in order, and what cannot be told yet. Approvals that are not open any more
    /// are passed over.
    ///
    /// # Errors
    /// When the approvals cannot be read.
    pub(super) async fn news(
        self,
        endpoint: &Endpoint,
    ) -> Result<(Vec<News>, Option<Waits>), CliError> {
        let Self { mut news, asked, waits, .. } = self;
        if !asked.is_empty() {
            let open = endpoint.open_approvals(None).await?;
            let is_new = |approval: &&&OpenApproval| asked.contains(&approval.seq);
            news.extend(open.list().iter().filter(is_new).map(|asked| approval(endpoint, asked)));
            news.sort_by_key(|news| news.seq);
        }
        Ok((news, waits))
    }
}

/// Whether a record that cannot be opened may be some day: its key may still come here, unless it
/// was withdrawn.
fn may_open_later(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|it| it.downcast_ref::<CryptoError>());
    error.kind() == ErrorKind::UnknownKey
        && !matches!(source, Some(CryptoError::WithdrawnKey { .. }))
}

/// A record of approvals that says nothing here: it may ask for one.
fn unreadable(endpoint: &Endpoint, stored: &Stored, error: &Error) -> News {
    let body = json!({
        "hook": Topic::Approval.name(),
        "workspace": endpoint.workspace().as_str(),
        "record": stored.seq.0,
        "at": stored.time.to_string(),
        "unreadable": error.to_string(),
    });
    News { seq: stored.seq, body }
}

/// A letter, also one that cannot be opened: then it says why.
fn letter(endpoint: &Endpoint, stored: &Stored) -> News {
    let agent = match Address::parse(&stored.frame.subject) {
        Ok(Address::DeadLetter { agent, .. }) => Some(agent.to_string()),
        _ => None,
    };
    let base = json!({
        "hook": Topic::DeadLetter.name(),
        "workspace": endpoint.workspace().as_str(),
        "letter": stored.seq.0,
        "at": stored.time.to_string(),
        "agent": agent,
    });
    let event = endpoint.open_record(stored).and_then(|opened| {
        let event = DeadLetterEvent::from_json(&opened.payload)?;
        Ok((event, GivenUpCause::of(&opened.envelope)))
    });
    let more = match event {
        Ok((event, kind)) => json!({
            "task": event.envelope_id,
            "kind": kind.map(GivenUpCause::as_str),
            "queue": queue_of(&event.subject),
            "attempts": event.attempts,
            "worker": event.worker_id,
            "reason": event.failure_reason,
        }),
        Err(error) => json!({ "unreadable": error.to_string() }),
    };
    News { seq: stored.seq, body: crate::print::with(base, more) }
}

fn approval(endpoint: &Endpoint, asked: &OpenApproval) -> News {
    let body = json!({
        "hook": Topic::Approval.name(),
        "workspace": endpoint.workspace().as_str(),
        "approval": asked.hash.to_string(),
        "id": asked.id,
        "session": asked.session.as_str(),
        "asker": asked.asker.as_str(),
        "at": asked.asked.to_string(),
        "action": asked.request.action(),
        "target": asked.request.target(),
        "run": asked.request.of_run(),
        "question": asked.request.in_words(),
        "choices": asked.request.choices(),
        "approvalChoice": asked.request.approving_choice(),
    });
    News { seq: asked.seq, body }
}

/// The role of a work queue.
fn queue_of(subject: &str) -> Option<String> {
    match Subject::parse(subject).and_then(|subject| Address::parse(&subject)) {
        Ok(Address::Task { role, .. }) => Some(role.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_waits_for_a_key_that_may_come_and_for_nothing_else() {
        let error = |kind| Error::new(kind, "open", "no");
        assert!(may_open_later(&error(ErrorKind::UnknownKey)));
        let key_id = "w:1:a".to_owned();
        let withdrawn = CryptoError::WithdrawnKey { key_id };
        assert!(!may_open_later(&error(ErrorKind::UnknownKey).because(withdrawn)));
        assert!(!may_open_later(&error(ErrorKind::Denied)));
        assert!(!may_open_later(&error(ErrorKind::Corrupt)));
    }
}
