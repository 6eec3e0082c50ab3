//! Laws of past and present as one line: nothing twice, in order, and what is missing is told.

use std::collections::{HashMap, HashSet};

use bus_runner::{Splice, Spliced};
use proptest::prelude::*;

use crate::event;

/// What a viewer was shown of one run.
#[derive(Debug, Default)]
struct Shown {
    events: Vec<(u128, u64)>,
    told: u64,
}

impl Shown {
    fn take(&mut self, splice: &mut Splice, (life, seq): (u128, u64)) {
        if let Spliced::New { missed } = splice.event(&event(life, seq, b"")) {
            self.told += missed;
            self.events.push((life, seq));
        }
    }

    /// How many events are missing between those of each chain that were shown.
    fn jumps(&self) -> u64 {
        let mut chains = HashMap::<u128, (u64, u64, u64)>::new();
        for (life, seq) in &self.events {
            let (first, last, count) = chains.entry(*life).or_insert((*seq, *seq, 0));
            (*first, *last, *count) = ((*first).min(*seq), (*last).max(*seq), *count + 1);
        }
        chains.values().map(|(first, last, count)| last - first + 1 - count).sum()
    }
}

/// What was published: some chains, each from 1, one event after the other.
fn published() -> impl Strategy<Value = Vec<(u128, u64)>> {
    proptest::collection::vec(1_u128..4, 1..60).prop_map(|lives| {
        let mut chains = HashMap::<u128, u64>::new();
        let place = |life| {
            let seq = chains.entry(life).or_default();
            *seq += 1;
            (life, *seq)
        };
        lives.into_iter().map(place).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn past_and_live_are_one_stream(
        published in published(),
        (stored, subscribed) in (0_usize..60, 0_usize..60),
        lost in proptest::collection::vec(0_u8..6, 120),
    ) {
        let (stored, subscribed) =
            (stored.min(published.len()), subscribed.min(published.len()));
        let is_lost = |at: usize| lost.get(at) == Some(&0);
        let (mut splice, mut shown) = (Splice::new(), Shown::default());

        let past = published.iter().take(stored).enumerate();
        for (_, place) in past.filter(|(at, _)| !is_lost(*at)) {
            shown.take(&mut splice, *place);
        }
        let live = published.iter().enumerate().skip(subscribed);
        for (_, place) in live.filter(|(at, _)| !is_lost(at + 60)) {
            shown.take(&mut splice, *place);
        }

        let distinct: HashSet<_> = shown.events.iter().collect();
        prop_assert_eq!(distinct.len(), shown.events.len(), "nothing twice");
        let mut reached = HashMap::new();
        for (life, seq) in &shown.events {
            prop_assert!(reached.insert(*life, *seq) < Some(*seq), "in the order of their chain");
        }
        prop_assert_eq!(shown.told, shown.jumps(), "what is missing is told, and nothing else");
    }

    #[test]
    fn what_a_gap_told_is_not_told_again(
        published in published(),
        lost in proptest::collection::vec(any::<bool>(), 60),
    ) {
        let (mut splice, mut shown) = (Splice::new(), Shown::default());
        let subject = "vak.events.w1.s1.terminal".parse().unwrap();
        let (mut missed, mut all_missed) = (0, 0);
        for (at, place) in published.iter().enumerate() {
            if lost.get(at) == Some(&true) {
                missed += 1;
                all_missed += 1;
                continue;
            }
            splice.gap(&subject, std::mem::take(&mut missed));
            shown.take(&mut splice, *place);
        }
        // Every gap was told as one: no jump adds to it.
        prop_assert_eq!(shown.told, 0);
        prop_assert!(shown.jumps() <= all_missed);
    }
}

#[test]
fn the_first_event_of_a_chain_misses_nothing() {
    let mut splice = Splice::new();
    let first = event(1, 57, b"");
    assert!(!splice.follows(&first));
    assert_eq!(splice.event(&first), Spliced::New { missed: 0 });
    assert!(splice.follows(&event(1, 58, b"")) && splice.follows(&event(2, 1, b"")));
    assert_eq!(splice.event(&first), Spliced::Known);
}

#[test]
fn the_chain_that_was_heard_least_recently_is_forgotten_first() {
    let mut splice = Splice::new();
    let lives = Splice::CHAINS_MAX as u128;
    for life in 1..=lives {
        assert_eq!(splice.event(&event(life, 1, b"")), Spliced::New { missed: 0 });
    }
    assert_eq!(splice.event(&event(1, 2, b"")), Spliced::New { missed: 0 });
    assert_eq!(splice.event(&event(lives + 1, 1, b"")), Spliced::New { missed: 0 });
    assert_eq!(splice.event(&event(1, 1, b"")), Spliced::Known);
    assert_eq!(splice.event(&event(2, 1, b"")), Spliced::New { missed: 0 }, "it was forgotten");
}
