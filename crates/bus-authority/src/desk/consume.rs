//! The one use: checked, recorded and thereby taken in one step.

use std::{pin::pin, time::Duration};

use bus_core::{ApprovalEnd, Endpoint, Error, Sent, Seq, Stored, planes};
use bus_envelope::{Draft, EventHash};
use bus_subjects::{Address, Filter};
use tokio::time::sleep;

use super::{Approvals, NotUsed, Used, mail::Notice};
use crate::{Approval, ApprovalName, Ask, Command, End, Event, Refusal, reading};

/// An approval under the eyes of who ends it: what its receipts say so far.
struct Judged {
    approval: Approval,
    /// A record that may be an end of it, and that cannot be read here.
    blind: Option<Error>,
}

impl Approvals {
    /// Takes the one use of `approval`, whose verdict has been seen, for exactly what `ask` says.
    ///
    /// The check, the record that tells of it and the use are one step, and there is no other way
    /// to use an approval: what depends on one calls this, and acts when it returns without an
    /// error.
    ///
    /// # Errors
    /// As [`Approvals::take`].
    pub async fn consume(&self, approval: &Approval, ask: &Ask<'_>) -> Result<Used, NotUsed> {
        if *approval.session() != *self.session()? {
            // Its receipts are elsewhere, and not to be read from here.
            return Err(Refusal::SessionMismatch.into());
        }
        let Some(verdict) = approval.verdict() else { return Err(Refusal::Open.into()) };
        let Some(what) = &verdict.authorization else { return Err(Refusal::Unbound.into()) };
        let leaf = approval.leaf();
        let end = ApprovalEnd::consumed(
            leaf,
            &verdict.request_id,
            verdict.leaf,
            what.clone(),
            &verdict.choice,
        )?;
        let mut draft = self.end_draft(&end)?;
        draft.trace.clone_from(&verdict.trace);
        let used = self.record_end(draft, approval.clone(), &Command::Consume(*ask)).await;
        let sent = match used {
            Err(NotUsed::Refused(Refusal::ChoiceRefused)) => {
                return Err(NotUsed::Declined(Box::new(verdict.clone())));
            }
            used => used?,
        };
        Ok(Used { approval: leaf, verdict: verdict.clone(), record: sent.receipt.seq })
    }

    /// The same with the verdict of `notice`, which `name` led to. A name that is no leaf may stand
    /// for another approval too, one that has ended.
    pub(super) async fn consume_named(
        &self,
        notice: Notice,
        name: &ApprovalName,
        ask: &Ask<'_>,
    ) -> Result<Used, NotUsed> {
        if name.leaf().is_none() {
            let leaf = notice.approval.leaf();
            match self.find_end(name, &mut Seq(1), |ended| *ended != leaf).await {
                Ok(None) => {}
                other => {
                    // Best effort: it is there again at the end of its lease at the latest.
                    let _released = notice.mail.later(Duration::ZERO).await;
                    return Err(match other {
                        Err(error) => error.into(),
                        Ok(_) => Refusal::Ambiguous.into(),
                    });
                }
            }
        }
        self.consume_notice(notice, ask).await
    }

    /// The same with the verdict of `notice`, under its lease.
    pub(super) async fn consume_notice(
        &self,
        notice: Notice,
        ask: &Ask<'_>,
    ) -> Result<Used, NotUsed> {
        let used = {
            let mut work = pin!(self.consume(&notice.approval, ask));
            loop {
                tokio::select! {
                    used = &mut work => break used,
                    () = sleep(self.lease / 3) => {
                        // Best effort: should the notice come to another reader meanwhile, the
                        // record says to both who was first.
                        let _extended = notice.mail.extend().await;
                    }
                }
            }
        };
        let is_done = match &used {
            Ok(_) => true,
            Err(refused) => refused.refusal().is_some_and(Refusal::is_final),
        };
        // Best effort: what comes again is refused as used.
        let _settled =
            if is_done { notice.mail.ack().await } else { notice.mail.later(Duration::ZERO).await };
        used
    }

    /// The draft of an end on the receipts of this session.
    pub(super) fn end_draft(&self, end: &ApprovalEnd) -> Result<Draft, Error> {
        let (workspace, session) = (self.endpoint.workspace().clone(), self.session()?.clone());
        let subject = Address::Receipt { workspace, session: session.clone() }.subject();
        let draft = Draft::new(subject, end.kind().event_type(), end.to_json()?);
        Ok(draft.content_type("application/json").cause(end.approval()).session(session))
    }

    /// Stores the end that `draft` is when `command` is allowed behind all that is stored before
    /// it.
    pub(super) async fn record_end(
        &self,
        draft: Draft,
        approval: Approval,
        command: &Command<'_>,
    ) -> Result<Sent, NotUsed> {
        let mut judged = Judged { approval, blind: None };
        let endpoint = &self.endpoint;
        let see = |judged: &mut Judged, stored: &Stored| judged.see(endpoint, stored);
        let decide = |judged: &mut Judged| match judged.blind.take() {
            Some(error) => Err(NotUsed::Failed(error)),
            None => {
                let decided = judged.approval.decide(command, endpoint.clock().now());
                decided.map(drop).map_err(NotUsed::Refused)
            }
        };
        let sent = endpoint.record_seen(draft, &mut judged, see, decide).await;
        Ok(sent?)
    }

    /// The first end of this agent's, on the receipts of its session from `from` on, of what `name`
    /// stands for. Without one `from` is moved behind what was read.
    pub(super) async fn end_of(
        &self,
        name: &ApprovalName,
        from: &mut Seq,
    ) -> Result<Option<End>, Error> {
        self.find_end(name, from, |_leaf| true).await
    }

    /// The same, of approvals whose leaf `counts`.
    async fn find_end(
        &self,
        name: &ApprovalName,
        from: &mut Seq,
        counts: impl Fn(&EventHash) -> bool + Send,
    ) -> Result<Option<End>, Error> {
        let (workspace, session) = (self.endpoint.workspace().clone(), self.session()?.clone());
        let receipts = Address::Receipt { workspace, session }.subject();
        let stream = planes::receipts_stream()?;
        let filter = Filter::from(&receipts);
        let mut records = self.endpoint.replay_from(stream, filter, *from).await?;
        while let Some(stored) = records.next().await {
            let stored = stored?;
            let may_be =
                |leaf: &EventHash| counts(leaf) && name.leaf().is_none_or(|named| named == *leaf);
            let read = reading::end_by(&self.endpoint, self.endpoint.agent(), &stored, may_be);
            let ended = match read {
                // It names no id that could be read, ever. Whoever uses an approval is held against
                // the ends of its leaf all the same.
                Err(error) if name.leaf().is_none() && reading::is_withdrawn(&error) => None,
                read => read?,
            };
            *from = Seq(stored.seq.0.saturating_add(1));
            if let Some(ended) = ended
                && name.fits(&ended.approval, ended.request_id.as_deref().unwrap_or_default())
            {
                return Ok(Some(ended.end));
            }
        }
        Ok(None)
    }
}

impl Judged {
    fn see(&mut self, endpoint: &Endpoint, stored: &Stored) {
        let is_this = |leaf: &EventHash| *leaf == self.approval.leaf();
        match reading::end_by(endpoint, self.approval.asker(), stored, is_this) {
            Ok(Some(ended)) => {
                self.approval.see(Event::Ended(ended.end));
            }
            Ok(None) => {}
            Err(error) => self.blind = Some(error),
        }
    }
}
