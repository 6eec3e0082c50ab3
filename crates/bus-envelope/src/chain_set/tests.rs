//! Rules of many chains at once.

use uuid::Uuid;

use super::*;
use crate::ChainHead;
use crate::samples::{chain_from, plain, window};

fn set(chains_max: usize) -> ChainSet {
    ChainSet::new(ChainLimits { chains_max: window(chains_max), window: window(10) })
}

fn of_incarnation(number: u128) -> MessageEnvelope {
    let mut envelope = plain();
    envelope.lineage.incarnation = Uuid::from_u128(number);
    envelope
}

/// The first `count` events of an incarnation's own chain.
fn own_chain(number: u128, count: u64) -> Vec<MessageEnvelope> {
    let template = of_incarnation(number);
    chain_from(ChainHead::genesis(&ChainScope::incarnation_of(&template)), count, template)
}

fn feed(set: &mut ChainSet, envelope: &MessageEnvelope) -> ChainVerdict {
    set.feed(ChainScope::incarnation_of(envelope), envelope)
}

#[test]
fn interleaved_chains_are_judged_each_in_its_own() {
    let (one, two) = (own_chain(1, 3), own_chain(2, 3));
    let mut set = set(10);
    for (a, b) in one.iter().zip(&two) {
        assert_eq!(feed(&mut set, a), ChainVerdict::Linked);
        assert_eq!(feed(&mut set, b), ChainVerdict::Linked);
    }
    let expected = ChainTotals { chains: 2, events: 6, ..ChainTotals::default() };
    assert_eq!(set.totals(), expected);
}

#[test]
fn a_broken_chain_is_counted_alone() {
    let (one, two) = (own_chain(1, 3), own_chain(2, 3));
    let mut set = set(10);
    for event in one.iter().chain([&two[0], &two[2]]) {
        feed(&mut set, event);
    }
    let totals = set.totals();
    assert_eq!((totals.chains, totals.broken, totals.gaps, totals.missed), (2, 1, 1, 1));
}

#[test]
fn a_chain_beyond_the_limit_is_counted_and_pushes_none_out() {
    let (one, two) = (own_chain(1, 2), own_chain(2, 1));
    let mut set = set(1);
    feed(&mut set, &one[0]);
    assert_eq!(feed(&mut set, &two[0]), ChainVerdict::Untracked);
    assert_eq!(feed(&mut set, &one[1]), ChainVerdict::Linked);
    assert_eq!((set.totals().chains, set.totals().untracked), (1, 1));
}

#[test]
fn a_new_incarnation_that_goes_on_from_the_old_head_is_linked() {
    let one = own_chain(1, 3);
    let two = chain_from(ChainHead::of(&one[2]), 2, of_incarnation(2));
    let mut set = set(10);
    for event in one.iter().chain(&two) {
        assert_eq!(feed(&mut set, event), ChainVerdict::Linked);
    }
    assert!(set.get(&ChainScope::incarnation_of(&two[0])).unwrap().is_complete());
}

#[test]
fn a_new_incarnation_that_names_another_head_is_started_not_linked() {
    let one = own_chain(1, 3);
    let mut two = chain_from(ChainHead::of(&one[2]), 1, of_incarnation(2));
    two[0].lineage.prev_event_hash = crate::EventHash::of(b"another");
    let mut set = set(10);
    for event in &one {
        feed(&mut set, event);
    }
    assert_eq!(feed(&mut set, &two[0]), ChainVerdict::Started { earlier: 3 });
}
