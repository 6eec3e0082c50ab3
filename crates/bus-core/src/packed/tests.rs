//! The packed form keeps every frame, has one form for each, and refuses everything else.

use proptest::prelude::*;

use super::*;

fn packed(frame: &Frame) -> Bytes {
    let mut out = Vec::new();
    pack_frame(frame, &mut out);
    out.into()
}

fn any_placement() -> impl Strategy<Value = Placement> {
    let time = proptest::option::of(any::<i64>().prop_map(|ns| Timestamp::from_unix_ns(ns.into())));
    let key = proptest::option::of("[!-~]{1,128}");
    (time, 0..=9_u8, key).prop_map(|(not_before, level, key)| Placement {
        not_before,
        priority: Priority::new(level).unwrap(),
        key: key.map(|text| OrderKey::parse(&text).unwrap()),
    })
}

fn any_frame() -> impl Strategy<Value = Frame> {
    let texts = ("[a-z]{1,9}(\\.[a-zA-Z0-9_~-]{1,9}){0,4}", "[!-~]{1,256}");
    let reply = proptest::option::of("[a-z]{1,9}\\.[a-z]{1,9}");
    let headers = prop::collection::vec(("[A-Za-z0-9-]{1,64}", "[^\r\n\0]{0,40}"), 0..6);
    let body = prop::collection::vec(any::<u8>(), 0..300);
    (texts, reply, headers, body, proptest::option::of(any_placement())).prop_map(
        |((subject, id), reply, list, body, placement)| {
            let id = FrameId::parse(&id).unwrap();
            let mut frame = Frame::new(Subject::parse(&subject).unwrap(), id, body);
            frame.reply = reply.map(|text| Subject::parse(&text).unwrap());
            for (name, value) in list {
                frame.headers.add(name, value).unwrap();
            }
            frame.placed(placement.unwrap_or_default())
        },
    )
}

fn plain() -> Frame {
    Frame::new(Subject::parse("a.b").unwrap(), FrameId::parse("i").unwrap(), "body")
}

proptest! {
    #[test]
    fn every_frame_comes_back(frame in any_frame()) {
        let packed = packed(&frame);
        prop_assert!(packed.len() <= packed_bytes_max(&frame));
        prop_assert_eq!(unpack_frame(&packed).unwrap(), frame);
    }

    #[test]
    fn what_is_cut_short_or_goes_on_is_refused(
        frame in any_frame(),
        at in any::<prop::sample::Index>(),
    ) {
        let packed = packed(&frame);
        let cut = packed.slice(..at.index(packed.len()));
        prop_assert_eq!(unpack_frame(&cut).unwrap_err().kind(), ErrorKind::Corrupt);
        let mut longer = packed.to_vec();
        longer.push(0);
        prop_assert_eq!(unpack_frame(&longer.into()).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn whatever_is_accepted_has_no_other_form(
        frame in any_frame(),
        at in any::<prop::sample::Index>(),
        to in any::<u8>(),
    ) {
        let mut bytes = packed(&frame).to_vec();
        let at = at.index(bytes.len());
        bytes[at] = to;
        let bytes = Bytes::from(bytes);
        if let Ok(read) = unpack_frame(&bytes) {
            prop_assert_eq!(packed(&read), bytes);
        }
    }
}

#[test]
fn the_body_is_a_part_of_the_packed_bytes() {
    let packed = packed(&plain());
    let frame = unpack_frame(&packed).unwrap();
    assert_eq!(frame.body.as_ptr(), packed[packed.len() - 4..].as_ptr());
}

#[test]
fn a_frame_over_the_limit_does_not_come_back() {
    let largest = Frame { body: vec![0; Frame::BYTES_MAX].into(), ..plain() };
    assert!(unpack_frame(&packed(&largest)).is_ok());
    let larger = Frame { body: vec![0; Frame::BYTES_MAX + 1].into(), ..plain() };
    assert_eq!(unpack_frame(&packed(&larger)).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_placement_that_says_nothing_is_left_out() {
    let frame = Frame { placement: Some(Box::default()), ..plain() };
    assert_eq!(packed(&frame), packed(&plain()));
}

#[test]
fn the_form_of_a_frame_does_not_change() {
    let placement = Placement { priority: Priority::HIGHEST, ..Placement::default() };
    let mut frame = plain().placed(placement);
    frame.headers.add("k", "v").unwrap();
    let expected: &[u8] =
        b"\x01\x02\x03\0a.b\x01\0i\0\x09\x01\0\0\0\x02\0\0\0\x01\x01\0kv\x04\0\0\0body";
    assert_eq!(packed(&frame), expected);
}
