//! The journal as the broker sees it: changes go into a buffer, a thread of its own writes them.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread::Thread,
};

use bus_core::{BoxFuture, Durability, Error, ErrorKind, Result};
use bus_mem::journal::{Change, Journal, Position};

use crate::{
    batch::BatchHeader,
    record::Record,
    waiters::{Safe, Waiters},
};

/// The journal of one directory; clones are the same one.
#[derive(Clone)]
pub(crate) struct DiskJournal(pub(crate) Arc<Shared>);

/// What the broker, the committer and the keeper share.
pub(crate) struct Shared {
    buffer: Mutex<Buffer>,
    pub(crate) waiters: Waiters,
    /// The last position that was recorded.
    last: AtomicU64,
    /// The last position that is safe.
    safe: AtomicU64,
    /// The last position that survives a power cut.
    synced: AtomicU64,
    /// Somebody waits for that.
    wants_sync: AtomicBool,
    /// Bytes that are recorded and not written.
    pending: AtomicUsize,
    /// How many asked since the committer looked last.
    asked: AtomicUsize,
    is_parked: AtomicBool,
    committer: OnceLock<Thread>,
    observer: Mutex<Option<Observer>>,
    durability: Durability,
    dir: Box<str>,
    /// Why nothing is written any more.
    failure: OnceLock<Box<str>>,
    /// Nothing new is taken.
    is_closed: AtomicBool,
    /// Nothing is written any more.
    has_ended: AtomicBool,
    /// The next segment cannot be made: there is no room.
    is_full: AtomicBool,
    /// Bytes left in the current segment.
    pub(crate) room: AtomicU64,
}

type Observer = Arc<dyn Fn(Position) + Send + Sync>;

/// Records that nobody wrote yet, behind room for the header of a batch.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    pub(crate) bytes: Vec<u8>,
    /// The position of the first one.
    pub(crate) first: u64,
    pub(crate) count: u32,
    /// Where it may be cut into batches: a place in the bytes and how many records stand before.
    pub(crate) cuts: Vec<(usize, u32)>,
}

impl DiskJournal {
    /// A journal that goes on behind `last`, in the directory `dir`.
    pub(crate) fn new(last: u64, durability: Durability, dir: &str) -> Self {
        Self(Arc::new(Shared {
            buffer: Mutex::new(Buffer::default()),
            waiters: Waiters::from(last),
            last: AtomicU64::new(last),
            safe: AtomicU64::new(last),
            synced: AtomicU64::new(last),
            wants_sync: AtomicBool::new(false),
            pending: AtomicUsize::new(0),
            asked: AtomicUsize::new(0),
            is_parked: AtomicBool::new(false),
            committer: OnceLock::new(),
            observer: Mutex::new(None),
            durability,
            dir: dir.into(),
            failure: OnceLock::new(),
            is_closed: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            room: AtomicU64::new(0),
        }))
    }

    /// Takes a record down, as [`Journal::record`] does.
    pub(crate) fn write(&self, record: &Record<'_>) -> Position {
        let mut buffer = self.0.lock();
        buffer.cut();
        self.write_to(&mut buffer, record)
    }

    fn write_to(&self, buffer: &mut Buffer, record: &Record<'_>) -> Position {
        let shared = &*self.0;
        let position = shared.last.load(Ordering::Relaxed) + 1;
        if buffer.count == 0 {
            buffer.bytes.resize(BatchHeader::BYTES, 0);
            buffer.first = position;
        }
        let before = buffer.bytes.len();
        record.write(&mut buffer.bytes);
        buffer.count += 1;
        let (bytes, is_first) = (buffer.bytes.len() - before, buffer.count == 1);
        shared.last.store(position, Ordering::Release);
        // SeqCst, as the look at who is parked: one of the two sees the other.
        shared.pending.fetch_add(bytes, Ordering::SeqCst);
        if bytes > Record::BYTES_MAX {
            // It could not be read again; nothing of this size passes the limits of the bus.
            shared.fail("a record is larger than a record may be");
        }
        if is_first {
            shared.wake();
        }
        Position(position)
    }
}

impl Journal for DiskJournal {
    fn admit(&self, op: &'static str, bytes: usize, frees: bool) -> Result<()> {
        let shared = &*self.0;
        if let Some(error) = shared.end() {
            return Err(error);
        }
        let pending = shared.pending.load(Ordering::Relaxed).saturating_add(bytes);
        if shared.is_full.load(Ordering::Relaxed) {
            let left = shared.room.load(Ordering::Relaxed);
            if !frees || left < (2 * pending).saturating_add(ROOM_SPARED) as u64 {
                let why = format!(
                    "there is no room on the disk of {}: free some, or settle and delete what \
                     is there; it goes on by itself",
                    shared.dir
                );
                return Err(Error::new(ErrorKind::Full, op, why));
            }
        }
        if bytes > PENDING_MAX {
            let why = format!("{bytes} bytes at once: at most {PENDING_MAX} are taken");
            return Err(Error::new(ErrorKind::TooLarge, op, why));
        }
        if pending > PENDING_MAX && !frees {
            let why = format!("the disk of {} is behind: try again", shared.dir);
            return Err(Error::new(ErrorKind::Full, op, why));
        }
        Ok(())
    }

    fn record(&self, change: Change<'_>) -> Position {
        self.write(&Record::Change(change))
    }

    fn record_all(&self, changes: &[Change<'_>]) -> Position {
        // Under one lock and without a cut between them: they are written as one batch.
        let mut buffer = self.0.lock();
        buffer.cut();
        let records = changes.iter().map(|change| Record::Change(change.clone()));
        let written = records.map(|record| self.write_to(&mut buffer, &record)).last();
        written.unwrap_or_else(|| self.last())
    }

    fn last(&self) -> Position {
        Position(self.0.last.load(Ordering::Acquire))
    }

    fn is_safe(&self, position: Position) -> bool {
        self.0.safe.load(Ordering::Acquire) >= position.0
    }

    fn safe(&self, position: Position) -> BoxFuture<'static, Result<()>> {
        let shared = Arc::clone(&self.0);
        if !self.is_safe(position) {
            shared.asked.fetch_add(1, Ordering::SeqCst);
            shared.wake();
        }
        Box::pin(Safe { shared, position, waker: None })
    }

    fn observe(&self, observer: Observer) {
        *self.0.observer.lock().unwrap_or_else(PoisonError::into_inner) = Some(observer);
    }

    fn durability(&self) -> Durability {
        self.0.durability
    }
}

impl Buffer {
    /// Allows a cut here, when enough stands before it for a batch.
    fn cut(&mut self) {
        let last = self.cuts.last().map_or(0, |(at, _)| *at);
        if self.bytes.len() - last > CUT_AFTER {
            self.cuts.push((self.bytes.len(), self.count));
        }
    }
}

impl Shared {
    /// Why nothing new is taken any more, if so.
    pub(crate) fn end(&self) -> Option<Error> {
        self.reason(&self.is_closed)
    }

    /// Why nothing that was taken is written any more, if so.
    pub(crate) fn last_end(&self) -> Option<Error> {
        self.reason(&self.has_ended)
    }

    fn reason(&self, is_over: &AtomicBool) -> Option<Error> {
        if let Some(why) = self.failure.get() {
            let why = format!("{} cannot be written any more: {why}", self.dir);
            return Some(Error::new(ErrorKind::Unavailable, "write journal", why));
        }
        let closed = || Error::new(ErrorKind::Closed, "write journal", "the journal was closed");
        is_over.load(Ordering::SeqCst).then(closed)
    }

    /// Whether writing failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.get().is_some()
    }

    /// Ends everything because of `why`, the first of several.
    pub(crate) fn fail(&self, why: impl std::fmt::Display) {
        if self.failure.set(why.to_string().into()).is_ok() {
            tracing::error!(dir = %self.dir, %why, "the journal cannot be written any more");
        }
        self.waiters.wake_all();
    }

    /// Takes nothing any more.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.wake();
    }

    /// Says that nothing is written any more, to whoever waits.
    pub(crate) fn end_waits(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        self.waiters.wake_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Says whether there is room for another segment.
    pub(crate) fn set_full(&self, is_full: bool) {
        if self.is_full.swap(is_full, Ordering::Relaxed) != is_full {
            tracing::warn!(dir = %self.dir, is_full, "room on the disk");
        }
    }

    /// The thread that writes.
    pub(crate) fn set_committer(&self, thread: Thread) {
        // It is set once, when the thread begins.
        let _ignored = self.committer.set(thread);
    }

    /// Takes what is recorded, and leaves the empty `spare` for what comes.
    pub(crate) fn swap(&self, spare: Buffer) -> Buffer {
        self.asked.store(0, Ordering::SeqCst);
        std::mem::replace(&mut *self.lock(), spare)
    }

    /// Whether something is recorded, and how many asked for it.
    pub(crate) fn look(&self) -> (bool, usize) {
        (self.pending.load(Ordering::SeqCst) > 0, self.asked.load(Ordering::SeqCst))
    }

    /// Notes that `bytes` of the records are written.
    pub(crate) fn written(&self, bytes: usize) {
        self.pending.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Says that everything up to `position` is safe, and returns how many waited for it.
    pub(crate) fn advance(&self, position: u64) -> usize {
        self.safe.store(position, Ordering::Release);
        let observer = self.observer.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(observer) = observer {
            observer(Position(position));
        }
        self.waiters.tell(position)
    }

    /// Asks for a sync of all that is recorded, whatever the mode.
    pub(crate) fn ask_sync(&self) {
        self.wants_sync.store(true, Ordering::SeqCst);
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.wake();
    }

    /// Whether somebody asked for a sync since the last time.
    pub(crate) fn take_sync(&self) -> bool {
        self.wants_sync.swap(false, Ordering::SeqCst)
    }

    /// Notes that everything up to `position` survives a power cut.
    pub(crate) fn set_synced(&self, position: u64) {
        self.synced.store(position, Ordering::Release);
    }

    /// Whether `position` survives a power cut.
    pub(crate) fn is_synced(&self, position: Position) -> bool {
        self.synced.load(Ordering::Acquire) >= position.0
    }

    /// Announces that the committer goes to sleep; it looks once more afterwards.
    pub(crate) fn set_parked(&self, is_parked: bool) {
        self.is_parked.store(is_parked, Ordering::SeqCst);
    }

    fn wake(&self) {
        if self.is_parked.load(Ordering::SeqCst)
            && let Some(committer) = self.committer.get()
        {
            committer.unpark();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The most bytes that wait to be written (24 MiB): they always fit into one segment.
const PENDING_MAX: usize = 24 << 20;

/// How much stands in a batch before the next one is begun (4 MiB): with what may be admitted at
/// once it stays below the limit of a batch.
const CUT_AFTER: usize = 4 << 20;

/// What stays free in the last segment when there is no room for another one: the headers of
/// batches, and the marks of the end.
const ROOM_SPARED: usize = 4096;
