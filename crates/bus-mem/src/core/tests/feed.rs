//! What a subscription drops, says and counts.

use std::{num::NonZeroUsize, sync::Arc};

use bus_core::Overflow;

use super::{
    super::{FeedQueue, Popped},
    frame,
};

fn oldest(capacity: usize) -> FeedQueue {
    FeedQueue::new(Overflow::DropOldest { capacity: NonZeroUsize::new(capacity).unwrap() })
}

fn latest(subjects: usize) -> FeedQueue {
    FeedQueue::new(Overflow::Latest { subjects: NonZeroUsize::new(subjects).unwrap() })
}

fn push(queue: &mut FeedQueue, on: &str, id: &str) {
    queue.push(Arc::new(frame(on, id)));
}

fn drain(queue: &mut FeedQueue) -> Vec<String> {
    std::iter::from_fn(|| queue.pop())
        .map(|item| match item {
            Popped::Frame(frame) => frame.id.to_string(),
            Popped::Gap(missed) => format!("gap {missed}"),
        })
        .collect()
}

#[test]
fn the_oldest_frames_go_and_the_gap_stands_where_they_were() {
    let mut queue = oldest(2);
    for id in ["1", "2", "3", "4", "5"] {
        push(&mut queue, "a", id);
    }
    assert_eq!(drain(&mut queue), ["gap 3", "4", "5"]);
}

#[test]
fn frames_that_went_after_the_gap_was_told_are_a_gap_of_their_own() {
    let mut queue = oldest(2);
    for id in ["1", "2", "3"] {
        push(&mut queue, "a", id);
    }
    assert_eq!(queue.pop(), Some(Popped::Gap(1)));
    push(&mut queue, "a", "4");
    assert_eq!(drain(&mut queue), ["gap 1", "3", "4"]);
}

#[test]
fn only_the_newest_frame_of_a_subject_waits_and_that_is_no_gap() {
    let mut queue = latest(2);
    for (on, id) in [("a", "1"), ("b", "2"), ("a", "3"), ("a", "4")] {
        push(&mut queue, on, id);
    }
    assert_eq!(drain(&mut queue), ["2", "4"]);
    assert_eq!(queue.counts().superseded, 2);
}

#[test]
fn one_subject_too_many_drops_the_oldest_frame() {
    let mut queue = latest(2);
    for (on, id) in [("a", "1"), ("b", "2"), ("a", "3"), ("c", "4")] {
        push(&mut queue, on, id);
    }
    assert_eq!(drain(&mut queue), ["gap 1", "3", "4"]);
}

#[test]
fn an_asker_takes_the_first_answer_and_no_other() {
    let mut queue = FeedQueue::first_only();
    push(&mut queue, "a", "1");
    push(&mut queue, "a", "2");
    assert_eq!(drain(&mut queue), ["1"]);
    push(&mut queue, "a", "3");
    assert!(queue.is_empty());
    assert_eq!(queue.counts().dropped, 2);
}
