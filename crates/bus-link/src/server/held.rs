//! The deliveries that clients hold, under names that outlive their connections.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bus_core::{Delivery, Error, ErrorKind, Result, Settle, Verdict};
use bus_crypto::PublicKey;
use tokio::time::Instant;

/// Every delivery of one server that was handed to a client and not settled since.
///
/// What is kept of each is its name at the engine, not its frame. It is forgotten when it is
/// settled, or some time after its lease is over.
#[derive(Default)]
pub(crate) struct Held(Mutex<Table>);

#[derive(Default)]
struct Table {
    entries: HashMap<u64, Entry>,
    last_id: u64,
    /// How many there may be before those whose leases are over are looked for.
    sweep_at: usize,
}

#[derive(Clone)]
struct Entry {
    settle: Arc<dyn Settle>,
    token: u64,
    owner: PublicKey,
    lease: Duration,
    until: Instant,
}

impl Held {
    /// Takes in a delivery for `owner`, and returns its name.
    pub(crate) fn take_in(&self, delivery: &Delivery, owner: PublicKey) -> u64 {
        let (settle, token) = delivery.settler();
        let lease = delivery.lease;
        let now = Instant::now();
        let until = end_of(now, lease);
        let mut table = self.lock();
        table.sweep(now);
        table.last_id += 1;
        let id = table.last_id;
        table.entries.insert(id, Entry { settle, token, owner, lease, until });
        id
    }

    /// Ends deliveries in their order, and says of each what became of it.
    pub(crate) async fn settle(
        &self,
        verdicts: Vec<(u64, Verdict)>,
        owner: PublicKey,
    ) -> Vec<Result<()>> {
        let mut answers = Vec::with_capacity(verdicts.len());
        let entries = {
            let mut table = self.lock();
            let take = |(id, verdict)| (table.take(id, &owner), verdict);
            verdicts.into_iter().map(take).collect::<Vec<_>>()
        };
        let mut rest = entries.into_iter().peekable();
        while let Some((entry, verdict)) = rest.next() {
            let Some(entry) = entry else {
                answers.push(Err(lost("settle")));
                continue;
            };
            let mut run = vec![(entry.token, verdict)];
            let is_same = |(other, _): &(Option<Entry>, Verdict)| {
                other.as_ref().is_some_and(|other| Arc::ptr_eq(&other.settle, &entry.settle))
            };
            while let Some((other, verdict)) = rest.next_if(is_same) {
                run.extend(other.map(|other| (other.token, verdict)));
            }
            answers.extend(entry.settle.settle_all(run).await);
        }
        answers
    }

    /// Starts the lease of a delivery anew.
    ///
    /// # Errors
    /// `LeaseLost` when it is unknown here, and those of the engine.
    pub(crate) async fn extend(&self, id: u64, owner: PublicKey) -> Result<()> {
        let entry = self.lock().entries.get(&id).filter(|entry| entry.owner == owner).cloned();
        let entry = entry.ok_or_else(|| lost("extend"))?;
        entry.settle.extend(entry.token).await?;
        if let Some(entry) = self.lock().entries.get_mut(&id) {
            entry.until = end_of(Instant::now(), entry.lease);
        }
        Ok(())
    }

    /// Gives back deliveries that nobody has seen.
    pub(crate) async fn give_back(&self, ids: Vec<u64>, owner: PublicKey) {
        let release = |id| (id, Verdict::Release { after: Duration::ZERO });
        let answers = self.settle(ids.into_iter().map(release).collect(), owner).await;
        for error in answers.into_iter().filter_map(Result::err) {
            tracing::debug!(%error, "an unseen delivery was not given back");
        }
    }
}

impl Table {
    fn take(&mut self, id: u64, owner: &PublicKey) -> Option<Entry> {
        if self.entries.get(&id).is_some_and(|entry| entry.owner == *owner) {
            return self.entries.remove(&id);
        }
        None
    }

    /// Forgets what is long over, when there is much: each entry is looked at a few times in all.
    fn sweep(&mut self, now: Instant) {
        if self.entries.len() < self.sweep_at.max(SWEEP_MIN) {
            return;
        }
        self.entries.retain(|_, entry| entry.until > now);
        self.sweep_at = self.entries.len() * 2;
    }
}

impl Held {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When a delivery may be forgotten: the engine alone says when its lease is over.
fn end_of(now: Instant, lease: Duration) -> Instant {
    now.checked_add(lease.saturating_mul(2)).unwrap_or_else(|| now + FOREVER)
}

fn lost(op: &'static str) -> Error {
    Error::new(ErrorKind::LeaseLost, op, "this server knows no such delivery of this client")
}

const SWEEP_MIN: usize = 1024;

/// Longer than any process lives: 30 years.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 86_400);
