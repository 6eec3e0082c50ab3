//! Finds a verdict in the agent's mailbox, and hands back what else comes out of it.

use std::{collections::HashMap, pin::pin, time::Duration};

use bus_core::{
    ApprovalVerdict, Error, ErrorKind, FrameId, Mail, Mailbox, Opened, ResolvedApproval, Result,
};
use bus_envelope::Timestamp;
use tokio::time::{Instant, sleep, timeout_at};

use super::{Approvals, NotUsed};
use crate::{Approval, ApprovalName, Event, Refusal, reading};

/// A verdict as it came to who asked, under the lease of its message.
pub(super) struct Notice {
    pub mail: Mail,
    /// What its asker knows by it: the approval with its verdict.
    pub approval: Approval,
}

impl Approvals {
    /// The verdict on what `name` stands for, when it comes before `until`.
    pub(super) async fn find(
        &self,
        mailbox: &mut Mailbox,
        name: &ApprovalName,
        until: Timestamp,
    ) -> Result<Option<Notice>> {
        let mut end = pin!(sleep(until.since(self.endpoint.clock().now())));
        let mut rests = Rests::default();
        loop {
            let mail = tokio::select! {
                biased;
                () = &mut end => return Ok(None),
                mail = mailbox.next() => mail.ok_or_else(closed)??,
            };
            match self.look(&mail, name) {
                Look::Found(approval) => return Ok(Some(Notice { mail, approval: *approval })),
                other => {
                    let after = rests.after(mail.id(), matches!(other, Look::Verdict));
                    hand_back(mail, after).await;
                }
            }
        }
    }

    /// The same without waiting for more than what the mailbox has at hand: what it hands out is
    /// kept until it hands out nothing for `moment`, so that nothing comes twice, and for `whole`
    /// at most: mail that keeps coming would be held beyond its lease.
    ///
    /// A name that is no leaf is looked for to the end: when it stands for several it is refused.
    pub(super) async fn find_now(
        &self,
        mailbox: &mut Mailbox,
        name: &ApprovalName,
        (moment, whole): (Duration, Duration),
    ) -> Result<Option<Notice>, NotUsed> {
        let end = Instant::now() + whole;
        let (mut held, mut found) = (Vec::new(), None::<Notice>);
        let mut is_ambiguous = false;
        while held.len() < HELD_MAX && (found.is_none() || name.leaf().is_none()) {
            let by = end.min(Instant::now() + moment);
            let Ok(mail) = timeout_at(by, mailbox.next()).await else { break };
            let mail = mail.ok_or_else(closed)??;
            match self.look(&mail, name) {
                Look::Found(approval) if found.is_none() => {
                    found = Some(Notice { mail, approval: *approval });
                }
                Look::Found(approval) => {
                    let first = found.as_ref().map(|notice| notice.approval.leaf());
                    is_ambiguous |= first != Some(approval.leaf());
                    held.push(mail);
                }
                Look::Verdict | Look::Other => held.push(mail),
            }
        }
        if is_ambiguous {
            held.extend(found.take().map(|notice| notice.mail));
        }
        for mail in held {
            hand_back(mail, Duration::ZERO).await;
        }
        if is_ambiguous { Err(Refusal::Ambiguous.into()) } else { Ok(found) }
    }

    /// Opens the mailbox, and says after how long without a message it counts as read to its end:
    /// an engine that takes long to open it takes long to hand out.
    pub(super) async fn open_mailbox(&self) -> Result<(Mailbox, Duration)> {
        let began = Instant::now();
        let mailbox = self.endpoint.mailbox(self.lease).await?;
        let moment = began.elapsed().saturating_mul(MOMENT_OPENINGS);
        Ok((mailbox, moment.clamp(MOMENT_MIN, MOMENT_MAX)))
    }

    fn look(&self, mail: &Mail, name: &ApprovalName) -> Look {
        let Ok(opened) = &mail.content else { return Look::Other };
        if opened.envelope.event_type != ApprovalVerdict::EVENT_TYPE {
            return Look::Other;
        }
        let approval = self.approval_in(opened, name);
        approval.map_or(Look::Verdict, |approval| Look::Found(Box::new(approval)))
    }

    fn approval_in(&self, opened: &Opened, name: &ApprovalName) -> Option<Approval> {
        // It checks that the signer may resolve, and is not this agent.
        let said = self.endpoint.approval_verdict(opened).ok()?;
        let envelope = &opened.envelope;
        let leaf = envelope.lineage.cause?;
        let stored = ResolvedApproval::verdict_of_notice(&envelope.id)?;
        let session = envelope.lineage.session.clone()?;
        if !name.fits(&leaf, said.request_id()) {
            return None;
        }
        let verdict = Box::new(reading::verdict_of(&said, stored, envelope));
        let mut approval = Approval::named(leaf, session, self.endpoint.agent().clone());
        approval.see(Event::Verdict { verdict, may_resolve: true });
        Some(approval)
    }
}

/// What a message is to who waits for one verdict.
enum Look {
    /// It is that one.
    Found(Box<Approval>),
    /// It is another verdict, or none that counts.
    Verdict,
    /// It is something else.
    Other,
}

/// How long mail of others rests when it is handed back, longer each time: so who waits for a
/// verdict neither eats it nor spins on it.
#[derive(Default)]
struct Rests(HashMap<FrameId, Duration>);

impl Rests {
    fn after(&mut self, id: &FrameId, is_verdict: bool) -> Duration {
        if self.0.len() >= HELD_MAX && !self.0.contains_key(id) {
            self.0.clear();
        }
        // Another process of this agent may wait for that verdict.
        let max = if is_verdict { REST_MAX_OF_VERDICTS } else { REST_MAX };
        let rest = self.0.entry(id.clone()).or_insert(REST_MIN / 2);
        *rest = max.min(*rest * 2);
        *rest
    }
}

/// Best effort: what cannot be handed back comes again after its lease.
async fn hand_back(mail: Mail, after: Duration) {
    let _released = mail.later(after).await;
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "wait for a verdict", "the bus was closed")
}

const REST_MIN: Duration = Duration::from_millis(250);
const REST_MAX: Duration = Duration::from_secs(30);
const REST_MAX_OF_VERDICTS: Duration = Duration::from_secs(1);

/// How many messages are held back at a time.
const HELD_MAX: usize = 1_000;

/// After how long without a message a mailbox counts as read to its end: so many times as long as
/// it took to open it, within bounds.
const MOMENT_OPENINGS: u32 = 8;
const MOMENT_MIN: Duration = Duration::from_millis(500);
const MOMENT_MAX: Duration = Duration::from_secs(30);
