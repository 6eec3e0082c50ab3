//! The registered patterns themselves: plane, words, and the sets of subjects they span.

use crate::{Filter, WorkspaceId, address::ROOT};

/// One registered pattern of subjects, without ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressKind {
    /// `vak.events.<ws>.<session>.tokens`
    Tokens,
    /// `vak.events.<ws>.<session>.terminal`
    Terminal,
    /// `vak.events.<ws>.<session>.telemetry`
    Telemetry,
    /// `vak.events.<ws>.<session>.alert`
    Alert,
    /// `vak.work.<ws>.<role>.task`
    Task,
    /// `vak.agent.<ws>.<agent>.inbox`
    Inbox,
    /// `vak.receipts.<ws>.<session>.completed`
    Receipt,
    /// `vak.approvals.<ws>.<session>.request`
    Approval,
    /// `vak.dlq.<ws>.<agent>.failed`
    DeadLetter,
    /// `vak.room.<ws>.<room>.message`
    RoomMessage,
    /// `vak.room.<ws>.<room>.control`
    RoomControl,
    /// `vak.keys.<ws>.<agent>.grant`
    KeyGrant,
    /// `vak.state.<ws>.<kind>.changed`
    StateChanged,
    /// `vak.outbox.<ws>.<agent>.record`
    Outbox,
    /// `vak.history.<ws>.<kind>.<key>`
    History,
    /// `vak.call.<ws>.<module>.<verb>`
    Call,
    /// `vak.conditions.<ws>.<kind>.<key>`
    Condition,
}

/// How the bus carries a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Plane {
    /// Fan-out to whoever listens now; a slow listener loses the oldest and is told how many.
    Ephemeral,
    /// Stored before the append is answered.
    Durable,
    /// A request that is answered once.
    Call,
}

impl AddressKind {
    /// Every registered pattern, in the order of the specification.
    pub const ALL: [Self; 17] = [
        Self::Tokens,
        Self::Terminal,
        Self::Telemetry,
        Self::Alert,
        Self::Task,
        Self::Inbox,
        Self::Receipt,
        Self::Approval,
        Self::DeadLetter,
        Self::RoomMessage,
        Self::RoomControl,
        Self::KeyGrant,
        Self::StateChanged,
        Self::Outbox,
        Self::History,
        Self::Call,
        Self::Condition,
    ];

    /// The second level of the pattern, such as `events`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Tokens | Self::Terminal | Self::Telemetry | Self::Alert => "events",
            Self::Task => "work",
            Self::Inbox => "agent",
            Self::Receipt => "receipts",
            Self::Approval => "approvals",
            Self::DeadLetter => "dlq",
            Self::RoomMessage | Self::RoomControl => "room",
            Self::KeyGrant => "keys",
            Self::StateChanged => "state",
            Self::Outbox => "outbox",
            Self::History => "history",
            Self::Call => "call",
            Self::Condition => "conditions",
        }
    }

    /// The last level of the pattern, such as `task`; `None` where an id stands there.
    #[must_use]
    pub fn verb(self) -> Option<&'static str> {
        match self {
            Self::Tokens => Some("tokens"),
            Self::Terminal => Some("terminal"),
            Self::Telemetry => Some("telemetry"),
            Self::Alert => Some("alert"),
            Self::Task => Some("task"),
            Self::Inbox => Some("inbox"),
            Self::Receipt => Some("completed"),
            Self::Approval => Some("request"),
            Self::DeadLetter => Some("failed"),
            Self::RoomMessage => Some("message"),
            Self::RoomControl => Some("control"),
            Self::KeyGrant => Some("grant"),
            Self::StateChanged => Some("changed"),
            Self::Outbox => Some("record"),
            Self::History | Self::Call | Self::Condition => None,
        }
    }

    /// How the bus carries subjects of this pattern.
    #[must_use]
    pub fn plane(self) -> Plane {
        match self {
            Self::Tokens | Self::Terminal | Self::Telemetry | Self::Alert | Self::StateChanged => {
                Plane::Ephemeral
            }
            Self::Call => Plane::Call,
            _ => Plane::Durable,
        }
    }

    /// Whether everything on this pattern is evidence: one chain for all writers (D5).
    #[must_use]
    pub fn is_evidence(self) -> bool {
        matches!(self, Self::Receipt | Self::Approval | Self::RoomControl)
    }

    /// Every subject of this pattern, in one workspace or in all of them.
    #[must_use]
    pub fn filter(self, workspace: Option<&WorkspaceId>) -> Filter {
        self.filter_of(workspace, None)
    }

    /// The subjects of this pattern whose fourth level is `id`; `None` stands for any.
    pub(crate) fn filter_of(self, workspace: Option<&WorkspaceId>, id: Option<&str>) -> Filter {
        let workspace = workspace.map_or("*", WorkspaceId::as_str);
        let (id, last) = (id.unwrap_or("*"), self.verb().unwrap_or("*"));
        Filter::trusted(format!("{ROOT}.{}.{workspace}.{id}.{last}", self.word()))
    }
}

impl std::fmt::Display for AddressKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.filter(None))
    }
}
