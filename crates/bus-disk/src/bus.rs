//! The embedded engine that survives a restart, as callers hold it.

use std::{
    path::PathBuf,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bus_core::{
    Answer, BoxFuture, Bus, ConsumerSpec, ConsumerState, Deliveries, Durability, Engine, Error,
    ErrorKind, Expect, Frame, Lag, Overflow, Promises, Receipt, Replay, Result, Seq, Stored,
    StreamSpec, Subscription,
};
use bus_envelope::Timestamp;
use bus_mem::{
    InMemoryBus, LiveStats,
    journal::{Journal, Position},
};
use bus_subjects::{ConsumerName, Filter, StreamName, Subject};

use crate::{
    backup::{self, Backup},
    blobs::BlobFiles,
    contents::Contents,
    keeper::Sizes,
    options::DiskOptions,
    store::Store,
};

mod blobs;
mod buckets;
pub(crate) mod open;

/// A bus whose durable part is kept in a directory: an embedded bus behind a journal.
///
/// Clones are the same connection: one close ends them all, and dropping the last one closes
/// likewise. [`DiskBus::connect`] opens another connection to the same broker. With the last
/// connection the directory is closed: what was accepted is safe, and another process may have
/// it. To drop that one may take a moment, which [`Bus::close`] takes without blocking.
///
/// Stored messages, values, leases and attempts are kept in memory as well, blobs are not. What is
/// not safe on disk yet is shown to nobody. Calls need a tokio runtime with its timer.
#[derive(Clone)]
pub struct DiskBus(Arc<Handle>);

/// What the clones share.
struct Handle {
    mem: InMemoryBus,
    core: Arc<Core>,
    is_closed: AtomicBool,
}

/// What all connections share.
struct Core {
    store: Store,
    blobs: Arc<BlobFiles>,
    connections: AtomicUsize,
    durability: Durability,
}

impl DiskBus {
    /// Opens a data directory, and makes it when it is not there. Blocks while it is read.
    ///
    /// # Errors
    /// `Conflict` when it is in use already, by whatever process (who is said); `Unavailable` when
    /// it cannot be read or written; `Full` when there is no room to begin in; `Denied` when others
    /// could have changed it; `Corrupt` with file and offset when something in it is damaged.
    pub fn open(options: DiskOptions) -> Result<Self> {
        open::open(options, Sizes::default())
    }

    /// Another connection to the same broker: closing one leaves the other open.
    ///
    /// A connection to a broker that was closed is closed.
    #[must_use]
    pub fn connect(&self) -> Self {
        let core = Arc::clone(&self.0.core);
        core.connections.fetch_add(1, Ordering::AcqRel);
        Self::of(self.0.mem.connect(), core)
    }

    /// Ends the broker for all connections: what was accepted is safe afterwards, and another
    /// process may have the directory. What the other connections ask is refused as `Closed`.
    ///
    /// # Errors
    /// `Unavailable` when not everything could be made safe.
    pub async fn shut_down(&self) -> Result<()> {
        // First: nobody may claim or read any more when another process has the directory.
        self.mem().close_all();
        let left = self.mem().close().await;
        let core = Arc::clone(&self.0.core);
        self.0.is_closed.store(true, Ordering::Release);
        let ended = crate::blobs::blocking(move || {
            core.end();
            Ok(())
        });
        ended.await.and(left)
    }

    /// Copies everything that is safe now into `dir`, which must be empty or not there, while the
    /// bus goes on. When the future is dropped, the copy goes on by itself.
    ///
    /// # Errors
    /// `Invalid` when `dir` is not empty; `Full`, `Unavailable` or `Corrupt`: what was copied by
    /// then is no backup, it has no manifest.
    pub async fn backup(&self, dir: impl Into<PathBuf>) -> Result<Backup> {
        self.check_open("backup")?;
        let position = self.0.core.store.journal.last();
        self.0.core.blobs.safe(position).await?;
        let (core, dir) = (Arc::clone(&self.0.core), dir.into());
        crate::blobs::blocking(move || {
            let _held = core.store.removal.lock().unwrap_or_else(PoisonError::into_inner);
            core.blobs.hold();
            let made = backup::write(&core.store, &dir);
            core.blobs.let_go();
            Ok(made)
        })
        .await?
    }

    /// What became of the live frames of all connections so far.
    #[must_use]
    pub fn stats(&self) -> LiveStats {
        self.0.mem.stats()
    }

    /// Counts what the bus holds; what changes meanwhile may count or not.
    #[must_use]
    pub fn contents(&self) -> Contents {
        let Position(position) = self.0.core.store.journal.last();
        let blobs = self.0.core.blobs.all().len() as u64;
        Contents { blobs, position, ..Contents::of(self.mem()) }
    }

    fn of(mem: InMemoryBus, core: Arc<Core>) -> Self {
        Self(Arc::new(Handle { mem, core, is_closed: AtomicBool::new(false) }))
    }

    pub(crate) fn mem(&self) -> &InMemoryBus {
        &self.0.mem
    }

    fn check_open(&self, op: &'static str) -> Result<()> {
        if self.0.is_closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Closed, op, "the bus was closed"));
        }
        Ok(())
    }
}

impl Handle {
    /// Marks this connection as closed; true when it was the last one that was open.
    fn leave(&self) -> bool {
        !self.is_closed.swap(true, Ordering::AcqRel)
            && self.core.connections.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

impl Core {
    /// Makes everything safe and lets the directory go; blocks for as long.
    fn end(&self) {
        self.store.close();
        self.blobs.discard_left();
        self.store.home.release();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.leave() {
            self.mem.close_all();
            self.core.end();
        }
    }
}

impl std::fmt::Debug for DiskBus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("DiskBus");
        shown.field("dir", &self.0.core.store.home.dir()).field("mem", self.mem());
        shown.finish_non_exhaustive()
    }
}

impl Engine for DiskBus {
    fn promises(&self) -> Promises {
        Promises { engine: "disk", durability: self.0.core.durability, shared: false }
    }
}

impl Bus for DiskBus {
    fn publish(&self, frame: Frame) -> BoxFuture<'_, Result<()>> {
        self.mem().publish(frame)
    }

    fn subscribe(&self, filter: Filter, overflow: Overflow) -> BoxFuture<'_, Result<Subscription>> {
        self.mem().subscribe(filter, overflow)
    }

    fn request(&self, frame: Frame, wait: Duration) -> BoxFuture<'_, Result<Frame>> {
        self.mem().request(frame, wait)
    }

    fn declare(&self, stream: StreamSpec) -> BoxFuture<'_, Result<()>> {
        self.mem().declare(stream)
    }

    fn append(&self, frame: Frame, expect: Expect) -> Answer<'_, Receipt> {
        self.mem().append(frame, expect)
    }

    fn append_all(&self, frames: Vec<Frame>) -> BoxFuture<'_, Result<Vec<Receipt>>> {
        self.mem().append_all(frames)
    }

    fn last(&self, subject: Subject) -> BoxFuture<'_, Result<Option<Stored>>> {
        self.mem().last(subject)
    }

    fn read(&self, stream: StreamName, seq: Seq) -> BoxFuture<'_, Result<Option<Stored>>> {
        self.mem().read(stream, seq)
    }

    fn discard(&self, stream: StreamName, seq: Seq) -> BoxFuture<'_, Result<bool>> {
        self.mem().discard(stream, seq)
    }

    fn consume(&self, consumer: ConsumerSpec) -> BoxFuture<'_, Result<Deliveries>> {
        self.mem().consume(consumer)
    }

    fn consumers(&self, stream: StreamName) -> BoxFuture<'_, Result<Vec<ConsumerState>>> {
        self.mem().consumers(stream)
    }

    fn pause(
        &self,
        stream: StreamName,
        consumer: ConsumerName,
        until: Option<Timestamp>,
    ) -> BoxFuture<'_, Result<()>> {
        self.mem().pause(stream, consumer, until)
    }

    fn remove_consumer(
        &self,
        stream: StreamName,
        consumer: ConsumerName,
    ) -> BoxFuture<'_, Result<bool>> {
        self.mem().remove_consumer(stream, consumer)
    }

    fn replay(
        &self,
        stream: StreamName,
        filter: Filter,
        from: Seq,
    ) -> BoxFuture<'_, Result<Replay>> {
        self.mem().replay(stream, filter, from)
    }

    fn lag(&self, stream: StreamName) -> BoxFuture<'_, Result<Lag>> {
        self.mem().lag(stream)
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.mem().close().await?;
            if self.0.leave() {
                self.mem().close_all();
                let core = Arc::clone(&self.0.core);
                crate::blobs::blocking(move || {
                    core.end();
                    Ok(())
                })
                .await?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;
