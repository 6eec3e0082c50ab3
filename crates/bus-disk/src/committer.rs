//! The thread that writes: whatever was recorded while it wrote goes into its next batch.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    Sync,
    batch::BatchHeader,
    files::is_full,
    journal::{Buffer, Shared},
    segment::Segment,
    supply::Supply,
};

/// Writes the records of a journal into its segments.
pub(crate) struct Committer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) supply: Arc<Supply>,
    pub(crate) segment: Segment,
    pub(crate) sync: Sync,
    /// The last position that is written, and the last one that is synced.
    pub(crate) written: u64,
    pub(crate) synced: u64,
}

/// What the committer knows about the moment.
struct Pace {
    /// How many were told by the last commit: about as many will ask again.
    told: usize,
    /// When it ended.
    since: Instant,
    /// How long the last sync took.
    sync: Duration,
}

impl Committer {
    /// Writes until the journal is closed and everything is safe, or writing fails.
    pub(crate) fn run(mut self) {
        self.shared.set_committer(std::thread::current());
        self.shared.room.store(self.room(), std::sync::atomic::Ordering::Relaxed);
        if let Err(error) = self.work() {
            self.shared.fail(error);
        }
        self.shared.end_waits();
    }

    fn work(&mut self) -> io::Result<()> {
        let mut spare = Buffer::default();
        let mut pace = Pace { told: 0, since: now(), sync: Duration::ZERO };
        let mut sync_at = now();
        loop {
            let is_ending = self.wait(&pace, sync_at);
            let began = now();
            let wants_sync = self.shared.take_sync() || is_ending;
            let buffer = self.shared.swap(std::mem::take(&mut spare));
            pace.told = 0;
            if buffer.count > 0 {
                let (written, count) = self.write_all(buffer)?;
                spare = written;
                pace.told = count;
            }
            pace.sync = began.elapsed();
            if let Sync::Interval(every) = self.sync
                && (wants_sync || now() >= sync_at)
            {
                self.sync_written()?;
                sync_at = now() + every;
            }
            pace.since = now();
            if is_ending && !self.shared.look().0 {
                return self.end();
            }
        }
    }

    /// Waits for something to write that is urgent or old; true when the journal ends.
    fn wait(&self, pace: &Pace, sync_at: Instant) -> bool {
        let gather = (pace.sync / 2).clamp(GATHER_MIN, GATHER_MAX);
        let (mut told, mut since) = (pace.told, pace.since);
        let mut slept = Duration::ZERO;
        loop {
            if self.shared.is_closed() {
                return true;
            }
            let (is_any, asked) = self.shared.look();
            let passed = since.elapsed();
            if (asked > 0 && (asked >= told || passed >= gather)) || (is_any && slept >= PATIENCE) {
                return false;
            }
            if passed < gather.max(SPIN) {
                std::thread::yield_now();
                continue;
            }
            let sleep = self.sleep(is_any, sync_at);
            if sleep == Some(Duration::ZERO) {
                return false;
            }
            self.shared.set_parked(true);
            let is_idle = self.shared.look() == (is_any, 0) && !self.shared.is_closed();
            let before = now();
            match sleep {
                _ if !is_idle => {}
                Some(limit) => std::thread::park_timeout(limit),
                None => std::thread::park(),
            }
            self.shared.set_parked(false);
            (told, since) = (0, now());
            if is_any {
                slept += before.elapsed();
            }
        }
    }

    /// How long there is nothing to do: records that nobody asked for wait a little, and what is
    /// written and not synced waits for its time.
    fn sleep(&self, is_any: bool, sync_at: Instant) -> Option<Duration> {
        let patience = is_any.then_some(PATIENCE);
        let sync = (self.synced < self.written).then(|| sync_at.saturating_duration_since(now()));
        patience.into_iter().chain(sync).min()
    }

    /// Writes everything in `buffer`, in as many batches as it takes, and tells those who wait.
    fn write_all(&mut self, mut buffer: Buffer) -> io::Result<(Buffer, usize)> {
        let (mut told, mut at, mut before) = (0, BatchHeader::BYTES, 0);
        for (end, count) in std::mem::take(&mut buffer.cuts) {
            let mut batch = vec![0; BatchHeader::BYTES];
            batch.extend_from_slice(buffer.bytes.get(at..end).unwrap_or_default());
            told += self.write(&mut batch, buffer.first + u64::from(before), count - before)?;
            (at, before) = (end, count);
        }
        // What was written moves out of the way: the header stands before the rest.
        buffer.bytes.drain(BatchHeader::BYTES..at);
        let (first, count) = (buffer.first + u64::from(before), buffer.count - before);
        told += self.write(&mut buffer.bytes, first, count)?;
        buffer.bytes.clear();
        if buffer.bytes.capacity() > KEPT_BYTES {
            buffer.bytes = Vec::new();
        }
        buffer.count = 0;
        Ok((buffer, told))
    }

    /// Writes one batch, whose header is not filled in yet.
    fn write(&mut self, batch: &mut Vec<u8>, first: u64, count: u32) -> io::Result<usize> {
        let bytes = batch.len() - BatchHeader::BYTES;
        self.put(batch, first, count)?;
        self.written = first + u64::from(count) - 1;
        if self.sync == Sync::Always {
            self.sync_written()?;
        }
        self.shared.written(bytes);
        self.shared.room.store(self.room(), std::sync::atomic::Ordering::Relaxed);
        Ok(self.shared.advance(self.written))
    }

    fn put(&mut self, batch: &mut Vec<u8>, first: u64, count: u32) -> io::Result<()> {
        if (batch.len() + BatchHeader::ALIGN) as u64 > self.room() {
            self.rotate(first)?;
        }
        let length = u32::try_from(batch.len() - BatchHeader::BYTES).map_err(io::Error::other)?;
        let segment = self.segment.number;
        let header = BatchHeader { length, count, segment, first, synced: self.synced };
        header.seal(self.segment.salt, batch);
        while let Err(error) = self.segment.file.write_at(batch, self.segment.end) {
            // Some file systems take the room only now. What was not written is written again.
            if !is_full(&error) || self.shared.is_closed() {
                return Err(error);
            }
            self.shared.set_full(true);
            std::thread::park_timeout(RETRY);
        }
        self.segment.end += batch.len() as u64;
        let wants_next = self.room() < self.segment.bytes / 4 * 3;
        let mut stock = self.supply.lock();
        let was_due = stock.bytes > stock.due;
        stock.bytes += batch.len() as u64;
        stock.end = self.segment.end;
        let is_due = stock.bytes > stock.due && !was_due;
        if stock.wants_next != wants_next || is_due {
            drop(stock);
            self.supply.change(|stock| stock.wants_next = wants_next);
        }
        Ok(())
    }

    /// Goes on in the next segment; all of this one is safe by then.
    fn rotate(&mut self, first: u64) -> io::Result<()> {
        self.sync_written()?;
        let mut tries = 0;
        self.segment = loop {
            if let Some(next) = self.supply.take_next(first, RETRY) {
                break next;
            }
            // The one who makes it failed, or there is no room and nobody waits for it any more.
            tries += 1;
            if self.shared.has_failed() || (self.shared.is_closed() && tries > TRIES_AT_END) {
                return Err(io::Error::other("there is no room for another segment"));
            }
        };
        Ok(())
    }

    /// Makes safe what was found in the segment.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn sync_segment(&self) -> io::Result<()> {
        self.segment.file.sync()
    }

    fn sync_written(&mut self) -> io::Result<()> {
        if self.synced < self.written {
            self.segment.file.sync()?;
            self.synced = self.written;
            self.shared.set_synced(self.synced);
        }
        Ok(())
    }

    /// Marks that everything before is safe, so that damage to the last batch is seen as such.
    fn end(&mut self) -> io::Result<()> {
        self.sync_written()?;
        if self.room() > 2 * BatchHeader::BYTES as u64 {
            let mut mark = vec![0; BatchHeader::BYTES];
            self.put(&mut mark, self.written + 1, 0)?;
            self.segment.file.sync()?;
        }
        Ok(())
    }

    fn room(&self) -> u64 {
        self.segment.bytes.saturating_sub(self.segment.end)
    }
}

#[expect(clippy::disallowed_methods, reason = "how long a disk takes is no time of the bus")]
fn now() -> Instant {
    Instant::now()
}

/// How long those who were just told may take to ask again, so that they share the next sync.
const GATHER_MIN: Duration = Duration::from_micros(20);
const GATHER_MAX: Duration = Duration::from_micros(150);

/// How long to look for more before going to sleep: to be woken takes as long.
const SPIN: Duration = Duration::from_micros(50);

/// How long records wait that nobody asked for.
const PATIENCE: Duration = Duration::from_millis(50);

/// How often to try again what there was no room for.
const RETRY: Duration = Duration::from_millis(200);

/// How often at most when the journal is closed: ten seconds.
const TRIES_AT_END: u32 = 50;

/// A larger buffer is given back when it was written.
const KEPT_BYTES: usize = 8 << 20;
