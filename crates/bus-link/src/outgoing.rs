//! What waits to be written to one connection, bounded in bytes.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bus_core::{Error, ErrorKind, Result};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _},
    sync::{Notify, oneshot},
    time::timeout,
};

use crate::wire::Packet;

/// The packets of one connection that were not written yet, in order.
#[derive(Debug)]
pub(crate) struct Outgoing {
    state: Mutex<State>,
    /// Something is to be written, or nothing ever will be.
    filled: Notify,
    /// Something was written.
    drained: Notify,
    /// Who may wait, waits above this.
    bytes_soft: usize,
    /// Above this the connection ends.
    bytes_hard: usize,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Entry>,
    /// What waits for room to wait in, in order: it moves up by itself, whether or not the
    /// future that put it here is polled, so that nobody stands still behind one that is not.
    held: VecDeque<Held>,
    last_turn: u64,
    /// Bytes of those that wait and of those that are being written.
    bytes: usize,
    stage: Stage,
}

/// A packet and the deliveries that it hands over.
#[derive(Debug)]
struct Entry {
    packet: Packet,
    deliveries: Vec<u64>,
}

/// A packet that has no room yet, and who is told when it has.
#[derive(Debug)]
struct Held {
    turn: u64,
    packet: Packet,
    moved_up: oneshot::Sender<()>,
}

/// The place of a packet among those that wait for room; dropping it gives it up.
#[derive(Debug)]
struct Turn<'a> {
    out: &'a Outgoing,
    turn: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    #[default]
    Open,
    /// Nothing more is taken, what waits is written.
    Closing,
    /// Nothing is written any more.
    Broken,
}

impl Outgoing {
    /// An empty queue.
    pub(crate) fn new(bytes_soft: usize, bytes_hard: usize) -> Self {
        Self {
            state: Mutex::default(),
            filled: Notify::new(),
            drained: Notify::new(),
            bytes_soft,
            bytes_hard,
        }
    }

    /// Adds a packet, whatever waits; beyond the hard bound the connection ends.
    ///
    /// # Errors
    /// `Unavailable`, not done: the connection has ended.
    pub(crate) fn push(&self, packet: Packet) -> Result<()> {
        self.push_entry(Entry { packet, deliveries: Vec::new() }).map_err(|(error, _)| error)
    }

    /// Adds a packet that hands `deliveries` over.
    ///
    /// # Errors
    /// The deliveries, when the connection has ended.
    pub(crate) fn push_deliveries(
        &self,
        packet: Packet,
        deliveries: Vec<u64>,
    ) -> std::result::Result<(), Vec<u64>> {
        self.push_entry(Entry { packet, deliveries }).map_err(|(_, deliveries)| deliveries)
    }

    fn push_entry(&self, entry: Entry) -> std::result::Result<(), (Error, Vec<u64>)> {
        let mut state = self.lock();
        if state.stage != Stage::Open {
            return Err((ended(), entry.deliveries));
        }
        if state.bytes > 0 && state.bytes + entry.packet.len() > self.bytes_hard {
            drop(state);
            self.abort();
            return Err((ended(), entry.deliveries));
        }
        state.bytes += entry.packet.len();
        state.waiting.push_back(entry);
        drop(state);
        self.filled.notify_one();
        Ok(())
    }

    /// Adds a packet when less than the soft bound waits and it is its turn: what came first goes
    /// first. The place is taken at the first poll; a call that is dropped before its packet got
    /// room has sent nothing.
    ///
    /// # Errors
    /// `Unavailable`, not done: the connection has ended.
    pub(crate) async fn push_in_turn(&self, packet: Packet) -> Result<()> {
        let (moved_up, has_moved) = oneshot::channel();
        let turn = {
            let mut state = self.lock();
            if state.stage != Stage::Open {
                return Err(ended());
            }
            if state.held.is_empty() && state.bytes < self.bytes_soft {
                state.add(packet);
                drop(state);
                self.filled.notify_one();
                return Ok(());
            }
            state.last_turn += 1;
            let turn = state.last_turn;
            state.held.push_back(Held { turn, packet, moved_up });
            Turn { out: self, turn }
        };
        let moved = has_moved.await;
        drop(turn);
        moved.map_err(|_| ended())
    }

    /// Waits until less than the soft bound waits. Cancel safe.
    ///
    /// # Errors
    /// `Unavailable`, not done: the connection has ended.
    pub(crate) async fn room(&self) -> Result<()> {
        loop {
            let drained = self.drained.notified();
            {
                let state = self.lock();
                if state.stage != Stage::Open {
                    return Err(ended());
                }
                if state.bytes < self.bytes_soft {
                    return Ok(());
                }
            }
            drained.await;
        }
    }

    /// Takes nothing more; what waits is written first.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        if state.stage == Stage::Open {
            state.stage = Stage::Closing;
        }
        let held = std::mem::take(&mut state.held);
        drop(state);
        drop(held);
        self.wake_all();
    }

    /// Ends it at once.
    pub(crate) fn abort(&self) {
        let held = {
            let mut state = self.lock();
            state.stage = Stage::Broken;
            std::mem::take(&mut state.held)
        };
        drop(held);
        self.wake_all();
    }

    /// Waits until it has ended, by whichever side. Cancel safe.
    pub(crate) async fn broken(&self) {
        loop {
            let drained = self.drained.notified();
            if self.lock().stage == Stage::Broken {
                return;
            }
            drained.await;
        }
    }

    /// The deliveries of packets that were not written.
    pub(crate) fn unwritten(&self) -> Vec<u64> {
        let waiting = std::mem::take(&mut self.lock().waiting);
        waiting.into_iter().flat_map(|entry| entry.deliveries).collect()
    }

    /// Writes what comes until it is closed or broken; `stall` is how long one write may take.
    pub(crate) async fn write_to(&self, stream: &mut (impl AsyncWrite + Unpin), stall: Duration) {
        let mut buffer = Vec::new();
        loop {
            let filled = self.filled.notified();
            let stage = self.take(&mut buffer);
            if stage == Stage::Broken {
                break;
            }
            if buffer.is_empty() {
                if stage == Stage::Closing {
                    // The peer may have gone already.
                    let _ignored = timeout(stall, stream.shutdown()).await;
                    break;
                }
                filled.await;
                continue;
            }
            let writing = async {
                stream.write_all(&buffer).await?;
                stream.flush().await
            };
            let outcome = tokio::select! {
                outcome = timeout(stall, writing) => outcome,
                () = self.broken() => break,
            };
            if !matches!(outcome, Ok(Ok(()))) {
                break;
            }
            {
                let mut state = self.lock();
                state.bytes -= buffer.len();
                state.move_up(self.bytes_soft);
            }
            buffer.clear();
            self.drained.notify_waiters();
        }
        self.abort();
    }

    /// Moves packets into `buffer`, some tens of kilobytes at a time. From here on nobody knows
    /// whether the peer reads them: their deliveries count as handed over.
    fn take(&self, buffer: &mut Vec<u8>) -> Stage {
        let mut state = self.lock();
        while buffer.len() < RUN_BYTES
            && let Some(entry) = state.waiting.pop_front()
        {
            // A long one goes as it is: its copy would cost more than a write of its own.
            if buffer.is_empty() && entry.packet.len() >= ALONE_BYTES {
                *buffer = entry.packet.into_bytes();
                break;
            }
            buffer.extend_from_slice(entry.packet.as_bytes());
        }
        state.stage
    }

    fn wake_all(&self) {
        self.filled.notify_one();
        self.drained.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, packet: Packet) {
        self.bytes += packet.len();
        self.waiting.push_back(Entry { packet, deliveries: Vec::new() });
    }

    /// Gives room to those that wait for it, in order.
    fn move_up(&mut self, bytes_soft: usize) {
        while self.bytes < bytes_soft
            && let Some(held) = self.held.pop_front()
        {
            self.add(held.packet);
            // Whoever waited may have gone just now: then it is sent all the same.
            let _gone = held.moved_up.send(());
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.out.lock();
        // They stand in the order of their turns.
        if let Ok(place) = state.held.binary_search_by_key(&self.turn, |held| held.turn) {
            let given_up = state.held.remove(place);
            drop(state);
            drop(given_up);
        }
    }
}

fn ended() -> Error {
    Error::new(ErrorKind::Unavailable, "send", "the connection has ended")
}

/// How much is written in one go, and one packet more.
const RUN_BYTES: usize = 64 << 10;

/// From how many bytes on a packet is written without being copied to others.
const ALONE_BYTES: usize = RUN_BYTES / 2;
