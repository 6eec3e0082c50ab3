//! The log and its index free what they no longer hold, whatever the order.

use std::sync::Arc;

use super::{
    super::{index::SubjectIndex, log::Log},
    at, frame, subject,
};

fn filled(count: u64) -> Log {
    let mut log = Log::default();
    for n in 1..=count {
        push(&mut log, n);
    }
    log
}

fn push(log: &mut Log, n: u64) {
    let place = SubjectIndex::default().push(&subject("a"), n);
    assert_eq!(log.push(Arc::new(frame("a", &n.to_string())), at(n), place), n);
}

fn seqs(log: &Log, from: u64) -> Vec<u64> {
    log.iter_from(from).map(|(seq, _)| seq).collect()
}

#[test]
fn reading_starts_at_the_position_asked_for() {
    let log = filled(600);
    for from in [0, 1, 255, 256, 257, 600] {
        assert_eq!(seqs(&log, from), (from.max(1)..=600).collect::<Vec<_>>());
    }
    assert!(seqs(&log, 601).is_empty());
}

#[test]
fn holes_are_passed_over() {
    let mut log = filled(600);
    for seq in 2..600 {
        assert_eq!(log.remove(seq).unwrap().time, at(seq));
    }
    assert_eq!(seqs(&log, 0), [1, 600]);
    assert_eq!(seqs(&log, 2), [600]);
    assert_eq!(log.first().unwrap().time, at(1));
    assert_eq!((log.len(), log.last()), (2, 600));
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
    let mut log = filled(256);
    (1..=256).for_each(|seq| drop(log.remove(seq)));
    assert!(log.first().is_none());
    push(&mut log, 257);
    assert_eq!(seqs(&log, 0), [257]);
}

#[test]
fn the_index_forgets_what_went_from_between_two_that_stay() {
    let (mut index, a) = (SubjectIndex::default(), subject("a"));
    index.push(&a, 1);
    index.push(&a, 2);
    for seq in 2..10_000 {
        let place = index.push(&a, seq + 1);
        index.remove((&a, place), seq, |stored| stored == 1 || stored == seq + 1);
    }
    assert_eq!((index.count(&a), index.last(&a)), (2, 10_000));
    assert!(format!("{index:?}").len() < 4_096, "the index stays small");
}

#[test]
fn one_message_that_stays_holds_its_chunk_and_no_more() {
    let mut log = filled(100_000);
    (2..=100_000).for_each(|seq| drop(log.remove(seq)));
    assert!(format!("{log:?}").len() < 16_384, "the log stays small");
}

#[test]
fn many_subjects_without_messages_take_no_room() {
    let mut index = SubjectIndex::default();
    let subjects: Vec<_> = (1..=10_000).map(|n| subject(&format!("a.{n}"))).collect();
    let places: Vec<_> = subjects.iter().zip(1..).map(|(a, n)| index.push(a, n)).collect();
    for ((subject, place), seq) in subjects.iter().zip(places).zip(1..) {
        index.remove((subject, place), seq, |_| false);
    }
    assert!(format!("{index:?}").len() < 16_384, "the index stays small");
}
