//! Rules of the chain verifier.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::samples::{chain, chain_from, plain, scope, window};

fn feed_all(events: &[MessageEnvelope]) -> (Vec<ChainVerdict>, ChainVerifier) {
    let mut verifier = ChainVerifier::new(scope(), window(100));
    let verdicts = events.iter().map(|event| verifier.feed(event)).collect();
    (verdicts, verifier)
}

#[test]
fn an_honest_chain_is_linked_and_complete() {
    let (verdicts, verifier) = feed_all(&chain(4));
    assert_eq!(verdicts, [ChainVerdict::Linked; 4]);
    assert!(verifier.is_complete());
}

#[test]
fn a_second_copy_is_a_duplicate_and_breaks_nothing() {
    let chain = chain(2);
    let (verdicts, verifier) = feed_all(&[chain[0].clone(), chain[0].clone(), chain[1].clone()]);
    assert_eq!(verdicts[1], ChainVerdict::Duplicate);
    assert!(verifier.is_complete());
}

#[test]
fn an_event_left_out_is_a_gap() {
    let mut events = chain(5);
    events.drain(1..3);
    let (verdicts, verifier) = feed_all(&events);
    assert_eq!(verdicts[1], ChainVerdict::Gap { missed: 2 });
    assert_eq!(verifier.summary().missed, 2);
}

#[test]
fn a_late_event_fills_its_gap_and_shows_as_reordered() {
    let mut events = chain(3);
    events.swap(1, 2);
    let (verdicts, verifier) = feed_all(&events);
    assert_eq!(
        verdicts,
        [ChainVerdict::Linked, ChainVerdict::Gap { missed: 1 }, ChainVerdict::Late]
    );
    assert_eq!(verifier.summary().missed, 0);
    assert!(!verifier.is_complete());
}

#[test]
fn an_injected_event_with_a_taken_number_is_a_fork() {
    let mut events = chain(2);
    let mut injected = events[1].clone();
    injected.id = "forged".to_owned();
    events.push(injected);
    assert_eq!(feed_all(&events).0[2], ChainVerdict::Fork);
}

#[test]
fn a_changed_copy_of_an_event_is_altered_and_no_fork() {
    let mut events = chain(2);
    let mut changed = events[1].clone();
    changed.payload = Bytes::from_static(b"{}");
    events.push(changed);
    assert_eq!(feed_all(&events).0[2], ChainVerdict::Altered);
}

#[test]
fn a_changed_payload_shows_at_the_successor() {
    let mut events = chain(3);
    events[1].payload = Bytes::from_static(b"{}");
    let (verdicts, _) = feed_all(&events);
    assert_eq!(verdicts[2], ChainVerdict::Altered);
}

#[test]
fn an_injected_late_event_is_altered_and_leaves_room_for_the_honest_one() {
    let events = chain(3);
    let mut forged = events[1].clone();
    forged.payload = Bytes::from_static(b"{}");
    let order = [events[0].clone(), events[2].clone(), forged, events[1].clone()];
    let (verdicts, _) = feed_all(&order);
    assert_eq!(verdicts[2..], [ChainVerdict::Altered, ChainVerdict::Late]);
}

#[test]
fn a_first_event_that_does_not_name_the_genesis_is_altered() {
    let mut events = chain(1);
    events[0].lineage.prev_event_hash = EventHash::of(b"elsewhere");
    assert_eq!(feed_all(&events).0, [ChainVerdict::Altered]);
}

#[test]
fn a_chain_seen_from_its_middle_is_started_not_broken() {
    let (verdicts, verifier) = feed_all(&chain(5)[2..]);
    assert_eq!(verdicts[0], ChainVerdict::Started { earlier: 2 });
    assert!(verifier.summary().is_unbroken() && !verifier.is_complete());
}

#[test]
fn a_chain_resumed_at_a_known_head_is_complete() {
    let events = chain(5);
    let mut verifier = ChainVerifier::resume(scope(), ChainHead::of(&events[1]), window(9));
    let verdicts: Vec<_> = events[2..].iter().map(|event| verifier.feed(event)).collect();
    assert_eq!(verdicts, [ChainVerdict::Linked; 3]);
    assert!(verifier.is_complete());
}

#[test]
fn a_chain_resumed_at_another_head_is_altered() {
    let events = chain(3);
    let head = ChainHead { seq: 2, hash: EventHash::of(b"another") };
    let mut verifier = ChainVerifier::resume(scope(), head, window(9));
    assert_eq!(verifier.feed(&events[2]), ChainVerdict::Altered);
}

#[test]
fn an_event_of_another_chain_is_foreign() {
    let mut event = plain();
    event.subject = "vak.receipts.acme.s2.completed".parse().unwrap();
    assert_eq!(feed_all(&[event]).0, [ChainVerdict::Foreign]);
}

#[test]
fn an_event_older_than_the_window_cannot_be_judged() {
    let events = chain(5);
    let mut verifier = ChainVerifier::new(scope(), window(2));
    for event in &events {
        verifier.feed(event);
    }
    assert_eq!(verifier.feed(&events[0]), ChainVerdict::OutOfWindow);
}

#[test]
fn the_window_bounds_what_is_remembered() {
    let mut verifier = ChainVerifier::new(scope(), window(3));
    for event in &chain(50) {
        verifier.feed(event);
    }
    assert_eq!(verifier.seen.len(), 3);
}

#[test]
fn a_chain_is_bound_to_its_subject() {
    let mut other = plain();
    other.subject = "vak.receipts.acme.s2.completed".parse().unwrap();
    let elsewhere = chain_from(ChainHead::genesis(&ChainScope::subject_of(&other)), 1, plain());
    assert_eq!(feed_all(&elsewhere).0, [ChainVerdict::Altered]);
}

#[test]
fn sequence_numbers_at_the_end_of_the_range_do_not_overflow() {
    let mut event = plain();
    let mut verifier = ChainVerifier::new(scope(), window(2));
    for seq in [u64::MAX, 0, u64::MAX - 1, 1] {
        event.lineage.seq_num = seq;
        verifier.feed(&event);
    }
    assert!(!verifier.summary().is_unbroken());
}

proptest! {
    #[test]
    fn any_order_but_the_right_one_is_noticed(order in Just(vec![0, 1, 2, 3, 4]).prop_shuffle()) {
        let events = chain(5);
        let shuffled: Vec<_> = order.iter().map(|at| events[*at].clone()).collect();
        let (_, verifier) = feed_all(&shuffled);
        prop_assert_eq!(verifier.is_complete(), order == [0, 1, 2, 3, 4]);
        prop_assert_eq!(verifier.summary().missed, 0);
    }

    #[test]
    fn leaving_out_any_but_the_last_is_noticed(at in 0_usize..4) {
        let mut events = chain(5);
        events.remove(at);
        prop_assert!(!feed_all(&events).1.is_complete());
    }

    #[test]
    fn changing_the_payload_of_any_but_the_last_is_noticed(at in 0_usize..4) {
        let mut events = chain(5);
        events[at].payload = Bytes::from_static(b"changed");
        prop_assert!(!feed_all(&events).1.is_complete());
    }
}

/// The chain of five events, and what its first `fed` come to against the head after `known`.
fn tail(fed: usize, known: usize) -> TailVerdict {
    let chain = chain(5);
    let head = ChainHead::of(&chain[known - 1]);
    feed_all(&chain[..fed]).1.tail_against(&head)
}

#[test]
fn a_tail_that_was_cut_off_shows_against_a_known_head() {
    assert_eq!(tail(3, 5), TailVerdict::Cut { missing: 2 });
}

#[test]
fn a_chain_that_ends_with_the_known_head_is_whole() {
    assert_eq!(tail(5, 5), TailVerdict::Ends);
}

#[test]
fn a_chain_that_goes_on_from_the_known_head_says_how_far() {
    assert_eq!(tail(5, 3), TailVerdict::GoesOn { more: 2 });
}

#[test]
fn a_chain_that_was_never_begun_is_cut_from_its_genesis() {
    let verifier = ChainVerifier::new(scope(), window(100));
    let (genesis, last) = (ChainHead::genesis(&scope()), ChainHead::of(&chain(5)[4]));
    assert_eq!(verifier.tail_against(&genesis), TailVerdict::Ends);
    assert_eq!(verifier.tail_against(&last), TailVerdict::Cut { missing: 5 });
}

#[test]
fn another_event_in_the_place_of_the_known_head_is_rewritten() {
    let (_, verifier) = feed_all(&chain(5));
    for seq in [3, 5] {
        let known = ChainHead { seq, hash: EventHash::of(b"another") };
        assert_eq!(verifier.tail_against(&known), TailVerdict::Rewritten, "{seq}");
    }
}

#[test]
fn a_known_head_beyond_the_window_is_not_judged() {
    let chain = chain(5);
    let mut verifier = ChainVerifier::new(scope(), window(2));
    for event in &chain {
        verifier.feed(event);
    }
    assert_eq!(verifier.tail_against(&ChainHead::of(&chain[0])), TailVerdict::Unknown);
}
