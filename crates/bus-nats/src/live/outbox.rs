//! Live frames on their way to the connection: those that wait for one subject go as one message.
//!
//! A frame waits only until the task that carries them has its turn, which is as soon as whoever
//! published it waits for anything. Then all that waits is handed over, in the order it came.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bus_core::{Error, ErrorKind, Result};
use bus_subjects::Subject;
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use tokio::{
    sync::Notify,
    task::{
        JoinHandle,
        coop::{consume_budget, unconstrained},
    },
    time::{Instant, timeout},
};

use crate::{
    codec::{FRAMES_MAX, Packable},
    connection::Connection,
};

/// What waits, and the task that carries it.
pub(super) struct Outbox {
    shared: Arc<Shared>,
    carrier: JoinHandle<()>,
}

struct Shared {
    connection: Arc<Connection>,
    waiting: Mutex<Waiting>,
    /// Something waits, and the carrier sleeps.
    news: Notify,
    /// Something was taken.
    room: Notify,
    /// Who holds it hands over: one at a time, so that the order stays.
    turn: tokio::sync::Mutex<()>,
    /// Something that was taken in could not be handed over.
    has_lost: AtomicBool,
}

struct Waiting {
    messages: VecDeque<Packed>,
    /// The last message, to which frames of its subject are added.
    open: Option<Open>,
    /// Where messages are written, one behind the other.
    memory: BytesMut,
    /// The bytes of all that waits.
    bytes: usize,
    /// How many messages were handed over.
    gone: u64,
    carrier_sleeps: bool,
    is_closed: bool,
}

struct Open {
    subject: Subject,
    frames: usize,
}

struct Packed {
    subject: Subject,
    body: Bytes,
}

impl Outbox {
    /// An outbox of `connection`, with its carrier.
    #[expect(clippy::disallowed_methods, reason = "an engine starts its own tasks")]
    pub(super) fn new(connection: Arc<Connection>) -> Self {
        let shared = Arc::new(Shared {
            connection,
            waiting: Mutex::new(Waiting::new()),
            news: Notify::new(),
            room: Notify::new(),
            turn: tokio::sync::Mutex::default(),
            has_lost: AtomicBool::new(false),
        });
        let carrier = tokio::spawn(Arc::clone(&shared).carry_on());
        Self { shared, carrier }
    }

    /// Takes a frame for `subject` in; waits for room as long as any call may take. Cancel safe: a
    /// call that is dropped has taken it or not.
    ///
    /// # Errors
    /// `TooLarge`, `Closed`, `Unavailable` (too much waits already), not done.
    pub(super) async fn put(
        &self,
        op: &'static str,
        subject: &Subject,
        frame: &Packable<'_>,
    ) -> Result<()> {
        let shared = &*self.shared;
        shared.connection.check_fits(op, frame.alone_bytes())?;
        // Who publishes without end lets the carrier have its turn.
        consume_budget().await;
        if shared.try_put(op, subject, frame)? {
            return Ok(());
        }
        let put = async {
            loop {
                let mut room = std::pin::pin!(shared.room.notified());
                // From here on no news is missed.
                room.as_mut().enable();
                if shared.try_put(op, subject, frame)? {
                    return Ok(());
                }
                room.await;
            }
        };
        timeout(shared.connection.answer_wait(), put).await.map_err(|_| full(op))?
    }

    /// Hands over everything that waits now, within `wait`, and says how much of that is left.
    /// Cancel safe: the rest waits on.
    ///
    /// # Errors
    /// `Unavailable`, not done, when the client has no room for it.
    pub(super) async fn carry(&self, op: &'static str, wait: Duration) -> Result<Duration> {
        if self.shared.lock().is_empty() {
            return Ok(wait);
        }
        let begun = Instant::now();
        timeout(wait, self.shared.carry()).await.map_err(|_| full(op))?;
        Ok(wait.saturating_sub(begun.elapsed()))
    }

    /// Takes nothing more in, and hands over what waits.
    ///
    /// # Errors
    /// `Unavailable`, with outcome unknown, when some of what was taken in was not handed over.
    pub(super) async fn close(&self) -> Result<()> {
        const OP: &str = "close";
        self.shared.lock().is_closed = true;
        let wait = self.shared.connection.answer_wait();
        let carried = self.carry(OP, wait).await.map_err(Error::unknown);
        // A second close has nothing to tell.
        if carried.is_ok() && self.shared.has_lost.swap(false, Ordering::AcqRel) {
            let why = "some of what was published was not handed to the connection";
            return Err(Error::new(ErrorKind::Unavailable, OP, why).unknown());
        }
        carried.map(drop)
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.carrier.abort();
        // What was accepted is handed over as far as the client takes it at once.
        let _handed_over = unconstrained(self.shared.carry()).now_or_never();
    }
}

impl Shared {
    async fn carry_on(self: Arc<Self>) {
        loop {
            self.carry().await;
            if self.sleeps() {
                self.news.notified().await;
            }
        }
    }

    async fn carry(&self) {
        let (last, gone) = {
            let waiting = self.lock();
            (waiting.last_number(), waiting.gone)
        };
        if gone == last {
            return;
        }
        let _turn = self.turn.lock().await;
        while self.lock().gone < last {
            let Some((subject, body)) = self.lock().first() else { return };
            // It waits on until it is handed over: whoever carries may be dropped meanwhile.
            let handed_over = self.connection.hand_over(&subject, body).await;
            self.lock().remove_first();
            self.room.notify_waiters();
            if let Err(error) = handed_over {
                self.has_lost.store(true, Ordering::Release);
                tracing::warn!(%subject, %error, "live messages were not handed over");
            }
        }
    }

    /// Takes a frame in; says whether there was room.
    fn try_put(&self, op: &'static str, subject: &Subject, frame: &Packable<'_>) -> Result<bool> {
        let bytes_max = self.connection.payload_max().min(MESSAGE_BYTES_MAX);
        let mut waiting = self.lock();
        if waiting.is_closed {
            let why = "the bus was closed";
            return Err(Error::new(ErrorKind::Closed, op, why).at(subject));
        }
        if waiting.bytes + frame.bytes() > WAITING_BYTES_MAX && !waiting.is_empty() {
            return Ok(false);
        }
        waiting.put(subject, frame, bytes_max);
        let wakes = std::mem::take(&mut waiting.carrier_sleeps);
        drop(waiting);
        if wakes {
            self.news.notify_one();
        }
        Ok(true)
    }

    /// Whether nothing waits; then the next frame wakes the carrier.
    fn sleeps(&self) -> bool {
        let mut waiting = self.lock();
        waiting.carrier_sleeps = waiting.is_empty();
        waiting.carrier_sleeps
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn new() -> Self {
        Self {
            messages: VecDeque::new(),
            open: None,
            memory: BytesMut::new(),
            bytes: 0,
            gone: 0,
            carrier_sleeps: false,
            is_closed: false,
        }
    }

    fn is_empty(&self) -> bool {
        self.open.is_none() && self.messages.is_empty()
    }

    /// The number of the last message, counted from 1.
    fn last_number(&self) -> u64 {
        self.gone + self.messages.len() as u64 + u64::from(self.open.is_some())
    }

    /// Adds a frame to the last message, or begins another one.
    fn put(&mut self, subject: &Subject, frame: &Packable<'_>, bytes_max: usize) {
        let mut bytes = frame.bytes();
        let is_with_the_last = self.open.as_ref().is_some_and(|open| {
            let fits = open.frames < FRAMES_MAX && self.memory.len() + bytes <= bytes_max;
            fits && open.subject == *subject
        });
        if !is_with_the_last {
            self.end_message();
            if self.memory.capacity() < MESSAGE_BYTES_MAX.max(2 * bytes) {
                self.memory = BytesMut::with_capacity(MEMORY_BYTES);
            }
            self.open = Some(Open { subject: subject.clone(), frames: 0 });
            bytes = frame.alone_bytes();
        }
        frame.put(&mut self.memory);
        self.bytes += bytes;
        if let Some(open) = &mut self.open {
            open.frames += 1;
        }
    }

    /// No further frame is added to the last message.
    fn end_message(&mut self) {
        if let Some(Open { subject, .. }) = self.open.take() {
            let body = self.memory.split().freeze();
            self.messages.push_back(Packed { subject, body });
        }
    }

    fn first(&mut self) -> Option<(Subject, Bytes)> {
        if self.messages.is_empty() {
            self.end_message();
        }
        self.messages.front().map(|packed| (packed.subject.clone(), packed.body.clone()))
    }

    fn remove_first(&mut self) {
        if let Some(packed) = self.messages.pop_front() {
            self.gone += 1;
            self.bytes = self.bytes.saturating_sub(packed.body.len());
        }
    }
}

fn full(op: &'static str) -> Error {
    Error::new(ErrorKind::Unavailable, op, "the connection takes no more now")
}

/// How much goes as one message.
const MESSAGE_BYTES_MAX: usize = 16 << 10;
/// How much may wait, beside a single frame.
const WAITING_BYTES_MAX: usize = 1 << 20;
/// How much memory is taken at a time.
const MEMORY_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests;
