//! When, how urgent, and after whom: delays, lanes that age, order keys.

use std::time::Duration;

use bus_core::{Expect, Frame, OrderKey, Placement, Priority, Verdict};
use bus_envelope::Timestamp;

use super::{
    super::{Broker, ConsumerKey},
    LEASE, NO_REST, at, claim, frame, queue, retry,
};

const LEASE_MS: u64 = LEASE.as_millis() as u64;
const HEAD_START_MS: u64 = Priority::HEAD_START.as_millis() as u64;

fn urgent(level: u8) -> Placement {
    Placement { priority: Priority::new(level).unwrap(), ..Placement::default() }
}

fn keyed(key: &str) -> Placement {
    Placement { key: Some(OrderKey::parse(key).unwrap()), ..Placement::default() }
}

fn not_before(time: Timestamp) -> Placement {
    Placement { not_before: Some(time), ..Placement::default() }
}

fn put(broker: &mut Broker, id: &str, placement: Placement, ms: u64) {
    let frame: Frame = frame("work.a", id).placed(placement);
    broker.append(frame, Expect::Any, at(ms), |_| {}).unwrap();
}

fn claimed(broker: &mut Broker, key: ConsumerKey, ms: u64) -> Option<String> {
    claim(broker, key, ms).map(|claim| claim.0)
}

/// Everything that can be claimed at `ms`, which stays leased.
fn all(broker: &mut Broker, key: ConsumerKey, ms: u64) -> Vec<String> {
    std::iter::from_fn(|| claimed(broker, key, ms)).collect()
}

#[test]
fn a_scheduled_message_comes_at_its_time_and_not_before() {
    let (mut broker, key) = queue();
    put(&mut broker, "1", not_before(at(5_000)), 0);
    assert_eq!((broker.ready(key), broker.next_deadline(key)), (0, Some(at(5_000))));
    assert_eq!(claimed(&mut broker, key, 4_999), None);
    assert_eq!(claim(&mut broker, key, 5_000).map(|c| (c.0, c.2)), Some(("1".into(), 1)));
}

#[test]
fn a_time_that_has_passed_delays_nothing() {
    let (mut broker, key) = queue();
    put(&mut broker, "1", Placement::default(), 9_000);
    put(&mut broker, "2", not_before(at(5_000)), 9_000);
    put(&mut broker, "3", Placement::default(), 9_000);
    assert_eq!(all(&mut broker, key, 9_000), ["1", "2", "3"]);
}

#[test]
fn a_scheduled_message_stands_where_its_time_puts_it() {
    let (mut broker, key) = queue();
    put(&mut broker, "scheduled", not_before(at(5_000)), 0);
    put(&mut broker, "before", Placement::default(), 4_000);
    put(&mut broker, "after", Placement::default(), 6_000);
    assert_eq!(all(&mut broker, key, 7_000), ["before", "scheduled", "after"]);
}

#[test]
fn a_consumer_that_came_later_waits_for_the_time_too() {
    let (mut broker, key) = queue();
    put(&mut broker, "1", not_before(at(5_000)), 0);
    let (stream, name) = (super::stream("W"), super::consumer("W", "c", "work.a").name);
    assert!(broker.remove_consumer(&stream, &name).unwrap().is_some());
    let again = broker.consume(super::consumer("W", "c", "work.a")).unwrap();
    assert_ne!(key, again);
    assert_eq!(claimed(&mut broker, again, 4_999), None);
    assert_eq!(claimed(&mut broker, again, 5_000), Some("1".into()));
}

#[test]
fn the_more_urgent_comes_first_and_within_a_lane_the_older() {
    let (mut broker, key) = queue();
    for (id, level) in [("4a", 4), ("0a", 0), ("9a", 9), ("4b", 4), ("9b", 9), ("0b", 0)] {
        put(&mut broker, id, urgent(level), 0);
    }
    assert_eq!(all(&mut broker, key, 0), ["9a", "9b", "4a", "4b", "0a", "0b"]);
}

#[test]
fn a_level_is_worth_its_head_start_to_the_tick() {
    let (mut broker, key) = queue();
    put(&mut broker, "patient", urgent(4), 0);
    put(&mut broker, "tie", urgent(5), HEAD_START_MS);
    put(&mut broker, "late", urgent(5), HEAD_START_MS + 1);
    assert_eq!(all(&mut broker, key, HEAD_START_MS + 1), ["tie", "patient", "late"]);
}

#[test]
fn a_retry_keeps_its_lane() {
    let (mut broker, key) = queue();
    put(&mut broker, "urgent", urgent(9), 0);
    put(&mut broker, "plain", urgent(4), 0);
    let (_, token, _) = claim(&mut broker, key, 0).unwrap();
    broker.settle(key, token, &retry(1_000), at(0)).unwrap();
    assert_eq!(all(&mut broker, key, 1_000), ["urgent", "plain"]);
}

#[test]
fn what_was_handed_back_is_first_whatever_its_lane() {
    let (mut broker, key) = queue();
    put(&mut broker, "low", urgent(0), 0);
    let (_, token, _) = claim(&mut broker, key, 0).unwrap();
    put(&mut broker, "high", urgent(9), 0);
    broker.settle(key, token, &NO_REST, at(0)).unwrap();
    assert_eq!(all(&mut broker, key, 0), ["low", "high"]);
}

#[test]
fn messages_of_one_key_come_one_after_the_other() {
    let (mut broker, key) = queue();
    for id in ["k1", "k2"] {
        put(&mut broker, id, keyed("k"), 0);
    }
    put(&mut broker, "free", Placement::default(), 0);
    put(&mut broker, "other", keyed("o"), 0);
    assert_eq!(all(&mut broker, key, 0), ["k1", "free", "other"]);
}

#[test]
fn the_next_of_a_key_comes_when_the_one_before_is_acknowledged_or_given_up() {
    for verdict in [Verdict::Ack, Verdict::Reject { reason: "dead letter".into() }] {
        let (mut broker, key) = queue();
        put(&mut broker, "k1", keyed("k"), 0);
        put(&mut broker, "k2", keyed("k"), 0);
        let (_, token, _) = claim(&mut broker, key, 0).unwrap();
        assert_eq!((claimed(&mut broker, key, 0), broker.ready(key)), (None, 0));
        broker.settle(key, token, &verdict, at(0)).unwrap();
        assert_eq!(broker.ready(key), 1);
        assert_eq!(claimed(&mut broker, key, 0), Some("k2".into()));
    }
}

#[test]
fn the_next_of_a_key_stands_where_its_age_puts_it() {
    let (mut broker, key) = queue();
    put(&mut broker, "k1", keyed("k"), 0);
    put(&mut broker, "k2", keyed("k"), 1);
    put(&mut broker, "younger", Placement::default(), 2);
    let (_, token, _) = claim(&mut broker, key, 2).unwrap();
    broker.settle(key, token, &Verdict::Ack, at(3)).unwrap();
    assert_eq!(all(&mut broker, key, 3), ["k2", "younger"]);
}

#[test]
fn a_resting_retry_holds_the_others_of_its_key() {
    let (mut broker, key) = queue();
    put(&mut broker, "k1", keyed("k"), 0);
    put(&mut broker, "k2", keyed("k"), 0);
    let (_, token, _) = claim(&mut broker, key, 0).unwrap();
    broker.settle(key, token, &retry(5_000), at(0)).unwrap();
    assert_eq!(claimed(&mut broker, key, 4_999), None);
    let (body, token, attempt) = claim(&mut broker, key, 5_000).unwrap();
    assert_eq!((body, attempt), ("k1".into(), 2));
    assert_eq!(claimed(&mut broker, key, 5_000), None);
    broker.settle(key, token, &Verdict::Ack, at(5_000)).unwrap();
    assert_eq!(claimed(&mut broker, key, 5_000), Some("k2".into()));
}

#[test]
fn a_lost_lease_and_a_hand_back_keep_the_order_of_a_key() {
    let (mut broker, key) = queue();
    put(&mut broker, "k1", keyed("k"), 0);
    put(&mut broker, "k2", keyed("k"), 0);
    claim(&mut broker, key, 0).unwrap();
    let (body, token, attempt) = claim(&mut broker, key, LEASE_MS).unwrap();
    assert_eq!((body, attempt), ("k1".into(), 2));
    broker.settle(key, token, &NO_REST, at(LEASE_MS)).unwrap();
    assert_eq!(all(&mut broker, key, LEASE_MS), ["k1"]);
}

#[test]
fn a_scheduled_message_of_a_key_holds_nobody_before_its_time() {
    let (mut broker, key) = queue();
    put(&mut broker, "later", Placement { not_before: Some(at(5_000)), ..keyed("k") }, 0);
    put(&mut broker, "now", keyed("k"), 0);
    let (body, token, _) = claim(&mut broker, key, 0).unwrap();
    assert_eq!(body, "now");
    assert_eq!(claimed(&mut broker, key, 5_000), None, "its turn came, but the other is out");
    broker.settle(key, token, &Verdict::Ack, at(5_000)).unwrap();
    assert_eq!(claimed(&mut broker, key, 5_000), Some("later".into()));
}

#[test]
fn a_scheduled_message_takes_its_turn_before_those_appended_after_it() {
    let (mut broker, key) = queue();
    put(&mut broker, "scheduled", Placement { not_before: Some(at(5_000)), ..keyed("k") }, 0);
    put(&mut broker, "younger", keyed("k"), 0);
    let (body, token, _) = claim(&mut broker, key, 5_000).unwrap();
    assert_eq!(body, "scheduled");
    assert_eq!(claimed(&mut broker, key, 5_000), None);
    broker.settle(key, token, &Verdict::Ack, at(5_000)).unwrap();
    assert_eq!(claimed(&mut broker, key, 5_000), Some("younger".into()));
}

#[test]
fn the_key_goes_before_the_priority() {
    let (mut broker, key) = queue();
    put(&mut broker, "first", Placement { priority: Priority::LOWEST, ..keyed("k") }, 0);
    put(&mut broker, "second", Placement { priority: Priority::HIGHEST, ..keyed("k") }, 0);
    assert_eq!(all(&mut broker, key, 0), ["first"]);
}

#[test]
fn each_consumer_has_its_own_order() {
    let mut broker = super::with(super::spec("S", &["work.*"], bus_core::Retention::Kept));
    let keys =
        ["one", "two"].map(|name| broker.consume(super::consumer("S", name, "work.a")).unwrap());
    put(&mut broker, "k1", keyed("k"), 0);
    put(&mut broker, "k2", keyed("k"), 0);
    let (_, token, _) = claim(&mut broker, keys[0], 0).unwrap();
    broker.settle(keys[0], token, &Verdict::Ack, at(0)).unwrap();
    assert_eq!(all(&mut broker, keys[0], 0), ["k2"]);
    assert_eq!(all(&mut broker, keys[1], 0), ["k1"]);
}

#[test]
fn a_key_without_messages_takes_no_room() {
    let (mut broker, key) = queue();
    for n in 0..1_000 {
        put(&mut broker, &n.to_string(), keyed(&format!("key-{n}")), n);
        let (_, token, _) = claim(&mut broker, key, n).unwrap();
        broker.settle(key, token, &Verdict::Ack, at(n)).unwrap();
    }
    assert!(!format!("{broker:?}").contains("key-"), "no key is left");
}

#[test]
fn a_million_due_at_once_are_woken_a_piece_at_a_time() {
    let (mut broker, key) = queue();
    let count = 5_000;
    for n in 0..count {
        put(&mut broker, &n.to_string(), not_before(at(10)), 0);
    }
    broker.tick(key, at(10));
    let ready = broker.ready(key);
    assert!(ready > 0 && ready < count, "{ready}");
    assert!(broker.next_deadline(key).unwrap() <= at(10), "the rest is due now");
    let numbers: Vec<_> = (0..count).map(|n| n.to_string()).collect();
    assert_eq!(all(&mut broker, key, 10), numbers);
    let after = Duration::from_millis(LEASE_MS + 10);
    let late = broker.extend(key, 1, Timestamp::from_unix_ns(0).plus(after));
    assert!(late.is_err());
    let late = broker.settle(key, count as u64, &Verdict::Ack, at(LEASE_MS + 10));
    assert!(late.is_err(), "a lease that ran out is over, taken back or not");
}
