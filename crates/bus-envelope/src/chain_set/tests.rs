//! Rules of many chains at once.

use uuid::Uuid;

use super::*;
use crate::samples::{chain_from, plain, window};
use crate::{ChainHead, Signature};

fn set(chains_max: usize) -> ChainSet {
    ChainSet::new(ChainLimits { chains_max: window(chains_max), window: window(10) })
}

/// A signed event where a later process life may go on.
fn of_incarnation(number: u128) -> MessageEnvelope {
    let mut envelope = plain();
    envelope.subject = "vak.work.acme.coder.task".parse().unwrap();
    envelope.lineage.incarnation = Uuid::from_u128(number);
    envelope.signature = Some(Signature { signer: "UABC".to_owned(), bytes: [5; 64] });
    envelope
}

/// The first `count` events of the life `number`, which goes on from `before` and says so.
fn next_life(number: u128, before: &MessageEnvelope, count: u64) -> Vec<MessageEnvelope> {
    let mut first = of_incarnation(number);
    let earlier = before.lineage.incarnation.to_string();
    first.extensions.insert(MessageEnvelope::CONTINUES.to_owned(), earlier);
    let mut events = chain_from(ChainHead::of(before), 1, first);
    let rest = chain_from(ChainHead::of(&events[0]), count - 1, of_incarnation(number));
    events.extend(rest);
    events
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
fn a_new_incarnation_that_goes_on_from_the_old_head_continues_it() {
    let one = own_chain(1, 3);
    let two = next_life(2, &one[2], 2);
    let mut set = set(10);
    let verdicts: Vec<_> = one.iter().chain(&two).map(|event| feed(&mut set, event)).collect();
    use ChainVerdict::{Continued, Linked};
    assert_eq!(verdicts, [Linked, Linked, Linked, Continued { is_known: true }, Linked]);
    assert!(set.get(&ChainScope::incarnation_of(&two[0])).unwrap().is_complete());
    assert_eq!((set.totals().continued, set.totals().broken), (1, 0));
}

#[test]
fn two_lives_at_once_branch_and_fork_nothing() {
    let one = own_chain(1, 4);
    let two = next_life(2, &one[1], 2);
    let three = next_life(3, &one[1], 1);
    let mut set = set(10);
    for event in one.iter().chain(&two).chain(&three) {
        feed(&mut set, event);
    }
    let totals = set.totals();
    assert_eq!((totals.continued, totals.broken, totals.forks, totals.altered), (2, 0, 0, 0));
}

#[test]
fn a_fork_within_one_life_is_a_fork_although_another_life_goes_on_from_there() {
    let one = own_chain(1, 3);
    let two = next_life(2, &one[1], 1);
    let mut twin = one[2].clone();
    twin.id = "twin".to_owned();
    let mut set = set(10);
    for event in one.iter().chain(&two) {
        feed(&mut set, event);
    }
    assert_eq!(feed(&mut set, &twin), ChainVerdict::Fork);
}

#[test]
fn another_agents_event_is_not_gone_on_from() {
    let one = own_chain(1, 3);
    let mut two = next_life(2, &one[2], 1);
    two[0].lineage.agent = "somebody-else".parse().unwrap();
    let mut set = set(10);
    for event in &one {
        feed(&mut set, event);
    }
    assert_eq!(feed(&mut set, &two[0]), ChainVerdict::Continued { is_known: false });
}

/// The first event of a life that says so, behind an event nobody has.
fn marked(number: u128, seq: u64) -> MessageEnvelope {
    let mut template = of_incarnation(number);
    let earlier = Uuid::from_u128(1).to_string();
    template.extensions.insert(MessageEnvelope::CONTINUES.to_owned(), earlier);
    let head = ChainHead { seq: seq - 1, hash: crate::EventHash::of(b"gone") };
    chain_from(head, 1, template).remove(0)
}

#[test]
fn a_life_that_says_it_is_continued_is_whole_although_the_earlier_one_is_gone() {
    let first = marked(2, 4);
    let next = chain_from(ChainHead::of(&first), 1, of_incarnation(2)).remove(0);
    let mut set = set(10);
    assert_eq!(feed(&mut set, &first), ChainVerdict::Continued { is_known: false });
    assert_eq!(feed(&mut set, &next), ChainVerdict::Linked);
    assert!(set.get(&ChainScope::incarnation_of(&first)).unwrap().is_complete());
}

#[test]
fn an_event_of_a_life_before_the_one_that_says_it_is_its_first_breaks_the_chain() {
    let first = marked(2, 4);
    let earlier = own_chain(2, 1).remove(0);
    let mut set = set(10);
    feed(&mut set, &first);
    assert_eq!(feed(&mut set, &earlier), ChainVerdict::OutOfWindow);
    assert_eq!(set.totals().broken, 1);
}

#[test]
fn a_word_about_ones_own_life_continues_nothing() {
    let mut event = marked(1, 4);
    event.lineage.incarnation = Uuid::from_u128(1);
    assert_eq!(feed(&mut set(10), &event), ChainVerdict::Started { earlier: 3 });
}

#[test]
fn a_life_that_does_not_say_so_continues_nothing() {
    let one = own_chain(1, 3);
    let two = chain_from(ChainHead::of(&one[2]), 1, of_incarnation(2));
    let mut set = set(10);
    for event in one.iter() {
        feed(&mut set, event);
    }
    assert_eq!(feed(&mut set, &two[0]), ChainVerdict::Started { earlier: 3 });
}

#[test]
fn the_last_events_of_a_life_that_another_goes_on_from_cannot_be_dropped_unseen() {
    let one = own_chain(1, 4);
    let two = next_life(2, &one[3], 2);
    let mut set = set(10);
    let verdicts: Vec<_> = one[..2].iter().chain(&two).map(|event| feed(&mut set, event)).collect();
    use ChainVerdict::{Gap, Linked};
    assert_eq!(verdicts, [Linked, Linked, Gap { missed: 2 }, Linked]);
    assert_eq!((set.totals().broken, set.totals().missed), (1, 2));
}

#[test]
fn another_event_in_the_place_that_a_later_life_names_is_altered() {
    let one = own_chain(1, 4);
    for named in [1, 3] {
        let mut two = next_life(2, &one[named], 1);
        two[0].lineage.prev_event_hash = crate::EventHash::of(b"another");
        let mut set = set(10);
        for event in &one {
            feed(&mut set, event);
        }
        assert_eq!(feed(&mut set, &two[0]), ChainVerdict::Altered, "after {named}");
        assert_eq!(set.totals().broken, 1);
    }
}

#[test]
fn an_event_of_another_life_than_the_one_that_is_named_bears_nothing_out() {
    let (one, other) = (own_chain(1, 3), own_chain(3, 3));
    let mut two = next_life(2, &one[2], 1);
    let said = Uuid::from_u128(3).to_string();
    two[0].extensions.insert(MessageEnvelope::CONTINUES.to_owned(), said);
    let mut set = set(10);
    for event in one.iter().chain(&other) {
        feed(&mut set, event);
    }
    assert_eq!(feed(&mut set, &two[0]), ChainVerdict::Altered);
}

#[test]
fn the_word_of_an_event_that_nobody_signed_continues_nothing() {
    let mut event = marked(2, 4);
    event.signature = None;
    assert_eq!(feed(&mut set(10), &event), ChainVerdict::Started { earlier: 3 });
}

#[test]
fn nothing_continues_where_messages_are_live_or_one_chain_is_everybodys() {
    for subject in ["vak.events.acme.s1.tokens", "vak.approvals.acme.s1.request", "elsewhere"] {
        let mut event = marked(2, 4);
        event.subject = subject.parse().unwrap();
        assert_eq!(feed(&mut set(10), &event), ChainVerdict::Started { earlier: 3 }, "{subject}");
    }
}
