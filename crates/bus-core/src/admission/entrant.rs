//! Who comes in: the owner of a certificate, or the bearer of a ticket.

use bus_envelope::Timestamp;
use bus_subjects::{AclPolicy, AgentId, Role, WorkspaceId};

use crate::{Certificate, EntryTicket};

/// Who comes in, by what was shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entrant {
    /// The owner of a certificate's key.
    Member(Certificate),
    /// Whoever has a ticket.
    Bearer(EntryTicket),
}

impl Entrant {
    /// The workspace it comes into.
    #[must_use]
    pub fn workspace(&self) -> &WorkspaceId {
        match self {
            Self::Member(certificate) => &certificate.workspace,
            Self::Bearer(ticket) => &ticket.workspace,
        }
    }

    /// The agent it is.
    #[must_use]
    pub fn agent(&self) -> &AgentId {
        match self {
            Self::Member(certificate) => &certificate.agent,
            Self::Bearer(ticket) => &ticket.agent,
        }
    }

    /// Its roles.
    #[must_use]
    pub fn roles(&self) -> &[Role] {
        match self {
            Self::Member(certificate) => &certificate.roles,
            Self::Bearer(ticket) => &ticket.roles,
        }
    }

    /// When its right ends by itself; `None`: never.
    #[must_use]
    pub fn until(&self) -> Option<Timestamp> {
        match self {
            Self::Member(certificate) => certificate.expires,
            Self::Bearer(ticket) => Some(ticket.end),
        }
    }

    /// What it may do: what its roles give within the session and the queue that the certificate or
    /// the ticket is bound to, if it is, else in the whole workspace.
    #[must_use]
    pub fn policy(&self) -> AclPolicy {
        match self {
            Self::Member(certificate) => certificate.policy(),
            Self::Bearer(ticket) => ticket.policy(),
        }
    }
}
