//! Batches: whole or not at all.

use std::sync::Arc;

use bus_core::{ErrorKind, Expect, Frame, Receipt, Result, Retention, Verdict};

use super::{
    super::Broker, append, at, bounded, claim, consumer, frame, queue, spec, stream, with,
};

fn append_all(broker: &mut Broker, frames: &[(&str, &str)]) -> Result<Vec<Receipt>> {
    let frames = frames.iter().map(|(on, id)| Arc::new(frame(on, id))).collect();
    broker.append_all(frames, at(0), |_| {})
}

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

fn stored(broker: &mut Broker, name: &str) -> u64 {
    broker.lag(&stream(name), at(0)).unwrap().pending
}

#[test]
fn a_batch_is_stored_in_its_order_and_handed_out_so() {
    let (mut broker, key) = queue();
    append(&mut broker, "work.a", "0").unwrap();
    let receipts = append_all(&mut broker, &[("work.a", "1"), ("work.b", "2"), ("work.a", "3")]);
    let seqs: Vec<_> = receipts.unwrap().iter().map(|r| (r.seq.0, r.duplicate)).collect();
    assert_eq!(seqs, [(2, false), (3, false), (4, false)]);
    let bodies: Vec<_> = std::iter::from_fn(|| claim(&mut broker, key, 0)).map(|c| c.0).collect();
    assert_eq!(bodies, ["0", "1", "3"]);
}

#[test]
fn a_batch_says_which_consumers_have_more_to_do() {
    let (mut broker, key) = queue();
    let frames = ["1", "2"].map(|id| Arc::new(frame("work.a", id))).to_vec();
    let mut touched = Vec::new();
    broker.append_all(frames, at(0), |key| touched.push(key)).unwrap();
    assert_eq!(touched, [key, key]);
}

#[test]
fn an_empty_batch_or_one_too_long_is_invalid() {
    let (mut broker, _) = queue();
    assert_eq!(kind(append_all(&mut broker, &[])), ErrorKind::Invalid);
    let long = |count: usize| {
        (0..count).map(|n| Arc::new(frame("work.a", &n.to_string()))).collect::<Vec<_>>()
    };
    let refused = broker.append_all(long(Frame::BATCH_MAX + 1), at(0), |_| {});
    assert_eq!(kind(refused), ErrorKind::Invalid);
    assert_eq!(broker.append_all(long(Frame::BATCH_MAX), at(0), |_| {}).unwrap().len(), 1000);
}

#[test]
fn a_batch_of_two_streams_or_with_an_id_twice_stores_nothing() {
    let (mut broker, _) = queue();
    broker.declare(spec("X", &["x"], Retention::Kept)).unwrap();
    let mixed = append_all(&mut broker, &[("work.a", "1"), ("x", "2")]);
    assert_eq!(kind(mixed), ErrorKind::Invalid);
    let twice = append_all(&mut broker, &[("work.a", "1"), ("work.b", "1")]);
    assert_eq!(kind(twice), ErrorKind::Invalid);
    let unkept = append_all(&mut broker, &[("work.a", "1"), ("nowhere", "2")]);
    assert_eq!(kind(unkept), ErrorKind::NotFound);
    assert_eq!((stored(&mut broker, "W"), stored(&mut broker, "X")), (0, 0));
    assert!(!append(&mut broker, "work.a", "1").unwrap().duplicate, "the id is not remembered");
}

#[test]
fn a_batch_beyond_a_bound_stores_nothing() {
    let all = bounded(spec("W", &["work.*"], Retention::WorkQueue), 3, 2);
    let mut broker = with(all);
    append(&mut broker, "work.a", "0").unwrap();
    let too_many = [("work.b", "1"), ("work.c", "2"), ("work.d", "3")];
    assert_eq!(kind(append_all(&mut broker, &too_many)), ErrorKind::Full);
    let of_one_subject = [("work.a", "1"), ("work.a", "2")];
    assert_eq!(kind(append_all(&mut broker, &of_one_subject)), ErrorKind::Full);
    assert_eq!(stored(&mut broker, "W"), 1);
    append_all(&mut broker, &[("work.a", "1"), ("work.b", "2")]).unwrap();
}

#[test]
fn a_batch_that_was_stored_before_needs_no_room() {
    let mut broker = with(bounded(spec("W", &["work.*"], Retention::WorkQueue), 2, 2));
    let key = broker.consume(consumer("W", "c", "work.a")).unwrap();
    append_all(&mut broker, &[("work.a", "1"), ("work.a", "2")]).unwrap();
    let again = append_all(&mut broker, &[("work.a", "1"), ("work.a", "2")]).unwrap();
    assert!(again.iter().all(|receipt| receipt.duplicate), "a batch can be sent again whole");
    assert_eq!(broker.ready(key), 2);
}

#[test]
fn a_batch_of_which_a_part_was_stored_before_stores_nothing() {
    let (mut broker, key) = queue();
    append(&mut broker, "work.a", "1").unwrap();
    for part in [[("work.a", "1"), ("work.a", "2")], [("work.a", "3"), ("work.a", "1")]] {
        assert_eq!(kind(append_all(&mut broker, &part)), ErrorKind::Conflict);
    }
    assert_eq!((stored(&mut broker, "W"), broker.ready(key)), (1, 1));
    append_all(&mut broker, &[("work.a", "2"), ("work.a", "3")]).unwrap();
}

#[test]
fn a_batch_of_gone_tasks_is_still_a_duplicate() {
    let (mut broker, key) = queue();
    append_all(&mut broker, &[("work.a", "1")]).unwrap();
    let (_, token, _) = claim(&mut broker, key, 0).unwrap();
    broker.settle(key, token, &Verdict::Ack, at(0)).unwrap();
    assert!(append_all(&mut broker, &[("work.a", "1")]).unwrap()[0].duplicate);
    let single = broker.append(frame("work.a", "1"), Expect::Any, at(0), |_| {}).unwrap();
    assert!(single.duplicate);
}
