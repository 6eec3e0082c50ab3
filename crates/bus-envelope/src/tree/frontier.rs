//! The growing edge of a tree: as much as its next root needs, and no more.

use super::{empty_root, leaf_hash, node_hash};
use crate::EventHash;

/// An append-only tree that keeps one node for each full subtree, so 64 at most, and gives roots
/// without proofs.
///
/// ```
/// use bus_envelope::tree::{MerkleFrontier, MerkleTree};
///
/// let (mut frontier, mut tree) = (MerkleFrontier::new(), MerkleTree::new());
/// for receipt in ["one", "two", "three"] {
///     frontier.append(receipt.as_bytes());
///     tree.append(receipt.as_bytes());
/// }
/// assert_eq!((frontier.size(), frontier.root()), (3, tree.root()));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MerkleFrontier {
    size: u64,
    /// The roots of the full subtrees, the largest first.
    peaks: Vec<EventHash>,
}

impl MerkleFrontier {
    /// A tree without leaves.
    #[must_use]
    pub const fn new() -> Self {
        Self { size: 0, peaks: Vec::new() }
    }

    /// Adds a leaf with this data and returns its index.
    pub fn append(&mut self, data: &[u8]) -> u64 {
        let index = self.size;
        let mut node = leaf_hash(data);
        // As many subtrees are full now as the old size ends in ones.
        for _ in 0..index.trailing_ones() {
            if let Some(left) = self.peaks.pop() {
                node = node_hash(&left, &node);
            }
        }
        self.peaks.push(node);
        self.size = index.saturating_add(1);
        index
    }

    /// How many leaves there are.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The root over all leaves; of no leaves it is the hash of nothing.
    #[must_use]
    pub fn root(&self) -> EventHash {
        let joined = self.peaks.iter().rev().copied();
        joined.reduce(|right, left| node_hash(&left, &right)).unwrap_or_else(empty_root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::MerkleTree;

    #[test]
    fn every_root_is_that_of_the_whole_tree() {
        let (mut frontier, mut tree) = (MerkleFrontier::new(), MerkleTree::new());
        for leaf in 0..300_u32 {
            assert_eq!(frontier.root(), tree.root(), "of {leaf} leaves");
            let data = leaf.to_be_bytes();
            assert_eq!(frontier.append(&data), tree.append(&data));
        }
        assert_eq!(frontier.size(), 300);
        assert!(frontier.peaks.len() <= 9, "{}", frontier.peaks.len());
    }
}
