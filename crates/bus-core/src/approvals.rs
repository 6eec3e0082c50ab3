//! Approvals: requests that are open until their verdict is stored (S0.43, S0.44, D9).

mod open;
mod payload;
mod withdraw;

use bus_envelope::{Draft, EventHash};
use bus_subjects::{Address, AddressKind, Filter, Role, SessionId};

use self::open::Closed;
pub use self::{
    open::{Applied, OpenApproval, OpenApprovals, ResolvedApproval},
    payload::{ApprovalEnd, ApprovalRequest, ApprovalVerdict, Authorization, EndKind},
};
use crate::{
    Certificate, Endpoint, Error, ErrorKind, Opened, Outcome, Recorded, Result, Sent, Stored,
    planes,
};

impl Endpoint {
    /// Asks for an approval in this endpoint's session, under the id `id`, and returns at once. The
    /// verdict comes to this agent's mailbox; its cause is the hash that is returned here.
    ///
    /// A worker may ask and read nothing of what others ask, so its request stands on its own chain
    /// and not on one that it would have to read.
    ///
    /// # Errors
    /// `Invalid` without a session; `Conflict` when the id was used before; else as
    /// [`Endpoint::send`].
    pub async fn request_approval(
        &self,
        id: impl Into<String>,
        request: &ApprovalRequest,
    ) -> Result<Sent> {
        let Some(session) = self.session().cloned() else {
            let detail = "an approval is asked for in a session: this endpoint has none";
            return Err(Error::new(ErrorKind::Invalid, "request approval", detail));
        };
        let draft = self.approval(session, ApprovalRequest::EVENT_TYPE, request.to_json()?);
        self.send_unread(draft.id(id)).await
    }

    /// The approvals that are open now, of one session or of all.
    ///
    /// # Errors
    /// `Denied` when the agent may not read approvals; `NotFound` when their stream is not
    /// declared; `Closed`, `Unavailable`.
    pub async fn open_approvals(&self, session: Option<&SessionId>) -> Result<OpenApprovals> {
        let mut open = OpenApprovals::default();
        self.fold_approvals(session, &mut open).await?;
        Ok(open)
    }

    /// Checks, opens and applies one more stored record, for who keeps an open set and follows the
    /// stream. One that cannot be opened is counted ([`OpenApprovals::passed_over`]) and ignored.
    pub fn apply_approval(&self, open: &mut OpenApprovals, stored: &Stored) -> Applied {
        match self.open_record(stored) {
            Ok(opened) => open.apply(stored.seq, &opened, self.is_by_resolver(&opened)),
            Err(error) => {
                tracing::warn!(seq = stored.seq.0, %error, "an approval record is refused");
                open.pass_over();
                Applied::Ignored
            }
        }
    }

    /// Stores the verdict on the request with the leaf hash `request`, and then sends it to who
    /// asked. The first verdict wins: once it is stored the request is not open any more.
    ///
    /// May be repeated: the same verdict of the same agent is stored once and sent once, within the
    /// time in which mailboxes know ids again, also after a crash between the two.
    ///
    /// # Errors
    /// `Denied` to all but operators, to an agent that is a worker as well, and to who asked;
    /// `NotFound` when there is no such request; `Invalid` for a choice that was not offered or a
    /// note that is too long; `Conflict` when another verdict was first; those of
    /// [`Endpoint::record`] and [`Endpoint::send`]. When the verdict is stored and was not sent the
    /// outcome is unknown. `Conflict` also when the request was withdrawn, another took its place,
    /// or the time for an answer is over.
    pub async fn resolve_approval(
        &self,
        session: &SessionId,
        request: EventHash,
        choice: &str,
        note: Option<&str>,
    ) -> Result<ResolvedApproval> {
        const OP: &str = "resolve approval";
        if !self.may_resolve() {
            let detail = "only an operator who is no worker resolves an approval";
            return Err(Error::new(ErrorKind::Denied, OP, detail).at(self.agent()));
        }
        let mut open = self.approval_of(session, request).await?;
        let approval = open.watched().ok_or_else(|| {
            let detail = format!("no request with the hash {request} is stored");
            Error::new(ErrorKind::NotFound, OP, detail).at(session)
        })?;
        if approval.asker == *self.agent() {
            let detail = "who asks for an approval does not resolve it";
            return Err(Error::new(ErrorKind::Denied, OP, detail).at(self.agent()));
        }
        let now = self.clock().now();
        let verdict = ApprovalVerdict::new(&approval.id, &approval.request, choice, note, now)?;
        if open.closed_as().is_none() {
            if approval.request.is_expired_at(now) {
                let detail = "the time for an answer is over: it has to be asked for again";
                return Err(Error::new(ErrorKind::Conflict, OP, detail).at(session));
            }
            open = self.record_verdict(session, approval.clone(), &verdict).await?;
        }
        let resolved = closed_by_verdict(&open, session)?;
        if resolved.by != *self.agent() || !resolved.verdict.says_the_same(&verdict) {
            let detail = format!("{} resolved it before", resolved.by);
            return Err(Error::new(ErrorKind::Conflict, OP, detail).at(session));
        }
        self.send_verdict(resolved).await?;
        Ok(resolved.clone())
    }

    /// The verdict in a message from this agent's mailbox, when it is one: of an operator, on a
    /// request that its cause names.
    ///
    /// # Errors
    /// `Invalid` when the message is no verdict; `Denied` when its signer may not resolve, or is
    /// this agent itself; `Corrupt` when it cannot be read or names no cause.
    pub fn approval_verdict(&self, opened: &Opened) -> Result<ApprovalVerdict> {
        const OP: &str = "read verdict";
        let envelope = &opened.envelope;
        if envelope.event_type != ApprovalVerdict::EVENT_TYPE {
            let detail = "the message is no verdict on an approval";
            return Err(Error::new(ErrorKind::Invalid, OP, detail).at(&envelope.subject));
        }
        // What is asked by this agent is not resolved by it, here as where verdicts are stored.
        if !self.is_by_resolver(opened) || envelope.lineage.agent == *self.agent() {
            let detail = "the sender may not resolve an approval";
            return Err(Error::new(ErrorKind::Denied, OP, detail).at(&envelope.subject));
        }
        if envelope.lineage.cause.is_none() {
            let detail = "the verdict does not say what it is about";
            return Err(Error::new(ErrorKind::Corrupt, OP, detail).at(&envelope.subject));
        }
        ApprovalVerdict::from_json(&opened.payload)
    }

    /// Stores a verdict, and says how the request stands then.
    async fn record_verdict(
        &self,
        session: &SessionId,
        approval: OpenApproval,
        verdict: &ApprovalVerdict,
    ) -> Result<OpenApprovals> {
        let request = approval.hash;
        let draft = self
            .approval(session.clone(), ApprovalVerdict::EVENT_TYPE, verdict.to_json()?)
            .cause(request)
            .trace(approval.trace);
        let by_id = draft.clone().id(OpenApproval::verdict_id(&request));
        let stored = match self.record(by_id).await {
            Err(error) if error.kind() != ErrorKind::Conflict => return Err(error),
            stored => stored,
        };
        let open = self.approval_of(session, request).await?;
        if open.closed_as().is_some() || stored.is_ok_and(|s| matches!(s, Recorded::Stored(_))) {
            return Ok(open);
        }
        // Something that is no verdict has taken the id: anybody who may ask may do that.
        self.record(draft).await?;
        self.approval_of(session, request).await
    }

    /// Sends a stored verdict to who asked. Its id is made of the stored verdict's hash, so what is
    /// there under that id already is this very message.
    async fn send_verdict(&self, resolved: &ResolvedApproval) -> Result<()> {
        let approval = &resolved.approval;
        let draft = self
            .approval(
                approval.session.clone(),
                ApprovalVerdict::EVENT_TYPE,
                resolved.verdict.to_json()?,
            )
            .id(ResolvedApproval::notice_id(&resolved.hash))
            .cause(approval.hash)
            .trace(approval.trace.clone());
        for _ in 0..2 {
            match self.send_to(&approval.asker, draft.clone()).await {
                Ok(_) => return Ok(()),
                // It is there; or an earlier message to this mailbox met a conflict, and then this
                // one was not tried yet.
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    debug_assert_eq!(error.outcome(), Outcome::NotDone);
                }
                Err(error) => {
                    let detail = "the verdict is stored and was not sent to who asked: repeat it";
                    let told = Error::new(error.kind(), "resolve approval", detail);
                    return Err(told.at(&approval.asker).because(error).unknown());
                }
            }
        }
        Ok(())
    }

    fn approval(&self, session: SessionId, event_type: &str, json: Vec<u8>) -> Draft {
        let workspace = self.workspace().clone();
        let subject = Address::Approval { workspace, session: session.clone() }.subject();
        let mut draft = Draft::new(subject, event_type, json).content_type("application/json");
        draft.session = Some(session);
        draft
    }

    /// How the request with the hash `request` stands.
    async fn approval_of(&self, session: &SessionId, request: EventHash) -> Result<OpenApprovals> {
        let mut open = OpenApprovals::watching(request);
        self.fold_approvals(Some(session), &mut open).await?;
        Ok(open)
    }

    async fn fold_approvals(
        &self,
        session: Option<&SessionId>,
        open: &mut OpenApprovals,
    ) -> Result<()> {
        let workspace = self.workspace().clone();
        let filter = match session.cloned() {
            Some(session) => Filter::from(&Address::Approval { workspace, session }.subject()),
            None => AddressKind::Approval.filter(Some(&workspace)),
        };
        let mut records = self.replay(planes::approvals_stream()?, filter).await?;
        while let Some(stored) = records.next().await {
            self.apply_approval(open, &stored?);
        }
        Ok(())
    }

    /// Whether this agent may resolve approvals that others ask for: it is an operator, and no
    /// worker.
    #[must_use]
    pub fn may_resolve(&self) -> bool {
        may_resolve(self.identity().certificate())
    }

    /// Whether a message was signed by somebody who may resolve approvals: an operator who is no
    /// worker.
    #[must_use]
    pub fn is_by_resolver(&self, opened: &Opened) -> bool {
        let signature = opened.envelope.signature.as_ref();
        let certificate = signature.and_then(|signed| self.roster().seen(&signed.signer));
        certificate.is_some_and(|certificate| may_resolve(&certificate))
    }
}

/// The verdict that closed the watched request; a conflict when something else did.
fn closed_by_verdict<'a>(
    open: &'a OpenApprovals,
    session: &SessionId,
) -> Result<&'a ResolvedApproval> {
    let detail = match open.closed_as() {
        Some(Closed::Resolved(resolved)) => return Ok(resolved),
        Some(Closed::Withdrawn { by, .. }) => format!("{by} withdrew it before"),
        Some(Closed::Superseded { by, .. }) => format!("the request {by} has taken its place"),
        None => "the verdict could not be stored: repeat it".to_owned(),
    };
    Err(Error::new(ErrorKind::Conflict, "resolve approval", detail).at(session))
}

/// Whether an agent may resolve approvals: an operator who takes no tasks, since what it approves
/// might be its own.
fn may_resolve(certificate: &Certificate) -> bool {
    certificate.roles.contains(&Role::Operator) && !certificate.roles.contains(&Role::Worker)
}
