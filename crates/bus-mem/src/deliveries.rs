//! One member of a consumer, and the deliveries it holds.

use std::{
    num::NonZeroUsize,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bus_core::{
    Answer, BoxFuture, Claiming, Delivery, Error, ErrorKind, Frame, Result, Settle, Verdict,
};
use bus_envelope::Timestamp;
use bus_subjects::StreamName;
use futures_core::Stream;
use tokio::task::coop::{has_budget_remaining, poll_proceed};

use crate::{
    bus::Connection,
    core::{Broker, Claim, ConsumerKey, Message},
    durable::{Durable, Locked},
    journal::Position,
    safety::Safety,
};

/// A member that claims when it is polled, and only then.
pub(crate) struct Member {
    holder: Arc<Holder>,
    lease: Duration,
    /// Its place among those who wait.
    ticket: Option<u64>,
    /// It told that its consumer was removed.
    ended: bool,
}

/// The engine's side of all deliveries of one member. A token fits one lease only, so a late
/// verdict finds none.
struct Holder {
    connection: Arc<Connection>,
    /// That of the connection, without the way there.
    durable: Arc<Durable>,
    stream: StreamName,
    key: ConsumerKey,
    safety: Safety,
}

impl Member {
    pub(crate) fn new(
        connection: Arc<Connection>,
        stream: StreamName,
        lease: Duration,
        key: ConsumerKey,
    ) -> Self {
        let durable = Arc::clone(connection.durable());
        let safety = connection.safety().clone();
        let holder = Arc::new(Holder { connection, durable, stream, key, safety });
        Self { holder, lease, ticket: None, ended: false }
    }

    /// What `claim` gets next. It counts as claimed when this is `Ready`, which nothing can cancel.
    #[inline]
    fn poll_claim<T>(
        &mut self,
        cx: &Context<'_>,
        claim: impl FnOnce(&mut Broker, ConsumerKey, Timestamp) -> Option<T>,
    ) -> Poll<Option<Result<T>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let Holder { connection, durable, key, stream, .. } = &*self.holder;
        let mut locked = durable.lock();
        // Under the lock: `close` sets the mark first and then wakes those it finds here.
        if connection.is_closed() {
            drop(locked);
            self.leave();
            return Poll::Ready(None);
        }
        let now = locked.now;
        let claimed = claim(&mut locked.state.broker, *key, now);
        if claimed.is_none() && !locked.state.broker.is_there(*key) {
            self.ended = true;
            let error = Error::new(ErrorKind::NotFound, "next", "the consumer was removed");
            return Poll::Ready(Some(Err(error.at(stream))));
        }
        match (&claimed, self.ticket.take()) {
            (None, ticket) => self.ticket = locked.wait(*key, ticket, cx),
            (Some(_), Some(ticket)) => locked.leave(*key, ticket),
            (Some(_), None) => {}
        }
        locked.look_after(*key);
        locked.finish();
        claimed.map_or(Poll::Pending, |claimed| Poll::Ready(Some(Ok(claimed))))
    }

    /// Gives up the place among those who wait; a call that came for it goes to the next one.
    fn leave(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let Holder { durable, key, .. } = &*self.holder;
            let mut locked = durable.lock();
            locked.leave(*key, ticket);
            locked.look_after(*key);
            locked.finish();
        }
    }

    #[inline]
    fn delivery(&self, claim: Claim) -> Delivery {
        let Claim { message: Message { frame, seq, time }, token, attempt } = claim;
        let (place, run) = ((seq, time), (attempt, self.lease));
        let holder = Arc::<Holder>::clone(&self.holder);
        Delivery::new(frame, place, run, (holder, token))
    }
}

impl Stream for Member {
    type Item = Result<Delivery>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let budget = ready!(poll_proceed(cx));
        let claimed = ready!(self.poll_claim(cx, Broker::claim));
        budget.made_progress();
        Poll::Ready(claimed.map(|claimed| claimed.map(|claim| self.delivery(claim))))
    }
}

impl Claiming for Member {
    fn poll_many(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        max: NonZeroUsize,
    ) -> Poll<Option<Result<Vec<Delivery>>>> {
        let budget = ready!(poll_proceed(cx));
        let max = max.get().min(Frame::BATCH_MAX);
        let claimed = ready!(self.poll_claim(cx, |broker, key, now| {
            Some(broker.claim_many(key, max, now)).filter(|claims| !claims.is_empty())
        }));
        budget.made_progress();
        let Some(Ok(claims)) = claimed else {
            return Poll::Ready(claimed.map(|claimed| claimed.map(|_| Vec::new())));
        };
        // A batch counts as its messages do one by one, but what was claimed is given at once.
        for _ in claims.iter().skip(1) {
            if has_budget_remaining()
                && let Poll::Ready(budget) = poll_proceed(cx)
            {
                budget.made_progress();
            }
        }
        let deliveries = claims.into_iter().map(|claim| self.delivery(claim));
        Poll::Ready(Some(Ok(deliveries.collect())))
    }

    // It may have been called for a message already: the call goes to the next in the line.
    fn give_up(mut self: Pin<&mut Self>) {
        self.leave();
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Holder {
    #[inline]
    fn end(&self, token: u64, verdict: &Verdict) -> Result<()> {
        self.connection.check_open("settle")?;
        // A rest begins now, but a lease is over or it is not.
        let mut locked = match verdict {
            Verdict::Ack | Verdict::Reject { .. } => self.durable.lock_coarsely(),
            Verdict::Retry { .. } | Verdict::Release { .. } => self.durable.lock(),
        };
        let settled = self.settle_in(&mut locked, token, verdict);
        locked.look_after(self.key);
        locked.finish();
        settled.map(drop)
    }

    /// As `end`, answered when it is safe.
    fn end_safely(&self, token: u64, verdict: &Verdict) -> Answer<'_, ()> {
        if let Err(error) = self.admit("settle", 1) {
            return Answer::ready(Err(error));
        }
        let (settled, position) = self.durable.ask(|locked| {
            let settled = self.settle_in(locked, token, verdict);
            locked.look_after(self.key);
            settled
        });
        self.safety.answer_shown(position, settled.map(drop))
    }

    fn admit(&self, op: &'static str, verdicts: usize) -> Result<()> {
        self.connection.check_open(op)?;
        self.safety.admit(op, VERDICT_BYTES * verdicts, true)
    }

    fn end_all(&self, verdicts: &[(u64, Verdict)]) -> (Vec<Result<()>>, Position) {
        if let Err(error) = self.admit("settle", verdicts.len()) {
            // Not asked again for each: by then it might be admitted, and nothing was done.
            let refused = verdicts.iter().map(|_| Err(again(&error))).collect();
            return (refused, Position(0));
        }
        let mut locked = self.durable.lock();
        let settle =
            |(token, verdict): &(u64, Verdict)| self.settle_in(&mut locked, *token, verdict);
        let settled: Vec<_> = verdicts.iter().map(settle).collect();
        locked.look_after(self.key);
        let position = locked.state.broker.position();
        locked.finish();
        (settled.into_iter().map(|settled| settled.map(drop)).collect(), position)
    }

    /// Returns the message that went, which is dropped once the lock is free.
    #[inline]
    fn settle_in(
        &self,
        locked: &mut Locked<'_>,
        token: u64,
        verdict: &Verdict,
    ) -> Result<Option<Arc<Frame>>> {
        if let Verdict::Reject { reason } = verdict {
            tracing::debug!(consumer = ?self.key, reason, "delivery rejected");
        }
        let now = locked.now;
        locked.state.broker.settle(self.key, token, verdict, now)
    }

    fn begin_anew(&self, token: u64) -> Result<()> {
        self.connection.check_open("extend")?;
        let mut locked = self.durable.lock();
        let now = locked.now;
        let extended = locked.state.broker.extend(self.key, token, now);
        locked.look_after(self.key);
        locked.finish();
        extended.map(drop)
    }
}

impl Settle for Holder {
    fn stream(&self) -> &StreamName {
        &self.stream
    }

    // All of them in the call itself: `Delivery` asks when it is awaited.
    fn settle(&self, token: u64, verdict: Verdict) -> Answer<'_, ()> {
        if self.safety.is_kept() {
            return self.end_safely(token, &verdict);
        }
        Answer::ready(self.end(token, &verdict))
    }

    fn settle_all(&self, verdicts: Vec<(u64, Verdict)>) -> BoxFuture<'_, Vec<Result<()>>> {
        let (answers, position) = self.end_all(&verdicts);
        Box::pin(async move {
            let safe = self.safety.told_shown(position, Ok(())).await;
            safe_or_unknown(answers, safe)
        })
    }

    fn extend(&self, token: u64) -> Answer<'_, ()> {
        Answer::ready(self.begin_anew(token))
    }
}

/// The answers to what was done, when it is known whether that is safe.
fn safe_or_unknown(answers: Vec<Result<()>>, safe: Result<()>) -> Vec<Result<()>> {
    let Err(error) = safe else { return answers };
    let unknown = || Err(again(&error).unknown());
    answers.into_iter().map(|answer| answer.and_then(|()| unknown())).collect()
}

/// What is said of all verdicts, about one of them.
fn again(error: &Error) -> Error {
    Error::new(error.kind(), "settle", error.detail().to_owned())
}

/// What a verdict takes in a journal, about.
const VERDICT_BYTES: usize = 64;
