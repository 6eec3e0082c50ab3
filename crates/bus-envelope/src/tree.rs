//! The Merkle tree of RFC 6962: roots, inclusion proofs and consistency proofs.

mod frontier;

use sha2::{Digest, Sha256};

pub use self::frontier::MerkleFrontier;

use crate::EventHash;

/// An append-only tree that keeps every node, so that each proof costs a logarithm.
///
/// ```
/// use bus_envelope::tree::{MerkleTree, leaf_hash, verify_inclusion};
///
/// let mut tree = MerkleTree::new();
/// for receipt in ["one", "two", "three"] {
///     tree.append(receipt.as_bytes());
/// }
/// let proof = tree.inclusion_proof(1, 3).expect("leaf 1 is in a tree of 3");
/// assert!(verify_inclusion(&leaf_hash(b"two"), 1, 3, &proof, &tree.root()));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MerkleTree {
    /// Level 0 holds the leaves; each level above the nodes over two full ones below.
    levels: Vec<Vec<EventHash>>,
}

impl MerkleTree {
    /// A tree without leaves.
    #[must_use]
    pub const fn new() -> Self {
        Self { levels: Vec::new() }
    }

    /// Adds a leaf with this data and returns its index.
    pub fn append(&mut self, data: &[u8]) -> u64 {
        self.append_leaf(leaf_hash(data))
    }

    /// Adds a leaf whose [`leaf_hash`] is known and returns its index.
    pub fn append_leaf(&mut self, leaf: EventHash) -> u64 {
        let index = self.size();
        let mut node = leaf;
        let mut level = 0;
        loop {
            if self.levels.len() == level {
                self.levels.push(Vec::new());
            }
            let Some(nodes) = self.levels.get_mut(level) else { return index };
            nodes.push(node);
            let [.., left, right] = nodes.as_slice() else { return index };
            if !nodes.len().is_multiple_of(2) {
                return index;
            }
            node = node_hash(left, right);
            level += 1;
        }
    }

    /// How many leaves there are.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.levels.first().map_or(0, |leaves| leaves.len() as u64)
    }

    /// The root over all leaves; of no leaves it is the hash of nothing.
    #[must_use]
    pub fn root(&self) -> EventHash {
        self.subtree(0, self.size()).unwrap_or_else(empty_root)
    }

    /// The root when the tree had `size` leaves; `None` when it never had as many.
    #[must_use]
    pub fn root_at(&self, size: u64) -> Option<EventHash> {
        if size == 0 { Some(empty_root()) } else { self.subtree(0, size) }
    }

    /// Proves that leaf `index` is in the tree of the first `size` leaves; `None` when it is not.
    #[must_use]
    pub fn inclusion_proof(&self, index: u64, size: u64) -> Option<Vec<EventHash>> {
        if index >= size || size > self.size() {
            return None;
        }
        let mut proof = Vec::new();
        let (mut start, mut count) = (0, size);
        while count > 1 {
            let left = largest_power_below(count);
            if index - start < left {
                proof.push(self.subtree(start + left, count - left)?);
                count = left;
            } else {
                proof.push(self.subtree(start, left)?);
                start += left;
                count -= left;
            }
        }
        proof.reverse();
        Some(proof)
    }

    /// Proves that the tree of the first `old` leaves is the beginning of the tree of the first
    /// `new` ones; `None` unless 1 ≤ `old` ≤ `new` ≤ the size.
    #[must_use]
    pub fn consistency_proof(&self, old: u64, new: u64) -> Option<Vec<EventHash>> {
        if old == 0 || old > new || new > self.size() {
            return None;
        }
        let mut proof = Vec::new();
        let (mut start, mut count, mut rest) = (0, new, old);
        // The verifier knows the old root, so it is left out while it is a node of the new tree.
        let mut is_old_root = true;
        while rest != count {
            let left = largest_power_below(count);
            if rest <= left {
                proof.push(self.subtree(start + left, count - left)?);
                count = left;
            } else {
                proof.push(self.subtree(start, left)?);
                start += left;
                count -= left;
                rest -= left;
                is_old_root = false;
            }
        }
        if !is_old_root {
            proof.push(self.subtree(start, count)?);
        }
        proof.reverse();
        Some(proof)
    }

    /// The root over `count` leaves from `start` on, which is a multiple of the power of two that
    /// covers them.
    fn subtree(&self, start: u64, count: u64) -> Option<EventHash> {
        if count == 0 {
            return None;
        }
        if count.is_power_of_two() {
            let level = self.levels.get(usize::try_from(count.trailing_zeros()).ok()?)?;
            return level.get(usize::try_from(start / count).ok()?).copied();
        }
        let left = largest_power_below(count);
        let (left, right) = (self.subtree(start, left)?, self.subtree(start + left, count - left)?);
        Some(node_hash(&left, &right))
    }
}

/// The hash of a leaf: SHA-256 over `00` and the data.
#[must_use]
pub fn leaf_hash(data: &[u8]) -> EventHash {
    EventHash::from_bytes(Sha256::new().chain_update([0]).chain_update(data).finalize().into())
}

/// The hash of a node: SHA-256 over `01` and both children.
#[must_use]
pub fn node_hash(left: &EventHash, right: &EventHash) -> EventHash {
    let hash = Sha256::new().chain_update([1]).chain_update(left).chain_update(right);
    EventHash::from_bytes(hash.finalize().into())
}

/// The root of a tree without leaves.
#[must_use]
pub fn empty_root() -> EventHash {
    EventHash::of(b"")
}

/// Whether `proof` shows that the leaf at `index` is in the tree of `size` leaves with this root.
#[must_use]
pub fn verify_inclusion(
    leaf: &EventHash,
    index: u64,
    size: u64,
    proof: &[EventHash],
    root: &EventHash,
) -> bool {
    if index >= size {
        return false;
    }
    let (mut node, mut last, mut hash) = (index, size - 1, *leaf);
    for sibling in proof {
        if last == 0 {
            return false;
        }
        if node & 1 == 1 || node == last {
            hash = node_hash(sibling, &hash);
            while node & 1 == 0 && node != 0 {
                node >>= 1;
                last >>= 1;
            }
        } else {
            hash = node_hash(&hash, sibling);
        }
        node >>= 1;
        last >>= 1;
    }
    last == 0 && hash.ct_eq(root)
}

/// Whether `proof` shows that the tree of `old` leaves is the beginning of the tree of `new` ones.
///
/// An empty old tree proves nothing about the new one and is refused.
#[must_use]
pub fn verify_consistency(
    old: u64,
    new: u64,
    old_root: &EventHash,
    new_root: &EventHash,
    proof: &[EventHash],
) -> bool {
    if old == 0 {
        return false;
    }
    if old == new {
        return proof.is_empty() && old_root.ct_eq(new_root);
    }
    if old > new || proof.is_empty() {
        return false;
    }
    let (mut node, mut last) = (old - 1, new - 1);
    let full = node.trailing_ones();
    node = node.checked_shr(full).unwrap_or(0);
    last = last.checked_shr(full).unwrap_or(0);
    // When the old tree is a full one, its root is the first node and is not in the proof.
    let (first, rest) = if node == 0 {
        (old_root, proof)
    } else {
        let Some((first, rest)) = proof.split_first() else { return false };
        (first, rest)
    };
    let (mut old_hash, mut new_hash) = (*first, *first);
    for sibling in rest {
        if last == 0 {
            return false;
        }
        if node & 1 == 1 || node == last {
            old_hash = node_hash(sibling, &old_hash);
            new_hash = node_hash(sibling, &new_hash);
            while node & 1 == 0 && node != 0 {
                node >>= 1;
                last >>= 1;
            }
        } else {
            new_hash = node_hash(&new_hash, sibling);
        }
        node >>= 1;
        last >>= 1;
    }
    last == 0 && old_hash.ct_eq(old_root) & new_hash.ct_eq(new_root)
}

/// The largest power of two below `count`, which is at least 2.
const fn largest_power_below(count: u64) -> u64 {
    1 << (u64::BITS - 1 - (count - 1).leading_zeros())
}
