//! The subjects of the board, and how they are read back.

use bus_core::{ErrorKind, OrderKey};
use bus_subjects::{ConsumerName, Filter, StreamName, Subject};

use super::*;

fn place(stream: &str, consumer: &str) -> BoardPlace {
    let stream = StreamName::parse(stream).unwrap();
    BoardPlace::new(&stream, &ConsumerName::parse(consumer).unwrap(), "m1")
}

#[test]
fn every_subject_of_the_board_says_what_it_is_about() {
    let place = place("VAK_WORK_w1", "coder");
    let key = OrderKey::parse("case/4711:*>.~").unwrap();
    for key in [None, Some(&key)] {
        assert_eq!(place.part(&place.state(key, 7)).unwrap(), BoardPart::State(7));
        let last = place.state(key, u64::MAX);
        assert_eq!(place.part(&last).unwrap(), BoardPart::State(u64::MAX));
    }
    let turn = BoardPart::Turn(&key_token(&key)) == place.part(&place.turn(&key)).unwrap();
    assert!(turn);
    assert_eq!(place.part(&place.pause()).unwrap(), BoardPart::Pause);
    assert_eq!(place.part(&place.fetch()).unwrap(), BoardPart::Fetch);
    assert_eq!(place.frame_of(&place.frame(7)), Some(("m1", 7)));
}

#[test]
fn a_subject_of_another_consumer_or_of_no_form_is_refused() {
    let place = place("S", "coder");
    for bad in [
        "vakq.S.coder2.m1._.7.state",
        "vakq.T.coder.m1._.7.state",
        "vakx.S.coder.m1._.7.state",
        "vakq.S.coder.m1._.seven.state",
        "vakq.S.coder.m1._.7.other",
        "vakq.S.coder.m1._.7.state.more",
        "vakq.S.coder.m1._",
        "vakq.S.coder.m1.",
        "vakq.S.coder.m2._.7.state",
        "vakqr.S.coder.m1._.7.state",
        "vakq.S.coder.frame.m1.7",
        "",
    ] {
        assert_eq!(place.part(bad).unwrap_err().kind(), ErrorKind::Corrupt, "{bad:?}");
    }
}

#[test]
fn what_is_followed_is_everything_but_the_frames() {
    let place = place("S", "coder");
    let key = OrderKey::parse("a").unwrap();
    let covers = |filter: String, subject: String| {
        Filter::parse(&filter).unwrap().matches(&Subject::parse(&subject).unwrap())
    };
    for record in [place.state(Some(&key), 1), place.turn(&key), place.pause(), place.fetch()] {
        assert!(covers(place.records(), record.clone()), "{record}");
        assert!(covers(place.all(), record.clone()), "{record}");
    }
    assert!(!covers(place.records(), place.frame(1)));
    assert!(covers(place.all(), place.frame(1)));
    let stream = StreamName::parse("S").unwrap();
    for seq in [None, Some(1)] {
        let states = BoardPlace::all_states(&stream, seq);
        assert!(covers(states.clone(), place.state(Some(&key), 1)), "{states}");
        assert!(!covers(states.clone(), place.turn(&key)), "{states}");
        assert!(!covers(states.clone(), place.frame(1)), "{states}");
    }
    assert_eq!(BoardPlace::owner(&place.state(None, 1)), Some(("S", "coder", "m1")));
}

#[test]
fn the_longest_names_leave_a_subject_within_the_limit() {
    let stream = "S".repeat(StreamName::BYTES_MAX);
    let place = place(&stream, &"c".repeat(ConsumerName::BYTES_MAX));
    let key = OrderKey::parse(&"k".repeat(OrderKey::BYTES_MAX)).unwrap();
    assert!(place.state(Some(&key), u64::MAX).len() < Subject::BYTES_MAX);
}
