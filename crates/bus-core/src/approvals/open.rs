//! The open set of approvals: a pure fold over the records of their stream.

use std::collections::{HashMap, HashSet};

use bus_envelope::{EventHash, Timestamp, TraceContext};
use bus_subjects::{Address, AgentId, SessionId};

use super::{ApprovalEnd, ApprovalRequest, ApprovalVerdict, EndKind};
use crate::{Opened, Seq};

/// The requests without a verdict, from the records applied so far.
///
/// A request leaves it when its first verdict is applied; both records stay where they are stored.
/// It keeps what is open and the hashes of what was, so its size is bounded by that of the stream.
#[derive(Debug, Clone, Default)]
pub struct OpenApprovals {
    open: HashMap<EventHash, OpenApproval>,
    /// So that a request that is stored a second time is not open again.
    closed: HashSet<EventHash>,
    /// The open request under each id that somebody chose in a session.
    by_id: HashMap<(SessionId, AgentId, String), EventHash>,
    watched: Option<EventHash>,
    closed_as: Option<Closed>,
    passed_over: u64,
}

/// A request that waits for its verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenApproval {
    /// Where its record is stored.
    pub seq: Seq,
    /// The session it was asked in.
    pub session: SessionId,
    /// The id of its envelope.
    pub id: String,
    /// Its leaf hash: what names it, and the cause of its verdict.
    pub hash: EventHash,
    /// Who asked.
    pub asker: AgentId,
    /// When, by the asker's clock.
    pub asked: Timestamp,
    /// What for.
    pub request: ApprovalRequest,
    /// The trace it belongs to.
    pub trace: TraceContext,
}

/// What became of the watched request when it was open no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Closed {
    Resolved(Box<ResolvedApproval>),
    Withdrawn { approval: Box<OpenApproval>, by: AgentId },
    Superseded { approval: Box<OpenApproval>, by: EventHash },
}

/// A request with its verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedApproval {
    /// The request.
    pub approval: OpenApproval,
    /// The verdict.
    pub verdict: ApprovalVerdict,
    /// Who gave it.
    pub by: AgentId,
    /// The leaf hash of its record.
    pub hash: EventHash,
}

/// What a record did to the open set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Applied {
    /// One more request is open.
    Asked,
    /// A request got its verdict and is open no more.
    Resolved,
    /// A request was taken back and is open no more.
    Withdrawn,
    /// One more request is open, and the one whose place it takes is not.
    Superseded,
    /// Nothing: it is of another kind, cannot be read, answers nothing that is open, or comes from
    /// somebody who may not answer.
    Ignored,
}

impl OpenApproval {
    /// The id under which the verdict on the request with the leaf hash `request` is stored: one
    /// for all who resolve, so that a second one is not stored.
    #[must_use]
    pub fn verdict_id(request: &EventHash) -> String {
        format!("{request}.verdict")
    }

    /// The id under which who asked takes back the request with the leaf hash `request`.
    #[must_use]
    pub fn withdrawal_id(request: &EventHash) -> String {
        format!("{request}.withdrawn")
    }
}

impl ResolvedApproval {
    /// The id under which the stored verdict with the leaf hash `verdict` is sent to who asked.
    #[must_use]
    pub fn notice_id(verdict: &EventHash) -> String {
        format!("{verdict}.notice")
    }

    /// The leaf hash of the stored verdict that the message with this id tells of.
    #[must_use]
    pub fn verdict_of_notice(id: &str) -> Option<EventHash> {
        EventHash::parse(id.strip_suffix(".notice")?).ok()
    }
}

impl OpenApprovals {
    /// The open set, and whatever becomes of the request with the hash `request`.
    #[must_use]
    pub fn watching(request: EventHash) -> Self {
        Self { watched: Some(request), ..Self::default() }
    }

    /// Applies the record stored at `seq`, checked and opened; `may_resolve` says whether its
    /// signer may answer requests. Records are applied in the order in which they are stored.
    pub fn apply(&mut self, seq: Seq, record: &Opened, may_resolve: bool) -> Applied {
        let envelope = &record.envelope;
        let Ok(Address::Approval { session, .. }) = Address::parse(&envelope.subject) else {
            return Applied::Ignored;
        };
        match envelope.event_type.as_str() {
            ApprovalRequest::EVENT_TYPE => self.ask(seq, session, record),
            ApprovalVerdict::EVENT_TYPE if may_resolve => self.resolve(&session, record),
            kind if EndKind::of(kind) == Some(EndKind::Withdrawn) => {
                self.withdraw(&session, record, may_resolve)
            }
            _ => Applied::Ignored,
        }
    }

    /// The open requests in the order in which they were stored.
    #[must_use]
    pub fn list(&self) -> Vec<&OpenApproval> {
        let mut open: Vec<&OpenApproval> = self.open.values().collect();
        open.sort_by_key(|approval| approval.seq);
        open
    }

    /// The open request with this hash.
    #[must_use]
    pub fn get(&self, request: &EventHash) -> Option<&OpenApproval> {
        self.open.get(request)
    }

    /// How many requests are open.
    #[must_use]
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether none is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// How many stored records could not be opened, so that nothing is known of them.
    #[must_use]
    pub const fn passed_over(&self) -> u64 {
        self.passed_over
    }

    /// The watched request, when it was applied, open or not.
    pub(super) fn watched(&self) -> Option<&OpenApproval> {
        if let Some(open) = self.watched.as_ref().and_then(|request| self.open.get(request)) {
            return Some(open);
        }
        match self.closed_as.as_ref()? {
            Closed::Resolved(resolved) => Some(&resolved.approval),
            Closed::Withdrawn { approval, .. } | Closed::Superseded { approval, .. } => {
                Some(approval)
            }
        }
    }

    /// What became of the watched request.
    pub(super) const fn closed_as(&self) -> Option<&Closed> {
        self.closed_as.as_ref()
    }

    /// Notes a record that cannot be opened.
    pub(super) const fn pass_over(&mut self) {
        self.passed_over = self.passed_over.saturating_add(1);
    }

    fn ask(&mut self, seq: Seq, session: SessionId, record: &Opened) -> Applied {
        let Ok(request) = ApprovalRequest::from_json(&record.payload) else {
            return Applied::Ignored;
        };
        if self.open.contains_key(&record.hash) || self.closed.contains(&record.hash) {
            return Applied::Ignored;
        }
        let envelope = &record.envelope;
        let approval = OpenApproval {
            seq,
            session,
            id: envelope.id.clone(),
            hash: record.hash,
            asker: envelope.lineage.agent.clone(),
            asked: envelope.time,
            request,
            trace: envelope.trace.clone(),
        };
        let replaced = self.replace(&approval);
        let of_same_id = self.replace_of_id(&approval);
        self.open.insert(record.hash, approval);
        if replaced || of_same_id { Applied::Superseded } else { Applied::Asked }
    }

    /// Closes the open request that `new` takes the place of: one of the same agent and session.
    fn replace(&mut self, new: &OpenApproval) -> bool {
        let Some(old) = new.request.replaces() else { return false };
        let gives_way = |old: &OpenApproval| old.session == new.session && old.asker == new.asker;
        if !self.open.get(&old).is_some_and(gives_way) {
            return false;
        }
        let by = new.hash;
        self.close(old, |approval| Closed::Superseded { approval: Box::new(approval), by });
        true
    }

    /// Closes the open request whose id `new` has too, of the same agent and session: one name is
    /// that of one approval, and the newer question is the one that is meant.
    fn replace_of_id(&mut self, new: &OpenApproval) -> bool {
        let (session, asker) = (new.session.clone(), new.asker.clone());
        let old = self.by_id.insert((session, asker, new.id.clone()), new.hash);
        let Some(old) = old.filter(|old| self.open.contains_key(old)) else { return false };
        let by = new.hash;
        self.close(old, |approval| Closed::Superseded { approval: Box::new(approval), by });
        true
    }

    fn withdraw(&mut self, session: &SessionId, record: &Opened, may_resolve: bool) -> Applied {
        let read = ApprovalEnd::from_json(EndKind::Withdrawn, &record.payload);
        let (Some(cause), Ok(end)) = (record.envelope.lineage.cause, read) else {
            return Applied::Ignored;
        };
        let by = &record.envelope.lineage.agent;
        let may_end = |asked: &OpenApproval| {
            asked.session == *session
                && (asked.asker == *by || may_resolve)
                && end.request_id().is_none_or(|id| id == asked.id)
                && asked.hash == end.approval()
        };
        if !self.open.get(&cause).is_some_and(may_end) {
            return Applied::Ignored;
        }
        let by = by.clone();
        self.close(cause, |approval| Closed::Withdrawn { approval: Box::new(approval), by });
        Applied::Withdrawn
    }

    /// The request is open no more; what became of it is kept of the watched one.
    fn close(&mut self, request: EventHash, how: impl FnOnce(OpenApproval) -> Closed) {
        self.closed.insert(request);
        let Some(approval) = self.open.remove(&request) else { return };
        let name = (approval.session.clone(), approval.asker.clone(), approval.id.clone());
        // A newer request may have the id by now.
        if self.by_id.get(&name) == Some(&request) {
            self.by_id.remove(&name);
        }
        if self.watched == Some(request) {
            self.closed_as = Some(how(approval));
        }
    }

    fn resolve(&mut self, session: &SessionId, record: &Opened) -> Applied {
        let (Some(cause), Ok(verdict)) =
            (record.envelope.lineage.cause, ApprovalVerdict::from_json(&record.payload))
        else {
            return Applied::Ignored;
        };
        let by = &record.envelope.lineage.agent;
        let answers = |asked: &OpenApproval| {
            asked.session == *session
                && asked.asker != *by
                && asked.id == verdict.request_id()
                && asked.request.choices().iter().any(|choice| choice == verdict.choice())
        };
        if !self.open.get(&cause).is_some_and(answers) {
            return Applied::Ignored;
        }
        let (by, hash) = (by.clone(), record.hash);
        self.close(cause, |approval| {
            Closed::Resolved(Box::new(ResolvedApproval { approval, verdict, by, hash }))
        });
        Applied::Resolved
    }
}

#[cfg(test)]
mod tests;
