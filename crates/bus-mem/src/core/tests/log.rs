//! The log and its index free what they no longer hold, whatever the order.

use std::sync::Arc;

use bus_core::{Seq, Stored};

use super::{
    super::{index::SubjectIndex, log::Log},
    at, frame, subject,
};

fn filled(count: u64) -> Log {
    let mut log = Log::default();
    for n in 1..=count {
        let stored = Stored { frame: frame("a", &n.to_string()), seq: Seq(n), time: at(n) };
        log.push(Arc::new(stored));
    }
    log
}

fn seqs(log: &Log, from: u64) -> Vec<u64> {
    log.iter_from(from).map(|stored| stored.seq.0).collect()
}

#[test]
fn reading_starts_at_the_position_asked_for() {
    let log = filled(200);
    assert_eq!(seqs(&log, 0), (1..=200).collect::<Vec<_>>());
    assert_eq!(seqs(&log, 1), (1..=200).collect::<Vec<_>>());
    assert_eq!(seqs(&log, 64), (64..=200).collect::<Vec<_>>());
    assert_eq!(seqs(&log, 65), (65..=200).collect::<Vec<_>>());
    assert!(seqs(&log, 201).is_empty());
}

#[test]
fn holes_are_passed_over() {
    let mut log = filled(130);
    for seq in 2..130 {
        assert_eq!(log.remove(seq).unwrap().seq, Seq(seq));
    }
    assert_eq!(seqs(&log, 0), [1, 130]);
    assert_eq!(seqs(&log, 2), [130]);
    assert_eq!(log.first().unwrap().seq, Seq(1));
    assert_eq!((log.len(), log.last()), (2, 130));
}

#[test]
fn a_removed_message_is_not_there_a_second_time() {
    let mut log = filled(3);
    assert!(log.remove(2).is_some());
    assert!(log.remove(2).is_none());
    assert!(log.remove(0).is_none());
    assert!(log.remove(4).is_none());
    assert_eq!(log.len(), 2);
}

#[test]
fn an_emptied_log_goes_on_where_it_was() {
    let mut log = filled(64);
    (1..=64).for_each(|seq| drop(log.remove(seq)));
    assert!(log.first().is_none());
    log.push(Arc::new(Stored { frame: frame("a", "65"), seq: Seq(65), time: at(65) }));
    assert_eq!(seqs(&log, 0), [65]);
}

#[test]
fn the_index_forgets_what_went_from_between_two_that_stay() {
    let (mut index, a) = (SubjectIndex::default(), subject("a"));
    index.push(&a, 1);
    index.push(&a, 2);
    for seq in 2..10_000 {
        index.push(&a, seq + 1);
        index.remove(&a, |stored| stored == 1 || stored == seq + 1);
    }
    assert_eq!((index.count(&a), index.last(&a)), (2, 10_000));
    assert!(format!("{index:?}").len() < 4_096, "the index stays small");
}
