//! Walks one chain and names what it finds: linked, duplicate, gap, fork, altered, told apart.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use crate::{ChainHead, ChainScope, EventHash, MessageEnvelope};

/// Judges the events of one chain in the order they arrive.
///
/// Leaves are computed anew from every envelope, payload included; nothing an envelope says about
/// itself is taken on trust. Who sent it is judged before: fed with what anybody may send, the head
/// goes wherever a forged number points.
///
/// The last `window` events are remembered, so that a late or repeated one is recognised.
#[derive(Debug, Clone)]
pub struct ChainVerifier {
    scope: ChainScope,
    anchor: ChainHead,
    start: Start,
    window: NonZeroUsize,
    seen: BTreeMap<u64, Seen>,
    forgotten_to: u64,
    summary: ChainSummary,
}

/// Where a verifier takes up its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// At the chain's own beginning.
    Genesis,
    /// Behind a head known to be good.
    Head,
    /// Behind a message of an earlier process life that was seen.
    Life,
}

/// What one event is to its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChainVerdict {
    /// It follows the event before it.
    Linked,
    /// It is the first of its process life and follows an event of an earlier life of the same
    /// agent on the same subject.
    Continued {
        /// Whether that event was seen. If not, what came before is not judged; of this life
        /// nothing came before.
        is_known: bool,
    },
    /// It is the first one seen and not the first of its chain: what came before is not judged.
    Started {
        /// How many events of the chain came before.
        earlier: u64,
    },
    /// It was seen before, byte for byte in all that is hashed.
    Duplicate,
    /// It lies ahead: `missed` events before it have not been seen. The first event of a process
    /// life also, when the life that it continues ends here before the event that it names.
    Gap {
        /// How many are missing between the last one and this one.
        missed: u64,
    },
    /// It fills a gap after later events had come, and its links fit.
    Late,
    /// Another event has its sequence number.
    Fork,
    /// Its links do not fit, or it has the id of an event that was seen with other content: it or
    /// its neighbour was changed after it was made. The first event of a process life also, when
    /// another event stands where the one that it names should.
    Altered,
    /// It is older than the events that are remembered: it cannot be judged.
    OutOfWindow,
    /// It belongs to another chain.
    Foreign,
    /// Its chain is one more than a [`ChainSet`](crate::ChainSet) follows: it is not judged.
    Untracked,
}

/// How the end of a chain stands to a head known from elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TailVerdict {
    /// The chain ends with the known head.
    Ends,
    /// The chain goes on from the known head.
    GoesOn {
        /// How many events came after it.
        more: u64,
    },
    /// The chain ends before the known head: its tail was cut off, or has not arrived.
    Cut {
        /// How many events are missing at the end.
        missing: u64,
    },
    /// Another event stands in the place of the known head.
    Rewritten,
    /// The place of the known head is missing, or too old to be remembered.
    Unknown,
}

/// What was found in one chain so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChainSummary {
    /// Events fed, whatever the verdict.
    pub events: u64,
    /// Events that followed the one before.
    pub linked: u64,
    /// Events that followed one of an earlier process life: 0 or 1.
    pub continued: u64,
    /// Repeated copies.
    pub duplicates: u64,
    /// How often events were missing.
    pub gaps: u64,
    /// Events still missing between the first and the last one seen.
    pub missed: u64,
    /// Events that came after later ones.
    pub late: u64,
    /// Events whose sequence number was taken.
    pub forks: u64,
    /// Events whose links do not fit.
    pub altered: u64,
    /// Events too old to be judged.
    pub out_of_window: u64,
    /// Events of other chains.
    pub foreign: u64,
    /// The smallest sequence number seen; 0 before the first event.
    pub first_seq: u64,
    /// The largest sequence number seen; 0 before the first event.
    pub last_seq: u64,
}

impl ChainVerifier {
    /// A verifier for a chain from its beginning, remembering `window` events.
    #[must_use]
    pub fn new(scope: ChainScope, window: NonZeroUsize) -> Self {
        let anchor = ChainHead::genesis(&scope);
        Self::anchored(scope, anchor, Start::Genesis, window)
    }

    /// A verifier for a chain that goes on from a head known to be good, such as a checkpoint.
    #[must_use]
    pub fn resume(scope: ChainScope, head: ChainHead, window: NonZeroUsize) -> Self {
        Self::anchored(scope, head, Start::Head, window)
    }

    /// A verifier for the chain of a process life that goes on from `head`, an event of an earlier
    /// life of the same agent that was seen.
    #[must_use]
    pub fn continuing(scope: ChainScope, head: ChainHead, window: NonZeroUsize) -> Self {
        Self::anchored(scope, head, Start::Life, window)
    }

    /// Judges the next event.
    pub fn feed(&mut self, envelope: &MessageEnvelope) -> ChainVerdict {
        self.feed_leaf(envelope, envelope.compute_hash())
    }

    /// Judges the next event, whose leaf the caller has just computed from it.
    pub fn feed_leaf(&mut self, envelope: &MessageEnvelope, leaf: EventHash) -> ChainVerdict {
        let verdict = self.judge(envelope, leaf);
        self.summary.count(verdict);
        verdict
    }

    /// What was found so far.
    #[must_use]
    pub const fn summary(&self) -> ChainSummary {
        self.summary
    }

    /// Whose chain this is.
    #[must_use]
    pub const fn scope(&self) -> &ChainScope {
        &self.scope
    }

    /// The event with the largest sequence number, or where the chain was taken up.
    #[must_use]
    pub fn head(&self) -> ChainHead {
        self.seen
            .last_key_value()
            .map_or(self.anchor, |(seq, seen)| ChainHead { seq: *seq, hash: seen.leaf })
    }

    /// What the event `seq` of a later process life finds here before it: the event with the number
    /// before, or the last one when this chain ends sooner. `None` when that place was not seen or
    /// is not remembered.
    pub(crate) fn before(&self, seq: u64) -> Option<ChainHead> {
        let (seq, head) = (seq.checked_sub(1)?, self.head());
        if head.seq <= seq {
            return Some(head);
        }
        self.seen.get(&seq).map(|seen| ChainHead { seq, hash: seen.leaf })
    }

    /// Whether every event from the chain's beginning, or from the head it was taken up at, was
    /// seen once, in order and unchanged. An end that was cut off shows only against a checkpoint.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.summary.is_unbroken()
            && (self.summary.events == 0 || self.summary.first_seq == self.anchor.next_seq())
    }

    /// Holds the end of the chain against a head known from elsewhere, such as a checkpoint kept
    /// outside: the only way to see that an end was cut off.
    #[must_use]
    pub fn tail_against(&self, known: &ChainHead) -> TailVerdict {
        let head = self.head();
        if head.seq < known.seq {
            return TailVerdict::Cut { missing: known.seq - head.seq };
        }
        let leaf = if known.seq == self.anchor.seq {
            Some(&self.anchor.hash)
        } else {
            self.seen.get(&known.seq).map(|seen| &seen.leaf)
        };
        match leaf {
            None => TailVerdict::Unknown,
            Some(leaf) if !leaf.ct_eq(&known.hash) => TailVerdict::Rewritten,
            Some(_) if head.seq == known.seq => TailVerdict::Ends,
            Some(_) => TailVerdict::GoesOn { more: head.seq - known.seq },
        }
    }

    fn anchored(scope: ChainScope, anchor: ChainHead, start: Start, window: NonZeroUsize) -> Self {
        // A chain that starts in the middle has no floor until events are forgotten.
        let forgotten_to = if start == Start::Genesis { 0 } else { anchor.seq };
        let (seen, summary) = (BTreeMap::new(), ChainSummary::default());
        Self { scope, anchor, start, window, seen, forgotten_to, summary }
    }

    /// Takes up the chain behind the event of an earlier process life that `first` names, when it
    /// says that it is the first of its own. Its sender could as well begin anew: there is nothing
    /// to hide behind such a word.
    fn take_up(&mut self, first: &MessageEnvelope) -> bool {
        let is_later_life = matches!(self.scope, ChainScope::Incarnation { .. })
            && self.start == Start::Genesis
            && self.seen.is_empty()
            && self.summary.first_seq == 0
            && first.continues().is_some();
        if is_later_life {
            let seq = first.lineage.seq_num - 1;
            self.anchor = ChainHead { seq, hash: first.lineage.prev_event_hash };
            self.forgotten_to = seq;
        }
        is_later_life
    }

    fn judge(&mut self, envelope: &MessageEnvelope, leaf: EventHash) -> ChainVerdict {
        if !self.scope.contains(envelope) {
            return ChainVerdict::Foreign;
        }
        let is_taken_up = self.take_up(envelope);
        let seq = envelope.lineage.seq_num;
        if let Some(known) = self.seen.get(&seq) {
            return known.compare(envelope, &leaf);
        }
        if seq <= self.forgotten_to {
            return ChainVerdict::OutOfWindow;
        }
        let fits = self.fits(envelope, &leaf);
        let last = self.summary.last_seq;
        if seq < last && !fits {
            // Not remembered: the honest event of this number may still come.
            return ChainVerdict::Altered;
        }
        let verdict = if seq < last { self.fill(seq) } else { self.advance(seq) };
        let prev = envelope.lineage.prev_event_hash;
        self.seen.insert(seq, Seen { leaf, prev, id: envelope.id.as_str().into() });
        self.forget();
        match verdict {
            _ if !fits => ChainVerdict::Altered,
            ChainVerdict::Linked if is_taken_up => ChainVerdict::Continued { is_known: false },
            verdict => verdict,
        }
    }

    /// Whether the links to both neighbours fit, as far as the neighbours are known.
    fn fits(&self, envelope: &MessageEnvelope, leaf: &EventHash) -> bool {
        let seq = envelope.lineage.seq_num;
        let before = if seq == self.anchor.seq.saturating_add(1) {
            Some(&self.anchor.hash)
        } else {
            seq.checked_sub(1).and_then(|before| self.seen.get(&before)).map(|seen| &seen.leaf)
        };
        let after = seq.checked_add(1).and_then(|after| self.seen.get(&after));
        before.is_none_or(|before| before.ct_eq(&envelope.lineage.prev_event_hash))
            && after.is_none_or(|after| after.prev.ct_eq(leaf))
    }

    /// An event behind the last one.
    fn fill(&mut self, seq: u64) -> ChainVerdict {
        let first = self.summary.first_seq;
        if seq < first {
            self.summary.missed = self.summary.missed.saturating_add(first - seq - 1);
            self.summary.first_seq = seq;
        } else {
            self.summary.missed = self.summary.missed.saturating_sub(1);
        }
        ChainVerdict::Late
    }

    /// An event ahead of the last one.
    fn advance(&mut self, seq: u64) -> ChainVerdict {
        let is_first = self.summary.first_seq == 0;
        let last = if is_first { self.anchor.seq } else { self.summary.last_seq };
        let missed = seq.saturating_sub(last).saturating_sub(1);
        self.summary.last_seq = seq;
        if is_first {
            self.summary.first_seq = seq;
        }
        match missed {
            0 if is_first && self.start == Start::Life => {
                ChainVerdict::Continued { is_known: true }
            }
            0 => ChainVerdict::Linked,
            earlier if is_first && self.start == Start::Genesis => {
                ChainVerdict::Started { earlier }
            }
            missed => {
                self.summary.gaps += 1;
                self.summary.missed = self.summary.missed.saturating_add(missed);
                ChainVerdict::Gap { missed }
            }
        }
    }

    fn forget(&mut self) {
        while self.seen.len() > self.window.get() {
            if let Some((seq, _)) = self.seen.pop_first() {
                self.forgotten_to = seq;
            }
        }
    }
}

impl ChainSummary {
    /// Whether all that was seen came once or repeated, in order and unchanged.
    #[must_use]
    pub const fn is_unbroken(&self) -> bool {
        let broken = self.gaps + self.late + self.forks + self.altered + self.foreign;
        broken + self.out_of_window == 0
    }

    fn count(&mut self, verdict: ChainVerdict) {
        self.events += 1;
        match verdict {
            ChainVerdict::Linked => self.linked += 1,
            ChainVerdict::Continued { .. } => self.continued += 1,
            ChainVerdict::Duplicate => self.duplicates += 1,
            ChainVerdict::Late => self.late += 1,
            ChainVerdict::Fork => self.forks += 1,
            ChainVerdict::Altered => self.altered += 1,
            ChainVerdict::OutOfWindow => self.out_of_window += 1,
            ChainVerdict::Foreign => self.foreign += 1,
            // A gap was counted where its size was known, also when its far end is altered.
            ChainVerdict::Gap { .. } | ChainVerdict::Started { .. } | ChainVerdict::Untracked => {}
        }
    }
}

/// What is remembered of an event.
#[derive(Debug, Clone)]
struct Seen {
    leaf: EventHash,
    prev: EventHash,
    id: Box<str>,
}

impl Seen {
    fn compare(&self, envelope: &MessageEnvelope, leaf: &EventHash) -> ChainVerdict {
        if self.leaf.ct_eq(leaf) {
            ChainVerdict::Duplicate
        } else if *self.id == *envelope.id {
            ChainVerdict::Altered
        } else {
            ChainVerdict::Fork
        }
    }
}

#[cfg(test)]
mod tests;
