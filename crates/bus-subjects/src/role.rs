//! The roles of agents and the policy that each of them needs.

use serde::{Deserialize, Serialize};

use crate::{
    AclPolicy, Address, AddressKind, AgentId, BucketName, Filter, RoleName, SessionId,
    SubjectError, WorkspaceId, address::ROOT,
};

/// What an agent is for; it decides what the agent may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Takes tasks of its role, answers calls of the module that is called like its role, and
    /// reports on its own session.
    Worker,
    /// Hands out tasks, steers agents, asks modules, and sees events, receipts and dead letters;
    /// sends through an outbox of its own.
    Orchestrator,
    /// Watches live events and what was recorded of them, nothing else.
    Observer,
    /// An orchestrator that also runs the place: dead letters, conditions, approvals.
    Operator,
    /// Reads evidence and publishes nothing.
    Auditor,
    /// Sweeps up and keeps: dead letters for any agent, claim marks, conditions, what waits in
    /// outboxes, and recordings.
    Keeper,
    /// A view: sees only what its declaration adds.
    View,
}

/// Whose policy is made: the ids that stand in its rules.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AclScope {
    /// The workspace; no rule reaches beyond it.
    pub workspace: WorkspaceId,
    /// The agent.
    pub agent: AgentId,
    /// The session it works for; `None` stands for any, which only verifiers want.
    pub session: Option<SessionId>,
    /// The role whose tasks it takes; `None` stands for any, which only verifiers want.
    pub role_name: Option<RoleName>,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 7] = [
        Self::Worker,
        Self::Orchestrator,
        Self::Observer,
        Self::Operator,
        Self::Auditor,
        Self::Keeper,
        Self::View,
    ];

    /// The lower-case name of the role.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Orchestrator => "orchestrator",
            Self::Observer => "observer",
            Self::Operator => "operator",
            Self::Auditor => "auditor",
            Self::Keeper => "keeper",
            Self::View => "view",
        }
    }
}

impl AclPolicy {
    /// The policy of an agent in a role. Every role may read its own reply inbox,
    /// `_INBOX.<agent>.>`, and the directory of its workspace: who does not know a signer cannot
    /// check what it signed.
    #[must_use]
    pub fn for_role(role: Role, scope: &AclScope) -> Self {
        let mut policy = match role {
            Role::Worker => worker(scope),
            Role::Orchestrator => orchestrator(scope),
            Role::Observer => observer(scope),
            Role::Operator => Self::union([orchestrator(scope), operator(scope)]),
            Role::Auditor => auditor(scope),
            Role::Keeper => keeper(scope),
            Role::View => Self::default(),
        };
        policy.subscribe.allow.push(reply_inbox(&scope.agent));
        policy.subscribe.allow.push(BucketName::agents(&scope.workspace).all_keys());
        policy
    }

    /// The policy of a worker (S0.70 to S0.73): it publishes its own session's events, receipts
    /// and approval requests (D9), its own dead letters and claim marks; it takes the tasks of its
    /// role, hears the calls of the module of that name, and reads its own mailbox. It can never
    /// publish a task, ask a call nor read an approval.
    #[must_use]
    pub fn for_worker(
        workspace: WorkspaceId,
        session: SessionId,
        agent: AgentId,
        role_name: RoleName,
    ) -> Self {
        let (session, role_name) = (Some(session), Some(role_name));
        Self::for_role(Role::Worker, &AclScope { workspace, agent, session, role_name })
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for Role {
    type Err = SubjectError;

    fn from_str(text: &str) -> Result<Self, SubjectError> {
        let role = Self::ALL.into_iter().find(|role| role.as_str() == text);
        role.ok_or_else(|| SubjectError::UnknownRole { role: text.into(), expected: ROLES })
    }
}

fn worker(scope: &AclScope) -> AclPolicy {
    let mut policy = AclPolicy::default();
    policy.publish.allow = vec![
        session_events(scope),
        of_session(AddressKind::Receipt, scope),
        of_session(AddressKind::Approval, scope),
        own(AddressKind::DeadLetter, scope),
        claims(scope),
        results(scope),
        result_blobs(scope),
    ];
    policy.publish.deny = vec![below("work", scope)];
    policy.subscribe.allow = vec![
        own(AddressKind::Inbox, scope),
        of_role(AddressKind::Task, scope),
        // The workers of a session share one chain of receipts; whoever loses the race for its
        // head reads the new head (D5).
        of_session(AddressKind::Receipt, scope),
        claims(scope),
        results(scope),
        BucketName::cancels(&scope.workspace).flat_keys(),
        // It answers what it hears there; whoever executes the policy sees to that.
        of_role(AddressKind::Call, scope),
    ];
    policy.subscribe.deny = vec![below("approvals", scope)];
    policy
}

fn orchestrator(scope: &AclScope) -> AclPolicy {
    let mut policy = AclPolicy::default();
    policy.publish.allow = vec![
        any(AddressKind::Task, scope),
        any(AddressKind::Inbox, scope),
        any(AddressKind::Call, scope),
        own(AddressKind::Outbox, scope),
    ];
    policy.subscribe.allow = vec![
        own(AddressKind::Inbox, scope),
        Address::filter_events(&scope.workspace),
        any(AddressKind::Receipt, scope),
        any(AddressKind::DeadLetter, scope),
        results(scope),
        result_blobs(scope),
        // What it sent and what became of it.
        own(AddressKind::Outbox, scope),
        outbox_states(scope),
    ];
    policy.subscribe.allow.extend(recordings(scope));
    policy
}

fn observer(scope: &AclScope) -> AclPolicy {
    let mut policy = AclPolicy::default();
    policy.subscribe.allow = vec![Address::filter_events(&scope.workspace)];
    policy.subscribe.allow.extend(recordings(scope));
    policy
}

/// What an operator may beyond an orchestrator. A verdict is stored beside its request and then
/// goes to the asker's mailbox, which an orchestrator may already write to. Work queues are seen,
/// steered, and single tasks taken out of them.
fn operator(scope: &AclScope) -> AclPolicy {
    let mut policy = AclPolicy::default();
    policy.publish.allow = vec![
        any(AddressKind::DeadLetter, scope),
        any(AddressKind::Condition, scope),
        any(AddressKind::Approval, scope),
        discard_dead_letters(),
        BucketName::cancels(&scope.workspace).flat_keys(),
        of_work_stream("STREAM.MSG.DELETE", "", scope),
        of_work_stream("STREAM.INFO", "", scope),
        of_work_stream("CONSUMER.LIST", "", scope),
        of_work_stream("CONSUMER.PAUSE", ".*", scope),
        // To have the host make a backup (ADR 0008).
        of_work_stream("STREAM.SNAPSHOT", "", scope),
        // A record that the hub refused is sent again in its author's name.
        any(AddressKind::Outbox, scope),
        of_outbox_stream("STREAM.INFO", "", scope),
    ];
    policy.subscribe.allow = vec![
        any(AddressKind::Approval, scope),
        any(AddressKind::Condition, scope),
        any(AddressKind::Task, scope),
        claims(scope),
        BucketName::cancels(&scope.workspace).flat_keys(),
        any(AddressKind::Outbox, scope),
    ];
    policy
}

fn auditor(scope: &AclScope) -> AclPolicy {
    let mut policy = AclPolicy::default();
    policy.subscribe.allow = vec![
        any(AddressKind::Receipt, scope),
        any(AddressKind::Approval, scope),
        any(AddressKind::DeadLetter, scope),
        Address::filter_events(&scope.workspace),
    ];
    policy.subscribe.allow.extend(recordings(scope));
    policy
}

fn keeper(scope: &AclScope) -> AclPolicy {
    let mut policy = AclPolicy::default();
    policy.publish.allow = vec![
        any(AddressKind::DeadLetter, scope),
        any(AddressKind::Condition, scope),
        claims(scope),
        discard_dead_letters(),
        outbox_states(scope),
        of_outbox_stream("CONSUMER.DELETE", ".*", scope),
        // A recording has a bound: its oldest part goes.
        discard_recordings(scope),
    ];
    policy.publish.allow.extend(recordings(scope));
    policy.subscribe.allow = vec![
        // A stuck task can only be diverted by reading it from its queue.
        any(AddressKind::Task, scope),
        any(AddressKind::Condition, scope),
        claims(scope),
        // What waits for the hub is carried there and marked.
        any(AddressKind::Outbox, scope),
        outbox_states(scope),
    ];
    policy.subscribe.allow.extend(recordings(scope));
    policy
}

fn any(kind: AddressKind, scope: &AclScope) -> Filter {
    kind.filter(Some(&scope.workspace))
}

fn own(kind: AddressKind, scope: &AclScope) -> Filter {
    kind.filter_of(Some(&scope.workspace), Some(scope.agent.as_str()))
}

fn of_session(kind: AddressKind, scope: &AclScope) -> Filter {
    kind.filter_of(Some(&scope.workspace), scope.session.as_ref().map(SessionId::as_str))
}

fn of_role(kind: AddressKind, scope: &AclScope) -> Filter {
    kind.filter_of(Some(&scope.workspace), scope.role_name.as_ref().map(RoleName::as_str))
}

fn session_events(scope: &AclScope) -> Filter {
    let session = scope.session.as_ref().map_or("*", SessionId::as_str);
    Filter::trusted(format!("{ROOT}.events.{}.{session}.>", scope.workspace))
}

fn below(word: &str, scope: &AclScope) -> Filter {
    Filter::trusted(format!("{ROOT}.{word}.{}.>", scope.workspace))
}

/// The bucket of claim marks; on NATS a write is a publish to `$KV.<bucket>.<key>`.
fn claims(scope: &AclScope) -> Filter {
    BucketName::claims(&scope.workspace).flat_keys()
}

/// The bucket of what tasks gave.
fn results(scope: &AclScope) -> Filter {
    BucketName::results(&scope.workspace).flat_keys()
}

/// What tasks gave that is too large for a bucket.
fn result_blobs(scope: &AclScope) -> Filter {
    Filter::trusted(format!("$O.{}.M.*", BucketName::results(&scope.workspace)))
}

/// What may be done with the stream of a workspace's tasks.
fn of_work_stream(verb: &str, rest: &str, scope: &AclScope) -> Filter {
    Filter::trusted(format!("$JS.API.{verb}.VAK_WORK_{}{rest}", scope.workspace))
}

/// What may be done with the stream of a workspace's outboxes.
fn of_outbox_stream(verb: &str, rest: &str, scope: &AclScope) -> Filter {
    Filter::trusted(format!("$JS.API.{verb}.VAK_OUTBOX_{}{rest}", scope.workspace))
}

/// The bucket of what became of outbox records.
fn outbox_states(scope: &AclScope) -> Filter {
    BucketName::outbox(&scope.workspace).flat_keys()
}

/// Removing one message of the stream of dead letters; which one is for whoever executes it to
/// judge, as the subject does not say.
fn discard_dead_letters() -> Filter {
    Filter::trusted("$JS.API.STREAM.MSG.DELETE.VAK_DLQ".to_owned())
}

/// What was recorded of live events: for whoever may hear those.
fn recordings(scope: &AclScope) -> [Filter; 2] {
    Address::filter_recordings(&scope.workspace)
}

/// Removing one part of what was recorded.
fn discard_recordings(scope: &AclScope) -> Filter {
    Filter::trusted(format!("$JS.API.STREAM.MSG.DELETE.VAK_REC_{}", scope.workspace))
}

fn reply_inbox(agent: &AgentId) -> Filter {
    Filter::trusted(format!("_INBOX.{agent}.>"))
}

const ROLES: &str = "worker, orchestrator, observer, operator, auditor, keeper, view";

#[cfg(test)]
mod tests;
