//! The raw work queue that ours is measured beside: what one writes in an afternoon.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

/// Tasks in order, leases with deadline and attempt, and who waits.
#[derive(Debug)]
pub(crate) struct RawQueue<T> {
    state: Mutex<State<T>>,
    more: Notify,
}

#[derive(Debug)]
struct State<T> {
    ready: VecDeque<(T, u32)>,
    leases: HashMap<u64, Lease<T>>,
    last_token: u64,
}

/// What giving a task back would need.
#[derive(Debug)]
#[expect(dead_code, reason = "the measure gives nothing back, but a queue must be able to")]
struct Lease<T> {
    task: T,
    attempt: u32,
    deadline: Instant,
}

impl<T> Default for RawQueue<T> {
    fn default() -> Self {
        let state = State { ready: VecDeque::new(), leases: HashMap::new(), last_token: 0 };
        Self { state: Mutex::new(state), more: Notify::new() }
    }
}

impl<T: Clone> RawQueue<T> {
    pub(crate) fn push(&self, task: T) {
        self.lock().ready.push_back((task, 1));
        self.more.notify_one();
    }

    /// The next task with the token of its lease and its attempt.
    pub(crate) async fn claim(&self) -> (u64, T, u32) {
        loop {
            if let Some(claimed) = self.try_claim() {
                return claimed;
            }
            self.more.notified().await;
        }
    }

    pub(crate) fn push_many(&self, tasks: Vec<T>) {
        self.lock().ready.extend(tasks.into_iter().map(|task| (task, 1)));
        self.more.notify_one();
    }

    /// As `claim`, several at once.
    pub(crate) async fn claim_many(&self, max: usize) -> Vec<(u64, T, u32)> {
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

    fn try_claim_many(&self, max: usize) -> Option<Vec<(u64, T, u32)>> {
        let mut state = self.lock();
        if state.ready.is_empty() {
            return None;
        }
        let deadline = now() + LEASE;
        Some((0..max).map_while(|_| state.claim(deadline)).collect())
    }

    fn try_claim(&self) -> Option<(u64, T, u32)> {
        let mut state = self.lock();
        if state.ready.is_empty() {
            return None;
        }
        state.claim(now() + LEASE)
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> State<T> {
    fn claim(&mut self, deadline: Instant) -> Option<(u64, T, u32)> {
        let (task, attempt) = self.ready.pop_front()?;
        self.last_token += 1;
        let token = self.last_token;
        self.leases.insert(token, Lease { task: task.clone(), attempt, deadline });
        Some((token, task, attempt))
    }
}

#[expect(clippy::disallowed_methods, reason = "the raw way reads the clock as anybody would")]
fn now() -> Instant {
    Instant::now()
}

const LEASE: Duration = Duration::from_secs(30);
