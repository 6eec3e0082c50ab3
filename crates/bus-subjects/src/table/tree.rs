//! The tree of runs: from a subject to the filters that may match it.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};

use super::levels::{Level, mix, with_levels};
use super::runs::{Ending, RUN_EMPTY, Run, extend, runs};
use crate::Filter;

/// Nodes joined by runs that end in a star; runs that end a filter lead to its terminal.
pub(super) struct Tree {
    nodes: Vec<Node>,
    counts: Vec<Counts>,
    free: Vec<usize>,
    edges: HashMap<Edge, usize, BuildHasherDefault<EdgeHasher>>,
    seed: u64,
    run_mask: u64,
}

/// A run that leaves a node. A node is entered by one edge only, so the edges of a filter tell
/// where its stars are, and no subject comes to one terminal twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Edge {
    run: u64,
    /// The node, the number of levels and the ending, which all fit: a subject has at most 512
    /// levels.
    place: u64,
}

/// Which lengths of runs leave a node, by ending: bit *n* for *n* levels, the last for more.
#[derive(Debug, Clone, Copy, Default)]
struct Node {
    stars: u64,
    ends: u64,
    tails: u64,
}

/// What keeps a node and its bits alive.
#[derive(Debug, Clone, Default)]
struct Counts {
    /// How many filters lead to this node.
    paths: usize,
    /// How many filters leave it, by length and ending of the run.
    runs: Vec<(usize, Ending, usize)>,
}

impl Tree {
    /// An empty tree that keeps the bits of `run_mask` of the hash of a run.
    pub(super) fn new(run_mask: u64) -> Self {
        Self {
            nodes: vec![Node::default()],
            counts: vec![Counts::default()],
            free: Vec::new(),
            edges: HashMap::default(),
            // A seed of its own, so that nobody can choose levels that collide everywhere.
            seed: RandomState::new().hash_one(MIX_EDGE),
            run_mask,
        }
    }

    /// The runs of a filter.
    pub(super) fn path(&self, filter: &Filter) -> Vec<Run> {
        runs(filter.as_str(), self.seed)
    }

    /// What `find` makes of the first terminal at the end of `path`, if there is one.
    pub(super) fn terminal(
        &self,
        path: &[Run],
        find: impl FnOnce(usize) -> Option<usize>,
    ) -> Option<usize> {
        let mut node = TOP;
        for run in path {
            let edge = self.edge(node, run.hash, run.levels, run.ending);
            match run.ending {
                Ending::Star => node = *self.edges.get(&edge)?,
                Ending::End | Ending::Tail => return find(*self.edges.get(&edge)?),
            }
        }
        None
    }

    /// Makes `terminal` the first at the end of `path`; gives back the one that was.
    pub(super) fn link(&mut self, path: &[Run], terminal: usize) -> Option<usize> {
        let mut node = TOP;
        for run in path {
            self.count(node, run);
            let edge = self.edge(node, run.hash, run.levels, run.ending);
            if run.ending != Ending::Star {
                return self.edges.insert(edge, terminal);
            }
            node = match self.edges.get(&edge) {
                Some(child) => *child,
                None => {
                    let child = self.add_node();
                    self.edges.insert(edge, child);
                    child
                }
            };
            if let Some(counts) = self.counts.get_mut(node) {
                counts.paths += 1;
            }
        }
        None
    }

    /// Forgets `path`; `remove` takes the first terminal there and says which is first now.
    pub(super) fn unlink(&mut self, path: &[Run], remove: impl FnOnce(usize) -> Option<usize>) {
        let mut node = TOP;
        let mut crossed = Vec::new();
        for run in path {
            self.discount(node, run);
            let edge = self.edge(node, run.hash, run.levels, run.ending);
            if run.ending == Ending::Star {
                let Some(child) = self.edges.get(&edge) else {
                    return;
                };
                crossed.push((edge, *child));
                node = *child;
            } else if let Some(first) = self.edges.remove(&edge) {
                if let Some(now_first) = remove(first) {
                    self.edges.insert(edge, now_first);
                }
                break;
            }
        }
        for (edge, child) in crossed {
            self.leave(edge, child);
        }
    }

    /// Calls `found` with every first terminal that a filter matching `subject` may stand at.
    pub(super) fn visit(&self, subject: &str, mut found: impl FnMut(usize, &[Level])) {
        with_levels(subject, self.seed, |levels| {
            self.visit_node(TOP, levels, levels, &mut found);
        });
    }

    fn visit_node(
        &self,
        id: usize,
        all: &[Level],
        left: &[Level],
        found: &mut impl FnMut(usize, &[Level]),
    ) {
        let Some(node) = self.nodes.get(id) else {
            return;
        };
        let any = node.stars | node.ends | node.tails;
        let mut run = RUN_EMPTY;
        let mut after = left.iter();
        for length in 0..=left.len() {
            let bit = bit(length);
            // No run is as long as this one, or longer.
            if any < bit {
                return;
            }
            let Some(level) = after.next() else {
                if node.ends & bit != 0 {
                    let edge = self.edge(id, run, length, Ending::End);
                    self.visit_end(edge, all, found);
                }
                return;
            };
            if node.tails & bit != 0 {
                let edge = self.edge(id, run, length, Ending::Tail);
                self.visit_end(edge, all, found);
            }
            if node.stars & bit != 0
                && let Some(child) = self.edges.get(&self.edge(id, run, length, Ending::Star))
            {
                self.visit_node(*child, all, after.as_slice(), found);
            }
            run = extend(run, level.hash);
        }
    }

    fn visit_end(&self, edge: Edge, all: &[Level], found: &mut impl FnMut(usize, &[Level])) {
        if let Some(first) = self.edges.get(&edge) {
            found(*first, all);
        }
    }

    fn edge(&self, node: usize, run: u64, levels: usize, ending: Ending) -> Edge {
        let place = (node as u64) << 12 | (levels as u64) << 2 | ending as u64;
        Edge { run: run & self.run_mask, place }
    }

    fn add_node(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.nodes.push(Node::default());
            self.counts.push(Counts::default());
            self.nodes.len() - 1
        })
    }

    fn leave(&mut self, edge: Edge, id: usize) {
        let Some(counts) = self.counts.get_mut(id) else {
            return;
        };
        counts.paths -= 1;
        if counts.paths == 0 {
            self.edges.remove(&edge);
            self.free.push(id);
        }
    }

    fn count(&mut self, id: usize, run: &Run) {
        let (Some(node), Some(counts)) = (self.nodes.get_mut(id), self.counts.get_mut(id)) else {
            return;
        };
        *node.bits(run.ending) |= bit(run.levels);
        match counts.runs.iter_mut().find(|(n, e, _)| (*n, *e) == (run.levels, run.ending)) {
            Some((_, _, count)) => *count += 1,
            None => counts.runs.push((run.levels, run.ending, 1)),
        }
    }

    fn discount(&mut self, id: usize, run: &Run) {
        let (Some(node), Some(counts)) = (self.nodes.get_mut(id), self.counts.get_mut(id)) else {
            return;
        };
        if let Some((_, _, count)) =
            counts.runs.iter_mut().find(|(n, e, _)| (*n, *e) == (run.levels, run.ending))
        {
            *count -= 1;
        }
        counts.runs.retain(|(_, _, count)| *count > 0);
        let gone = bit(run.levels);
        let mut same = counts.runs.iter().filter(|(_, e, _)| *e == run.ending);
        if !same.any(|(n, _, _)| bit(*n) == gone) {
            *node.bits(run.ending) &= !gone;
        }
    }

    /// How many nodes and edges are in use, to see that nothing is left behind.
    #[cfg(test)]
    pub(super) fn in_use(&self) -> (usize, usize) {
        (self.nodes.len() - self.free.len(), self.edges.len())
    }
}

impl Node {
    fn bits(&mut self, ending: Ending) -> &mut u64 {
        match ending {
            Ending::Star => &mut self.stars,
            Ending::End => &mut self.ends,
            Ending::Tail => &mut self.tails,
        }
    }
}

impl Hash for Edge {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(mix(self.run ^ self.place.wrapping_mul(MIX_PLACE), MIX_EDGE));
    }
}

/// An edge gives a number that is mixed already.
#[derive(Debug, Clone, Default)]
struct EdgeHasher(u64);

impl Hasher for EdgeHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, mixed: u64) {
        self.0 = mixed;
    }
}

fn bit(levels: usize) -> u64 {
    1 << levels.min(63)
}

/// The node where every filter begins.
const TOP: usize = 0;

const MIX_EDGE: u64 = 0xe703_7ed1_a0b4_28db;
const MIX_PLACE: u64 = 0x5896_65cc_71bd_9f4d;
