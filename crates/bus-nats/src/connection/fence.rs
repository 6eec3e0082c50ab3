//! Round trips: whether the server has taken what was sent, and the end of a connection.

use std::{
    pin::pin,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use async_nats::{Subject, message::OutboundMessage};
use bus_core::{Error, ErrorKind, Result};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::{sync::Mutex, time::timeout};

use super::{
    Connection, ConnectionState,
    call::{self, Mark, ended, lost, refused},
    configure::not_connected,
    refusals::Act,
    watcher::Watcher,
};

/// Round trips that many share, one at a time, by their numbers.
#[derive(Default)]
pub(super) struct Rounds {
    begun: AtomicU64,
    ended: Mutex<u64>,
    /// How many messages were handed over of which no answer tells.
    handed_over: AtomicU64,
    /// How many of these a round trip has followed to the server.
    there: AtomicU64,
}

impl Rounds {
    /// Lets `round` pass, or one of somebody else that begins later than this is asked for.
    ///
    /// Whoever has a round under way may be polled no more: after `patience` this one goes beside
    /// it.
    pub(super) async fn share(
        &self,
        patience: Duration,
        round: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        let begun = self.begun.load(Ordering::SeqCst);
        let Ok(mut ended) = timeout(patience, self.ended.lock()).await else {
            return round.await;
        };
        if *ended <= begun {
            let own = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
            round.await?;
            *ended = own;
        }
        Ok(())
    }
}

impl Connection {
    /// A round trip to the server: what was sent before has reached it, and every subscription
    /// made before is in force. The client's own `flush` waits for the socket alone.
    pub(crate) async fn fence(&self, op: &'static str) -> Result<()> {
        self.check_open(op)?;
        self.round_trip(op).await
    }

    async fn round_trip(&self, op: &'static str) -> Result<()> {
        let call = self.begin(op);
        let mark = call.mark();
        let handed_over = self.rounds.handed_over.load(Ordering::Acquire);
        let inbox = Subject::from(self.new_inbox());
        let there_and_back = pin!(async {
            let mut back = self.hear(op, inbox.clone()).await?;
            let (subject, payload) = (inbox.clone(), Bytes::new());
            let message = OutboundMessage { subject, reply: None, payload, headers: None };
            self.send(op, message).await?;
            Ok(back.next().await.is_some())
        });
        // Also a refusal of it comes back, behind all that was sent before.
        let is_back = |watcher: &Watcher, mark: Mark| {
            refused(watcher, op, (Act::Publish, &inbox), mark)
                .or_else(|| refused(watcher, op, (Act::Subscribe, &inbox), mark))
        };
        match call.wait(self.options.answer_wait, there_and_back, is_back).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => return Err(not_connected(op).unknown()),
            Ok(Err(error)) => return Err(error),
            Err(refused) if refused.kind() == ErrorKind::Denied => {}
            Err(error) => return Err(error),
        }
        // Two halves of it on two connections prove nothing.
        if self.watcher.states.connects() != mark.connects {
            return Err(lost(op));
        }
        self.rounds.there.fetch_max(handed_over, Ordering::AcqRel);
        Ok(())
    }

    /// A message was handed over whose sender was told that it is accepted, and no more.
    pub(crate) fn note_handed_over(&self) {
        self.rounds.handed_over.fetch_add(1, Ordering::AcqRel);
    }

    /// This moment, to be asked later what the server has refused since.
    pub(crate) fn violation_mark(&self) -> Mark {
        call::mark(&self.watcher)
    }

    /// A [`fence`](Self::fence) that also fails when the connection was lost since `mark`, and with
    /// it perhaps what was sent since then.
    #[cfg(test)]
    pub(crate) async fn fence_since(&self, op: &'static str, mark: Mark) -> Result<()> {
        self.fence(op).await?;
        ended(&self.watcher, op, mark).map_or(Ok(()), Err)
    }

    /// Tells whether the server refused to take something for `subject`, or to let us hear it,
    /// since `mark`, as far as is known now.
    pub(crate) fn refused_since(&self, op: &'static str, mark: Mark, subject: &str) -> Result<()> {
        refused_any(&self.watcher, op, (ACTS, subject), mark).map_or(Ok(()), Err)
    }

    /// Tells whether the server refused to let us hear `subject` since `mark`, as far as is known
    /// now.
    pub(crate) fn unheard_since(&self, op: &'static str, mark: Mark, subject: &str) -> Result<()> {
        refused(&self.watcher, op, (Act::Subscribe, subject), mark).map_or(Ok(()), Err)
    }

    /// Waits until the server has taken what was sent for `subject` since `mark`, a message or a
    /// subscription. Many at once share their round trips.
    ///
    /// # Errors
    /// `Denied` when it refuses; `Timeout` and `Unavailable` with outcome unknown, also when so
    /// much was refused at once that it is not known what.
    pub(crate) async fn confirm(&self, op: &'static str, mark: Mark, subject: &str) -> Result<()> {
        self.confirm_acts(op, mark, (ACTS, subject)).await
    }

    /// The same of a subscription alone, whatever becomes of what is published there.
    ///
    /// # Errors
    /// As [`confirm`](Self::confirm).
    pub(crate) async fn confirm_heard(
        &self,
        op: &'static str,
        mark: Mark,
        subject: &str,
    ) -> Result<()> {
        self.confirm_acts(op, mark, (&[Act::Subscribe], subject)).await
    }

    async fn confirm_acts(&self, op: &'static str, mark: Mark, sent: (&[Act], &str)) -> Result<()> {
        self.check_open(op)?;
        let refusal = |watcher: &Watcher, mark: Mark| refused_any(watcher, op, sent, mark);
        let wait = self.options.answer_wait;
        let heard = pin!(self.rounds.share(wait / 2, self.hear_refusals(op)));
        self.begin(op).since(mark).wait(wait, heard, refusal).await??;
        refused_any(&self.watcher, op, sent, mark).map_or(Ok(()), Err)?;
        if self.watcher.refusals.has_lost(mark.refusals) {
            let why = "the server refuses more at once than the client can tell of";
            return Err(Error::new(ErrorKind::Unavailable, op, why).unknown());
        }
        ended(&self.watcher, op, mark).map_or(Ok(()), Err)
    }

    /// A round trip after which every refusal of what was sent before is known. The client tells
    /// of refusals through a queue that another task empties, so a round trip alone may be back
    /// first. Hence it goes with something that the server surely refuses, whose refusal comes
    /// through the same queue, behind all others.
    async fn hear_refusals(&self, op: &'static str) -> Result<()> {
        let connects = self.watcher.states.connects();
        let _refused = self.hear(op, self.watcher.bait().into()).await?;
        let due = self.watcher.baits.put_out(connects);
        self.round_trip(op).await?;
        let mut news = self.watcher.states.news();
        let taken = async {
            while self.watcher.baits.taken() < due {
                // The sender lives in the watcher.
                let _more = news.changed().await;
            }
        };
        if timeout(BAIT_WAIT, taken).await.is_err() {
            self.watcher.baits.forget();
            self.watcher.refusals.lose();
        }
        Ok(())
    }

    /// Hears `subject`, in force when this returns.
    ///
    /// # Errors
    /// `Denied` when the server refuses; as [`fence`](Self::fence).
    #[cfg(test)]
    pub(crate) async fn subscribe_fenced(
        &self,
        op: &'static str,
        subject: impl Into<Subject>,
    ) -> Result<async_nats::Subscriber> {
        let (subject, mark) = (subject.into(), self.violation_mark());
        let subscriber = self.subscribe(op, subject.clone()).await?;
        self.confirm(op, mark, &subject).await?;
        Ok(subscriber)
    }

    /// Publishes a message and waits until the server has taken it.
    ///
    /// # Errors
    /// `Denied` when the server refuses; as [`fence`](Self::fence).
    #[cfg(test)]
    pub(crate) async fn publish_fenced(
        &self,
        op: &'static str,
        subject: impl Into<Subject>,
        headers: Option<async_nats::HeaderMap>,
        body: Bytes,
    ) -> Result<()> {
        let (subject, mark) = (subject.into(), self.violation_mark());
        self.publish(op, subject.clone(), None, headers, body).await?;
        self.confirm(op, mark, &subject).await
    }

    /// From now on new calls are `Closed`; what was accepted before may still be handed over.
    pub(crate) fn begin_to_close(&self) {
        self.watcher.states.begin_to_close();
    }

    /// Ends the connection once the server has everything that was handed over. New calls are
    /// `Closed` at once, those under way get a moment to end. A second close is fine.
    ///
    /// # Errors
    /// `Unavailable` with outcome unknown when the last of it may not have reached the server.
    pub(crate) async fn close(&self) -> Result<()> {
        const OP: &str = "close";
        let states = &self.watcher.states;
        states.begin_to_close();
        let _alone = self.closing.lock().await;
        if states.now() == ConnectionState::Closed {
            return Ok(());
        }
        let fenced = match self.check_connected(OP) {
            Ok(()) => {
                let _late = timeout(CLOSE_GRACE, states.calls.over()).await;
                self.round_trip(OP).await.map_err(Error::unknown)
            }
            // Calls were told; who published is told here.
            Err(_) => self.rounds.all_there(OP),
        };
        states.end(ConnectionState::Closed);
        // Their round is a task of its own, which has its end.
        let _left = timeout(self.options.answer_wait, self.peers.leave()).await;
        self.watcher.give_up();
        // Ends the client's own task. Nothing waits any more that it could lose.
        let _ended = timeout(self.options.answer_wait, self.client.drain()).await;
        fenced
    }
}

/// Whether the server refused any of these acts on a subject since `mark`.
fn refused_any(
    watcher: &Watcher,
    op: &'static str,
    (acts, subject): (&[Act], &str),
    mark: Mark,
) -> Option<Error> {
    acts.iter().find_map(|&act| refused(watcher, op, (act, subject), mark))
}

impl Rounds {
    fn all_there(&self, op: &'static str) -> Result<()> {
        if self.handed_over.load(Ordering::Acquire) == self.there.load(Ordering::Acquire) {
            return Ok(());
        }
        let why = "not connected: what was published last may not have reached the server";
        Err(Error::new(ErrorKind::Unavailable, op, why).unknown())
    }
}

/// What may be done with a subject.
const ACTS: &[Act] = &[Act::Publish, Act::Subscribe];
/// How long after a round trip its refusal may take to come through the client's queue.
const BAIT_WAIT: Duration = Duration::from_secs(1);
/// How long a close waits for the calls under way.
const CLOSE_GRACE: Duration = Duration::from_millis(250);
