//! The other ends: an asker takes its approval back, or puts another request in its place.

use bus_core::{ApprovalEnd, ApprovalRequest, Seq};
use bus_envelope::EventHash;

use super::{Approvals, NotUsed, Requested, check_usable};
use crate::{Approval, ApprovalName, Command, Refusal};

impl Approvals {
    /// Takes back what this agent asked for in its session: from when this returns it can never be
    /// used. Repeating it is fine.
    ///
    /// An approval that nobody asked for can be withdrawn too: who asks may not read what is asked.
    ///
    /// # Errors
    /// [`NotUsed::Refused`] when it was used, or another request took its place;
    /// [`NotUsed::Failed`] when it could not be stored: repeat it.
    pub async fn withdraw(&self, approval: EventHash) -> Result<(), NotUsed> {
        let end = ApprovalEnd::withdrawn(approval);
        let command = Command::Withdraw { by: self.endpoint.agent(), may_resolve: false };
        match self.end(&end, &command).await {
            // A life that ended between the two steps left the second one to do.
            Err(NotUsed::Refused(Refusal::Withdrawn)) => {}
            ended => ended?,
        }
        // Now it cannot be used any more; this says so where it is answered.
        Ok(self.endpoint.withdraw_own_approval(approval).await?)
    }

    /// Asks for an approval under the id `id`, or one of its own, in the place of `old`, one of
    /// this agent in this session: that one can never be used from now on. May be repeated with the
    /// same id.
    ///
    /// # Errors
    /// [`NotUsed::Refused`] when the old one was used, withdrawn, or gave way to another one than
    /// `id`; [`NotUsed::Failed`] when something could not be stored. Then the old one may be
    /// replaced already, and the new request not be there: repeat it with the same id.
    pub async fn supersede(
        &self,
        old: EventHash,
        id: Option<&str>,
        request: &ApprovalRequest,
    ) -> Result<Requested, NotUsed> {
        // Before the old one is gone.
        check_usable(request)?;
        if let Some(id) = id {
            self.check_unused(id).await?;
        }
        let request = request.clone().supersedes(old);
        let id = &id.map_or_else(|| self.endpoint.new_id(), |id| Ok(id.to_owned()))?;
        let end = ApprovalEnd::superseded(old, id)?;
        let command = Command::Supersede { by: self.endpoint.agent() };
        match self.end(&end, &command).await {
            Err(refused @ NotUsed::Refused(Refusal::Superseded)) => {
                let end = self.end_of(&ApprovalName::from(old), &mut Seq(1)).await?;
                if end.and_then(|end| end.instead).as_deref() != Some(id) {
                    return Err(refused);
                }
            }
            ended => ended?,
        }
        Ok(self.request(Some(id), &request).await?)
    }

    async fn end(&self, end: &ApprovalEnd, command: &Command<'_>) -> Result<(), NotUsed> {
        let approval = end.approval();
        let draft = self.end_draft(end)?;
        self.record_end(draft, self.own(approval)?, command).await.map(drop)
    }

    /// An approval of this agent, as far as it knows it.
    fn own(&self, leaf: EventHash) -> Result<Approval, NotUsed> {
        let (session, asker) = (self.session()?.clone(), self.endpoint.agent().clone());
        Ok(Approval::named(leaf, session, asker))
    }
}
