//! Lines without a server.

use std::num::NonZeroU64;

use bus_core::{FrameId, Retention};
use bus_subjects::{Filter, Subject};

use super::*;

fn spec() -> StreamSpec {
    let filters = vec![Filter::parse("work.>").unwrap()];
    StreamSpec::new(StreamName::parse("WORK").unwrap(), filters, Retention::Kept)
}

fn line() -> Arc<Line> {
    Lines::default().of(&spec())
}

fn frame(id: &str, bytes: usize) -> Frame {
    Frame::new(Subject::parse("work.a").unwrap(), FrameId::parse(id).unwrap(), vec![7; bytes])
}

/// A line in which the most go alone, and these wait.
fn waiting(frames: impl IntoIterator<Item = Frame>) -> (Arc<Line>, Vec<u64>) {
    wait_in(line(), frames)
}

fn wait_in(line: Arc<Line>, frames: impl IntoIterator<Item = Frame>) -> (Arc<Line>, Vec<u64>) {
    for n in 0..ALONE_MAX {
        let entered = line.enter(frame(&format!("alone-{n}"), 1));
        assert!(matches!(entered, Entered::Alone(_)), "{n}");
    }
    let enter = |frame| match line.enter(frame) {
        Entered::Alone(_) => panic!("one too many goes alone"),
        Entered::Waits(place, _) => place,
    };
    let places = frames.into_iter().map(enter).collect();
    (line, places)
}

fn groups(line: &Line) -> Vec<Vec<String>> {
    let ids = |group: Vec<Waiting>| group.iter().map(|one| one.frame.id.to_string()).collect();
    std::iter::from_fn(|| line.next_group()).map(ids).collect()
}

#[test]
fn a_line_that_nobody_waits_in_needs_no_service() {
    let (line, _) = waiting([]);
    for _ in 0..ALONE_MAX {
        assert!(!line.leave());
    }
    assert!(matches!(line.enter(frame("next", 1)), Entered::Alone(_)));
}

#[test]
fn the_first_who_leaves_sees_to_those_that_wait_and_no_other_does() {
    let (line, _) = waiting([frame("a", 1), frame("b", 1)]);
    assert!(line.leave());
    assert!(!line.leave());
    assert_eq!(groups(&line), [["a", "b"]]);
}

#[test]
fn nobody_goes_alone_past_those_that_are_served() {
    let (line, _) = waiting([frame("a", 1)]);
    assert!(line.leave());
    assert!(line.next_group().is_some());
    assert!(matches!(line.enter(frame("b", 1)), Entered::Waits(..)));
    assert_eq!(groups(&line), [["b"]]);
    assert!(matches!(line.enter(frame("c", 1)), Entered::Alone(_)));
}

#[test]
fn a_place_that_was_given_up_is_never_served() {
    let (line, places) = waiting(["a", "b", "c"].map(|id| frame(id, 1)));
    line.give_up(places[1]);
    line.give_up(places[1]);
    assert_eq!(groups(&line), [["a", "c"]]);
    line.give_up(places[0]);
}

#[test]
fn a_group_ends_before_the_second_copy_of_an_id() {
    let (line, _) = waiting(["a", "b", "a", "c", "a"].map(|id| frame(id, 1)));
    assert_eq!(groups(&line), [vec!["a", "b"], vec!["a", "c"], vec!["a"]]);
}

#[test]
fn a_bounded_subject_is_once_in_a_group() {
    let bound = NonZeroU64::new(2).unwrap();
    let lines = Lines::default();
    let line = lines.of(&StreamSpec { messages_per_subject_max: bound, ..spec() });
    assert!(!Arc::ptr_eq(&line, &lines.of(&spec())));
    let (line, _) = wait_in(line, ["a", "b"].map(|id| frame(id, 1)));
    assert_eq!(groups(&line), [["a"], ["b"]]);
}

#[test]
fn a_group_is_bounded_in_frames_and_bytes() {
    let (line, _) = waiting((0..2 * Frame::BATCH_MAX + 1).map(|n| frame(&n.to_string(), 1)));
    let sizes: Vec<_> = groups(&line).iter().map(Vec::len).collect();
    assert_eq!(sizes, [Frame::BATCH_MAX, Frame::BATCH_MAX, 1]);
    let (line, _) = waiting((0..50).map(|n| frame(&n.to_string(), LARGE_BYTES)));
    let sizes: Vec<_> = groups(&line).iter().map(Vec::len).collect();
    assert_eq!(sizes, [32, 18]);
}

#[test]
fn a_large_frame_goes_by_itself() {
    let large = LARGE_BYTES + 1;
    let frames = [("a", 1), ("b", large), ("c", large), ("d", 1)];
    let (line, _) = waiting(frames.map(|(id, bytes)| frame(id, bytes)));
    assert_eq!(groups(&line), [["a"], ["b"], ["c"], ["d"]]);
}

#[tokio::test]
async fn who_waits_in_a_line_that_was_abandoned_is_told() {
    let line = line();
    let mut answers = Vec::new();
    for n in 0..=ALONE_MAX {
        if let Entered::Waits(_, answer) = line.enter(frame(&n.to_string(), 1)) {
            answers.push(answer);
        }
    }
    assert!(line.leave());
    line.abandon();
    assert_eq!(answers.len(), 1);
    for answer in answers {
        assert!(answer.await.is_err());
    }
    assert!(!line.leave() && line.next_group().is_none());
}
