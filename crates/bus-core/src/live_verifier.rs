//! Which live messages are vouched for: events and checkpoints in any order, with gaps.

use std::{
    collections::{BTreeMap, VecDeque, hash_map::Entry},
    num::NonZeroUsize,
};

use ahash::{HashMap, HashMapExt};
use bus_envelope::{ChainScope, EventHash, MessageEnvelope};

use crate::LiveCheckpoint;

/// Compares live messages with the checkpoints of their senders.
///
/// It is fed with what was opened, a checkpoint only when its signature was found good: then it
/// speaks for the chain of its own sender, process life and subject, and for no other. Memory is
/// bounded by [`LiveLimits`]; a message that was forgotten before its checkpoint came stays
/// vouched for by its seal alone.
///
/// What nobody signed takes room from nothing that was signed: neither from what checkpoints list
/// nor, beyond half of the chains, from those that have one.
#[derive(Debug)]
pub struct LiveVerifier {
    limits: LiveLimits,
    chains: HashMap<ChainScope, Chain>,
    turn: u64,
}

/// How much a [`LiveVerifier`] remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveLimits {
    /// How many chains are followed. One more takes the place of the chain that was heard least
    /// recently: of those with a checkpoint when they are more than half, else of those without.
    /// So who invents chains pushes out none that is vouched for, and those that ended long ago
    /// leave room for new ones.
    pub chains_max: NonZeroUsize,
    /// How many places of each chain are remembered that no checkpoint lists, the oldest go; and
    /// how many that one lists, the lowest numbers go.
    pub window: NonZeroUsize,
}

/// What stands behind a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Its sender's signature.
    Signed,
    /// A checkpoint that its sender signed.
    Vouched,
    /// Its seal: somebody who has the workspace's secret made it. Its checkpoint may yet come.
    Sealed,
    /// Nothing: its sender vouches for another message in its place. It is forged.
    Contradicted,
}

/// What a checkpoint said about the messages heard so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vouching {
    /// Messages heard before that it vouches for, oldest first; each is told once.
    pub vouched: Vec<EventHash>,
    /// Messages heard before that are forged: it vouches for others in their places.
    pub contradicted: Vec<EventHash>,
    /// Messages it vouches for that were not heard, or not any more remembered.
    pub unheard: u64,
    /// Places for which its sender vouched otherwise before. The first word counts.
    pub disputed: u64,
}

#[derive(Debug, Default)]
struct Chain {
    /// What was heard in places that no checkpoint lists: one message, and what others forged.
    heard: HashMap<u64, Heard>,
    /// The numbers of `heard` in the order they came; some may have been listed since.
    order: VecDeque<u64>,
    /// What the sender vouches for. The lowest number goes first, so that an old checkpoint which
    /// somebody repeats pushes out nothing newer.
    listed: BTreeMap<u64, EventHash>,
    last_turn: u64,
}

/// The message that was heard in a place first, and others there.
#[derive(Debug)]
struct Heard {
    first: EventHash,
    others: Vec<EventHash>,
}

/// How many different messages are remembered for one place; more are told as they come, and a
/// checkpoint contradicts none of them afterwards.
const FORGERIES_MAX: usize = 4;

impl LiveVerifier {
    /// Nothing heard yet.
    #[must_use]
    pub fn new(limits: LiveLimits) -> Self {
        Self { limits, chains: HashMap::new(), turn: 0 }
    }

    /// Takes in a live message with the leaf hash that was computed from it, and says what stands
    /// behind it as far as is known now.
    pub fn event(&mut self, envelope: &MessageEnvelope, leaf: EventHash) -> Standing {
        let window = self.limits.window.get();
        let (chain, seq) = (self.chain(envelope), envelope.lineage.seq_num);
        match chain.listed.get(&seq) {
            Some(listed) if listed.ct_eq(&leaf) => Standing::Vouched,
            Some(_) => Standing::Contradicted,
            None => {
                chain.hear(seq, leaf, window);
                Standing::Sealed
            }
        }
    }

    /// Takes in a checkpoint whose signature was found good, with the leaf hash that was computed
    /// from it, and says what it changes. Its own place is its own: what else was heard there is
    /// forged as well.
    pub fn checkpoint(
        &mut self,
        envelope: &MessageEnvelope,
        leaf: EventHash,
        checkpoint: &LiveCheckpoint,
    ) -> Vouching {
        let window = self.limits.window.get();
        let (chain, own_seq) = (self.chain(envelope), envelope.lineage.seq_num);
        let mut vouching = Vouching::default();
        for (seq, leaf) in checkpoint.leaves().chain([(own_seq, &leaf)]) {
            match chain.listed.get(&seq) {
                Some(listed) if listed.ct_eq(leaf) => continue,
                Some(_) => {
                    vouching.disputed += 1;
                    continue;
                }
                None => chain.list(seq, *leaf, window),
            }
            let heard = chain.heard.remove(&seq);
            let heard =
                heard.into_iter().flat_map(|heard| [heard.first].into_iter().chain(heard.others));
            let (own, forged): (Vec<EventHash>, Vec<EventHash>) =
                heard.partition(|heard| heard.ct_eq(leaf));
            vouching.unheard += u64::from(own.is_empty() && seq != own_seq);
            vouching.vouched.extend(own);
            vouching.contradicted.extend(forged);
        }
        vouching
    }

    /// The chain of `envelope`, remembered from now on.
    fn chain(&mut self, envelope: &MessageEnvelope) -> &mut Chain {
        let scope = ChainScope::incarnation_of(envelope);
        if self.chains.len() >= self.limits.chains_max.get() && !self.chains.contains_key(&scope) {
            self.forget_one();
        }
        self.turn += 1;
        let chain = self.chains.entry(scope).or_default();
        chain.last_turn = self.turn;
        chain
    }

    /// Makes room for one chain.
    fn forget_one(&mut self) {
        let vouched = self.chains.values().filter(|chain| chain.has_checkpoint()).count();
        let goes_vouched = vouched > self.chains.len() / 2;
        let stale = self
            .chains
            .iter()
            .filter(|(_, chain)| chain.has_checkpoint() == goes_vouched)
            .min_by_key(|(_, chain)| chain.last_turn)
            .map(|(scope, _)| scope.clone());
        if let Some(scope) = stale {
            self.chains.remove(&scope);
        }
    }
}

impl Chain {
    fn has_checkpoint(&self) -> bool {
        !self.listed.is_empty()
    }

    /// Remembers what was heard in a place that no checkpoint lists.
    fn hear(&mut self, seq: u64, leaf: EventHash, window: usize) {
        match self.heard.entry(seq) {
            Entry::Occupied(heard) => {
                let heard = heard.into_mut();
                let is_known = heard.first == leaf || heard.others.contains(&leaf);
                if !is_known && heard.others.len() + 1 < FORGERIES_MAX {
                    heard.others.push(leaf);
                }
            }
            Entry::Vacant(place) => {
                place.insert(Heard { first: leaf, others: Vec::new() });
                self.order.push_back(seq);
                if self.order.len() > window
                    && let Some(oldest) = self.order.pop_front()
                {
                    self.heard.remove(&oldest);
                }
            }
        }
    }

    /// Remembers what the sender vouches for.
    fn list(&mut self, seq: u64, leaf: EventHash, window: usize) {
        self.listed.insert(seq, leaf);
        if self.listed.len() > window {
            self.listed.pop_first();
        }
    }
}

impl Default for LiveLimits {
    /// 1,024 chains, and of each as many places as one checkpoint can list: 512. With as many busy
    /// senders that is about 60 MiB, and whatever strangers send less than 200 MiB.
    fn default() -> Self {
        const CHAINS_MAX: NonZeroUsize = NonZeroUsize::new(1024).unwrap();
        const WINDOW: NonZeroUsize = NonZeroUsize::new(LiveCheckpoint::LEAVES_MAX).unwrap();
        Self { chains_max: CHAINS_MAX, window: WINDOW }
    }
}

#[cfg(test)]
mod tests;
