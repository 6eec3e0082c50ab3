//! Frames come back as they went in, and what is no frame is refused.

use proptest::prelude::*;

use super::*;

fn frame(headers: &[(String, String)], placement: Placement) -> Frame {
    let subject = Subject::parse("vak.work.w1.coder.task").unwrap();
    let mut frame = Frame::new(subject, FrameId::parse("id-1").unwrap(), "body");
    for (name, value) in headers {
        frame.headers.add(name, value).unwrap();
    }
    frame.placed(placement)
}

#[test]
fn a_message_that_was_read_from_a_stream_is_not_live() {
    let (map, _) = encode_live(&frame(&[], Placement::default())).unwrap();
    for (name, value) in [(STORED_IN, "VAK_RECEIPTS"), (STORED_UNDER, "vak.receipts.w1.s1.x")] {
        let mut read = map.clone();
        set(&mut read, name, value).unwrap();
        assert!(is_live(&map) && !is_live(&read), "{name}");
    }
}

fn live_subject() -> Subject {
    Subject::parse("vak.events.w1.s1.tokens").unwrap()
}

fn placements() -> impl Strategy<Value = Placement> {
    let key = proptest::option::of("[!-~]{1,128}");
    let time = proptest::option::of(0_i64..i64::MAX);
    (0_u8..=9, key, time).prop_map(|(level, key, time)| Placement {
        priority: Priority::new(level).unwrap(),
        key: key.map(|key| OrderKey::parse(&key).unwrap()),
        not_before: time.map(|ns| Timestamp::from_unix_ns(i128::from(ns))),
    })
}

fn headers() -> impl Strategy<Value = Vec<(String, String)>> {
    let names = prop_oneof![
        "[A-Za-z0-9-]{1,12}",
        "(ce|Ce)-(id|type|source)",
        "(nats|Nats|vak|KV)-[a-z]{1,6}",
        Just("vak-order".to_owned()),
        Just("Nats-Msg-Id".to_owned()),
    ];
    let values = prop_oneof!["[ -~]{0,20}", "[^\\r\\n\\x00]{0,8}", Just(" padded ".to_owned())];
    proptest::collection::vec((names, values), 0..6)
}

proptest! {
    #[test]
    fn a_stored_frame_comes_back_as_it_was(headers in headers(), placement in placements()) {
        let mut frame = frame(&headers, placement);
        frame.reply = Some(Subject::parse("vak.agent.w1.a1.inbox").unwrap());
        let (subject, map, body) = encode_stored(&frame).unwrap();
        prop_assert!(!is_live(&map));
        prop_assert_eq!(decode_stored(&subject, &map, body).unwrap(), frame);
    }

    #[test]
    fn a_frame_on_the_board_comes_back_as_it_was(headers in headers(), placement in placements()) {
        let mut frame = frame(&headers, placement);
        frame.reply = Some(Subject::parse("vak.agent.w1.a1.inbox").unwrap());
        let (map, body) = encode_held(&frame).unwrap();
        // Otherwise the board would take the second time it comes there for a repeat.
        prop_assert_eq!(get(&map, MESSAGE_ID), None);
        prop_assert_eq!(decode_held(&map, body).unwrap(), frame);
    }

    #[test]
    fn a_live_frame_comes_back_as_it_was(headers in headers()) {
        let frame = frame(&headers, Placement::default());
        let (map, body) = encode_live(&frame).unwrap();
        prop_assert!(is_live(&map));
        prop_assert_eq!(decode_live(frame.subject.clone(), None, &map, body).unwrap(), frame);
    }

    #[test]
    fn no_value_has_a_line_break_or_a_blank_at_its_ends(headers in headers()) {
        let (_, map, _) = encode_stored(&frame(&headers, Placement::default())).unwrap();
        for value in map.iter().flat_map(|(_, values)| values) {
            prop_assert_eq!(value.as_str().trim(), value.as_str());
            prop_assert!(!value.as_str().contains(['\r', '\n', '\0']));
        }
    }
}

#[test]
fn a_placed_message_is_kept_under_its_level_and_key() {
    let key = Some(OrderKey::parse("case/4711:*>.~").unwrap());
    let placement = Placement { priority: Priority::HIGHEST, key, not_before: None };
    let frame = frame(&[], placement);
    let (subject, ..) = encode_stored(&frame).unwrap();
    let key = "dcdc4bcef7a9cc6c6a0b1e1e7c4b3f3b";
    assert_eq!(subject.len(), "vakp.9...vak.work.w1.coder.task".len() - 1 + key.len());
    assert!(subject.starts_with("vakp.9.") && subject.ends_with(".vak.work.w1.coder.task"));
}

#[test]
fn a_message_under_another_key_than_it_names_is_corrupt() {
    let of_key = |text| {
        let key = Some(OrderKey::parse(text).unwrap());
        frame(&[], Placement { key, ..Placement::default() })
    };
    let (named, another) = (of_key("a"), of_key("b"));
    let (_, map, body) = encode_stored(&named).unwrap();
    let (other, ..) = encode_stored(&another).unwrap();
    let refused = decode_stored(&other, &map, body).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt);
}

#[test]
fn a_message_without_an_id_is_corrupt() {
    let map = HeaderMap::new();
    let live = decode_live(live_subject(), None, &map, Bytes::new()).unwrap_err();
    let stored = decode_stored("vak.work.w1.coder.task", &map, Bytes::new()).unwrap_err();
    assert_eq!((live.kind(), stored.kind()), (ErrorKind::Corrupt, ErrorKind::Corrupt));
}

#[test]
fn a_strangers_cloud_event_has_its_own_id() {
    let mut map = HeaderMap::new();
    set(&mut map, "ce-id", "event-7").unwrap();
    let frame = decode_live(live_subject(), None, &map, Bytes::new()).unwrap();
    assert_eq!(frame.id.as_str(), "event-7");
}

#[test]
fn a_list_that_leaves_out_a_header_is_corrupt() {
    let mut map = HeaderMap::new();
    for (name, value) in [("vak-id", "1"), ("b", "1"), ("vak-order", "b"), ("a", "2")] {
        set(&mut map, name, value).unwrap();
    }
    let refused = decode_live(live_subject(), None, &map, Bytes::new()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt);
}
