//! A consumer that comes late: everything that matches, in order, a piece at a time.

use bus_core::{Expect, Placement, Priority, Retention, Seq, Verdict};

use super::{super::Broker, append, at, claim, consumer, frame, spec, stream, with};

const MANY: u64 = 5_000;

/// A kept stream with `MANY` messages, each tenth of them under `a.few`.
fn filled() -> Broker {
    let mut broker = with(spec("S", &["a.*"], Retention::Kept));
    for n in 1..=MANY {
        append(&mut broker, if n % 10 == 0 { "a.few" } else { "a.many" }, &n.to_string()).unwrap();
    }
    broker
}

fn bodies(broker: &mut Broker, key: super::ConsumerKey) -> Vec<u64> {
    let claims = std::iter::from_fn(|| claim(broker, key, 0));
    claims.map(|claim| claim.0.parse().unwrap()).collect()
}

#[test]
fn everything_that_matches_comes_in_order() {
    for (reads, step) in [("a.*", 1), ("a.few", 10)] {
        let mut broker = filled();
        let key = broker.consume(consumer("S", "c", reads)).unwrap();
        assert!(broker.ready(key) > 0, "members are called");
        let expected: Vec<_> = (1..=MANY / step).map(|n| n * step).collect();
        assert_eq!(bodies(&mut broker, key), expected, "{reads}");
        assert_eq!(broker.ready(key), 0);
    }
}

#[test]
fn what_is_appended_meanwhile_comes_after_it() {
    let mut broker = filled();
    let key = broker.consume(consumer("S", "c", "a.*")).unwrap();
    assert_eq!(claim(&mut broker, key, 0).unwrap().0, "1");
    let next = MANY + 1;
    append(&mut broker, "a.many", &next.to_string()).unwrap();
    assert_eq!(bodies(&mut broker, key), (2..=next).collect::<Vec<_>>());
}

#[test]
fn the_lag_is_exact_from_the_first_moment() {
    let mut broker = filled();
    let key = broker.consume(consumer("S", "c", "a.few")).unwrap();
    let state = |broker: &mut Broker| {
        let states = broker.consumers(&stream("S"), at(7_000)).unwrap();
        (states[0].lag.pending, states[0].lag.in_flight, states[0].lag.oldest.unwrap().as_secs())
    };
    assert_eq!(state(&mut broker), (MANY / 10, 0, 7));
    claim(&mut broker, key, 7_000).unwrap();
    append(&mut broker, "a.few", "new").unwrap();
    assert_eq!(state(&mut broker), (MANY / 10, 1, 7));
}

#[test]
fn what_is_discarded_before_it_was_looked_at_does_not_come() {
    let mut broker = filled();
    let key = broker.consume(consumer("S", "c", "a.*")).unwrap();
    assert!(broker.discard(&stream("S"), Seq(MANY), |_| {}).unwrap().is_some());
    assert_eq!(bodies(&mut broker, key), (1..MANY).collect::<Vec<_>>());
    assert_eq!(broker.ready(key), 0);
}

#[test]
fn priorities_hold_among_what_was_looked_at() {
    let mut broker = with(spec("S", &["a"], Retention::Kept));
    for (id, priority) in [("plain", Priority::NORMAL), ("urgent", Priority::HIGHEST)] {
        let placement = Placement { priority, ..Placement::default() };
        broker.append(frame("a", id).placed(placement), Expect::Any, at(0), |_| {}).unwrap();
    }
    let key = broker.consume(consumer("S", "c", "a")).unwrap();
    assert_eq!(claim(&mut broker, key, 0).unwrap().0, "urgent");
}

#[test]
fn a_late_consumer_of_a_work_queue_gets_what_nobody_acknowledged() {
    let mut broker = with(spec("W", &["work.*"], Retention::WorkQueue));
    let first = broker.consume(consumer("W", "first", "work.a")).unwrap();
    for n in 0..100 {
        append(&mut broker, "work.a", &format!("a{n}")).unwrap();
        append(&mut broker, "work.b", &format!("b{n}")).unwrap();
    }
    for _ in 0..100 {
        let (_, token, _) = claim(&mut broker, first, 0).unwrap();
        broker.settle(first, token, &Verdict::Ack, at(0)).unwrap();
    }
    let second = broker.consume(consumer("W", "second", "work.b")).unwrap();
    let claims: Vec<_> = std::iter::from_fn(|| claim(&mut broker, second, 0)).collect();
    assert_eq!(claims.len(), 100);
    assert_eq!(claims[99].0, "b99");
}
