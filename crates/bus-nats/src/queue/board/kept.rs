//! The frame of an entry, kept beside its state so that whoever claims it needs no second stream.

use bus_core::{
    Frame, Result,
    packed::{Unpacker, pack_frame, pack_time, unpack_frame},
};
use bus_envelope::Timestamp;
use bytes::Bytes;

/// A frame and the time it was stored, as the board keeps them.
pub(crate) fn pack_kept(stored: Timestamp, frame: &Frame) -> Vec<u8> {
    let mut kept = Vec::new();
    pack_time(stored, &mut kept);
    pack_frame(frame, &mut kept);
    kept
}

/// Reads what [`pack_kept`] wrote; the body is a part of it, not a copy.
///
/// # Errors
/// `Corrupt` when it is none.
pub(crate) fn unpack_kept(kept: &Bytes) -> Result<(Timestamp, Frame)> {
    let mut reader = Unpacker::new(kept);
    let stored = reader.time()?;
    // What the reader took is a part of what is there.
    Ok((stored, unpack_frame(&kept.slice(kept.len() - reader.left()..))?))
}

#[cfg(test)]
mod tests {
    use bus_core::{ErrorKind, FrameId, OrderKey, Placement, Priority};
    use bus_subjects::Subject;

    use super::*;

    fn sample() -> (Timestamp, Frame) {
        let subject = Subject::parse("vak.v1.w1.work.coder").unwrap();
        let placement = Placement {
            not_before: Some(Timestamp::from_unix_ns(9)),
            priority: Priority::HIGHEST,
            key: Some(OrderKey::parse("case/7").unwrap()),
        };
        let frame = Frame::new(subject, FrameId::parse("t1").unwrap(), Bytes::from_static(b"do"));
        (Timestamp::from_unix_ns(1_780_000_000_000_000_007), frame.placed(placement))
    }

    #[test]
    fn a_frame_comes_back_from_the_board_with_its_time_and_placement() {
        let (stored, frame) = sample();
        let kept = pack_kept(stored, &frame).into();
        assert_eq!(unpack_kept(&kept).unwrap(), (stored, frame));
    }

    #[test]
    fn a_kept_frame_that_is_cut_short_anywhere_is_corrupt() {
        let (stored, frame) = sample();
        let kept = Bytes::from(pack_kept(stored, &frame));
        for bytes in 0..kept.len() {
            let error = unpack_kept(&kept.slice(..bytes)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{bytes} bytes");
        }
    }
}
