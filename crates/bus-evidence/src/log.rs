//! The logs of a bundle: their file names, their origins, and what belongs into each.

use bus_envelope::MessageEnvelope;
use bus_subjects::{Address, SessionId, WorkspaceId};

/// A log of envelopes in a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Log {
    /// The tasks of the session.
    Tasks,
    /// The receipts of its finished tasks: one chain for all workers.
    Receipts,
    /// Its tasks that were given up.
    DeadLetters,
}

impl Log {
    /// Every log, in the order in which they are verified.
    pub const ALL: [Self; 3] = [Self::Tasks, Self::Receipts, Self::DeadLetters];

    /// The name of the log: its file is `<name>.jsonl`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tasks => "tasks",
            Self::Receipts => "receipts",
            Self::DeadLetters => "dead-letters",
        }
    }

    /// Why `envelope` does not belong into this log of that session; `None` when it does.
    pub(crate) fn misplaced(self, place: &Place, envelope: &MessageEnvelope) -> Option<String> {
        if envelope.lineage.workspace != place.workspace {
            return Some(format!("it is of the workspace {}", envelope.lineage.workspace));
        }
        if envelope.lineage.session.as_ref().is_some_and(|session| *session != place.session) {
            return Some("it is of another session".into());
        }
        let address = match Address::parse(&envelope.subject) {
            Ok(address) => address,
            Err(error) => return Some(error.to_string()),
        };
        let fits = match (self, &address) {
            (Self::Receipts, Address::Receipt { session, .. }) => *session == place.session,
            (Self::Tasks, Address::Task { .. }) => true,
            (Self::DeadLetters, Address::DeadLetter { .. }) => true,
            _ => false,
        };
        let fits = fits && *address.workspace() == place.workspace;
        (!fits).then(|| format!("its subject is {}", envelope.subject))
    }
}

impl std::fmt::Display for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Whose evidence a bundle holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) workspace: WorkspaceId,
    pub(crate) session: SessionId,
}

impl Place {
    /// The origin of the checkpoints of the log `name`.
    pub(crate) fn origin(&self, name: &str) -> String {
        format!("{ORIGIN}/{}/{}/{name}", self.workspace, self.session)
    }

    /// Reads an origin back: the place and the log's name.
    pub(crate) fn parse(origin: &str) -> Option<(Self, &str)> {
        let mut parts = origin.split('/');
        let mut part = || parts.next();
        let (root, workspace, session, name) = (part()?, part()?, part()?, part()?);
        if root != ORIGIN || parts.next().is_some() {
            return None;
        }
        let workspace = WorkspaceId::parse(workspace).ok()?;
        let session = SessionId::parse(session).ok()?;
        Some((Self { workspace, session }, name))
    }
}

/// The log of certificates; its entries are no envelopes.
pub(crate) const CERTIFICATES: &str = "certificates";

/// The names of all logs, in the order in which they are verified.
pub(crate) const NAMES: [&str; 4] =
    [CERTIFICATES, Log::Tasks.name(), Log::Receipts.name(), Log::DeadLetters.name()];

/// The names of the logs of a bundle without tasks, in the same order.
pub(crate) const NAMES_OF_RECORDS: [&str; 3] =
    [CERTIFICATES, Log::Receipts.name(), Log::DeadLetters.name()];

/// The file of a log.
pub(crate) fn entries_file(name: &str) -> String {
    format!("{name}.jsonl")
}

/// The file of a log's checkpoint.
pub(crate) fn checkpoint_file(name: &str) -> String {
    format!("{name}.checkpoint")
}

const ORIGIN: &str = "vakbus";
