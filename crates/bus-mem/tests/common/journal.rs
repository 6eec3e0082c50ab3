//! A journal in memory that becomes safe a moment after it was written to, or when it is told.

use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

use bus_core::{BoxFuture, Durability, Error, ErrorKind, Result};
use bus_mem::{
    core::Image,
    journal::{Change, Journal, Position, Statement},
};
use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
};

type Observer = Arc<dyn Fn(Position) + Send + Sync>;

/// Keeps all changes of one bus.
pub(crate) struct MemoryJournal {
    changes: Mutex<Vec<Statement>>,
    safe: AtomicU64,
    /// As `safe`, for those who wait; `None` once writing failed.
    told: watch::Sender<Option<u64>>,
    observer: OnceLock<Observer>,
    recorded: Arc<Notify>,
    /// Admits only what makes room in the end.
    is_full: AtomicBool,
    /// How many more changes are refused.
    refusals: AtomicUsize,
    /// Becomes safe behind the next question, and has called nobody by then.
    slips: AtomicBool,
    durability: Durability,
    batches: Mutex<Vec<usize>>,
}

impl MemoryJournal {
    /// One that goes on behind `changes`, all of which are safe.
    pub(crate) fn holding(changes: Vec<Statement>, durability: Durability) -> Arc<Self> {
        let safe = changes.len() as u64;
        Arc::new(Self {
            changes: Mutex::new(changes),
            safe: AtomicU64::new(safe),
            told: watch::channel(Some(safe)).0,
            observer: OnceLock::new(),
            recorded: Arc::default(),
            is_full: AtomicBool::new(false),
            refusals: AtomicUsize::new(0),
            slips: AtomicBool::new(false),
            durability,
            batches: Mutex::default(),
        })
    }

    /// From now on becomes safe by itself, some turns of the runtime after each change.
    pub(crate) fn settle_later(self: &Arc<Self>) {
        const TURNS: usize = 3;
        let (journal, recorded) = (Arc::downgrade(self), Arc::clone(&self.recorded));
        Handle::current().spawn(async move {
            loop {
                recorded.notified().await;
                for _ in 0..TURNS {
                    tokio::task::yield_now().await;
                }
                let Some(journal) = journal.upgrade() else { return };
                journal.settle();
            }
        });
    }

    /// Everything that was recorded is safe now.
    pub(crate) fn settle(&self) {
        self.settle_until(self.last());
    }

    /// Everything up to `position` is safe now.
    pub(crate) fn settle_until(&self, position: Position) {
        self.safe.fetch_max(position.0, Ordering::SeqCst);
        if let Some(observer) = self.observer.get() {
            observer(position);
        }
        self.told.send_replace(Some(position.0));
    }

    /// Nothing becomes safe any more.
    pub(crate) fn fail(&self) {
        self.told.send_replace(None);
    }

    /// Admits no change from now on.
    pub(crate) fn refuse(&self) {
        self.refusals.store(usize::MAX, Ordering::SeqCst);
    }

    /// From now on admits only what makes room in the end.
    pub(crate) fn fill_up(&self) {
        self.is_full.store(true, Ordering::SeqCst);
    }

    /// Does not admit the next change.
    pub(crate) fn refuse_once(&self) {
        self.refusals.store(1, Ordering::SeqCst);
    }

    /// Everything becomes safe right behind the next question whether it is, before anybody is
    /// called for it.
    pub(crate) fn slip(&self) {
        self.slips.store(true, Ordering::SeqCst);
    }

    /// All changes that are safe.
    pub(crate) fn safe_changes(&self) -> Vec<Statement> {
        let safe = self.safe.load(Ordering::SeqCst) as usize;
        self.changes().into_iter().take(safe).collect()
    }

    /// How long the batches were that must be safe together.
    pub(crate) fn batches(&self) -> Vec<usize> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn keep(&self, changes: &[Change<'_>]) -> Position {
        let mut kept = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(changes.iter().cloned().map(Statement::from));
        self.recorded.notify_one();
        Position(kept.len() as u64)
    }

    /// All changes.
    pub(crate) fn changes(&self) -> Vec<Statement> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The image of `changes`.
pub(crate) fn image_of(changes: &[Statement]) -> Image {
    let mut image = Image::default();
    changes.iter().for_each(|change| image.apply(change.change()).unwrap());
    image
}

impl Journal for MemoryJournal {
    fn admit(&self, op: &'static str, _: usize, frees: bool) -> Result<()> {
        let refused = |left: usize| left.checked_sub(1);
        let is_full = self.is_full.load(Ordering::SeqCst) && !frees;
        if is_full
            || self.refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, refused).is_ok()
        {
            return Err(Error::new(ErrorKind::Full, op, "there is no room"));
        }
        Ok(())
    }

    fn record(&self, change: Change<'_>) -> Position {
        self.keep(&[change])
    }

    fn record_all(&self, changes: &[Change<'_>]) -> Position {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).push(changes.len());
        self.keep(changes)
    }

    fn last(&self) -> Position {
        Position(self.changes.lock().unwrap_or_else(PoisonError::into_inner).len() as u64)
    }

    fn is_safe(&self, position: Position) -> bool {
        let is_safe = position.0 <= self.safe.load(Ordering::SeqCst);
        if self.slips.swap(false, Ordering::SeqCst) {
            self.safe.store(self.last().0, Ordering::SeqCst);
        }
        is_safe
    }

    fn safe(&self, position: Position) -> BoxFuture<'static, Result<()>> {
        let mut told = self.told.subscribe();
        Box::pin(async move {
            let is_known = |told: &Option<u64>| told.is_none_or(|safe| safe >= position.0);
            let told = told.wait_for(is_known).await.ok().and_then(|told| *told);
            let failed = || Error::new(ErrorKind::Unavailable, "write", "not written").unknown();
            told.map(drop).ok_or_else(failed)
        })
    }

    fn observe(&self, observer: Observer) {
        assert!(self.observer.set(observer).is_ok(), "one bus has one journal");
    }

    fn durability(&self) -> Durability {
        self.durability
    }
}
