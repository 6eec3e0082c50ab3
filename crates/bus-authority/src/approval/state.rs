//! How an approval stands, and the stored events that bring it there.

use bus_core::{ApprovalRequest, Authorization, EndKind, Seq};
use bus_envelope::{EventHash, Timestamp, TraceContext};
use bus_subjects::AgentId;

/// How an approval stands at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// It waits for its verdict.
    Open,
    /// It has its verdict, which was not used.
    Resolved,
    /// Its one use was taken.
    Consumed,
    /// Its time is over since then.
    Expired {
        /// Since when.
        at: Timestamp,
    },
    /// It was taken back.
    Withdrawn,
    /// Another request has its place.
    Superseded,
}

/// What was asked, as who may read requests knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The id of the request's envelope.
    pub id: String,
    /// When, by the asker's clock.
    pub at: Timestamp,
    /// What for.
    pub request: ApprovalRequest,
}

/// A stored verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The leaf hash of its record.
    pub leaf: EventHash,
    /// The id of the request it answers.
    pub request_id: String,
    /// Who gave it.
    pub by: AgentId,
    /// When, by that agent's clock.
    pub at: Timestamp,
    /// What was chosen.
    pub choice: String,
    /// What was added.
    pub note: Option<String>,
    /// What it is for; without it, it cannot be used.
    pub authorization: Option<Authorization>,
    /// From when on it cannot be used.
    pub valid_until: Option<Timestamp>,
    /// The trace it belongs to, for who goes on in it.
    pub trace: Option<TraceContext>,
}

/// A stored end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Which.
    pub kind: EndKind,
    /// The leaf hash of its record.
    pub leaf: EventHash,
    /// Where that is stored.
    pub seq: Seq,
    /// Who ended it.
    pub by: AgentId,
    /// When, by that agent's clock.
    pub at: Timestamp,
    /// The id of the request that took its place.
    pub instead: Option<String>,
}

/// What a stored record says about an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A verdict on it, and whether its signer may give one.
    Verdict {
        /// The verdict.
        verdict: Box<Verdict>,
        /// Whether the signer is an operator and no worker.
        may_resolve: bool,
    },
    /// Where requests are answered: it is to be answered no more.
    Closed {
        /// A withdrawal, or a request in its place.
        end: End,
        /// Whether the signer is an operator and no worker.
        may_resolve: bool,
    },
    /// On the receipts of its session, where uses are decided.
    Ended(End),
}

impl State {
    /// The word for it, as `--json` has it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Resolved => "resolved",
            Self::Consumed => "consumed",
            Self::Expired { .. } => "expired",
            Self::Withdrawn => "withdrawn",
            Self::Superseded => "superseded",
        }
    }
}

impl From<EndKind> for State {
    fn from(kind: EndKind) -> Self {
        match kind {
            EndKind::Consumed => Self::Consumed,
            EndKind::Withdrawn => Self::Withdrawn,
            EndKind::Superseded => Self::Superseded,
        }
    }
}
