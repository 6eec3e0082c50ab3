//! What goes as one message, and in which order.

use bus_core::{Frame, FrameId};

use super::*;

fn put(waiting: &mut Waiting, subject: &str, body_bytes: usize) {
    let id = FrameId::parse("id").unwrap();
    let subject = Subject::parse(subject).unwrap();
    let frame = Frame::new(subject, id, vec![7; body_bytes]);
    waiting.put(&frame.subject, &Packable::of(&frame).unwrap(), MESSAGE_BYTES_MAX);
}

/// The subjects of what waits and how many bytes each message has.
fn carried(waiting: &mut Waiting) -> Vec<(String, usize)> {
    let mut all = Vec::new();
    while let Some((subject, body)) = waiting.first() {
        let others = waiting.bytes - body.len();
        waiting.remove_first();
        assert_eq!(waiting.bytes, others);
        all.push((subject.to_string(), body.len()));
    }
    all
}

const A: &str = "vak.events.w.a.tokens";
const B: &str = "vak.events.w.b.tokens";
const HEAD_BYTES: usize = 2;
const FRAME_BYTES: usize = 6 + 2;

#[test]
fn frames_of_one_subject_go_together_and_another_subject_ends_the_message() {
    let mut waiting = Waiting::new();
    for subject in [A, A, B, A] {
        put(&mut waiting, subject, 10);
    }
    let one = HEAD_BYTES + FRAME_BYTES + 10;
    let two = one + FRAME_BYTES + 10;
    let expected = [(A, two), (B, one), (A, one)].map(|(subject, bytes)| (subject.into(), bytes));
    assert_eq!(carried(&mut waiting), expected);
}

#[test]
fn a_message_holds_no_more_than_its_bounds() {
    let mut waiting = Waiting::new();
    for _ in 0..=FRAMES_MAX {
        put(&mut waiting, A, 0);
    }
    assert_eq!(carried(&mut waiting).len(), 2);
    for _ in 0..3 {
        put(&mut waiting, A, MESSAGE_BYTES_MAX / 2);
    }
    let messages = carried(&mut waiting);
    assert_eq!(messages.len(), 3);
    assert!(messages.iter().all(|(_, bytes)| *bytes <= MESSAGE_BYTES_MAX));
}

#[test]
fn nothing_waits_once_all_is_carried() {
    let mut waiting = Waiting::new();
    for count in 1..5 {
        (0..count).for_each(|at| put(&mut waiting, if at % 2 == 0 { A } else { B }, 100));
        assert_eq!(waiting.bytes, count * (HEAD_BYTES + FRAME_BYTES + 100));
        carried(&mut waiting);
        assert!(waiting.is_empty());
        assert_eq!((waiting.bytes, waiting.last_number()), (0, waiting.gone));
    }
}
