//! The thread that keeps house: it makes segments ahead, takes pictures, and lets old ones go.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bus_mem::journal::{Journal, Position};

use crate::{
    files::{Files, is_full},
    home::Home,
    journal::DiskJournal,
    record::Record,
    segment::Segment,
    snapshot::{self, Snapshot, SnapshotWriter},
    supply::{Stock, Supply},
};

/// Keeps one directory in order, behind the back of the one who writes.
pub(crate) struct Keeper {
    pub(crate) journal: DiskJournal,
    pub(crate) supply: Arc<Supply>,
    pub(crate) files: Arc<dyn Files>,
    pub(crate) home: Arc<Home>,
    /// Where a picture comes from, once there is something to see.
    pub(crate) source: Arc<Mutex<Option<Source>>>,
    pub(crate) sizes: Sizes,
    /// Held while files that others may read are taken away.
    pub(crate) removal: Arc<Mutex<()>>,
}

/// Hands out everything that lives, piece by piece, and stops at the first error of the taker.
pub(crate) type Source =
    Box<dyn Fn(&mut dyn FnMut(Record<'_>) -> io::Result<()>) -> io::Result<()> + Send>;

/// How much makes a segment, and how much makes a picture due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Bytes of a segment.
    pub(crate) segment: u64,
    /// A picture is due when the journal since the last one is larger than that one, and than
    /// this.
    pub(crate) picture_after: u64,
}

impl Sizes {
    /// How much journal makes a picture due after one of so many bytes.
    pub(crate) fn due_after(self, picture_bytes: u64) -> u64 {
        picture_bytes.max(self.picture_after)
    }
}

impl Default for Sizes {
    fn default() -> Self {
        Self { segment: Segment::BYTES, picture_after: 64 << 20 }
    }
}

/// What there is to do.
enum Job {
    Prepare,
    Picture,
    End,
}

impl Keeper {
    /// Works until it is told to end.
    pub(crate) fn run(self) {
        let mut rest = Duration::ZERO;
        loop {
            match self.next_job(rest) {
                Job::End => return,
                Job::Prepare => rest = if self.prepare() { Duration::ZERO } else { RETRY },
                Job::Picture => rest = if self.picture() { Duration::ZERO } else { RETRY_PICTURE },
            }
        }
    }

    /// Waits for something to do; nothing but the end comes before `rest` is over.
    fn next_job(&self, rest: Duration) -> Job {
        let mut stock = self.supply.lock();
        let mut is_rested = rest.is_zero();
        loop {
            if stock.is_ending {
                // Who opens the directory for moments only would never see one finished.
                let is_left = stock.has_source && self.is_overdue(&stock) && is_rested;
                return if is_left { Job::Picture } else { Job::End };
            }
            if is_rested && !self.journal.0.has_failed() {
                if stock.next.is_none() && stock.wants_next {
                    return Job::Prepare;
                }
                let is_due = stock.wants_picture || stock.bytes > stock.due;
                if is_due && stock.has_source {
                    return Job::Picture;
                }
            }
            let limit = if is_rested { IDLE } else { rest };
            stock = self.supply.wait(stock, limit);
            is_rested = true;
        }
    }

    /// Whether a picture is due for so long that the end waits for it.
    fn is_overdue(&self, stock: &Stock) -> bool {
        !self.journal.0.has_failed() && stock.bytes > 2 * stock.due
    }

    /// Makes the next segment; false when there is no room.
    fn prepare(&self) -> bool {
        let (number, spare) = self.supply.change(|stock| (stock.number, stock.spare.pop()));
        let dir = self.home.journal();
        let recycled = spare.map(|number| Segment::path(&dir, number));
        match Segment::prepare(
            &*self.files,
            &dir,
            number,
            (self.sizes.segment, self.sizes.segment),
            recycled.as_deref(),
        ) {
            Ok(segment) => {
                self.supply.change(|stock| {
                    stock.next = Some(segment);
                    stock.number = number + 1;
                });
                self.journal.0.set_full(false);
                true
            }
            Err(error) if is_full(&error) => {
                self.journal.0.set_full(true);
                // A picture lets old segments go, if there is room for the picture.
                let mut stock = self.supply.lock();
                stock.wants_picture = stock.live.len() > 1;
                false
            }
            Err(error) => {
                self.journal.0.fail(format!("the next segment: {error}"));
                self.supply.change(|_| ());
                false
            }
        }
    }

    /// Takes a picture and lets go what it makes needless; false when that failed.
    fn picture(&self) -> bool {
        let (segment, before) = {
            let mut stock = self.supply.lock();
            stock.wants_picture = false;
            (stock.live.back().map_or(1, |(number, _)| *number), stock.bytes)
        };
        let position = self.journal.last().0;
        match self.take(position, segment) {
            Ok(Some(picture)) => {
                self.let_go(picture, before);
                true
            }
            Ok(None) => false,
            Err(error) => {
                tracing::warn!(dir = %self.home.dir().display(), %error, "no picture was taken");
                false
            }
        }
    }

    /// Writes the picture; `None` when the keeper is told to end meanwhile.
    fn take(&self, position: u64, segment: u64) -> io::Result<Option<Snapshot>> {
        let mut writer = SnapshotWriter::begin(&*self.files, &self.home, position, segment)?;
        let mut add = |record: Record<'_>| {
            let bytes = writer.add(&record)?;
            if bytes > 0 { self.pause() } else { Ok(()) }
        };
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        let written = source.as_ref().map_or(Ok(()), |source| source(&mut add));
        drop(source);
        // It tells of changes that were recorded while it was taken: they must survive it.
        let end = self.journal.last();
        match written.and_then(|()| self.wait_synced(end)) {
            Ok(()) => writer.finish(end.0).map(Some),
            Err(error) => {
                writer.abandon();
                if self.supply.lock().is_ending { Ok(None) } else { Err(error) }
            }
        }
    }

    /// Gives way to those who write, and sees that they have a segment ahead.
    fn pause(&self) -> io::Result<()> {
        let mut stock = self.supply.lock();
        if !stock.is_ending {
            stock = self.supply.wait(stock, PAUSE);
        }
        if stock.is_ending && !self.is_overdue(&stock) {
            return Err(io::Error::other("the journal is closed"));
        }
        let is_missing = stock.next.is_none() && stock.wants_next;
        drop(stock);
        if is_missing {
            self.prepare();
        }
        Ok(())
    }

    fn wait_synced(&self, position: Position) -> io::Result<()> {
        loop {
            // Closed is not ended: what was taken before is written still.
            let has_ended = self.journal.0.last_end().is_some();
            if self.journal.0.is_synced(position) {
                return Ok(());
            }
            if has_ended {
                return Err(io::Error::other("the journal has ended"));
            }
            self.journal.0.ask_sync();
            self.pause()?;
        }
    }

    /// Lets older pictures and the segments before this one go.
    fn let_go(&self, picture: Snapshot, before: u64) {
        let _held = self.removal.lock().unwrap_or_else(PoisonError::into_inner);
        let needless = self.supply.change(|stock| {
            stock.bytes = stock.bytes.saturating_sub(before);
            stock.due = self.sizes.due_after(picture.bytes);
            while let Some((number, _)) = stock.live.front().copied() {
                if number >= picture.segment {
                    break;
                }
                stock.live.pop_front();
                stock.spare.push(number);
            }
            let kept = stock.spare.len().min(SPARES_KEPT);
            stock.spare.split_off(kept)
        });
        let dir = self.home.journal();
        let removed = snapshot::remove_older(&*self.files, &self.home, picture)
            .and_then(|()| self.files.sync_dir(&self.home.snapshots()))
            .and_then(|()| {
                needless
                    .iter()
                    .try_for_each(|number| self.files.remove(&Segment::path(&dir, *number)))
            });
        if let Err(error) = removed {
            // They are found again at the next start.
            tracing::warn!(dir = %dir.display(), %error, "old files stay");
        }
    }
}

/// Segments that are kept for the next ones to be made of.
const SPARES_KEPT: usize = 2;

/// How long to wait when there is no room.
const RETRY: Duration = Duration::from_millis(250);

/// How long to wait after a picture that failed.
const RETRY_PICTURE: Duration = Duration::from_secs(5);

/// How long to give way after a piece of a picture: no more than 128 MiB a second.
const PAUSE: Duration = Duration::from_millis(2);

/// How long at most nothing happens.
const IDLE: Duration = Duration::from_secs(3600);
