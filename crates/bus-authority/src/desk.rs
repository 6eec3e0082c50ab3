//! The desk of who asks: asks, waits for the verdict, and takes its one use.

mod consume;
mod end;
mod mail;
mod refused;

use std::{pin::pin, time::Duration};

use bus_core::{ApprovalRequest, Endpoint, Error, ErrorKind, Result, Seq};
use bus_envelope::{EventHash, Timestamp};
use bus_subjects::SessionId;
use tokio::time::sleep;

pub use self::refused::NotUsed;
use crate::{ApprovalName, Ask, Refusal, Verdict};

/// An agent's approvals in its session: what it asks for, and what it does with the answers.
///
/// Only workers ask and use: the use is a record on the receipts of their session. Verdicts come by
/// the agent's mailbox, which this shares with all other readers of it: what is not the verdict it
/// waits for is handed back untouched.
#[derive(Debug, Clone)]
pub struct Approvals {
    endpoint: Endpoint,
    lease: Duration,
}

/// A request that is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requested {
    /// Its leaf hash: the approval's name.
    pub approval: EventHash,
    /// The id of its envelope.
    pub id: String,
    /// The session it was asked in.
    pub session: SessionId,
}

/// The one use of an approval, taken by this call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Used {
    /// The approval.
    pub approval: EventHash,
    /// What was used.
    pub verdict: Verdict,
    /// Where the use is stored, among the receipts.
    pub record: Seq,
}

impl Approvals {
    /// The desk of `endpoint`'s agent. `lease` is that of its mailbox, the same for all who read
    /// it.
    #[must_use]
    pub const fn new(endpoint: Endpoint, lease: Duration) -> Self {
        Self { endpoint, lease }
    }

    /// What this agent wants to do in its session.
    ///
    /// # Errors
    /// `Invalid` without a session.
    pub fn ask<'a>(
        &'a self,
        action: &'a str,
        target: &'a str,
        run: Option<&'a str>,
    ) -> Result<Ask<'a>> {
        let (asker, session) = (self.endpoint.agent(), self.session()?);
        Ok(Ask { action, target, run, asker, session })
    }

    /// Asks for an approval under the id `id`, or one of its own, and returns at once.
    ///
    /// # Errors
    /// `Invalid` when no answer would allow what is asked for; `Conflict` when the id was used
    /// before, also when the bus has forgotten that and an answer or an end tells of it: then its
    /// verdict can be waited for by that id. Else those of [`Endpoint::request_approval`].
    pub async fn request(&self, id: Option<&str>, request: &ApprovalRequest) -> Result<Requested> {
        check_usable(request)?;
        let session = self.session()?.clone();
        if let Some(id) = id {
            self.check_unused(id).await?;
        }
        let id = id.map_or_else(|| self.endpoint.new_id(), |id| Ok(id.to_owned()))?;
        let sent = self.endpoint.request_approval(id, request).await?;
        Ok(Requested { approval: sent.hash, id: sent.id, session })
    }

    /// Refuses an id that an earlier approval of this agent in its session had, as far as its
    /// answer or its end tell of it: the bus itself forgets ids after a while, and the answer to
    /// an old question must not be taken for that to a new one.
    async fn check_unused(&self, id: &str) -> Result<()> {
        let name = ApprovalName::of_id(id);
        let (mut mailbox, moment) = self.open_mailbox().await?;
        let within = (moment, self.lease / 2);
        let at_hand = match self.find_now(&mut mailbox, &name, within).await {
            Ok(None) => false,
            Ok(Some(notice)) => {
                // Best effort: it is there again at the end of its lease at the latest.
                let _released = notice.mail.later(Duration::ZERO).await;
                true
            }
            Err(NotUsed::Failed(error)) => return Err(error),
            Err(_) => true,
        };
        if at_hand || self.end_of(&name, &mut Seq(1)).await?.is_some() {
            let detail = "an approval with this id was asked for before";
            return Err(Error::new(ErrorKind::Conflict, "request approval", detail));
        }
        Ok(())
    }

    /// Takes the one use of the approval that `name` stands for, for exactly what `ask` says. Waits
    /// for its verdict until `until`; without a time it looks for one that is there.
    ///
    /// When this returns without an error the use is stored, and nobody gets another. Whoever dies
    /// before it is told has used it up.
    ///
    /// Cancel safe in that a dropped call may have used it or not; mail it held comes again.
    ///
    /// # Errors
    /// [`NotUsed::Refused`] with the reason, `Open` when there was no verdict in time;
    /// [`NotUsed::Failed`] when a verdict could not be looked for or its use not be stored, and its
    /// outcome says whether it may have been used all the same.
    pub async fn take(
        &self,
        name: &ApprovalName,
        ask: &Ask<'_>,
        until: Option<Timestamp>,
    ) -> Result<Used, NotUsed> {
        let (mut mailbox, moment) = self.open_mailbox().await?;
        // What comes later is waited for below.
        let left = until.map(|until| until.since(self.endpoint.clock().now()));
        let within = (moment, left.map_or(self.lease / 2, |left| left.min(self.lease / 2)));
        if let Some(notice) = self.find_now(&mut mailbox, name, within).await? {
            return self.consume_named(notice, name, ask).await;
        }
        // A verdict that was used has left the mailbox: the record tells why there is none.
        let mut from = Seq(1);
        if let Some(end) = self.end_of(name, &mut from).await? {
            return Err(Refusal::of(end.kind).into());
        }
        let Some(until) = until else { return Err(Refusal::Open.into()) };
        let notice = {
            let mut finding = pin!(self.find(&mut mailbox, name, until));
            loop {
                tokio::select! {
                    found = &mut finding => break found?,
                    () = sleep(END_EVERY) => {}
                }
                // Another process of this agent may have had it. What cannot be read now is read
                // the next time.
                if let Ok(Some(end)) = self.end_of(name, &mut from).await {
                    return Err(Refusal::of(end.kind).into());
                }
            }
        };
        if let Some(notice) = notice {
            return self.consume_named(notice, name, ask).await;
        }
        let end = self.end_of(name, &mut from).await?;
        Err(end.map_or(Refusal::Open, |end| Refusal::of(end.kind)).into())
    }

    fn session(&self) -> Result<&SessionId> {
        self.endpoint.session().ok_or_else(|| {
            let detail = "approvals belong to a session: this endpoint has none";
            Error::new(ErrorKind::Invalid, "approval", detail)
        })
    }
}

/// How often who waits for a verdict looks whether it came to an end without it.
const END_EVERY: Duration = Duration::from_secs(5);

/// Refuses a request that no answer could allow.
fn check_usable(request: &ApprovalRequest) -> Result<()> {
    if request.can_be_used() {
        return Ok(());
    }
    let choice = request.approving_choice();
    let detail =
        format!("no answer allows it: the choice {choice:?} is none of those that are offered");
    Err(Error::new(ErrorKind::Invalid, "request approval", detail))
}
