//! Bounds, gaps and their places.

use super::*;

fn frame(subject: &str, body: &str) -> Frame {
    let id = FrameId::parse(body).unwrap();
    Frame::new(Subject::parse(subject).unwrap(), id, body.to_owned())
}

fn every(capacity: usize) -> Backlog {
    Backlog::new(Overflow::DropOldest { capacity: NonZeroUsize::new(capacity).unwrap() })
}

fn newest(subjects: usize) -> Backlog {
    Backlog::new(Overflow::Latest { subjects: NonZeroUsize::new(subjects).unwrap() })
}

fn push(backlog: &mut Backlog, subject: &str, bodies: &[&str]) {
    for body in bodies {
        backlog.push(frame(subject, body), &mut Vec::new());
    }
}

/// Everything that can be taken, gaps as `-n`.
fn taken(backlog: &mut Backlog) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        match backlog.take() {
            Taken::Nothing => return all,
            Taken::Gap(missed) => all.push(format!("-{missed}")),
            Taken::Run(run) => {
                all.extend(run.iter().map(|f| String::from_utf8_lossy(&f.body).into_owned()));
            }
        }
    }
}

#[test]
fn the_oldest_go_and_are_counted_where_they_were() {
    let mut backlog = every(2);
    push(&mut backlog, "a", &["1", "2", "3", "4", "5"]);
    assert_eq!(taken(&mut backlog), ["-3", "4", "5"]);
    push(&mut backlog, "a", &["6", "7"]);
    assert_eq!(taken(&mut backlog), ["6", "7"]);
}

#[test]
fn a_run_is_an_eighth_of_the_capacity() {
    let mut backlog = every(32);
    push(&mut backlog, "a", &["1", "2", "3", "4", "5"]);
    assert!(matches!(backlog.take(), Taken::Run(run) if run.len() == 4));
}

#[test]
fn a_break_is_told_at_its_place_and_not_before_it_is_over() {
    for mut backlog in [every(64), newest(64)] {
        for (subject, body) in [("a", "1"), ("b", "2")] {
            push(&mut backlog, subject, &[body]);
        }
        backlog.note_break();
        push(&mut backlog, "c", &["3"]);
        assert_eq!(taken(&mut backlog), ["1", "2"]);
        backlog.note_mended();
        assert_eq!(taken(&mut backlog), ["-1", "3"]);
    }
}

#[test]
fn a_break_that_is_over_is_told_though_another_one_is_not() {
    let mut backlog = every(64);
    backlog.note_break();
    backlog.note_mended();
    push(&mut backlog, "a", &["1"]);
    backlog.note_break();
    push(&mut backlog, "a", &["2"]);
    assert_eq!(taken(&mut backlog), ["-1", "1"]);
    backlog.note_mended();
    assert_eq!(taken(&mut backlog), ["-1", "2"]);
}

#[test]
fn a_break_among_dropped_messages_is_counted_with_them() {
    let mut backlog = every(1);
    push(&mut backlog, "a", &["1"]);
    backlog.note_break();
    backlog.note_mended();
    push(&mut backlog, "a", &["2", "3"]);
    assert_eq!(taken(&mut backlog), ["-3", "3"]);
}

#[test]
fn breaks_without_end_take_no_memory_without_end() {
    let mut backlog = newest(1);
    for _ in 0..1000 {
        push(&mut backlog, "a", &["1"]);
        backlog.note_break();
        backlog.note_mended();
    }
    assert!(backlog.breaks.len() <= BREAKS_MAX);
    let gaps: u64 = taken(&mut backlog)
        .iter()
        .filter_map(|item| item.strip_prefix('-').map(|missed| missed.parse::<u64>().unwrap()))
        .sum();
    assert_eq!(gaps, 1000);
}

#[test]
fn a_newer_one_of_a_subject_is_no_gap() {
    let mut backlog = newest(2);
    push(&mut backlog, "a", &["1", "2"]);
    push(&mut backlog, "b", &["3"]);
    push(&mut backlog, "a", &["4"]);
    assert_eq!(taken(&mut backlog), ["3", "4"]);
}

#[test]
fn one_subject_too_many_is_a_gap() {
    let mut backlog = newest(2);
    for (subject, body) in [("a", "1"), ("b", "2"), ("c", "3")] {
        push(&mut backlog, subject, &[body]);
    }
    assert_eq!(taken(&mut backlog), ["-1", "2", "3"]);
}

fn samples(list: &[(&str, &str)]) -> Vec<Frame> {
    list.iter().map(|(subject, id)| frame(subject, id)).collect()
}

#[test]
fn what_was_heard_wins_over_a_sample() {
    let mut backlog = newest(4);
    push(&mut backlog, "a", &["live"]);
    backlog.add_samples(samples(&[("a", "old"), ("b", "sample")]));
    assert_eq!(taken(&mut backlog), ["sample", "live"]);
}

#[test]
fn of_too_many_samples_the_newest_wait_and_that_is_no_gap() {
    let mut backlog = newest(2);
    backlog.add_samples(samples(&[("a", "1"), ("b", "2"), ("c", "3")]));
    assert_eq!(taken(&mut backlog), ["2", "3"]);
}

#[test]
fn a_sample_that_is_heard_afterwards_comes_once() {
    let mut backlog = newest(2);
    backlog.add_samples(samples(&[("a", "1")]));
    assert_eq!(taken(&mut backlog), ["1"]);
    push(&mut backlog, "a", &["1"]);
    assert_eq!(taken(&mut backlog), [""; 0]);
    push(&mut backlog, "a", &["1", "2"]);
    assert_eq!(taken(&mut backlog), ["2"]);
}

#[test]
fn a_body_that_waits_long_holds_on_to_nothing_else() {
    let chunk = Bytes::from(vec![7; 64 << 10]);
    let mut backlog = every(LOOSE_MAX * 2);
    for _ in 0..LOOSE_MAX * 2 {
        let body = chunk.slice(..8);
        backlog.push(Frame { body, ..frame("a", "x") }, &mut Vec::new());
    }
    let Waiting::Every { messages, .. } = &backlog.waiting else { panic!("another kind") };
    let is_within = |f: &&Frame| chunk.as_ptr_range().contains(&f.body.as_ptr());
    assert_eq!(messages.iter().filter(is_within).count(), LOOSE_MAX);
}

#[test]
fn a_body_right_behind_the_one_before_it_is_not_copied() {
    let chunk = Bytes::from(vec![7; 64 << 10]);
    let mut backlog = every(LOOSE_MAX * 2);
    for place in 0..LOOSE_MAX * 2 {
        let body = chunk.slice(place * 100..place * 100 + 60);
        backlog.push(Frame { body, ..frame("a", "x") }, &mut Vec::new());
    }
    let Waiting::Every { messages, .. } = &backlog.waiting else { panic!("another kind") };
    assert!(messages.iter().all(|f| chunk.as_ptr_range().contains(&f.body.as_ptr())));
}

#[test]
fn a_burst_that_is_over_takes_no_memory() {
    let mut backlog = every(10_000);
    push(&mut backlog, "a", &["x"; 10_000]);
    assert_eq!(taken(&mut backlog).len(), 10_000);
    let Waiting::Every { messages, .. } = &backlog.waiting else { panic!("another kind") };
    assert!(messages.capacity() <= IDLE_MAX);
}
