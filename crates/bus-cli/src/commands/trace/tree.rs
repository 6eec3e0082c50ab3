//! The tree that messages and their causes make: pure, and every message once.

use std::collections::{BTreeMap, BTreeSet};

use bus_envelope::{EventHash, Timestamp};

/// A message and what led to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) leaf: EventHash,
    pub(super) cause: Option<EventHash>,
    pub(super) time: Timestamp,
}

/// A line of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// The message: the number of its link; none for a cause that is not there.
    pub(super) link: Option<usize>,
    pub(super) leaf: EventHash,
    /// How many stand above it.
    pub(super) depth: usize,
    /// The row that it stands below.
    pub(super) above: Option<usize>,
    /// Whether it is the last one below that.
    pub(super) is_last: bool,
}

/// Lays the messages out, the earliest first, each below its cause. What has none is at the root,
/// and so is a cause that is named and not there. Leaf hashes bind their causes, so nothing can be
/// its own cause; what claims to be is at the root all the same.
pub(super) fn rows(links: &[Link]) -> Vec<Row> {
    let there: BTreeSet<EventHash> = links.iter().map(|link| link.leaf).collect();
    let mut below: BTreeMap<EventHash, Vec<usize>> = BTreeMap::new();
    let mut roots: Vec<(Timestamp, Option<usize>, EventHash)> = Vec::new();
    for (number, link) in links.iter().enumerate() {
        match link.cause {
            None => roots.push((link.time, Some(number), link.leaf)),
            Some(cause) => {
                let first = below.entry(cause).or_default();
                if first.is_empty() && !there.contains(&cause) {
                    roots.push((link.time, None, cause));
                }
                first.push(number);
            }
        }
    }
    for numbers in below.values_mut() {
        numbers.sort_by_key(|number| links.get(*number).map(|link| (link.time, link.leaf)));
    }
    roots.sort();
    let mut laid = Laid { links, below, rows: Vec::new(), seen: BTreeSet::new() };
    let count = roots.len();
    for (place, (_, link, leaf)) in roots.into_iter().enumerate() {
        laid.lay(link, leaf, place + 1 == count);
    }
    for (number, link) in links.iter().enumerate() {
        if !laid.seen.contains(&number) {
            laid.lay(Some(number), link.leaf, true);
        }
    }
    laid.rows
}

struct Laid<'a> {
    links: &'a [Link],
    below: BTreeMap<EventHash, Vec<usize>>,
    rows: Vec<Row>,
    seen: BTreeSet<usize>,
}

impl Laid<'_> {
    /// Lays one root and all below it; a stack of its own, for a chain may be long.
    fn lay(&mut self, link: Option<usize>, leaf: EventHash, is_last: bool) {
        let mut waiting = vec![Row { link, leaf, depth: 0, above: None, is_last }];
        while let Some(row) = waiting.pop() {
            if row.link.is_some_and(|number| !self.seen.insert(number)) {
                continue;
            }
            let below = self.below.get(&row.leaf).map_or(&[][..], Vec::as_slice);
            let (count, above) = (below.len(), Some(self.rows.len()));
            // The last one first: the stack turns them round.
            for (place, number) in below.iter().enumerate().rev() {
                let Some(link) = self.links.get(*number) else { continue };
                let (leaf, depth, is_last) = (link.leaf, row.depth + 1, place + 1 == count);
                waiting.push(Row { link: Some(*number), leaf, depth, above, is_last });
            }
            self.rows.push(row);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hash(number: u8) -> EventHash {
        EventHash::of(&[number])
    }

    fn link(leaf: u8, cause: Option<u8>, second: i128) -> Link {
        let time = Timestamp::from_unix_ns(second * 1_000_000_000);
        Link { leaf: hash(leaf), cause: cause.map(hash), time }
    }

    /// The rows as numbers of links with their depth; none for a cause that is not there.
    fn shape(links: &[Link]) -> Vec<(Option<usize>, usize)> {
        rows(links).iter().map(|row| (row.link, row.depth)).collect()
    }

    #[test]
    fn what_was_caused_stands_below_its_cause_by_its_time() {
        let links =
            [link(3, Some(1), 9), link(1, None, 1), link(2, Some(1), 5), link(4, Some(2), 7)];
        let expected = [(Some(1), 0), (Some(2), 1), (Some(3), 2), (Some(0), 1)];
        assert_eq!(shape(&links), expected);
    }

    #[test]
    fn a_cause_that_was_not_kept_is_named_once_above_all_that_it_caused() {
        let links = [link(2, Some(1), 5), link(3, Some(1), 6)];
        assert_eq!(shape(&links), [(None, 0), (Some(0), 1), (Some(1), 1)]);
        assert_eq!(rows(&links)[0].leaf, hash(1));
    }

    #[test]
    fn the_last_of_a_branch_is_marked() {
        let links = [link(1, None, 1), link(2, Some(1), 2), link(3, Some(1), 3)];
        let marks: Vec<_> = rows(&links).into_iter().map(|row| (row.above, row.is_last)).collect();
        assert_eq!(marks, [(None, true), (Some(0), false), (Some(0), true)]);
    }

    #[test]
    fn a_long_chain_is_laid_out_without_recursion() {
        let mut links = vec![link(0, None, 0)];
        for number in 1..100_000_u32 {
            let leaf = EventHash::of(&number.to_be_bytes());
            let cause = links.last().map(|link| link.leaf);
            links.push(Link { leaf, cause, time: Timestamp::from_unix_ns(number.into()) });
        }
        assert_eq!(rows(&links).last().map(|row| row.depth), Some(99_999));
    }

    proptest! {
        #[test]
        fn every_message_stands_in_the_tree_once(
            causes in proptest::collection::vec(proptest::option::of(0..24_u8), 0..16)
        ) {
            // Whatever they claim: themselves, each other, and what is not there.
            let links: Vec<Link> = (0_u8..)
                .zip(&causes)
                .map(|(leaf, cause)| link(leaf, *cause, i128::from(leaf % 3)))
                .collect();
            let mut laid: Vec<usize> = rows(&links).iter().filter_map(|row| row.link).collect();
            laid.sort_unstable();
            prop_assert_eq!(laid, (0..links.len()).collect::<Vec<_>>());
        }
    }
}
