//! Walks the chains of a log: gap, fork, repetition, reordering and breach are told apart (D5).

use std::collections::HashMap;

use bus_envelope::{ChainHead, ChainScope, EventHash, MessageEnvelope};
use bus_subjects::{AgentId, Subject};

use crate::verify::{Finding, FindingKind};

/// The chains of one log.
#[derive(Debug, Default)]
pub(super) struct Chains {
    scopes: HashMap<ChainScope, usize>,
    chains: Vec<Chain>,
    links: Vec<Link>,
}

#[derive(Debug)]
struct Chain {
    head: ChainHead,
    begun: bool,
    /// The line of the entry in which a later process life of the agent took the chain over.
    taken_over: Option<u64>,
    /// The agent and subject of a chain that a later process life may continue.
    owner: Option<(AgentId, Subject)>,
}

/// What the walk needs of an entry.
#[derive(Debug, Clone, Copy)]
struct Link {
    chain: usize,
    seq: u64,
    prev: EventHash,
    leaf: EventHash,
}

impl Chains {
    /// Adds the next entry of the log.
    pub(super) fn add(&mut self, scope: ChainScope, envelope: &MessageEnvelope, leaf: EventHash) {
        let chains = &mut self.chains;
        let chain = *self.scopes.entry(scope).or_insert_with_key(|scope| {
            let owner = match scope {
                ChainScope::Incarnation { agent, subject, .. } => {
                    Some((agent.clone(), subject.clone()))
                }
                ChainScope::Subject { .. } => None,
            };
            let head = ChainHead::genesis(scope);
            chains.push(Chain { head, begun: false, taken_over: None, owner });
            chains.len() - 1
        });
        let lineage = &envelope.lineage;
        self.links.push(Link { chain, seq: lineage.seq_num, prev: lineage.prev_event_hash, leaf });
    }

    /// How many chains there are; those that another one continues count on their own.
    pub(super) fn count(&self) -> u64 {
        self.chains.len() as u64
    }

    /// Walks every chain from its first event to its last.
    pub(super) fn check(&mut self, file: &str) -> Result<(), Finding> {
        let later = self.lines_by_place();
        let mut seen: HashMap<EventHash, (u64, usize)> = HashMap::new();
        let mut followed: HashMap<EventHash, u64> = HashMap::new();
        for (link, line) in self.links.iter().zip(1_u64..) {
            let fault = |kind, detail: String| Err(Finding::new(file, kind, detail).at(line));
            if let Some((first, _)) = seen.get(&link.leaf) {
                return fault(
                    FindingKind::ChainDuplicate,
                    format!("it is the entry of line {first}"),
                );
            }
            if let Some(other) = followed.get(&link.prev) {
                let detail = format!("it names the same predecessor as line {other}");
                return fault(FindingKind::ChainFork, detail);
            }
            if let Err((kind, detail)) = follow(&mut self.chains, link, line, &seen, &later) {
                return fault(kind, detail);
            }
            seen.insert(link.leaf, (line, link.chain));
            followed.insert(link.prev, line);
        }
        Ok(())
    }

    /// The line of each place in each chain.
    fn lines_by_place(&self) -> HashMap<(usize, u64), u64> {
        self.links.iter().zip(1..).map(|(link, line)| ((link.chain, link.seq), line)).collect()
    }
}

type Fault = (FindingKind, String);

/// Moves the chain of `link` on, or says why it does not follow.
fn follow(
    chains: &mut [Chain],
    link: &Link,
    line: u64,
    seen: &HashMap<EventHash, (u64, usize)>,
    later: &HashMap<(usize, u64), u64>,
) -> Result<(), Fault> {
    let fault = |kind, detail: String| Err((kind, detail));
    let Some(chain) = chains.get(link.chain) else { return Ok(()) };
    if let Some(other) = chain.taken_over {
        let detail = format!("line {other} continues the chain already");
        return fault(FindingKind::ChainFork, detail);
    }
    let (head, begun) = (chain.head, chain.begun);
    if !begun
        && chain.owner.is_some()
        && !head.hash.ct_eq(&link.prev)
        && let Some(former) = former_life(chains, link, seen)
        && let Some(chain) = chains.get_mut(former)
    {
        chain.taken_over = Some(line);
        advance(chains, link);
        return Ok(());
    }
    let next = head.next_seq();
    if link.seq == next && head.hash.ct_eq(&link.prev) {
        advance(chains, link);
        return Ok(());
    }
    if link.seq > next {
        return match later.get(&(link.chain, next)) {
            Some(other) => {
                let detail = format!("number {next} of the chain comes later, in line {other}");
                fault(FindingKind::ChainReordered, detail)
            }
            None => {
                let (missing, number) = (link.seq - next, link.seq);
                let detail = match head.seq {
                    0 => format!("{missing} missing before number {number}, the first one here"),
                    last => format!("{missing} missing between numbers {last} and {number}"),
                };
                fault(FindingKind::ChainGap, detail)
            }
        };
    }
    if link.seq < next {
        let detail = format!("number {} of the chain comes after number {}", link.seq, head.seq);
        return fault(FindingKind::ChainReordered, detail);
    }
    let detail = format!("number {} does not name what stands here as its predecessor", link.seq);
    fault(FindingKind::ChainBroken, detail)
}

/// The chain of an earlier process life whose last event `link` names as its predecessor.
fn former_life(
    chains: &[Chain],
    link: &Link,
    seen: &HashMap<EventHash, (u64, usize)>,
) -> Option<usize> {
    let (_, former) = *seen.get(&link.prev)?;
    let (chain, own) = (chains.get(former)?, chains.get(link.chain)?);
    let fits = chain.owner == own.owner
        && chain.taken_over.is_none()
        && chain.head.hash.ct_eq(&link.prev)
        && chain.head.next_seq() == link.seq;
    fits.then_some(former)
}

fn advance(chains: &mut [Chain], link: &Link) {
    if let Some(chain) = chains.get_mut(link.chain) {
        chain.head = ChainHead { seq: link.seq, hash: link.leaf };
        chain.begun = true;
    }
}
