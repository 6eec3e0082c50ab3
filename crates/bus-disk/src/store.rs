//! One open journal: recovered, written and kept, until it is closed.

use std::{
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Wake, Waker},
    thread::{Builder, JoinHandle, Thread},
};

use bus_core::Result;
use bus_mem::journal::Journal;

use crate::{
    Progress, Sync,
    committer::Committer,
    files::Files,
    home::Home,
    journal::DiskJournal,
    keeper::{Keeper, Sizes, Source},
    record::Record,
    recovery::{self, Recovered},
    segment::unavailable,
    supply::{Stock, Supply},
};

/// A journal and the threads behind it. Dropping it writes what was recorded and ends them.
pub(crate) struct Store {
    pub(crate) journal: DiskJournal,
    pub(crate) supply: Arc<Supply>,
    pub(crate) files: Arc<dyn Files>,
    pub(crate) home: Arc<Home>,
    /// Held by whoever reads files that the keeper may take away.
    pub(crate) removal: Arc<Mutex<()>>,
    source: Arc<Mutex<Option<Source>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Store {
    /// Reads everything in `home`, and goes on behind it.
    ///
    /// # Errors
    /// As [`recovery::recover`]; what `take` says.
    pub(crate) fn open(
        files: Arc<dyn Files>,
        home: Home,
        (sync, sizes): (Sync, Sizes),
        take: &mut dyn FnMut(Record<'_>) -> Result<()>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self> {
        let recovered = recovery::recover(&*files, &home, sizes.segment, take, progress)?;
        let Recovered { last, current, next, live, spare, snapshot, bytes } = recovered;
        let dir = home.dir().display().to_string();
        let journal = DiskJournal::new(last, sync.durability(), &dir);
        let number = next.as_ref().map_or(current.number, |next| next.number) + 1;
        let (live, end) = (live.into(), current.end);
        let due = sizes.due_after(snapshot.map_or(0, |snapshot| snapshot.bytes));
        let stock = Stock { next, number, live, end, spare, bytes, due, ..Stock::default() };
        let supply = Arc::new(Supply::new(stock));
        let store = Self {
            journal: journal.clone(),
            supply: Arc::clone(&supply),
            files,
            home: Arc::new(home),
            removal: Arc::default(),
            source: Arc::default(),
            threads: Mutex::default(),
        };
        let shared = Arc::clone(&journal.0);
        // What was read may be in the machine's memory alone: the first sync is for that, too.
        let committer =
            Committer { shared, supply, segment: current, sync, written: last, synced: last };
        committer.sync_segment().map_err(|error| unavailable(store.home.dir(), error))?;
        store.start("vakbus-journal", move || committer.run())?;
        let keeper = store.keeper(sizes);
        store.start("vakbus-keeper", move || keeper.run())?;
        Ok(store)
    }

    /// Lets pictures be taken from now on, from `source`.
    pub(crate) fn take_pictures(&self, source: Source) {
        *self.source.lock().unwrap_or_else(PoisonError::into_inner) = Some(source);
        self.supply.change(|stock| stock.has_source = true);
    }

    /// Waits until everything that is recorded is safe; blocks the thread for as long.
    ///
    /// # Errors
    /// `Unavailable`, outcome unknown.
    pub(crate) fn wait_safe(&self) -> Result<()> {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut safe = self.journal.safe(self.journal.last());
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(done) = safe.as_mut().poll(&mut context) {
                return done;
            }
            std::thread::park();
        }
    }

    /// Writes what was recorded, marks the end, and ends the threads; blocks for as long.
    pub(crate) fn close(&self) {
        self.journal.0.close();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        // The committer first: it may need another segment.
        for thread in threads {
            // A panic of the thread was reported as such, and there is nothing left to end.
            let _ignored = thread.join();
            self.supply.change(|stock| stock.is_ending = true);
        }
    }

    fn keeper(&self, sizes: Sizes) -> Keeper {
        Keeper {
            journal: self.journal.clone(),
            supply: Arc::clone(&self.supply),
            files: Arc::clone(&self.files),
            home: Arc::clone(&self.home),
            source: Arc::clone(&self.source),
            sizes,
            removal: Arc::clone(&self.removal),
        }
    }

    fn start(&self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = Builder::new().name(name.to_owned()).spawn(run);
        let thread = thread.map_err(|error| unavailable(self.home.dir(), error))?;
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }
}

/// Wakes a thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}
