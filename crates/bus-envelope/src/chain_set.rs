//! Sorts a mixed stream of events into chains and judges each in its own.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use crate::{ChainScope, ChainSummary, ChainVerdict, ChainVerifier, MessageEnvelope};

/// Many chains at once, bounded.
///
/// A chain beyond the limit is not judged, and each of its events counts as untracked: so nobody
/// can push an honest chain out by starting many.
#[derive(Debug, Clone)]
pub struct ChainSet {
    limits: ChainLimits,
    chains: BTreeMap<ChainScope, ChainVerifier>,
    untracked: u64,
}

/// How much a [`ChainSet`] remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainLimits {
    /// How many chains are followed.
    pub chains_max: NonZeroUsize,
    /// How many events of each are remembered.
    pub window: NonZeroUsize,
}

/// What was found in all chains together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChainTotals {
    /// Chains followed.
    pub chains: u64,
    /// Chains in which something was missing, late, forked, altered or too old to be judged.
    pub broken: u64,
    /// Events fed.
    pub events: u64,
    /// How often events were missing.
    pub gaps: u64,
    /// Events still missing.
    pub missed: u64,
    /// Chains that go on from an earlier process life.
    pub continued: u64,
    /// Repeated copies.
    pub duplicates: u64,
    /// Events that came after later ones.
    pub late: u64,
    /// Events whose sequence number was taken.
    pub forks: u64,
    /// Events whose links do not fit.
    pub altered: u64,
    /// Events of chains beyond the limit.
    pub untracked: u64,
}

impl ChainSet {
    /// No chains yet.
    #[must_use]
    pub const fn new(limits: ChainLimits) -> Self {
        Self { limits, chains: BTreeMap::new(), untracked: 0 }
    }

    /// Judges an event in the chain `scope`, which the caller names because only the subject's
    /// plane tells whether it has one chain for all or one for each sender.
    ///
    /// The first event of a process life that [says](MessageEnvelope::continues) which earlier one
    /// it goes on from continues that one. What is known of the earlier one has to bear it out:
    /// that its last events are missing shows as a gap, and another event in the place of the one
    /// that is named as altered. The earlier one may go on as well, when both lived at once: each
    /// is one line, and that is no fork.
    pub fn feed(&mut self, scope: ChainScope, envelope: &MessageEnvelope) -> ChainVerdict {
        if let Some(chain) = self.chains.get_mut(&scope) {
            return chain.feed(envelope);
        }
        if self.chains.len() >= self.limits.chains_max.get() {
            self.untracked += 1;
            return ChainVerdict::Untracked;
        }
        let mut chain = self.open(&scope, envelope);
        let verdict = chain.feed(envelope);
        self.chains.insert(scope, chain);
        verdict
    }

    /// All chains with what was found in each.
    pub fn iter(&self) -> impl Iterator<Item = (&ChainScope, ChainSummary)> {
        self.chains.iter().map(|(scope, chain)| (scope, chain.summary()))
    }

    /// The verifier of one chain.
    #[must_use]
    pub fn get(&self, scope: &ChainScope) -> Option<&ChainVerifier> {
        self.chains.get(scope)
    }

    /// What was found in all chains together.
    #[must_use]
    pub fn totals(&self) -> ChainTotals {
        let mut totals = ChainTotals {
            chains: self.chains.len() as u64,
            untracked: self.untracked,
            events: self.untracked,
            ..ChainTotals::default()
        };
        for (_, summary) in self.iter() {
            totals.broken += u64::from(!summary.is_unbroken());
            totals.events += summary.events;
            totals.gaps += summary.gaps;
            totals.missed = totals.missed.saturating_add(summary.missed);
            totals.duplicates += summary.duplicates;
            totals.continued += summary.continued;
            totals.late += summary.late;
            totals.forks += summary.forks;
            totals.altered += summary.altered;
        }
        totals
    }

    fn open(&self, scope: &ChainScope, first: &MessageEnvelope) -> ChainVerifier {
        let before = first.continues().and_then(|life| {
            let earlier = self.chains.get(&scope.of_life(life)?)?;
            earlier.before(first.lineage.seq_num)
        });
        match before {
            Some(head) => ChainVerifier::continuing(scope.clone(), head, self.limits.window),
            None => ChainVerifier::new(scope.clone(), self.limits.window),
        }
    }
}

#[cfg(test)]
mod tests;
