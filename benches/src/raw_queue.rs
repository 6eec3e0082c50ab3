//! The raw work queue that ours is measured beside: what one writes in an afternoon.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::sync::Notify;

/// Tasks in order, leases with deadline and attempt, and who waits.
#[derive(Debug, Default)]
pub(crate) struct RawQueue {
    state: Mutex<State>,
    more: Notify,
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<(Bytes, u32)>,
    leases: HashMap<u64, Lease>,
    last_token: u64,
}

/// What giving a task back would need.
#[derive(Debug)]
#[expect(dead_code, reason = "the measure gives nothing back, but a queue must be able to")]
struct Lease {
    body: Bytes,
    attempt: u32,
    deadline: Instant,
}

impl RawQueue {
    pub(crate) fn push(&self, body: Bytes) {
        self.lock().ready.push_back((body, 1));
        self.more.notify_one();
    }

    /// The next task with the token of its lease and its attempt.
    pub(crate) async fn claim(&self) -> (u64, Bytes, u32) {
        loop {
            if let Some(claimed) = self.try_claim() {
                return claimed;
            }
            self.more.notified().await;
        }
    }

    pub(crate) fn push_many(&self, bodies: Vec<Bytes>) {
        self.lock().ready.extend(bodies.into_iter().map(|body| (body, 1)));
        self.more.notify_one();
    }

    /// As `claim`, several at once.
    pub(crate) async fn claim_many(&self, max: usize) -> Vec<(u64, Bytes, u32)> {
        loop {
            if let Some(claimed) = self.try_claim_many(max) {
                return claimed;
            }
            self.more.notified().await;
        }
    }

    /// As `ack`, several at once.
    pub(crate) fn ack_many(&self, tokens: Vec<u64>) {
        let mut state = self.lock();
        for token in tokens {
            std::hint::black_box(state.leases.remove(&token));
        }
    }

    /// Ends a lease; false when there is none. It does not look at the clock.
    pub(crate) fn ack(&self, token: u64) -> bool {
        let ended = self.lock().leases.remove(&token);
        std::hint::black_box(&ended);
        ended.is_some()
    }

    fn try_claim_many(&self, max: usize) -> Option<Vec<(u64, Bytes, u32)>> {
        let mut state = self.lock();
        if state.ready.is_empty() {
            return None;
        }
        let deadline = now() + LEASE;
        Some((0..max).map_while(|_| state.claim(deadline)).collect())
    }

    fn try_claim(&self) -> Option<(u64, Bytes, u32)> {
        let mut state = self.lock();
        if state.ready.is_empty() {
            return None;
        }
        state.claim(now() + LEASE)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn claim(&mut self, deadline: Instant) -> Option<(u64, Bytes, u32)> {
        let (body, attempt) = self.ready.pop_front()?;
        self.last_token += 1;
        let token = self.last_token;
        self.leases.insert(token, Lease { body: body.clone(), attempt, deadline });
        Some((token, body, attempt))
    }
}

#[expect(clippy::disallowed_methods, reason = "the raw way reads the clock as anybody would")]
fn now() -> Instant {
    Instant::now()
}

const LEASE: Duration = Duration::from_secs(30);
