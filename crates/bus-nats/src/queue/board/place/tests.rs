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
    assert_eq!(place.part(&place.turn(&key)).unwrap(), BoardPart::Turn);
    assert_eq!(place.part(&place.pause()).unwrap(), BoardPart::Pause);
    let heard = place.state(None, 7).replacen("vakq.", "vakqr.", 1);
    assert_eq!(place.part(&heard).unwrap(), BoardPart::State(7));
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
        "",
    ] {
        assert_eq!(place.part(bad).unwrap_err().kind(), ErrorKind::Corrupt, "{bad:?}");
    }
}

#[test]
fn the_states_of_a_key_are_found_by_one_filter_and_no_others_are() {
    let place = place("S", "coder");
    let (key, other) = (OrderKey::parse("a").unwrap(), OrderKey::parse("b").unwrap());
    let covers = |filter: String, subject: String| {
        Filter::parse(&filter).unwrap().matches(&Subject::parse(&subject).unwrap())
    };
    assert!(covers(place.states_of(&key), place.state(Some(&key), 1)));
    assert!(!covers(place.states_of(&key), place.state(Some(&other), 1)));
    assert!(!covers(place.states_of(&key), place.turn(&key)));
    assert!(covers(place.states(), place.state(None, 1)));
    assert!(!covers(place.states(), place.turn(&key)));
    assert!(!covers(place.states(), place.pause()));
    let (stream, name) = (StreamName::parse("S").unwrap(), ConsumerName::parse("coder").unwrap());
    assert!(covers(BoardPlace::all_of(&stream, &name), place.turn(&key)));
    for seq in [None, Some(1)] {
        let states = BoardPlace::all_states(&stream, seq);
        assert!(covers(states.clone(), place.state(Some(&key), 1)), "{states}");
        assert!(!covers(states.clone(), place.turn(&key)), "{states}");
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
