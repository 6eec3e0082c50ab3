//! The registered subjects of the bus, typed: what a subject means and how it is written.

use crate::{
    AddressKind, AgentId, Filter, KeyName, KindName, ModuleName, Plane, RoleName, RoomId,
    SessionId, Subject, SubjectError, Token, VerbName, WorkspaceId,
};

macro_rules! addresses {
    (
        closed {$(
            $(#[$doc:meta])*
            $name:ident { $id:ident: $id_type:ident } = $word:literal, $last:literal;
        )*}
        open {$(
            $(#[$open_doc:meta])*
            $open:ident { $mid:ident: $mid_type:ident, $end:ident: $end_type:ident }
                = $open_word:literal;
        )*}
    ) => {
        /// A registered subject with its ids: `vak.<word>.<workspace>.<id>.<verb or id>`.
        ///
        /// Writing and reading back is lossless, and no two addresses are written alike.
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Address {
            $(
                $(#[$doc])*
                $name {
                    /// The workspace the subject belongs to.
                    workspace: WorkspaceId,
                    /// Whose subject it is within the workspace.
                    $id: $id_type,
                },
            )*
            $(
                $(#[$open_doc])*
                $open {
                    /// The workspace the subject belongs to.
                    workspace: WorkspaceId,
                    /// The fourth level.
                    $mid: $mid_type,
                    /// The fifth level.
                    $end: $end_type,
                },
            )*
        }

        impl Address {
            /// Reads a subject as an address.
            ///
            /// # Errors
            /// [`SubjectError::NotRegistered`] when the subject has no registered pattern, and the
            /// reason with the field's name when an id in it is no valid id.
            pub fn parse(subject: &Subject) -> Result<Self, SubjectError> {
                let unknown = || SubjectError::NotRegistered { subject: subject.as_str().into() };
                let [root, word, workspace, middle, last] = five(subject).ok_or_else(unknown)?;
                if root != ROOT {
                    return Err(unknown());
                }
                match (word, last) {
                    $(($word, $last) => Ok(Self::$name {
                        workspace: WorkspaceId::parse(workspace)?,
                        $id: $id_type::parse(middle)?,
                    }),)*
                    $(($open_word, last) => Ok(Self::$open {
                        workspace: WorkspaceId::parse(workspace)?,
                        $mid: $mid_type::parse(middle)?,
                        $end: $end_type::parse(last)?,
                    }),)*
                    _ => Err(unknown()),
                }
            }

            /// The pattern of the address that [`parse`](Self::parse) would read; keeps nothing.
            ///
            /// # Errors
            /// As [`parse`](Self::parse).
            pub fn kind_of(subject: &Subject) -> Result<AddressKind, SubjectError> {
                let unknown = || SubjectError::NotRegistered { subject: subject.as_str().into() };
                let [root, word, workspace, middle, last] = five(subject).ok_or_else(unknown)?;
                if root != ROOT {
                    return Err(unknown());
                }
                match (word, last) {
                    $(($word, $last) => {
                        WorkspaceId::check(workspace)?;
                        $id_type::check(middle)?;
                        Ok(AddressKind::$name)
                    })*
                    $(($open_word, last) => {
                        WorkspaceId::check(workspace)?;
                        $mid_type::check(middle)?;
                        $end_type::check(last)?;
                        Ok(AddressKind::$open)
                    })*
                    _ => Err(unknown()),
                }
            }

            /// The registered pattern of this address.
            #[must_use]
            pub fn kind(&self) -> AddressKind {
                match self {
                    $(Self::$name { .. } => AddressKind::$name,)*
                    $(Self::$open { .. } => AddressKind::$open,)*
                }
            }

            /// The workspace the address belongs to.
            #[must_use]
            pub fn workspace(&self) -> &WorkspaceId {
                match self {
                    $(Self::$name { workspace, .. })|* => workspace,
                    $(Self::$open { workspace, .. })|* => workspace,
                }
            }

            fn ids(&self) -> (&Token, &str) {
                match self {
                    $(Self::$name { $id, .. } => ($id.token(), $last),)*
                    $(Self::$open { $mid, $end, .. } => ($mid.token(), $end.as_str()),)*
                }
            }
        }
    };
}

addresses! {
    closed {
        /// `vak.events.<ws>.<session>.tokens`: what a model says, as it says it.
        Tokens { session: SessionId } = "events", "tokens";
        /// `vak.events.<ws>.<session>.terminal`: chunks of a terminal.
        Terminal { session: SessionId } = "events", "terminal";
        /// `vak.events.<ws>.<session>.telemetry`: samples of CPU and memory.
        Telemetry { session: SessionId } = "events", "telemetry";
        /// `vak.events.<ws>.<session>.alert`: what somebody should look at, signed by itself.
        Alert { session: SessionId } = "events", "alert";
        /// `vak.work.<ws>.<role>.task`: the work queue of a role.
        Task { role: RoleName } = "work", "task";
        /// `vak.agent.<ws>.<agent>.inbox`: the mailbox of one agent.
        Inbox { agent: AgentId } = "agent", "inbox";
        /// `vak.receipts.<ws>.<session>.completed`: receipts of finished tasks.
        Receipt { session: SessionId } = "receipts", "completed";
        /// `vak.approvals.<ws>.<session>.request`: questions that wait for a verdict.
        Approval { session: SessionId } = "approvals", "request";
        /// `vak.dlq.<ws>.<agent>.failed`: what an agent gave up.
        DeadLetter { agent: AgentId } = "dlq", "failed";
        /// `vak.room.<ws>.<room>.message`: what is said in a room.
        RoomMessage { room: RoomId } = "room", "message";
        /// `vak.room.<ws>.<room>.control`: epochs and members of a room.
        RoomControl { room: RoomId } = "room", "control";
        /// `vak.keys.<ws>.<agent>.grant`: sealed keys for one agent.
        KeyGrant { agent: AgentId } = "keys", "grant";
        /// `vak.state.<ws>.<kind>.changed`: explains a change of a watched value.
        StateChanged { kind: KindName } = "state", "changed";
        /// `vak.outbox.<ws>.<agent>.record`: what an agent sent to a hub that may be away.
        Outbox { agent: AgentId } = "outbox", "record";
    }
    open {
        /// `vak.history.<ws>.<kind>.<key>`: the past of a watched value.
        History { kind: KindName, key: KeyName } = "history";
        /// `vak.call.<ws>.<module>.<verb>`: a verb that answers.
        Call { module: ModuleName, verb: VerbName } = "call";
        /// `vak.conditions.<ws>.<kind>.<key>`: a condition that is open.
        Condition { kind: KindName, key: KeyName } = "conditions";
    }
}

impl Address {
    /// The concrete subject of this address.
    #[must_use]
    pub fn subject(&self) -> Subject {
        let word = self.kind().word();
        let (middle, last) = self.ids();
        Subject::trusted(format!("{ROOT}.{word}.{}.{middle}.{last}", self.workspace()))
    }

    /// How the bus carries this address.
    #[must_use]
    pub fn plane(&self) -> Plane {
        self.kind().plane()
    }

    /// Whether everything on this address is evidence: one chain for all writers (D5).
    #[must_use]
    pub fn is_evidence(&self) -> bool {
        self.kind().is_evidence()
    }

    /// Every work queue of a workspace: `vak.work.<ws>.*.task`.
    #[must_use]
    pub fn filter_work(workspace: &WorkspaceId) -> Filter {
        AddressKind::Task.filter(Some(workspace))
    }

    /// Every mailbox of a workspace: `vak.agent.<ws>.*.inbox`.
    #[must_use]
    pub fn filter_inboxes(workspace: &WorkspaceId) -> Filter {
        AddressKind::Inbox.filter(Some(workspace))
    }

    /// Every receipt of a workspace: `vak.receipts.<ws>.*.completed`.
    #[must_use]
    pub fn filter_receipts(workspace: &WorkspaceId) -> Filter {
        AddressKind::Receipt.filter(Some(workspace))
    }

    /// Every approval request of a workspace: `vak.approvals.<ws>.*.request`.
    #[must_use]
    pub fn filter_approvals(workspace: &WorkspaceId) -> Filter {
        AddressKind::Approval.filter(Some(workspace))
    }

    /// Every dead letter of a workspace: `vak.dlq.<ws>.*.failed`.
    #[must_use]
    pub fn filter_dead_letters(workspace: &WorkspaceId) -> Filter {
        AddressKind::DeadLetter.filter(Some(workspace))
    }

    /// Every live event of a workspace, of any session: `vak.events.<ws>.>`.
    #[must_use]
    pub fn filter_events(workspace: &WorkspaceId) -> Filter {
        Filter::trusted(format!("{ROOT}.events.{workspace}.>"))
    }

    /// Every live event of one session: `vak.events.<ws>.<session>.>`.
    #[must_use]
    pub fn filter_session_events(workspace: &WorkspaceId, session: &SessionId) -> Filter {
        Filter::trusted(format!("{ROOT}.events.{workspace}.{session}.>"))
    }

    /// Everything that was recorded of a workspace's live events, by kind:
    /// `vak.history.<ws>.tokens.*` and `vak.history.<ws>.terminal.*`, each with the session last.
    #[must_use]
    pub fn filter_recordings(workspace: &WorkspaceId) -> [Filter; 2] {
        [AddressKind::Tokens, AddressKind::Terminal]
            .map(|kind| AddressKind::History.filter_of(Some(workspace), kind.verb()))
    }

    /// Everything of a workspace below the root: `vak.*.<ws>.>`.
    #[must_use]
    pub fn filter_workspace(workspace: &WorkspaceId) -> Filter {
        Filter::trusted(format!("{ROOT}.*.{workspace}.>"))
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (middle, last) = self.ids();
        write!(f, "{ROOT}.{}.{}.{middle}.{last}", self.kind().word(), self.workspace())
    }
}

impl std::str::FromStr for Address {
    type Err = SubjectError;

    fn from_str(text: &str) -> Result<Self, SubjectError> {
        Self::parse(&Subject::parse(text)?)
    }
}

impl From<&Address> for Subject {
    fn from(address: &Address) -> Self {
        address.subject()
    }
}

fn five(subject: &Subject) -> Option<[&str; 5]> {
    let mut rest = Some(subject.as_str());
    let mut next = || {
        let levels = rest?;
        let Some(dot) = levels.bytes().position(|byte| byte == b'.') else { return rest.take() };
        rest = levels.get(dot + 1..);
        levels.get(..dot)
    };
    let five = [next()?, next()?, next()?, next()?, next()?];
    next().is_none().then_some(five)
}

/// The first level of every registered subject (D1).
pub(crate) const ROOT: &str = "vak";

#[cfg(test)]
mod tests;
