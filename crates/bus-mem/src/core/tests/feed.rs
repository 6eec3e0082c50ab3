//! What a subscription drops, says and counts.

use std::{num::NonZeroUsize, sync::Arc};

use super::{
    super::{FeedQueue, FeedSamples, Popped},
    at, frame,
};

mod laws;
mod log;

fn latest(subjects: usize) -> FeedQueue {
    FeedQueue::latest(NonZeroUsize::new(subjects).unwrap())
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

#[test]
fn a_queue_gives_back_what_had_to_go() {
    let mut queue = latest(1);
    assert_eq!(queue.push(Arc::new(frame("a", "1"))), None);
    assert_eq!(queue.push(Arc::new(frame("a", "2"))).unwrap().id.as_str(), "1");
    assert_eq!(queue.push(Arc::new(frame("b", "3"))).unwrap().id.as_str(), "2");
    let left = queue.take_all();
    assert_eq!((left.len(), queue.len()), (1, 0));
}

fn keep(samples: &mut FeedSamples, on: &str, id: &str, at_ms: u64) -> Vec<String> {
    let mut gone = Vec::new();
    samples.keep(Arc::new(frame(on, id)), at(at_ms), &mut gone);
    gone.iter().map(|frame| frame.id.to_string()).collect()
}

fn shown(samples: &FeedSamples, filter: &str, count_max: usize, at_ms: u64) -> Vec<String> {
    let filter = bus_subjects::Filter::parse(filter).unwrap();
    let found = samples.matching(&filter, count_max, at(at_ms));
    found.iter().map(|frame| frame.id.to_string()).collect()
}

#[test]
fn a_sample_replaces_the_older_one_of_its_subject() {
    let mut samples = FeedSamples::default();
    assert!(keep(&mut samples, "t.a", "1", 0).is_empty());
    keep(&mut samples, "t.b", "2", 1);
    assert_eq!(keep(&mut samples, "t.a", "3", 2), ["1"]);
    assert_eq!(shown(&samples, "t.*", 9, 3), ["2", "3"]);
    assert_eq!(shown(&samples, "t.a", 9, 3), ["3"]);
    assert_eq!(shown(&samples, "t.c", 9, 3), Vec::<String>::new());
}

#[test]
fn of_too_many_samples_the_newest_are_shown() {
    let mut samples = FeedSamples::default();
    for id in ["1", "2", "3"] {
        keep(&mut samples, &format!("t.{id}"), id, 0);
    }
    assert_eq!(shown(&samples, "t.>", 2, 0), ["2", "3"]);
}

#[test]
fn a_sample_is_shown_for_ten_seconds_and_then_forgotten() {
    let mut samples = FeedSamples::default();
    keep(&mut samples, "t.a", "1", 0);
    assert_eq!(shown(&samples, "t.a", 1, 10_000), ["1"]);
    assert!(shown(&samples, "t.a", 1, 10_001).is_empty());
    assert_eq!(keep(&mut samples, "t.b", "2", 10_001), ["1"]);
    assert_eq!(samples.len(), 1);
}

#[test]
fn samples_of_too_many_subjects_push_the_oldest_out() {
    let mut samples = FeedSamples::default();
    for n in 0..=FeedSamples::SUBJECTS_MAX {
        keep(&mut samples, &format!("t.{n}"), &n.to_string(), 0);
    }
    assert_eq!(samples.len(), FeedSamples::SUBJECTS_MAX);
    assert!(shown(&samples, "t.0", 1, 0).is_empty());
    assert_eq!(shown(&samples, "t.1", 1, 0), ["1"]);
}

#[test]
fn samples_of_too_many_bytes_push_the_oldest_out() {
    let mut samples = FeedSamples::default();
    let mut gone = Vec::new();
    for n in 0..=FeedSamples::BYTES_MAX >> 20 {
        let mut large = frame(&format!("t.{n}"), &n.to_string());
        large.body = vec![0; 1 << 20].into();
        samples.keep(Arc::new(large), at(0), &mut gone);
    }
    assert_eq!(gone.iter().map(|frame| frame.id.as_str()).collect::<Vec<_>>(), ["0"]);
}
