//! The chains an incarnation writes: one head a subject, one writer at a time.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
};

use bus_envelope::ChainHead;
use bus_subjects::Subject;
use tokio::sync::OwnedMutexGuard;
use uuid::Uuid;

use super::{live::LiveKind, stamp::Prepared, vouch::Unvouched};
use crate::{Error, ErrorKind, Result};

/// The chains of one incarnation, by subject.
#[derive(Default)]
pub(super) struct Chains(Mutex<HashMap<Subject, Arc<Chain>>>);

/// One chain; its lock serialises stamp, store and advance, so that it cannot fork.
pub(super) type Chain = tokio::sync::Mutex<ChainState>;

/// Where a chain stands.
pub(super) struct ChainState {
    /// How its messages are vouched for when they are published.
    pub kind: LiveKind,
    /// Where the next message goes; `None` until the first one asks.
    pub place: Option<Place>,
    /// Messages whose storing has an unknown outcome: they go first, with the same bytes. Each
    /// chain they are on holds the same batch.
    pub unsettled: Option<Arc<Batch>>,
    /// The live events that no checkpoint vouches for yet.
    pub unvouched: Unvouched,
}

/// Where the next message of a chain goes.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// The message it follows.
    pub head: ChainHead,
    /// The process life it takes the chain over from, for the first message of this one.
    pub continues: Option<Uuid>,
}

/// Messages that are stored together: all or none.
pub(super) struct Batch(pub Vec<Prepared>);

/// Some chains, each under its lock, in the order of their subjects: whoever locks several locks
/// them in that order, so that nobody waits for somebody who waits for him.
pub(super) struct Locked(BTreeMap<Subject, OwnedMutexGuard<ChainState>>);

/// How many subjects one incarnation may write to.
const CHAINS_MAX: usize = 65_536;

impl Chains {
    /// The chain of `subject`.
    ///
    /// # Errors
    /// `Full` when the incarnation writes to too many subjects.
    pub(super) fn of(&self, subject: &Subject) -> Result<Arc<Chain>> {
        let mut chains = self.0.lock().unwrap_or_else(|poison| poison.into_inner());
        if let Some(chain) = chains.get(subject) {
            return Ok(Arc::clone(chain));
        }
        if chains.len() >= CHAINS_MAX {
            let detail = format!("one incarnation writes to at most {CHAINS_MAX} subjects");
            return Err(Error::new(ErrorKind::Full, "send", detail).at(subject));
        }
        let chain = Arc::new(Chain::new(ChainState::new(subject)));
        chains.insert(subject.clone(), Arc::clone(&chain));
        Ok(chain)
    }

    /// Locks the chains of `subjects`, and with them every chain that a message of unknown outcome
    /// on one of them belongs to: it can only be repeated with all of them.
    ///
    /// # Errors
    /// As [`Chains::of`].
    pub(super) async fn lock(&self, mut subjects: BTreeSet<Subject>) -> Result<Locked> {
        loop {
            let mut locked = BTreeMap::new();
            for subject in &subjects {
                let chain = self.of(subject)?.lock_owned().await;
                locked.insert(subject.clone(), chain);
            }
            let locked = Locked(locked);
            let before = subjects.len();
            for batch in locked.unsettled() {
                subjects.extend(batch.subjects().cloned());
            }
            if subjects.len() == before {
                return Ok(locked);
            }
        }
    }
}

impl Locked {
    /// The chain of `subject`, which is locked here.
    ///
    /// # Errors
    /// `Invalid` when it is not: a fault of the caller.
    pub(super) fn chain(&mut self, subject: &Subject) -> Result<&mut ChainState> {
        let chain = self.0.get_mut(subject).map(|guard| &mut **guard);
        chain.ok_or_else(|| {
            let detail = "the chain of this subject is not locked";
            Error::new(ErrorKind::Invalid, "send", detail).at(subject)
        })
    }

    /// The messages of unknown outcome on these chains, each batch once.
    pub(super) fn unsettled(&self) -> Vec<Arc<Batch>> {
        let mut batches: Vec<Arc<Batch>> = Vec::new();
        for batch in self.0.values().filter_map(|chain| chain.unsettled.as_ref()) {
            if !batches.iter().any(|known| Arc::ptr_eq(known, batch)) {
                batches.push(Arc::clone(batch));
            }
        }
        batches
    }

    /// Has every chain of `batch` remember it, so that the next send repeats it first.
    pub(super) fn hold(&mut self, batch: &Arc<Batch>) {
        for subject in batch.subjects() {
            if let Some(chain) = self.0.get_mut(subject) {
                chain.unsettled = Some(Arc::clone(batch));
            }
        }
    }

    /// The outcome of `batch` is known: nothing is to be repeated any more.
    pub(super) fn settle(&mut self, batch: &Batch) {
        for subject in batch.subjects() {
            if let Some(chain) = self.0.get_mut(subject) {
                chain.unsettled = None;
            }
        }
    }

    /// Moves the chain of `prepared`, which is stored.
    pub(super) fn advance(&mut self, prepared: &Prepared) {
        if let Some(chain) = self.0.get_mut(&prepared.frame.subject) {
            chain.place = Some(Place::at(prepared.head));
        }
    }
}

impl ChainState {
    fn new(subject: &Subject) -> Self {
        let (kind, unvouched) = (LiveKind::of(subject), Unvouched::default());
        Self { kind, place: None, unsettled: None, unvouched }
    }
}

impl Place {
    /// Behind `head`, within one process life.
    pub(super) fn at(head: ChainHead) -> Self {
        Self { head, continues: None }
    }
}

impl Batch {
    /// The subjects of its messages, some perhaps twice.
    pub(super) fn subjects(&self) -> impl Iterator<Item = &Subject> {
        self.0.iter().map(|prepared| &prepared.frame.subject)
    }
}
