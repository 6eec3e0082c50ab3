//! What a refusal of the server means here.

use super::*;

#[test]
fn a_lost_compare_and_set_is_a_conflict_whichever_code_says_so() {
    for err_code in [10_071, 10_164] {
        let refusal = Refusal { code: 400, err_code, description: "wrong last".to_owned() };
        let failure = ApiFailure::Refused(refusal);
        assert!(failure.is_stale(), "{err_code}");
        assert_eq!(failure.into_error("append", "s").kind(), ErrorKind::Conflict, "{err_code}");
    }
}

#[test]
fn what_the_servers_have_no_room_for_is_not_the_callers_mistake() {
    use ErrorKind::{Full, Invalid, Unavailable};
    for (err_code, kind) in [
        (10_002, Full),
        (10_023, Full),
        (10_027, Full),
        (10_028, Full),
        (10_005, Unavailable),
        (10_074, Unavailable),
        (10_008, Unavailable),
        (10_131, Invalid),
    ] {
        let code = if err_code == 10_008 { 503 } else { 400 };
        let refusal = Refusal { code, err_code, description: "no".to_owned() };
        let error = ApiFailure::Refused(refusal).into_error("put", "s");
        assert_eq!(error.kind(), kind, "{err_code}");
    }
}

#[test]
fn only_the_bound_of_messages_is_a_full_stream() {
    for (description, is_full) in [
        ("maximum messages exceeded", true),
        ("maximum bytes exceeded", false),
        ("no space left on device", false),
    ] {
        let refusal = Refusal { code: 503, err_code: 10_077, description: description.to_owned() };
        let error = ApiFailure::Refused(refusal).into_error("append", "s");
        assert_eq!((error.kind(), error.is_stream_full()), (ErrorKind::Full, is_full));
    }
}
