//! Walks the chains of a log: gap, fork, repetition, reordering and breach are told apart (D5).

use std::collections::HashMap;

use bus_envelope::{ChainHead, ChainScope, EventHash, MessageEnvelope};

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
}

/// What the walk needs of an entry.
#[derive(Debug)]
struct Link {
    chain: usize,
    seq: u64,
    prev: EventHash,
    leaf: EventHash,
    /// The chain of an earlier process life that it says it continues, as the first of its own.
    earlier: Option<ChainScope>,
}

impl Chains {
    /// Adds the next entry of the log.
    pub(super) fn add(&mut self, scope: ChainScope, envelope: &MessageEnvelope, leaf: EventHash) {
        let earlier = envelope.continues().and_then(|life| scope.of_life(life));
        let chains = &mut self.chains;
        let chain = *self.scopes.entry(scope).or_insert_with_key(|scope| {
            chains.push(Chain { head: ChainHead::genesis(scope), begun: false });
            chains.len() - 1
        });
        let lineage = &envelope.lineage;
        let (seq, prev) = (lineage.seq_num, lineage.prev_event_hash);
        self.links.push(Link { chain, seq, prev, leaf, earlier });
    }

    /// How many chains there are; those that another one continues count on their own.
    pub(super) fn count(&self) -> u64 {
        self.chains.len() as u64
    }

    /// Walks every chain from its first event to its last.
    pub(super) fn check(&mut self, file: &str) -> Result<(), Finding> {
        let later = self.lines_by_place();
        let mut seen: HashMap<EventHash, Seen> = HashMap::new();
        let mut followed: HashMap<(usize, EventHash), u64> = HashMap::new();
        for (link, line) in self.links.iter().zip(1_u64..) {
            let fault = |kind, detail: String| Err(Finding::new(file, kind, detail).at(line));
            if let Some(first) = seen.get(&link.leaf) {
                let detail = format!("it is the entry of line {}", first.line);
                return fault(FindingKind::ChainDuplicate, detail);
            }
            // Lives that continue one event branch; within a chain nothing does.
            if let Some(other) = followed.get(&(link.chain, link.prev)) {
                let detail = format!("it names the same predecessor as line {other}");
                return fault(FindingKind::ChainFork, detail);
            }
            let followed_up = if is_taken_up(&self.chains, link) {
                let earlier = link.earlier.as_ref().and_then(|scope| self.scopes.get(scope));
                take_up(earlier.copied(), link, line, &seen, &later)
            } else {
                follow(&self.chains, link, &later)
            };
            if let Err((kind, detail)) = followed_up {
                return fault(kind, detail);
            }
            advance(&mut self.chains, link);
            seen.insert(link.leaf, Seen { line, chain: link.chain, seq: link.seq });
            followed.insert((link.chain, link.prev), line);
        }
        Ok(())
    }

    /// The line of each place in each chain.
    fn lines_by_place(&self) -> HashMap<(usize, u64), u64> {
        self.links.iter().zip(1..).map(|(link, line)| ((link.chain, link.seq), line)).collect()
    }
}

type Fault = (FindingKind, String);

/// An entry that was walked.
#[derive(Debug, Clone, Copy)]
struct Seen {
    line: u64,
    chain: usize,
    seq: u64,
}

/// Whether `link` is the first of its process life here and says that it continues an earlier one.
fn is_taken_up(chains: &[Chain], link: &Link) -> bool {
    let is_first = |chain: &Chain| !chain.begun && !chain.head.hash.ct_eq(&link.prev);
    link.earlier.is_some() && chains.get(link.chain).is_some_and(is_first)
}

/// Says why `link` does not go on from the life that it names. `earlier` is the chain of that life;
/// of one that is not in this log nothing can be said.
fn take_up(
    earlier: Option<usize>,
    link: &Link,
    line: u64,
    seen: &HashMap<EventHash, Seen>,
    later: &HashMap<(usize, u64), u64>,
) -> Result<(), Fault> {
    let before = link.seq.saturating_sub(1);
    let named = seen.get(&link.prev);
    match (earlier, named) {
        (None, None) => return Ok(()),
        (Some(earlier), Some(named)) if (named.chain, named.seq) == (earlier, before) => {
            return Ok(());
        }
        _ => {}
    }
    Err(match earlier.map(|earlier| later.get(&(earlier, before))) {
        Some(Some(other)) if *other > line => {
            let detail =
                format!("number {before}, which it continues, comes later, in line {other}");
            (FindingKind::ChainReordered, detail)
        }
        Some(None) => {
            let detail = format!("number {before} of the process life it continues is missing");
            (FindingKind::ChainGap, detail)
        }
        Some(Some(_)) | None => {
            let detail = format!("number {before} of the process life it continues is another one");
            (FindingKind::ChainBroken, detail)
        }
    })
}

/// Says why `link` does not follow what stands before it in its chain.
fn follow(chains: &[Chain], link: &Link, later: &HashMap<(usize, u64), u64>) -> Result<(), Fault> {
    let fault = |kind, detail: String| Err((kind, detail));
    let Some(chain) = chains.get(link.chain) else { return Ok(()) };
    let head = chain.head;
    let next = head.next_seq();
    if link.seq == next && head.hash.ct_eq(&link.prev) {
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

fn advance(chains: &mut [Chain], link: &Link) {
    if let Some(chain) = chains.get_mut(link.chain) {
        chain.head = ChainHead { seq: link.seq, hash: link.leaf };
        chain.begun = true;
    }
}
