//! Rules of judging live messages.

use bus_envelope::{ChainHead, Draft, Stamp, Timestamp, TraceContext};
use bus_subjects::Subject;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;

const LIFE: u128 = 7;

/// The message `n` of a chain whose messages have the leaves `leaf(1)`, `leaf(2)` and so on.
fn message_of(life: u128, n: u64) -> MessageEnvelope {
    let stamp = Stamp {
        id: n.to_string(),
        time: Timestamp::from_unix_ns(0),
        trace: TraceContext::new([1; 16], [1; 8], 1).unwrap(),
        workspace: "w1".parse().unwrap(),
        agent: "coder-1".parse().unwrap(),
        incarnation: Uuid::from_u128(life),
        head: ChainHead { seq: n - 1, hash: leaf(n - 1) },
    };
    let subject = Subject::parse("vak.events.w1.s1.tokens").unwrap();
    Draft::new(subject, LiveCheckpoint::EVENT_TYPE, "").stamp(stamp).unwrap()
}

fn message(n: u64) -> MessageEnvelope {
    message_of(LIFE, n)
}

fn leaf(n: u64) -> EventHash {
    EventHash::of(&n.to_be_bytes())
}

fn forged(n: u64) -> EventHash {
    EventHash::of(format!("forged {n}").as_bytes())
}

fn verifier(chains_max: usize, window: usize) -> LiveVerifier {
    let some = |n| NonZeroUsize::new(n).unwrap();
    LiveVerifier::new(LiveLimits { chains_max: some(chains_max), window: some(window) })
}

/// Has the sender vouch for the messages `from` to `to` right behind them, by one with the leaf
/// `leaf(to + 1)`.
fn vouch(live: &mut LiveVerifier, from: u64, to: u64) -> Vouching {
    vouch_in(live, LIFE, from, to)
}

fn vouch_in(live: &mut LiveVerifier, life: u128, from: u64, to: u64) -> Vouching {
    let leaves: Vec<_> = (from..=to).map(leaf).collect();
    let envelope = message_of(life, to + 1);
    let payload = LiveCheckpoint::payload(&leaves);
    let checkpoint = LiveCheckpoint::read(&envelope, &payload).unwrap();
    live.checkpoint(&envelope, leaf(to + 1), &checkpoint)
}

#[test]
fn messages_are_sealed_until_their_checkpoint_vouches_for_them() {
    let mut live = verifier(4, 16);
    for n in 1..=3 {
        assert_eq!(live.event(&message(n), leaf(n)), Standing::Sealed);
    }
    let vouching = vouch(&mut live, 1, 3);
    assert_eq!(vouching, Vouching { vouched: (1..=3).map(leaf).collect(), ..Vouching::default() });
}

#[test]
fn a_message_that_comes_after_its_checkpoint_is_vouched_for_at_once() {
    let mut live = verifier(4, 16);
    assert_eq!(vouch(&mut live, 1, 2).unheard, 2);
    assert_eq!(live.event(&message(2), leaf(2)), Standing::Vouched);
}

#[test]
fn a_forged_message_is_contradicted_by_the_checkpoint_and_the_honest_one_is_not() {
    let mut live = verifier(4, 16);
    live.event(&message(1), forged(1));
    live.event(&message(1), leaf(1));
    let vouching = vouch(&mut live, 1, 1);
    assert_eq!((vouching.vouched, vouching.contradicted), (vec![leaf(1)], vec![forged(1)]));
}

#[test]
fn a_forged_message_that_comes_after_the_checkpoint_is_contradicted_at_once() {
    let mut live = verifier(4, 16);
    vouch(&mut live, 1, 1);
    assert_eq!(live.event(&message(1), forged(1)), Standing::Contradicted);
}

#[test]
fn a_message_that_was_missed_is_counted_and_hinders_no_other() {
    let mut live = verifier(4, 16);
    live.event(&message(1), leaf(1));
    live.event(&message(3), leaf(3));
    let vouching = vouch(&mut live, 1, 3);
    assert_eq!((vouching.vouched, vouching.unheard), (vec![leaf(1), leaf(3)], 1));
}

#[test]
fn a_second_checkpoint_of_the_same_messages_tells_nothing_twice() {
    let mut live = verifier(4, 16);
    live.event(&message(1), leaf(1));
    vouch(&mut live, 1, 1);
    assert_eq!(vouch(&mut live, 1, 1), Vouching::default());
}

#[test]
fn a_sender_that_vouches_otherwise_later_is_not_believed() {
    let mut live = verifier(4, 16);
    live.event(&message(1), leaf(1));
    vouch(&mut live, 1, 2);
    let envelope = message(3);
    let payload = LiveCheckpoint::payload(&[forged(1), leaf(2)]);
    let other = LiveCheckpoint::read(&envelope, &payload).unwrap();
    assert_eq!(live.checkpoint(&envelope, forged(3), &other).disputed, 2);
    assert_eq!(live.event(&message(1), leaf(1)), Standing::Vouched);
}

#[test]
fn a_checkpoint_speaks_for_its_own_process_life_only() {
    let mut live = verifier(4, 16);
    live.event(&message_of(8, 1), leaf(1));
    assert_eq!(vouch(&mut live, 1, 1).unheard, 1);
    assert_eq!(live.event(&message_of(8, 1), leaf(1)), Standing::Sealed);
}

#[test]
fn a_message_forgotten_before_its_checkpoint_is_unheard() {
    let mut live = verifier(4, 2);
    for n in 1..=3 {
        live.event(&message(n), leaf(n));
    }
    let vouching = vouch(&mut live, 1, 3);
    assert_eq!((vouching.vouched, vouching.unheard), (vec![leaf(2), leaf(3)], 1));
}

#[test]
fn a_forged_message_in_the_place_of_the_checkpoint_itself_is_contradicted() {
    let mut live = verifier(4, 16);
    live.event(&message(2), forged(2));
    let vouching = vouch(&mut live, 1, 1);
    assert_eq!((vouching.contradicted, vouching.unheard), (vec![forged(2)], 1));
    assert_eq!(live.event(&message(2), forged(3)), Standing::Contradicted);
}

#[test]
fn messages_that_nobody_signed_make_nothing_forgotten_that_was_signed() {
    let mut live = verifier(4, 16);
    vouch(&mut live, 1, 3);
    for n in 100..200 {
        live.event(&message(n), forged(n));
    }
    assert_eq!(live.event(&message(2), forged(2)), Standing::Contradicted);
    assert_eq!(live.event(&message(3), leaf(3)), Standing::Vouched);
}

#[test]
fn an_old_checkpoint_that_is_repeated_makes_nothing_newer_forgotten() {
    let mut live = verifier(4, 8);
    vouch(&mut live, 1, 7);
    vouch(&mut live, 9, 15);
    vouch(&mut live, 1, 7);
    assert_eq!(live.event(&message(9), forged(9)), Standing::Contradicted);
}

#[test]
fn what_is_remembered_of_a_chain_is_bounded() {
    let mut live = verifier(4, 8);
    for n in 1..1000 {
        live.event(&message(n), forged(n));
        vouch(&mut live, n, n);
        live.event(&message(n + 10_000), forged(n));
    }
    let chain = live.chains.values().next().unwrap();
    assert_eq!((chain.heard.len(), chain.order.len(), chain.listed.len()), (8, 8, 8));
}

#[test]
fn chains_that_ended_long_ago_leave_room_for_new_ones_at_once() {
    let mut live = verifier(4, 16);
    for life in 100..110 {
        vouch_in(&mut live, life, 1, 1);
    }
    for n in 1..=3 {
        for life in [1, 2] {
            live.event(&message_of(life, n), leaf(n));
        }
    }
    for life in [1, 2] {
        assert_eq!(vouch_in(&mut live, life, 1, 3).vouched.len(), 3, "life {life}");
    }
    assert_eq!(live.chains.len(), 4);
}

#[test]
fn invented_chains_do_not_push_out_one_that_is_vouched_for() {
    let mut live = verifier(3, 16);
    live.event(&message(1), leaf(1));
    vouch(&mut live, 1, 1);
    live.event(&message(3), leaf(3));
    for life in 100..200 {
        live.event(&message_of(life, 1), forged(1));
    }
    assert_eq!(vouch(&mut live, 3, 3).vouched, [leaf(3)]);
}

#[test]
fn what_is_remembered_of_one_place_is_bounded_and_forgeries_still_show() {
    let mut live = verifier(4, 16);
    live.event(&message(1), leaf(1));
    for n in 0..100 {
        live.event(&message(1), forged(n));
    }
    let vouching = vouch(&mut live, 1, 1);
    assert_eq!((vouching.vouched, vouching.contradicted.len()), (vec![leaf(1)], FORGERIES_MAX - 1));
}

proptest! {
    #[test]
    fn nothing_forged_is_ever_vouched_for_and_all_that_was_heard_is(
        order in Just((1..=24_u64).collect::<Vec<_>>()).prop_shuffle(),
        lost in prop::collection::hash_set(1..=24_u64, 0..12),
        forgeries in prop::collection::hash_set(1..=24_u64, 0..12),
        checkpoint_every in 1..8_u64,
    ) {
        let mut live = verifier(4, 64);
        let (mut vouched, mut contradicted) = (Vec::new(), Vec::new());
        let mut note = |standing, leaf| match standing {
            Standing::Vouched => vouched.push(leaf),
            Standing::Contradicted => contradicted.push(leaf),
            Standing::Sealed | Standing::Signed => {}
        };
        let mut told = Vec::new();
        for n in order {
            if forgeries.contains(&n) {
                note(live.event(&message(n), forged(n)), forged(n));
            }
            if !lost.contains(&n) {
                note(live.event(&message(n), leaf(n)), leaf(n));
            }
            // Now and then the checkpoint over this and the next few comes.
            if n.is_multiple_of(checkpoint_every) || n == 1 {
                told.push(vouch(&mut live, n, (n + checkpoint_every - 1).min(24)));
            }
        }
        for vouching in told {
            vouched.extend(vouching.vouched);
            contradicted.extend(vouching.contradicted);
        }
        let (mut honest, mut false_ones): (Vec<_>, Vec<_>) = (1..=24)
            .map(|n| ((n, leaf(n)), (n, forged(n))))
            .unzip();
        honest.retain(|(n, _)| !lost.contains(n));
        false_ones.retain(|(n, _)| forgeries.contains(n));
        let covered = |n: u64| (1..=24).any(|at: u64| {
            let is_told = at.is_multiple_of(checkpoint_every) || at == 1;
            // The place of the checkpoint itself too.
            is_told && (at..=at + checkpoint_every).contains(&n)
        });
        for (n, leaf) in honest {
            prop_assert!(!contradicted.contains(&leaf));
            prop_assert_eq!(vouched.contains(&leaf), covered(n), "honest {}", n);
        }
        for (n, leaf) in false_ones {
            prop_assert!(!vouched.contains(&leaf));
            prop_assert_eq!(contradicted.contains(&leaf), covered(n), "forged {}", n);
        }
    }
}
