//! Taking a request back while it is open: who asked may, and who resolves.

use bus_envelope::EventHash;
use bus_subjects::SessionId;

use super::{ApprovalEnd, Closed, OpenApproval};
use crate::{EndKind, Endpoint, Error, ErrorKind, Result};

impl Endpoint {
    /// Says where approvals are resolved that this agent takes its own request with the leaf hash
    /// `request` back, in its session. Repeating it is fine.
    ///
    /// Of what is *used* this says nothing: that is decided on the session's receipts, where the
    /// same end has to be stored first.
    ///
    /// # Errors
    /// `Invalid` without a session; else as [`Endpoint::send`].
    pub async fn withdraw_own_approval(&self, request: EventHash) -> Result<()> {
        let Some(session) = self.session().cloned() else {
            let detail = "an approval is withdrawn in a session: this endpoint has none";
            return Err(Error::new(ErrorKind::Invalid, "withdraw approval", detail));
        };
        let json = ApprovalEnd::withdrawn(request).to_json()?;
        let draft = self
            .approval(session, EndKind::Withdrawn.event_type(), json)
            .id(OpenApproval::withdrawal_id(&request))
            .cause(request);
        match self.send_unread(draft.clone()).await {
            // It is there, or somebody else has taken the id: then under one of its own.
            Err(error) if error.kind() == ErrorKind::Conflict => {
                self.send_unread(bus_envelope::Draft { id: None, ..draft }).await.map(drop)
            }
            sent => sent.map(drop),
        }
    }

    /// Takes back the request with the leaf hash `request` while it is open, as an operator who
    /// will not have it answered. Of this and a verdict the first one stored counts.
    ///
    /// # Errors
    /// `Denied` to all but operators and to an agent that is a worker as well; `NotFound` when
    /// there is no such request; `Conflict` when it is not open any more; those of
    /// [`Endpoint::record`].
    pub async fn withdraw_approval(&self, session: &SessionId, request: EventHash) -> Result<()> {
        const OP: &str = "withdraw approval";
        if !self.may_resolve() {
            let detail = "only an operator who is no worker withdraws an approval of others";
            return Err(Error::new(ErrorKind::Denied, OP, detail).at(self.agent()));
        }
        let open = self.approval_of(session, request).await?;
        let Some(approval) = open.watched() else {
            let detail = format!("no request with the hash {request} is stored");
            return Err(Error::new(ErrorKind::NotFound, OP, detail).at(session));
        };
        let mut closed_as = open.closed_as().cloned();
        if closed_as.is_none() {
            let json = ApprovalEnd::withdrawn(request).to_json()?;
            let draft = self
                .approval(session.clone(), EndKind::Withdrawn.event_type(), json)
                .cause(request)
                .trace(approval.trace.clone());
            let by_id = draft.clone().id(OpenApproval::verdict_id(&request));
            match self.record(by_id).await {
                Err(error) if error.kind() != ErrorKind::Conflict => return Err(error),
                _ => {}
            }
            closed_as = self.approval_of(session, request).await?.closed_as().cloned();
            if closed_as.is_none() {
                // Something that ends nothing has taken the id.
                self.record(draft).await?;
                closed_as = self.approval_of(session, request).await?.closed_as().cloned();
            }
        }
        let detail = match closed_as {
            Some(Closed::Withdrawn { .. }) => return Ok(()),
            Some(Closed::Resolved(resolved)) => format!("{} resolved it before", resolved.by),
            Some(Closed::Superseded { by, .. }) => format!("the request {by} has its place"),
            None => "the withdrawal could not be stored: repeat it".to_owned(),
        };
        Err(Error::new(ErrorKind::Conflict, OP, detail).at(session))
    }
}
