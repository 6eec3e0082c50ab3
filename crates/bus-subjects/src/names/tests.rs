//! The names of streams, consumers and buckets, and the laws of the derived ones.

use proptest::prelude::*;

use crate::{BucketKey, BucketName, ConsumerName, StreamName, SubjectError, Token, WorkspaceId};

#[test]
fn a_name_that_no_file_system_or_api_subject_bears_is_refused() {
    for text in ["a.b", "a b", "a*", ">", "a/b", "a\\b", "a\tb", "é", "a:b"] {
        assert!(StreamName::parse(text).is_err(), "stream {text:?}");
        assert!(ConsumerName::parse(text).is_err(), "consumer {text:?}");
        assert!(BucketName::parse(text).is_err(), "bucket {text:?}");
    }
}

#[test]
fn a_stream_name_has_at_most_255_bytes() {
    assert!(StreamName::parse(&"x".repeat(255)).is_ok());
    let too_long = SubjectError::TooLong { field: "stream", bytes: 256, bytes_max: 255 };
    assert_eq!(StreamName::parse(&"x".repeat(256)), Err(too_long));
}

#[test]
fn a_key_has_levels_that_are_not_empty() {
    let empty = Err(SubjectError::EmptyLevel { field: "bucket key" });
    for text in ["a..b", ".a", "a.", ".", ".."] {
        assert_eq!(BucketKey::parse(text), empty, "{text}");
    }
    assert!(BucketKey::parse("a/b.c=d").is_ok());
}

#[test]
fn the_longest_bucket_and_key_still_make_a_subject() {
    let bucket = BucketName::parse(&"b".repeat(BucketName::BYTES_MAX)).unwrap();
    let key = BucketKey::parse(&"k".repeat(BucketKey::BYTES_MAX)).unwrap();
    assert_eq!(bucket.key_subject(&key).as_str().len(), crate::Subject::BYTES_MAX);
}

#[test]
fn a_key_of_one_level_lies_in_the_flat_keys_and_every_key_in_all_keys() {
    let bucket = BucketName::parse("B").unwrap();
    let subject = |key: &str| bucket.key_subject(&BucketKey::parse(key).unwrap());
    assert!(bucket.flat_keys().matches(&subject("a")));
    assert!(!bucket.flat_keys().matches(&subject("a.b")));
    assert!(bucket.all_keys().matches(&subject("a.b")));
}

#[test]
fn the_bucket_of_claim_marks_is_named_after_the_workspace() {
    let of = |text: &str| BucketName::claims(&WorkspaceId::parse(text).unwrap());
    assert_eq!(of("w1").as_str(), "VAK_CLAIMS_w1");
    assert_eq!(of("w~1-x").as_str(), "VAK_CLAIMS-w-t1--x");
}

proptest! {
    #[test]
    fn two_workspaces_never_share_a_bucket(a in "[at_~-]{1,5}", b in "[at_~-]{1,5}") {
        let of = |text: &str| {
            let workspace = WorkspaceId::parse(text).unwrap();
            BucketName::of_workspace("VAK_CLAIMS", &workspace).unwrap()
        };
        prop_assert_eq!(of(&a) == of(&b), a == b);
    }

    #[test]
    fn the_bucket_of_any_workspace_is_a_good_name(text in "[A-Za-z0-9_~-]{1,64}") {
        let bucket = BucketName::claims(&WorkspaceId::parse(&text).unwrap());
        prop_assert!(BucketName::parse(bucket.as_str()).is_ok());
    }

    #[test]
    fn two_tokens_never_share_a_key(a in "[a_~-]{1,5}", b in "[a_~-]{1,5}") {
        let of = |text: &str| BucketKey::from_token(&Token::parse("key", text).unwrap());
        prop_assert_eq!(of(&a) == of(&b), a == b);
        prop_assert!(BucketKey::parse(of(&a).as_str()).is_ok());
    }
}
