//! What survives, rule by rule.

use std::sync::Arc;

use bus_core::{Durability, ErrorKind, Expect, Placement, Priority, Retention, Seq, Verdict};

use super::{
    super::{Broker, Image, StreamCursor},
    LEASE, append, at, claim, consumer, empty, frame,
    kept::{Kept, image},
    spec, stream,
};
use crate::{Limits, journal::Statement};

/// A journaled work queue `W` with the consumer `c` and the task `t`, which is safe.
fn queue() -> (Broker, Arc<Kept>) {
    let (mut broker, journal) = (empty(), Kept::new());
    broker.keep(Arc::clone(&journal) as _);
    broker.declare(spec("W", &["work.*"], Retention::WorkQueue)).unwrap();
    broker.consume(consumer("W", "c", "work.a")).unwrap();
    append(&mut broker, "work.a", "t").unwrap();
    broker.show(journal.settle(), |_| {}, |_| {});
    (broker, journal)
}

fn again(statements: &[Statement], epoch: u64) -> Broker {
    image(statements).restore(Limits::default(), Durability::Synced, epoch).0
}

fn picture(broker: &Broker) -> Vec<Statement> {
    let (mut cursor, mut statements) = (StreamCursor::default(), Vec::new());
    while broker.picture(&mut cursor, &mut statements) {}
    statements
}

#[test]
fn a_recovered_lease_is_settled_under_its_token() {
    let (mut broker, journal) = queue();
    let key = broker.consume(consumer("W", "c", "work.a")).unwrap();
    let (_, token, _) = claim(&mut broker, key, 0).unwrap();
    let mut again = again(&journal.since(0), 2);
    let key = again.consume(consumer("W", "c", "work.a")).unwrap();
    assert!(again.settle(key, token, &Verdict::Ack, at(1)).is_ok());
    assert_eq!(again.lag(&stream("W"), at(1)).unwrap().pending, 0);
}

#[test]
fn a_token_is_never_given_twice() {
    let (mut broker, journal) = queue();
    let key = broker.consume(consumer("W", "c", "work.a")).unwrap();
    // The claim is lost with its life.
    let kept = journal.since(0);
    let (_, token, _) = claim(&mut broker, key, 0).unwrap();
    for epoch in [1, 2, 7] {
        let mut again = again(&kept, epoch);
        let key = again.consume(consumer("W", "c", "work.a")).unwrap();
        let (_, other, attempt) = claim(&mut again, key, 0).unwrap();
        assert_eq!((other, attempt), ((epoch << 40) + 1, 1));
        let late = again.settle(key, token, &Verdict::Ack, at(1)).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::LeaseLost);
        let made = again.consume(consumer("W", "other", "work.b")).unwrap();
        append(&mut again, "work.b", "new").unwrap();
        assert!(claim(&mut again, made, 0).unwrap().1 > epoch << 40);
    }
}

#[test]
fn a_lease_that_ended_between_two_lives_is_a_failed_attempt() {
    let (mut broker, journal) = queue();
    let key = broker.consume(consumer("W", "c", "work.a")).unwrap();
    claim(&mut broker, key, 0).unwrap();
    let mut again = again(&journal.since(0), 2);
    let key = again.consume(consumer("W", "c", "work.a")).unwrap();
    let lease_ms = LEASE.as_millis() as u64;
    assert!(claim(&mut again, key, lease_ms - 1).is_none());
    assert_eq!(claim(&mut again, key, lease_ms).unwrap().2, 2);
}

#[test]
fn time_does_not_go_back_between_two_lives() {
    let (mut broker, journal) = queue();
    let key = broker.consume(consumer("W", "c", "work.a")).unwrap();
    claim(&mut broker, key, 50_000).unwrap();
    let mut again = again(&journal.since(0), 2);
    let key = again.consume(consumer("W", "c", "work.a")).unwrap();
    assert_eq!(again.next_deadline(key), Some(at(80_000)));
    let receipt = append(&mut again, "work.a", "u").unwrap();
    let stored = again.read_one(&receipt.stream, receipt.seq).unwrap().unwrap();
    assert_eq!(stored.time, at(50_000));
}

#[test]
fn the_number_of_a_removed_consumer_is_not_given_again() {
    let (mut broker, _) = queue();
    let gone = broker.consume(consumer("W", "gone", "work.b")).unwrap();
    assert!(broker.remove_consumer(&stream("W"), &consumer("W", "gone", ">").name).is_ok());
    let mut again = again(&picture(&broker), 2);
    let next = again.consume(consumer("W", "next", "work.b")).unwrap();
    assert_eq!(next.number(), gone.number() + 1);
}

#[test]
fn what_is_not_safe_is_neither_ready_nor_claimed() {
    let (mut broker, journal) = queue();
    let key = broker.consume(consumer("W", "c", "work.a")).unwrap();
    assert_eq!(claim(&mut broker, key, 0).unwrap().0, "t");
    append(&mut broker, "work.a", "u").unwrap();
    assert_eq!((claim(&mut broker, key, 0), broker.ready(key)), (None, 0));
    let (mut shown, mut ready) = (Vec::new(), Vec::new());
    broker.show(journal.settle(), |frame| shown.push(frame), |key| ready.push(key));
    assert_eq!((shown.len(), ready), (1, vec![key]));
    assert_eq!(broker.ready(key), 1);
    assert_eq!(claim(&mut broker, key, 0).unwrap().0, "u");
}

#[test]
fn an_urgent_message_that_is_not_safe_holds_the_others_up() {
    let (mut broker, journal) = queue();
    let key = broker.consume(consumer("W", "c", "work.a")).unwrap();
    let urgent = Placement { priority: Priority::HIGHEST, ..Placement::default() };
    let frame = frame("work.a", "u").placed(urgent);
    broker.append(frame, Expect::Any, at(0), |_| {}).unwrap();
    assert_eq!((claim(&mut broker, key, 0), broker.ready(key)), (None, 0));
    broker.show(journal.settle(), |_| {}, |_| {});
    assert_eq!(broker.ready(key), 2);
    assert_eq!(claim(&mut broker, key, 0).unwrap().0, "u");
}

#[test]
fn positions_go_on_behind_those_that_are_empty() {
    let (mut broker, journal) = queue();
    for n in 0..2_000 {
        let seq = append(&mut broker, "work.b", &format!("n{n}")).unwrap().seq;
        if n % 700 != 0 {
            broker.discard(&stream("W"), seq, |_| {}).unwrap();
        }
    }
    for statements in [journal.since(0), picture(&broker)] {
        let mut again = again(&statements, 2);
        assert_eq!(again.lag(&stream("W"), at(0)).unwrap().pending, 4);
        assert_eq!(append(&mut again, "work.b", "next").unwrap().seq.0, 2_002);
        assert!(append(&mut again, "work.b", "n1999").unwrap().duplicate);
        for seq in [1, 2, 702, 1_402] {
            let stored = again.read_one(&stream("W"), Seq(seq)).unwrap();
            assert!(stored.is_some(), "{seq}");
        }
    }
}

#[test]
fn changes_of_a_stream_that_was_never_declared_are_refused() {
    let mut image = Image::default();
    let removed = Statement::Removed { stream: 0, seq: 1 };
    assert_eq!(image.apply(removed.change()).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_stream_that_was_declared_in_another_way_is_refused() {
    let mut image = Image::default();
    let declared = |name| {
        let spec = spec(name, &["work.*"], Retention::WorkQueue);
        Statement::Declared { stream: 0, spec, key: [0; 16] }
    };
    image.apply(declared("W").change()).unwrap();
    image.apply(declared("W").change()).unwrap();
    let other = image.apply(declared("V").change()).unwrap_err();
    assert_eq!(other.kind(), ErrorKind::Invalid);
}
