//! Streams: declarations, bounds, ids, expectations, retention.

use std::time::Duration;

use bus_core::{ErrorKind, Expect, Result, Retention, Seq, StreamSpec, Verdict};

use super::{
    append, at, bounded, claim, consumer, empty, filter, frame, queue, spec, stream, subject, with,
};

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

#[test]
fn the_order_of_the_filters_does_not_make_another_stream() {
    let mut broker = with(spec("S", &["a.*", "b.*"], Retention::Kept));
    broker.declare(spec("S", &["b.*", "a.*"], Retention::Kept)).unwrap();
    let other = spec("S", &["b.*"], Retention::Kept);
    assert_eq!(kind(broker.declare(other)), ErrorKind::Conflict);
}

#[test]
fn a_stream_that_overlaps_another_is_a_conflict() {
    let mut broker = with(spec("S", &["a.*.c"], Retention::Kept));
    let other = spec("T", &["a.b.>"], Retention::Kept);
    assert_eq!(kind(broker.declare(other)), ErrorKind::Conflict);
    broker.declare(spec("T", &["a.*.d"], Retention::Kept)).unwrap();
}

#[test]
fn a_stream_never_reaches_into_reserved_subjects() {
    for reserved in ["$KV.b.>", "$JS", "_INBOX.>", "_INBOX", ">", "*.a"] {
        let refused = empty().declare(spec("S", &[reserved], Retention::Kept));
        assert_eq!(kind(refused), ErrorKind::Invalid, "{reserved}");
    }
}

#[test]
fn a_stream_without_subjects_or_with_overlapping_ones_is_invalid() {
    assert_eq!(kind(empty().declare(spec("S", &[], Retention::Kept))), ErrorKind::Invalid);
    let twice = spec("S", &["a.*", "a.b"], Retention::Kept);
    assert_eq!(kind(empty().declare(twice)), ErrorKind::Invalid);
}

#[test]
fn a_stream_has_a_bounded_number_of_filters() {
    let filters: Vec<_> = (0..=1000).map(|number| format!("a.{number}")).collect();
    let filters: Vec<_> = filters.iter().map(String::as_str).collect();
    let refused = empty().declare(spec("S", &filters, Retention::Kept));
    assert_eq!(kind(refused), ErrorKind::Invalid);
    empty().declare(spec("S", &filters[1..], Retention::Kept)).unwrap();
}

#[test]
fn a_refused_declaration_leaves_nothing_behind() {
    let mut broker = with(spec("S", &["a.b"], Retention::Kept));
    let refused = spec("T", &["c.d", "a.*"], Retention::Kept);
    assert_eq!(kind(broker.declare(refused)), ErrorKind::Conflict);
    assert_eq!(kind(append(&mut broker, "c.d", "1")), ErrorKind::NotFound);
    broker.declare(spec("T", &["c.d"], Retention::Kept)).unwrap();
}

#[test]
fn a_repeat_learns_where_it_is_stored_although_the_subject_moved_on() {
    let mut broker = with(spec("S", &["a"], Retention::Kept));
    let first = Expect::LastOfSubject(Seq(0));
    let stored = broker.append(frame("a", "1"), first, at(0), |_| {}).unwrap();
    append(&mut broker, "a", "2").unwrap();
    let again = broker.append(frame("a", "1"), first, at(1), |_| {}).unwrap();
    assert_eq!((again.seq, again.duplicate), (stored.seq, true));
}

#[test]
fn a_refused_append_is_not_remembered_as_stored() {
    let mut broker = with(bounded(spec("S", &["a"], Retention::Kept), 1, 1));
    append(&mut broker, "a", "1").unwrap();
    assert_eq!(kind(append(&mut broker, "a", "2")), ErrorKind::Full);
    assert_eq!(kind(append(&mut broker, "a", "2")), ErrorKind::Full);
}

#[test]
fn an_id_of_a_full_stream_is_still_a_duplicate() {
    let mut broker = with(bounded(spec("S", &["a"], Retention::Kept), 1, 1));
    append(&mut broker, "a", "1").unwrap();
    assert!(append(&mut broker, "a", "1").unwrap().duplicate);
}

#[test]
fn an_id_is_remembered_after_its_task_is_gone() {
    let (mut broker, key) = queue();
    append(&mut broker, "work.a", "1").unwrap();
    let (_, token, _) = claim(&mut broker, key, 0).unwrap();
    broker.settle(key, token, &Verdict::Ack, at(0)).unwrap();
    assert!(append(&mut broker, "work.a", "1").unwrap().duplicate);
    assert_eq!(claim(&mut broker, key, 0), None);
}

#[test]
fn a_stream_without_a_window_remembers_no_id() {
    let window = Duration::ZERO;
    let spec = spec("S", &["a"], Retention::Kept);
    let mut broker = with(StreamSpec { dedupe_window: window, ..spec });
    append(&mut broker, "a", "1").unwrap();
    assert!(!append(&mut broker, "a", "1").unwrap().duplicate);
}

#[test]
fn positions_are_never_used_again() {
    let (mut broker, key) = queue();
    for n in 1..=200 {
        let receipt = append(&mut broker, "work.a", &format!("{n}")).unwrap();
        assert_eq!(receipt.seq, Seq(n));
        let (_, token, _) = claim(&mut broker, key, 0).unwrap();
        broker.settle(key, token, &Verdict::Ack, at(0)).unwrap();
    }
}

#[test]
fn the_last_of_a_subject_is_the_last_that_is_still_stored() {
    let (mut broker, key) = queue();
    for id in ["1", "2", "3"] {
        append(&mut broker, "work.a", id).unwrap();
    }
    let tokens: Vec<_> = (0..3).map(|_| claim(&mut broker, key, 0).unwrap().1).collect();
    let last = |broker: &super::Broker| broker.last(&subject("work.a")).unwrap().map(|m| m.seq.0);
    assert_eq!(last(&broker), Some(3));
    broker.settle(key, tokens[2], &Verdict::Ack, at(0)).unwrap();
    assert_eq!(last(&broker), Some(2));
    broker.settle(key, tokens[0], &Verdict::Ack, at(0)).unwrap();
    assert_eq!(last(&broker), Some(2));
    broker.settle(key, tokens[1], &Verdict::Ack, at(0)).unwrap();
    assert_eq!(last(&broker), None);
}

#[test]
fn a_rejected_task_is_gone_from_a_queue_and_stays_in_a_kept_stream() {
    let reject = Verdict::Reject { reason: "poison".into() };
    for (retention, left) in [(Retention::WorkQueue, 0), (Retention::Kept, 1)] {
        let mut broker = with(spec("S", &["a"], retention));
        let key = broker.consume(consumer("S", "c", "a")).unwrap();
        append(&mut broker, "a", "1").unwrap();
        let (_, token, _) = claim(&mut broker, key, 0).unwrap();
        broker.settle(key, token, &reject, at(0)).unwrap();
        let mut stored = Vec::new();
        let (stream, until) = broker.head(&stream("S")).unwrap();
        let next = broker.read(stream, &filter("a"), (Seq(0), until), 10, &mut stored);
        assert_eq!(next, None);
        assert_eq!(stored.len(), left, "{retention:?}");
        assert_eq!(claim(&mut broker, key, 60_000), None, "{retention:?}");
    }
}

#[test]
fn an_acknowledged_task_makes_room() {
    let mut broker = with(bounded(spec("S", &["work.*"], Retention::WorkQueue), 2, 1));
    let key = broker.consume(consumer("S", "c", "work.a")).unwrap();
    append(&mut broker, "work.a", "1").unwrap();
    assert_eq!(kind(append(&mut broker, "work.a", "2")), ErrorKind::Full);
    append(&mut broker, "work.b", "3").unwrap();
    assert_eq!(kind(append(&mut broker, "work.c", "4")), ErrorKind::Full);
    let (_, token, _) = claim(&mut broker, key, 0).unwrap();
    broker.settle(key, token, &Verdict::Ack, at(0)).unwrap();
    append(&mut broker, "work.a", "2").unwrap();
}

#[test]
fn a_consumer_beside_the_stream_or_without_a_lease_is_invalid() {
    let mut broker = with(spec("S", &["a.*"], Retention::Kept));
    assert_eq!(kind(broker.consume(consumer("S", "c", "b.*"))), ErrorKind::Invalid);
    let mut spec = consumer("S", "c", "a.*");
    spec.lease = Duration::ZERO;
    assert_eq!(kind(broker.consume(spec)), ErrorKind::Invalid);
}

#[test]
fn an_append_says_which_consumers_have_more_to_do() {
    let mut broker = with(spec("S", &["a.*"], Retention::Kept));
    let all = broker.consume(consumer("S", "all", "a.*")).unwrap();
    let one = broker.consume(consumer("S", "one", "a.1")).unwrap();
    let touched = |broker: &mut super::Broker, on: &str| {
        let mut touched = Vec::new();
        broker.append(frame(on, on), Expect::Any, at(0), |key| touched.push(key)).unwrap();
        touched.sort();
        touched
    };
    assert_eq!(touched(&mut broker, "a.1"), [all, one]);
    assert_eq!(touched(&mut broker, "a.2"), [all]);
    assert_eq!(touched(&mut broker, "a.2"), [], "a duplicate stores nothing");
}

#[test]
fn the_lag_of_a_kept_stream_is_what_its_consumers_have_to_read() {
    let mut broker = with(spec("S", &["a"], Retention::Kept));
    append(&mut broker, "a", "1").unwrap();
    append(&mut broker, "a", "2").unwrap();
    let lag = |broker: &mut super::Broker| {
        let lag = broker.lag(&stream("S"), at(5_000)).unwrap();
        (lag.pending, lag.in_flight, lag.oldest)
    };
    let age = Some(Duration::from_secs(5));
    assert_eq!(lag(&mut broker), (2, 0, age), "nobody read anything");
    let key = broker.consume(consumer("S", "c", "a")).unwrap();
    let (_, token, _) = claim(&mut broker, key, 0).unwrap();
    assert_eq!(lag(&mut broker), (1, 1, age));
    broker.settle(key, token, &Verdict::Ack, at(5_000)).unwrap();
    assert_eq!(lag(&mut broker), (1, 0, age));
}

#[test]
fn limits_are_full_and_not_silent() {
    let limits =
        crate::Limits { streams_max: 1, consumers_per_stream_max: 1, ..crate::Limits::default() };
    let mut broker = super::Broker::new(limits, bus_core::Durability::Memory);
    broker.declare(spec("S", &["a.*"], Retention::Kept)).unwrap();
    assert_eq!(kind(broker.declare(spec("T", &["b"], Retention::Kept))), ErrorKind::Full);
    broker.consume(consumer("S", "c", "a.1")).unwrap();
    assert_eq!(kind(broker.consume(consumer("S", "d", "a.2"))), ErrorKind::Full);
    broker.consume(consumer("S", "c", "a.1")).unwrap();
}
