//! The chains an incarnation writes: one head a subject, one writer at a time.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use bus_envelope::ChainHead;
use bus_subjects::Subject;

use super::stamp::Prepared;
use crate::{Error, ErrorKind, Result};

/// The chains of one incarnation, by subject.
#[derive(Default)]
pub(super) struct Chains(Mutex<HashMap<Subject, Arc<Chain>>>);

/// One chain; its lock serialises stamp, store and advance, so that it cannot fork.
pub(super) type Chain = tokio::sync::Mutex<ChainState>;

/// Where a chain stands.
pub(super) struct ChainState {
    /// The last message that is stored.
    pub head: ChainHead,
    /// A message whose storing has an unknown outcome: it goes first, with the same bytes.
    pub unsettled: Option<Prepared>,
}

/// How many subjects one incarnation may write to.
const CHAINS_MAX: usize = 65_536;

impl Chains {
    /// The chain of `subject`, begun at `genesis` when it is new.
    ///
    /// # Errors
    /// `Full` when the incarnation writes to too many subjects.
    pub(super) fn of(
        &self,
        subject: &Subject,
        genesis: impl FnOnce() -> ChainHead,
    ) -> Result<Arc<Chain>> {
        let mut chains = self.0.lock().unwrap_or_else(|poison| poison.into_inner());
        if let Some(chain) = chains.get(subject) {
            return Ok(Arc::clone(chain));
        }
        if chains.len() >= CHAINS_MAX {
            let detail = format!("one incarnation writes to at most {CHAINS_MAX} subjects");
            return Err(Error::new(ErrorKind::Full, "send", detail).at(subject));
        }
        let state = ChainState { head: genesis(), unsettled: None };
        let chain = Arc::new(Chain::new(state));
        chains.insert(subject.clone(), Arc::clone(&chain));
        Ok(chain)
    }
}
