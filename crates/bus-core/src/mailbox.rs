//! Mailboxes: messages to one agent, kept until that agent has acknowledged them (D19).

use std::{sync::Arc, time::Duration};

use bus_subjects::{Address, AgentId, ConsumerName, Filter};

use crate::{
    ConsumerSpec, Deliveries, Delivery, Endpoint, Error, ErrorKind, FrameId, Opened, Operation,
    Outgoing, Result, Sent, Verdict, WorkerSpec,
    endpoint::{self, Seen},
    planes,
};

/// An agent's own mailbox.
///
/// Every mailbox has one consumer, whose name follows from its agent's: whoever holds it twice,
/// such as two processes of one agent, shares the messages, and another consumer is refused.
/// Dropping it leaves what was not acknowledged where it is.
#[derive(Debug)]
#[must_use = "a mailbox that is not read keeps its messages"]
pub struct Mailbox {
    endpoint: Endpoint,
    deliveries: Deliveries,
}

/// A message from a mailbox, under a lease.
///
/// Dropping it without a word lets the lease run out, and the message comes again.
#[derive(Debug)]
#[must_use = "a letter that is not acknowledged comes again after its lease"]
pub struct Mail {
    /// The message, or why it cannot be opened: then it is the reader's to give up, with
    /// [`Mail::reject`], or to wait for the key.
    pub content: Result<Box<Opened>>,
    delivery: Delivery,
    /// The span of its taking.
    seen: Option<Arc<Seen>>,
}

impl Endpoint {
    /// Sends a message to the mailbox of `agent`, whatever subject it was made for. It is kept
    /// until that agent acknowledges it, also when the agent never came yet.
    ///
    /// # Errors
    /// `Full` when the mailbox is; else as [`Endpoint::send`].
    pub async fn send_to(&self, agent: &AgentId, outgoing: impl Into<Outgoing>) -> Result<Sent> {
        let (workspace, agent) = (self.workspace().clone(), agent.clone());
        let mut outgoing = outgoing.into();
        outgoing.draft.subject = Address::Inbox { workspace, agent }.subject();
        self.send(outgoing).await
    }

    /// Opens this agent's own mailbox; each message belongs to its reader for `lease`, unless
    /// extended.
    ///
    /// # Errors
    /// `Invalid` for a lease of zero or more than a day; `Conflict` when the mailbox is read with
    /// another lease already; those of [`Endpoint::consume`].
    pub async fn mailbox(&self, lease: Duration) -> Result<Mailbox> {
        if lease.is_zero() || lease > WorkerSpec::LEASE_MAX {
            let detail = format!("lease is {lease:?}: expected more than zero and at most a day");
            return Err(Error::new(ErrorKind::Invalid, "mailbox", detail));
        }
        let (workspace, agent) = (self.workspace().clone(), self.agent().clone());
        let stream = planes::inbox_stream(&workspace)?;
        let name = ConsumerName::parse(&format!("inbox_{agent}"))?;
        let filter = Filter::from(&Address::Inbox { workspace, agent }.subject());
        let consumer = ConsumerSpec { stream, name, filter, lease };
        let deliveries = self.consume(consumer).await?;
        Ok(Mailbox { endpoint: self.clone(), deliveries })
    }
}

impl Mailbox {
    /// Waits for the next message and takes it under a lease; `None` when the bus was closed.
    ///
    /// Cancel safe: a dropped call takes nothing; what it was handing back at the end of the
    /// certificate may have to wait for its lease.
    ///
    /// # Errors
    /// `Denied` when this agent's certificate has ended, and the message is handed back; those of
    /// the engine.
    pub async fn next(&mut self) -> Option<Result<Mail>> {
        let delivery = match self.deliveries.next().await? {
            Ok(delivery) => delivery,
            Err(error) => return Some(Err(error)),
        };
        if let Err(error) = self.endpoint.check_certificate("read mailbox") {
            // Best effort: else the lease runs out.
            let _released = delivery.settle(Verdict::Release { after: Duration::ZERO }).await;
            return Some(Err(error));
        }
        let mut content = self.endpoint.open(&delivery.frame).map(Box::new);
        let seen = content.as_deref_mut().ok().and_then(|opened| {
            let attempt = Some(delivery.attempt);
            Seen::begin(&self.endpoint, opened, Operation::Receive, attempt)
        });
        if let Some(seen) = &seen {
            seen.end(None);
        }
        Some(Ok(Mail { content, delivery, seen }))
    }
}

impl Mail {
    /// The id of its frame, which tells whether it was here before.
    #[must_use]
    pub fn id(&self) -> &FrameId {
        &self.delivery.frame.id
    }

    /// Which delivery this is, the first being 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.delivery.attempt
    }

    /// Done with it: it leaves the mailbox.
    ///
    /// # Errors
    /// As [`Delivery::settle`].
    pub async fn ack(self) -> Result<()> {
        self.settle(Verdict::Ack).await
    }

    /// Not now: it comes again after a rest.
    ///
    /// # Errors
    /// As [`Delivery::settle`].
    pub async fn later(self, after: Duration) -> Result<()> {
        self.settle(Verdict::Release { after }).await
    }

    /// Gives it up: it leaves the mailbox, and `reason` goes to the engine's log.
    ///
    /// # Errors
    /// As [`Delivery::settle`].
    pub async fn reject(self, reason: impl Into<String>) -> Result<()> {
        self.settle(Verdict::Reject { reason: reason.into() }).await
    }

    /// Starts the lease anew.
    ///
    /// # Errors
    /// As [`Delivery::extend`].
    pub async fn extend(&self) -> Result<()> {
        self.delivery.extend().await
    }

    async fn settle(self, verdict: Verdict) -> Result<()> {
        endpoint::settle(self.seen.as_deref(), self.delivery, verdict).await
    }
}
