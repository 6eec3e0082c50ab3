//! Packed frames come back as they were; whatever else is read is refused.

use bus_core::ErrorKind;
use proptest::prelude::*;

use super::*;

fn subject() -> Subject {
    Subject::parse("vak.events.w1.s1.tokens").unwrap()
}

fn frame(form: WireForm, body: Vec<u8>) -> Frame {
    let mut frame = Frame::new(subject(), FrameId::parse("id-1").unwrap(), body);
    frame.headers = form.headers();
    frame
}

fn unpack(packed: &Bytes) -> Result<Vec<Frame>> {
    let mut frames = Vec::new();
    unpack_live(&subject(), None, packed, &mut frames).map(|()| frames)
}

proptest! {
    #[test]
    fn frames_of_one_message_come_back_as_they_were(
        bodies in proptest::collection::vec(
            (any::<bool>(), proptest::collection::vec(any::<u8>(), 0..900)), 1..20),
    ) {
        let form = |compact| if compact { WireForm::Compact } else { WireForm::Binary };
        let frames: Vec<_> =
            bodies.into_iter().map(|(compact, body)| frame(form(compact), body)).collect();
        let mut message = BytesMut::new();
        for frame in &frames {
            let before = message.len().max(HEAD.len());
            let packable = Packable::of(frame).unwrap();
            packable.put(&mut message);
            prop_assert_eq!(message.len() - before, packable.bytes());
        }
        prop_assert_eq!(unpack(&message.freeze()).unwrap(), frames);
    }

    #[test]
    fn bytes_of_a_stranger_are_read_or_refused(
        body in proptest::collection::vec(any::<u8>(), 0..64),
        is_marked in any::<bool>(),
    ) {
        let mut bytes = if is_marked { HEAD.to_vec() } else { Vec::new() };
        bytes.extend(body);
        match unpack(&bytes.into()) {
            Ok(read) => prop_assert!(read.iter().all(|frame| Packable::of(frame).is_some())),
            Err(error) => prop_assert_eq!(error.kind(), ErrorKind::Corrupt),
        }
    }
}

#[test]
fn a_message_that_is_cut_short_is_corrupt_and_none_of_its_frames_is_told() {
    let mut message = BytesMut::new();
    Packable::of(&frame(WireForm::Compact, vec![1])).unwrap().put(&mut message);
    let first = message.len();
    Packable::of(&frame(WireForm::Compact, vec![2])).unwrap().put(&mut message);
    let packed = message.freeze();
    for bytes in (0..packed.len()).filter(|bytes| *bytes != first) {
        let mut frames = vec![frame(WireForm::Binary, vec![0])];
        let error = unpack_live(&subject(), None, &packed.slice(..bytes), &mut frames).unwrap_err();
        assert_eq!((error.kind(), frames.len()), (ErrorKind::Corrupt, 1), "{bytes} bytes");
    }
}

#[test]
fn a_message_of_more_frames_than_any_sender_packs_is_corrupt() {
    let mut message = BytesMut::new();
    let packed = frame(WireForm::Binary, Vec::new());
    (0..FRAMES_MAX).for_each(|_| Packable::of(&packed).unwrap().put(&mut message));
    assert_eq!(unpack(&message.clone().freeze()).unwrap().len(), FRAMES_MAX);
    Packable::of(&packed).unwrap().put(&mut message);
    assert_eq!(unpack(&message.freeze()).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn what_others_may_keep_or_read_goes_with_headers() {
    let mut with_event = frame(WireForm::Compact, Vec::new());
    with_event.headers.add("ce-id", "1").unwrap();
    let task = Frame {
        subject: "vak.work.w1.coder.task".parse().unwrap(),
        ..frame(WireForm::Compact, vec![])
    };
    let text = frame(WireForm::Json, Vec::new());
    let large = frame(WireForm::Compact, vec![0; BODY_MAX + 1]);
    for long_way in [with_event, task, text, large] {
        assert!(Packable::of(&long_way).is_none(), "{long_way:?}");
    }
}
