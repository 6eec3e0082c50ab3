//! What waits to be written to one connection, bounded in bytes.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bus_core::{Error, ErrorKind, Result};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _},
    sync::Notify,
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
            state.stage = Stage::Broken;
            drop(state);
            self.wake_all();
            return Err((ended(), entry.deliveries));
        }
        state.bytes += entry.packet.len();
        state.waiting.push_back(entry);
        drop(state);
        self.filled.notify_one();
        Ok(())
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
        drop(state);
        self.wake_all();
    }

    /// Ends it at once.
    pub(crate) fn abort(&self) {
        self.lock().stage = Stage::Broken;
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
            self.lock().bytes -= buffer.len();
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

fn ended() -> Error {
    Error::new(ErrorKind::Unavailable, "send", "the connection has ended")
}

/// How much is written in one go, and one packet more.
const RUN_BYTES: usize = 64 << 10;
