//! When checkpoints of live messages are due, and who is woken for them.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bus_envelope::{EventHash, Timestamp};
use bus_subjects::Subject;
use tokio::sync::Notify;

use super::Endpoint;
use crate::{LiveCheckpoint, Result};

/// The live messages of one chain that no checkpoint vouches for yet: always its last ones, without
/// a gap.
#[derive(Default)]
pub(super) struct Unvouched {
    leaves: VecDeque<EventHash>,
    since: Option<Timestamp>,
    /// Whether the chain stands among those that are due some time.
    pub is_queued: bool,
}

/// The chains on which a checkpoint is due some time, the next first; each at most once.
#[derive(Default)]
pub(super) struct Due {
    times: Mutex<BTreeSet<(Timestamp, Subject)>>,
    news: Notify,
}

impl Endpoint {
    /// When the next checkpoint of live messages is due; `None`: no message waits for one.
    #[must_use]
    pub fn next_vouching(&self) -> Option<Timestamp> {
        self.0.due.first().map(|(time, _)| time)
    }

    /// Publishes every checkpoint that is due at `now`, and says for how many messages they vouch.
    ///
    /// A busy subject needs nobody to call this: publishing sends what is due. It is for the last
    /// messages before a silence.
    ///
    /// # Errors
    /// That of the first checkpoint that was not sent; it is due again a little later.
    pub async fn vouch_due(&self, now: Timestamp) -> Result<usize> {
        let (mut vouched, mut fault) = (0_usize, Ok(()));
        while let Some((due, subject)) = self.0.due.first().filter(|(due, _)| *due <= now) {
            match self.vouch_at(due, &subject, now).await {
                Ok(count) => vouched = vouched.saturating_add(count),
                Err(error) if fault.is_ok() => fault = Err(error),
                Err(_) => {}
            }
        }
        fault.map(|()| vouched)
    }

    /// Publishes every checkpoint when it is due, for as long as it is polled: whoever publishes
    /// live messages polls it beside that. It never ends, and several at once are fine.
    ///
    /// Cancel safe: what is due stays due.
    pub async fn keep_vouching(&self) {
        loop {
            let news = self.0.due.news.notified();
            tokio::pin!(news);
            // Before the look, so that what comes in between is not missed.
            news.as_mut().enable();
            match self.next_vouching() {
                None => news.await,
                Some(due) => {
                    let rest = due.since(self.clock().now());
                    if rest.is_zero() {
                        if let Err(error) = self.vouch_due(self.clock().now()).await {
                            tracing::warn!(%error, "a checkpoint of live messages was not sent");
                        }
                    } else {
                        tokio::select! {
                            () = tokio::time::sleep(rest) => {}
                            () = news => {}
                        }
                    }
                }
            }
        }
    }

    /// Ends the endpoint: vouches for every live message that waits for it, then closes the
    /// connection. Everybody who shares that connection loses it.
    ///
    /// # Errors
    /// That of the first checkpoint that was not sent, or of [`crate::Bus::close`]; the connection
    /// is closed in any case.
    pub async fn close(&self) -> Result<()> {
        let mut fault = Ok(());
        for subject in self.0.due.subjects() {
            if let Err(error) = self.finish_live(&subject).await
                && fault.is_ok()
            {
                fault = Err(error);
            }
        }
        fault.and(self.engine().close().await)
    }

    /// Vouches for what waits on a chain that was found due, or moves it to when it is: a
    /// checkpoint was sent meanwhile, or cannot be sent now.
    ///
    /// It leaves its place among those due only at the end, so that a dropped call loses nothing.
    async fn vouch_at(&self, due: Timestamp, subject: &Subject, now: Timestamp) -> Result<usize> {
        let Some(policy) = self.0.parts.checkpoints else { return Ok(0) };
        let chain = self.0.chains.of(subject)?;
        let mut state = chain.lock().await;
        if !self.0.due.holds(due, subject) {
            return Ok(0);
        }
        let mut vouched = Ok(0);
        let mut next = None;
        if state.unvouched.count() > 0 {
            next = Some(state.unvouched.since(now).plus(policy.within()));
            if next.is_some_and(|next| next <= now) {
                vouched = self.vouch(subject, &mut state).await;
                next = vouched.is_err().then(|| now.plus(policy.within().max(RETRY_REST)));
            }
        }
        state.unvouched.is_queued = next.is_some();
        self.0.due.replace(due, subject, next);
        vouched
    }
}

impl Unvouched {
    /// Adds the newest message. Beyond what one checkpoint can hold the oldest goes: it stays
    /// vouched for by its seal alone.
    pub(super) fn push(&mut self, leaf: EventHash) {
        self.leaves.push_back(leaf);
        if self.leaves.len() > LiveCheckpoint::LEAVES_MAX {
            self.leaves.pop_front();
        }
    }

    /// Takes back the newest message, which was not sent.
    pub(super) fn pop(&mut self) {
        self.leaves.pop_back();
        if self.leaves.is_empty() {
            self.since = None;
        }
    }

    pub(super) fn count(&self) -> usize {
        self.leaves.len()
    }

    pub(super) fn leaves(&self) -> impl Iterator<Item = &EventHash> {
        self.leaves.iter()
    }

    /// Since when messages wait; from `now` on if nothing else is known.
    pub(super) fn since(&mut self, now: Timestamp) -> Timestamp {
        *self.since.get_or_insert(now)
    }

    pub(super) fn clear(&mut self) {
        self.leaves.clear();
        self.since = None;
    }
}

impl Due {
    /// A checkpoint on `subject` is due at `time`; everybody who keeps vouching looks again.
    pub(super) fn add(&self, time: Timestamp, subject: Subject) {
        self.times().insert((time, subject));
        self.news.notify_waiters();
    }

    fn first(&self) -> Option<(Timestamp, Subject)> {
        self.times().first().cloned()
    }

    fn holds(&self, time: Timestamp, subject: &Subject) -> bool {
        self.times().contains(&(time, subject.clone()))
    }

    /// Gives `subject` another time, or none.
    fn replace(&self, time: Timestamp, subject: &Subject, next: Option<Timestamp>) {
        let mut times = self.times();
        times.remove(&(time, subject.clone()));
        times.extend(next.map(|next| (next, subject.clone())));
    }

    fn subjects(&self) -> Vec<Subject> {
        self.times().iter().map(|(_, subject)| subject.clone()).collect()
    }

    fn times(&self) -> MutexGuard<'_, BTreeSet<(Timestamp, Subject)>> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The shortest rest after a checkpoint that could not be sent.
const RETRY_REST: Duration = Duration::from_millis(100);
