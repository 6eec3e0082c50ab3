//! The form of a result, and what it refuses.

use super::*;

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
    }
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
