//! The form of a result, and what it refuses.

use super::*;

mod vectors;

fn result(output: ResultOutput) -> TaskResult {
    TaskResult {
        task_id: "t-1".to_owned(),
        task: EventHash::of(b"task"),
        attempt: 2,
        worker: AgentId::parse("w1").unwrap(),
        session: SessionId::parse("s1").unwrap(),
        receipt: Some(Seq(7)),
        stderr_hash: EventHash::of(b""),
        output,
        left_out: None,
    }
}

/// A result of `output` that says so much is left out at `at`.
fn cut(output: ResultOutput, at: u64, bytes: u64) -> TaskResult {
    let stdout_hash = EventHash::of(b"all of it");
    TaskResult { left_out: Some(LeftOut { at, bytes, stdout_hash }), ..result(output) }
}

#[test]
fn a_result_survives_its_bytes_whatever_its_output() {
    let key = BucketKey::parse("a/b").unwrap();
    for output in [
        ResultOutput::Inline(Bytes::from_static(b"\xff\x00out")),
        ResultOutput::Inline(Bytes::new()),
        ResultOutput::Blob { key, bytes: 1 << 40 },
        ResultOutput::NotKept { reason: "full".to_owned() },
    ] {
        let result = result(output);
        assert_eq!(wire::decode(&wire::encode(&result).unwrap()).unwrap(), result);
    }
}

#[test]
fn what_is_left_out_survives_its_bytes() {
    let key = BucketKey::parse("a/b").unwrap();
    let inline = || ResultOutput::Inline(Bytes::from_static(b"headtail"));
    for result in [
        cut(inline(), 0, 1),
        cut(inline(), 4, 1 << 40),
        cut(inline(), 8, 3),
        cut(ResultOutput::Blob { key, bytes: 1 << 20 }, 1 << 19, 5),
    ] {
        assert_eq!(wire::decode(&wire::encode(&result).unwrap()).unwrap(), result);
    }
}

#[test]
fn a_result_of_a_whole_output_has_no_member_that_readers_from_before_do_not_know() {
    let bytes = wire::encode(&result(ResultOutput::Inline(Bytes::new()))).unwrap();
    assert!(!String::from_utf8_lossy(&bytes).contains("left_out"));
}

#[test]
fn a_part_that_is_left_out_of_nowhere_is_refused() {
    let inline = || ResultOutput::Inline(Bytes::from_static(b"headtail"));
    let not_kept = ResultOutput::NotKept { reason: "full".to_owned() };
    for result in [cut(inline(), 9, 1), cut(inline(), 4, 0), cut(not_kept, 0, 1)] {
        let error = wire::decode(&wire::encode(&result).unwrap()).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Corrupt, "{result:?}");
    }
}

#[test]
fn an_output_that_is_too_large_to_stand_inline_is_refused() {
    let large = ResultOutput::Inline(vec![0; Results::INLINE_BYTES_MAX + 1].into());
    let error = wire::encode(&result(large)).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::TooLarge);
}

#[test]
fn a_result_that_is_cut_off_is_refused() {
    let key = BucketKey::parse("a/b").unwrap();
    let bytes = wire::encode(&result(ResultOutput::Blob { key, bytes: 1 })).unwrap();
    for end in 0..bytes.len() {
        assert!(wire::decode(&bytes[..end]).is_err(), "{end}");
    }
    assert!(wire::decode(&[&bytes[..], b"x"].concat()).is_err());
}

#[test]
fn equal_ids_have_one_place_and_different_ones_two() {
    assert_eq!(key_of("t-1").unwrap(), key_of("t-1").unwrap());
    assert_ne!(key_of("t-1").unwrap(), key_of("t-2").unwrap());
    assert!(key_of(&"\u{e9} *>.".repeat(30)).is_ok());
}
