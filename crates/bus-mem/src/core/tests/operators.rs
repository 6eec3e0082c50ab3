//! What operators do: discard, pause, list and remove consumers.

use std::time::Duration;

use bus_core::{ErrorKind, OrderKey, Placement, Priority, Result, Retention, Seq, Verdict};
use bus_subjects::ConsumerName;

use super::{
    super::{Broker, ConsumerKey},
    LEASE, append, at, claim, consumer, frame, queue, retry, spec, stream, with,
};

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

fn name(text: &str) -> ConsumerName {
    ConsumerName::parse(text).unwrap()
}

fn discard(broker: &mut Broker, seq: u64) -> bool {
    broker.discard(&stream("W"), Seq(seq), |_| {}).unwrap().is_some()
}

fn bodies(broker: &mut Broker, key: ConsumerKey, ms: u64) -> Vec<String> {
    std::iter::from_fn(|| claim(broker, key, ms)).map(|claim| claim.0).collect()
}

fn put(broker: &mut Broker, id: &str, placement: Placement) {
    let frame = frame("work.a", id).placed(placement);
    broker.append(frame, bus_core::Expect::Any, at(0), |_| {}).unwrap();
}

fn keyed(key: &str) -> Placement {
    Placement { key: Some(OrderKey::parse(key).unwrap()), ..Placement::default() }
}

#[test]
fn a_discarded_message_is_skipped_wherever_it_stood_in_line() {
    let (mut broker, key) = queue();
    for id in ["1", "2", "3", "4"] {
        append(&mut broker, "work.a", id).unwrap();
    }
    for seq in [2, 1, 4] {
        assert!(discard(&mut broker, seq));
        assert!(!discard(&mut broker, seq), "it is gone");
    }
    assert_eq!(broker.ready(key), 1);
    assert_eq!(bodies(&mut broker, key, 0), ["3"]);
}

#[test]
fn what_is_discarded_makes_room_and_counts_no_more() {
    let mut broker = with(super::bounded(spec("W", &["work.*"], Retention::WorkQueue), 1, 1));
    let key = broker.consume(consumer("W", "c", "work.a")).unwrap();
    append(&mut broker, "work.a", "1").unwrap();
    assert!(discard(&mut broker, 1));
    let lag = broker.lag(&stream("W"), at(0)).unwrap();
    assert_eq!((lag.pending, lag.in_flight, lag.oldest), (0, 0, None));
    append(&mut broker, "work.a", "2").unwrap();
    assert_eq!(bodies(&mut broker, key, 0), ["2"]);
}

#[test]
fn a_lease_on_what_was_discarded_is_lost() {
    let (mut broker, key) = queue();
    append(&mut broker, "work.a", "1").unwrap();
    let (_, token, _) = claim(&mut broker, key, 0).unwrap();
    assert!(discard(&mut broker, 1));
    assert_eq!(kind(broker.extend(key, token, at(1))), ErrorKind::LeaseLost);
    assert_eq!(kind(broker.settle(key, token, &retry(0), at(1))), ErrorKind::LeaseLost);
    assert_eq!(bodies(&mut broker, key, 60_000), [""; 0]);
}

#[test]
fn what_rests_or_waits_for_its_time_can_be_discarded() {
    let (mut broker, key) = queue();
    append(&mut broker, "work.a", "1").unwrap();
    put(&mut broker, "2", Placement { not_before: Some(at(10)), ..Placement::default() });
    let (_, token, _) = claim(&mut broker, key, 0).unwrap();
    broker.settle(key, token, &retry(10), at(0)).unwrap();
    assert!(discard(&mut broker, 1) && discard(&mut broker, 2));
    assert_eq!((broker.next_deadline(key), bodies(&mut broker, key, 10)), (None, vec![]));
}

#[test]
fn a_retry_that_is_ready_and_an_urgent_message_can_be_discarded() {
    let (mut broker, key) = queue();
    append(&mut broker, "work.a", "1").unwrap();
    put(&mut broker, "2", Placement { priority: Priority::HIGHEST, ..Placement::default() });
    assert!(discard(&mut broker, 2));
    let (body, token, _) = claim(&mut broker, key, 0).unwrap();
    broker.settle(key, token, &retry(0), at(0)).unwrap();
    assert_eq!((body.as_str(), broker.ready(key)), ("1", 1));
    assert!(discard(&mut broker, 1));
    assert_eq!((broker.ready(key), bodies(&mut broker, key, 0)), (0, vec![]));
}

#[test]
fn a_discarded_holder_frees_its_key_and_says_so() {
    for is_out in [false, true] {
        let (mut broker, key) = queue();
        for id in ["k1", "k2", "k3"] {
            put(&mut broker, id, keyed("k"));
        }
        if is_out {
            claim(&mut broker, key, 0).unwrap();
        }
        assert!(discard(&mut broker, 2), "one that stands behind");
        let mut touched = Vec::new();
        broker.discard(&stream("W"), Seq(1), |key| touched.push(key)).unwrap();
        assert_eq!(touched, [key]);
        assert_eq!(bodies(&mut broker, key, 0), ["k3"], "out: {is_out}");
    }
}

#[test]
fn a_kept_stream_discards_for_all_its_consumers() {
    let mut broker = with(spec("W", &["work.*"], Retention::Kept));
    let keys = ["one", "two"].map(|n| broker.consume(consumer("W", n, "work.a")).unwrap());
    append(&mut broker, "work.a", "1").unwrap();
    append(&mut broker, "work.a", "2").unwrap();
    let (_, token, _) = claim(&mut broker, keys[0], 0).unwrap();
    broker.settle(keys[0], token, &Verdict::Ack, at(0)).unwrap();
    assert!(discard(&mut broker, 1), "one consumer is through with it, the other is not");
    for key in keys {
        assert_eq!((broker.ready(key), bodies(&mut broker, key, 0)), (1, vec!["2".to_owned()]));
    }
}

#[test]
fn an_append_only_stream_refuses_to_discard() {
    let mut broker = with(spec("R", &["r"], Retention::AppendOnly));
    append(&mut broker, "r", "1").unwrap();
    let refused = broker.discard(&stream("R"), Seq(1), |_| {});
    assert_eq!(kind(refused), ErrorKind::Denied);
    assert!(broker.read_one(&stream("R"), Seq(1)).unwrap().is_some());
    assert_eq!(kind(broker.discard(&stream("X"), Seq(1), |_| {})), ErrorKind::NotFound);
}

#[test]
fn a_paused_consumer_hands_out_nothing_until_its_time() {
    let (mut broker, key) = queue();
    append(&mut broker, "work.a", "1").unwrap();
    broker.pause(&stream("W"), &name("c"), Some(at(100)), at(0)).unwrap();
    assert_eq!((broker.ready(key), broker.next_deadline(key)), (0, Some(at(100))));
    assert_eq!(bodies(&mut broker, key, 99), [""; 0]);
    let states = broker.consumers(&stream("W"), at(99)).unwrap();
    assert_eq!(states[0].paused_until, Some(at(100)));
    assert_eq!(bodies(&mut broker, key, 100), ["1"]);
    assert_eq!(broker.consumers(&stream("W"), at(100)).unwrap()[0].paused_until, None);
}

#[test]
fn a_pause_ends_by_none_or_by_a_time_that_has_passed() {
    for until in [None, Some(at(5))] {
        let (mut broker, key) = queue();
        append(&mut broker, "work.a", "1").unwrap();
        broker.pause(&stream("W"), &name("c"), Some(at(1_000)), at(0)).unwrap();
        assert_eq!(broker.pause(&stream("W"), &name("c"), until, at(5)).unwrap(), key);
        assert_eq!((broker.ready(key), bodies(&mut broker, key, 5)), (1, vec!["1".to_owned()]));
    }
}

#[test]
fn what_is_under_a_lease_stays_so_through_a_pause() {
    let (mut broker, key) = queue();
    append(&mut broker, "work.a", "1").unwrap();
    append(&mut broker, "work.a", "2").unwrap();
    let (_, first, _) = claim(&mut broker, key, 0).unwrap();
    let (_, second, _) = claim(&mut broker, key, 0).unwrap();
    broker.pause(&stream("W"), &name("c"), Some(at(3_600_000)), at(0)).unwrap();
    broker.extend(key, first, at(1)).unwrap();
    broker.settle(key, first, &Verdict::Ack, at(2)).unwrap();
    let over = broker.settle(key, second, &Verdict::Ack, at(LEASE.as_millis() as u64));
    assert_eq!(kind(over), ErrorKind::LeaseLost);
    assert_eq!(broker.next_deadline(key), Some(at(3_600_000)));
}

#[test]
fn only_a_consumer_that_is_there_can_be_paused() {
    let (mut broker, _) = queue();
    let until = Some(at(1));
    let paused = broker.pause(&stream("W"), &name("other"), until, at(0));
    assert_eq!(kind(paused), ErrorKind::NotFound);
    assert_eq!(kind(broker.pause(&stream("X"), &name("c"), until, at(0))), ErrorKind::NotFound);
}

#[test]
fn consumers_are_listed_by_name_with_what_waits() {
    let mut broker = with(spec("S", &["a.*"], Retention::Kept));
    let late = broker.consume(consumer("S", "z", "a.1")).unwrap();
    broker.consume(consumer("S", "b", "a.2")).unwrap();
    for (ms, on) in [(0, "a.1"), (1_000, "a.1"), (2_000, "a.2")] {
        let sent = frame(on, &ms.to_string());
        broker.append(sent, bus_core::Expect::Any, at(ms), |_| {}).unwrap();
    }
    let (_, token, _) = claim(&mut broker, late, 2_000).unwrap();
    let listed = |broker: &mut Broker, ms| {
        let states = broker.consumers(&stream("S"), at(ms)).unwrap();
        let row = |s: &bus_core::ConsumerState| {
            let oldest = s.lag.oldest.map(|age| age.as_secs());
            (s.spec.name.to_string(), s.lag.pending, s.lag.in_flight, oldest)
        };
        states.iter().map(row).collect::<Vec<_>>()
    };
    let (b, z) = ("b".to_owned(), "z".to_owned());
    assert_eq!(
        listed(&mut broker, 3_000),
        [(b.clone(), 1, 0, Some(1)), (z.clone(), 1, 1, Some(3))]
    );
    broker.settle(late, token, &Verdict::Ack, at(3_000)).unwrap();
    assert_eq!(listed(&mut broker, 3_000), [(b, 1, 0, Some(1)), (z, 1, 0, Some(2))]);
}

#[test]
fn the_age_of_the_oldest_counts_what_rests_and_what_waits_for_its_key() {
    let (mut broker, key) = queue();
    put(&mut broker, "k1", keyed("k"));
    let (_, token, _) = claim(&mut broker, key, 0).unwrap();
    broker.settle(key, token, &retry(60_000), at(0)).unwrap();
    let oldest =
        |broker: &mut Broker| broker.consumers(&stream("W"), at(9_000)).unwrap()[0].lag.oldest;
    assert_eq!(oldest(&mut broker), Some(Duration::from_secs(9)));
}

#[test]
fn a_removed_consumer_has_no_leases_and_no_key() {
    let (mut broker, key) = queue();
    append(&mut broker, "work.a", "1").unwrap();
    let (_, token, _) = claim(&mut broker, key, 0).unwrap();
    let mut remove = || broker.remove_consumer(&stream("W"), &name("c")).unwrap();
    assert_eq!(remove().map(|removed| removed.key), Some(key));
    assert!(remove().is_none());
    assert!(!broker.is_there(key));
    assert_eq!(kind(broker.settle(key, token, &Verdict::Ack, at(0))), ErrorKind::LeaseLost);
    assert_eq!(claim(&mut broker, key, 0), None);
    assert_eq!(broker.lag(&stream("W"), at(0)).unwrap().pending, 1);
    let nowhere = broker.remove_consumer(&stream("X"), &name("c"));
    assert_eq!(kind(nowhere), ErrorKind::NotFound);
}

#[test]
fn a_consumer_that_comes_again_starts_anew_with_what_is_left() {
    let (mut broker, old) = queue();
    for id in ["1", "2", "3"] {
        append(&mut broker, "work.a", id).unwrap();
    }
    let (_, first, _) = claim(&mut broker, old, 0).unwrap();
    broker.settle(old, first, &Verdict::Ack, at(0)).unwrap();
    let (_, second, _) = claim(&mut broker, old, 0).unwrap();
    broker.settle(old, second, &retry(60_000), at(0)).unwrap();
    broker.pause(&stream("W"), &name("c"), Some(at(60_000)), at(0)).unwrap();
    assert!(broker.remove_consumer(&stream("W"), &name("c")).unwrap().is_some());
    append(&mut broker, "work.a", "4").unwrap();
    let new = broker.consume(consumer("W", "c", "work.a")).unwrap();
    let got: Vec<_> = std::iter::from_fn(|| claim(&mut broker, new, 1)).collect();
    let got: Vec<_> = got.iter().map(|(body, _, attempt)| (body.as_str(), *attempt)).collect();
    assert_eq!(got, [("2", 1), ("3", 1), ("4", 1)]);
    let late = broker.settle(old, 1, &Verdict::Ack, at(1));
    assert_eq!(kind(late), ErrorKind::LeaseLost, "the old key does not reach into the new one");
}

#[test]
fn another_consumer_may_read_what_a_removed_one_did() {
    let (mut broker, _) = queue();
    append(&mut broker, "work.a", "1").unwrap();
    assert_eq!(kind(broker.consume(consumer("W", "d", "work.*"))), ErrorKind::Conflict);
    assert!(broker.remove_consumer(&stream("W"), &name("c")).unwrap().is_some());
    let key = broker.consume(consumer("W", "d", "work.*")).unwrap();
    append(&mut broker, "work.b", "2").unwrap();
    assert_eq!(bodies(&mut broker, key, 0), ["1", "2"]);
}

#[test]
fn consumers_that_come_and_go_take_no_room() {
    let mut broker = with(spec("W", &["work.*"], Retention::WorkQueue));
    let mut places = std::collections::HashSet::new();
    for n in 0..1_000 {
        let key = broker.consume(consumer("W", &format!("c{n}"), "work.a")).unwrap();
        places.insert(key.place());
        assert_eq!(key.number(), n);
        drop(broker.remove_consumer(&stream("W"), &name(&format!("c{n}"))).unwrap());
    }
    assert_eq!(places.len(), 1);
}
