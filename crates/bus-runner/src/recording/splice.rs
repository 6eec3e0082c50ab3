//! The past and what follows it as one stream: nothing twice, and what is missing is told.

use std::collections::HashMap;

use bus_envelope::{ChainScope, MessageEnvelope};
use bus_subjects::Subject;

/// Follows the chains of events that come from a recording first and live afterwards.
///
/// A place that was reached in a chain is not reached again, so what comes a second time is known;
/// where a chain jumps, events are missing. Memory has a bound: of more than
/// [`Splice::CHAINS_MAX`] chains the one that was heard least recently is forgotten.
#[derive(Debug, Default)]
pub struct Splice {
    chains: HashMap<ChainScope, Reached>,
    /// How many missing events were told by subject before it was known of which chain they are.
    told: HashMap<Subject, u64>,
    turn: u64,
}

/// What an event is to what came before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "an event that is known must not be shown again"]
pub enum Spliced {
    /// It was there already, or stands before what was.
    Known,
    /// It goes on.
    New {
        /// How many events of its chain are missing before it that were not told yet.
        missed: u64,
    },
}

#[derive(Debug)]
struct Reached {
    seq: u64,
    turn: u64,
}

impl Splice {
    /// How many chains are followed.
    pub const CHAINS_MAX: usize = 4096;

    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether `envelope` is the next of its chain, or its first.
    #[must_use]
    pub fn follows(&self, envelope: &MessageEnvelope) -> bool {
        let reached = self.chains.get(&ChainScope::incarnation_of(envelope));
        let reached = reached.map_or(0, |reached| reached.seq);
        envelope.lineage.seq_num <= reached.saturating_add(1)
    }

    /// How many events stand before `envelope` in its chain that were not seen, and whether none of
    /// the chain was.
    pub(super) fn before(&self, envelope: &MessageEnvelope) -> (u64, bool) {
        let reached = self.chains.get(&ChainScope::incarnation_of(envelope));
        let next = reached.map_or(1, |reached| reached.seq.saturating_add(1));
        (envelope.lineage.seq_num.saturating_sub(next), reached.is_none())
    }

    /// Takes an event, or a checkpoint, which has a place in the chain as well.
    ///
    /// What went before the first event of a chain is not missing: it is older than what is seen.
    pub fn event(&mut self, envelope: &MessageEnvelope) -> Spliced {
        let scope = ChainScope::incarnation_of(envelope);
        let seq = envelope.lineage.seq_num;
        self.turn += 1;
        let turn = self.turn;
        if let Some(reached) = self.chains.get_mut(&scope) {
            if seq <= reached.seq {
                return Spliced::Known;
            }
            let jump = seq - reached.seq - 1;
            *reached = Reached { seq, turn };
            let told = self.told.get_mut(&envelope.subject);
            let covered = told.as_ref().map_or(0, |told| jump.min(**told));
            if let Some(told) = told {
                *told -= covered;
            }
            return Spliced::New { missed: jump - covered };
        }
        if self.chains.len() >= Self::CHAINS_MAX {
            let stale = self.chains.iter().min_by_key(|(_, reached)| reached.turn);
            if let Some(stale) = stale.map(|(scope, _)| scope.clone()) {
                self.chains.remove(&stale);
            }
        }
        self.chains.insert(scope, Reached { seq, turn });
        Spliced::New { missed: 0 }
    }

    /// Notes that `missed` events on `subject` were told to be missing, whosever they are: a jump
    /// that they explain is not told again.
    pub fn gap(&mut self, subject: &Subject, missed: u64) {
        let told = self.told.entry(subject.clone()).or_default();
        *told = told.saturating_add(missed);
    }
}
