//! Hash chains: whose events form one, where it begins and where it stands.

use uuid::Uuid;

use crate::hash::Parts;
use crate::{EventHash, MessageEnvelope};
use bus_subjects::{Address, AgentId, Plane, Subject, WorkspaceId};

/// Whose events form one chain (D5).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChainScope {
    /// What one process life of an agent sends to one subject: one writer, no coordination.
    Incarnation {
        /// The workspace.
        workspace: WorkspaceId,
        /// The agent.
        agent: AgentId,
        /// Its process life.
        incarnation: Uuid,
        /// The subject.
        subject: Subject,
    },
    /// What anybody sends to one evidence subject: many writers, compare-and-set on the head.
    Subject {
        /// The workspace.
        workspace: WorkspaceId,
        /// The subject.
        subject: Subject,
    },
}

impl MessageEnvelope {
    /// The extension by which the first event of a process life names the earlier life of the same
    /// agent whose chain it goes on from.
    pub const CONTINUES: &'static str = "continues";

    /// The earlier process life that this event, the first of its own, goes on from (D5).
    ///
    /// The word counts only where one may continue: in a signed event, because nothing else binds
    /// it, with an event before it, on a subject where [`ChainScope::may_continue`] holds.
    #[must_use]
    pub fn continues(&self) -> Option<Uuid> {
        let text = self.extensions.get(Self::CONTINUES)?;
        let life = Uuid::try_parse(text).ok()?;
        let counts = *text == life.to_string()
            && life != self.lineage.incarnation
            && self.lineage.seq_num > 1
            && self.signature.is_some()
            && ChainScope::may_continue(&self.subject);
        counts.then_some(life)
    }
}

/// Where a chain stands: the last event of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChainHead {
    /// The sequence number of the last event; 0 when there is none yet.
    pub seq: u64,
    /// The leaf hash of the last event, or the genesis hash.
    pub hash: EventHash,
}

impl ChainScope {
    /// The scope of `envelope` when its sender writes chains of its own.
    #[must_use]
    pub fn incarnation_of(envelope: &MessageEnvelope) -> Self {
        Self::Incarnation {
            workspace: envelope.lineage.workspace.clone(),
            agent: envelope.lineage.agent.clone(),
            incarnation: envelope.lineage.incarnation,
            subject: envelope.subject.clone(),
        }
    }

    /// The scope of `envelope` when its subject has one chain for all senders.
    #[must_use]
    pub fn subject_of(envelope: &MessageEnvelope) -> Self {
        Self::Subject {
            workspace: envelope.lineage.workspace.clone(),
            subject: envelope.subject.clone(),
        }
    }

    /// Whether a later process life may go on from an earlier one's chain on `subject`: where
    /// messages are stored, and each sender has a chain of its own.
    #[must_use]
    pub fn may_continue(subject: &Subject) -> bool {
        Address::parse(subject)
            .is_ok_and(|address| address.plane() == Plane::Durable && !address.is_evidence())
    }

    /// The chain of the process life `life` of the same agent on the same subject; `None` where
    /// one chain is everybody's.
    #[must_use]
    pub fn of_life(&self, life: Uuid) -> Option<Self> {
        match self {
            Self::Incarnation { workspace, agent, subject, .. } => Some(Self::Incarnation {
                workspace: workspace.clone(),
                agent: agent.clone(),
                incarnation: life,
                subject: subject.clone(),
            }),
            Self::Subject { .. } => None,
        }
    }

    /// Whether `envelope` belongs to this chain.
    #[must_use]
    pub fn contains(&self, envelope: &MessageEnvelope) -> bool {
        let lineage = &envelope.lineage;
        match self {
            Self::Incarnation { workspace, agent, incarnation, subject } => {
                (workspace, agent, incarnation, subject)
                    == (&lineage.workspace, &lineage.agent, &lineage.incarnation, &envelope.subject)
            }
            Self::Subject { workspace, subject } => {
                (workspace, subject) == (&lineage.workspace, &envelope.subject)
            }
        }
    }

    /// The hash that the first event names as its predecessor, so that a chain is bound to its
    /// place.
    #[must_use]
    pub fn genesis(&self) -> EventHash {
        let mut bytes = Vec::new();
        match self {
            Self::Incarnation { workspace, agent, incarnation, subject } => {
                let mut parts = Parts::new("vak-bus/genesis/incarnation/v1", &mut bytes);
                parts
                    .add(workspace.as_str().as_bytes())
                    .add(agent.as_str().as_bytes())
                    .add(incarnation.as_bytes())
                    .add(subject.as_str().as_bytes());
                parts.finish()
            }
            Self::Subject { workspace, subject } => {
                let mut parts = Parts::new("vak-bus/genesis/subject/v1", &mut bytes);
                parts.add(workspace.as_str().as_bytes()).add(subject.as_str().as_bytes());
                parts.finish()
            }
        }
    }
}

impl ChainHead {
    /// The head of a chain without events; the first one gets the sequence number 1.
    #[must_use]
    pub fn genesis(scope: &ChainScope) -> Self {
        Self { seq: 0, hash: scope.genesis() }
    }

    /// The head of a chain whose last event is `envelope`.
    #[must_use]
    pub fn of(envelope: &MessageEnvelope) -> Self {
        Self::of_leaf(envelope, envelope.compute_hash())
    }

    /// The head of a chain whose last event is `envelope`, whose leaf was just computed.
    #[must_use]
    pub const fn of_leaf(envelope: &MessageEnvelope, leaf: EventHash) -> Self {
        Self { seq: envelope.lineage.seq_num, hash: leaf }
    }

    /// The head after `envelope` was stored. Whether it follows this head is
    /// [`is_followed_by`](Self::is_followed_by)'s question.
    #[must_use]
    pub fn after(&self, envelope: &MessageEnvelope) -> Self {
        Self::of(envelope)
    }

    /// The sequence number of the next event.
    #[must_use]
    pub const fn next_seq(&self) -> u64 {
        self.seq.saturating_add(1)
    }

    /// Whether `envelope` is the next event after this head.
    #[must_use]
    pub fn is_followed_by(&self, envelope: &MessageEnvelope) -> bool {
        self.hash.ct_eq(&envelope.lineage.prev_event_hash)
            & (self.next_seq() == envelope.lineage.seq_num)
    }
}
