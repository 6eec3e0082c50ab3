//! The W3C's and OpenTelemetry's single header values, read one by one.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests: a damaged vector must fail the test"
)]

use serde_json::Value;

use bus_envelope::{TraceContext, TraceState};

fn text<'a>(case: &'a Value, field: &str) -> &'a str {
    case[field].as_str().unwrap_or_else(|| panic!("{field} is missing in {case}"))
}

fn cases(file: &str, list: &str) -> Vec<Value> {
    let Some(document) = bus_testdata::json(file) else { return Vec::new() };
    document[list].as_array().unwrap().clone()
}

/// Fails when a case is wrong or the file does not have the number of cases written in the test.
fn conclude(walked: usize, expected: usize, wrong: &[String]) {
    if bus_testdata::vectors().is_some() {
        assert_eq!(walked, expected, "number of cases");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn traceparent_values_are_read_as_the_w3c_says() {
    let cases = cases("trace-context/traceparent_parse.json", "cases");
    let is_wrong = |case: &Value| {
        let expected = match text(case, "result") {
            "divergent" => text(case, "w3c").starts_with("valid"),
            result => result == "valid",
        };
        match TraceContext::parse(text(case, "value"), None) {
            Err(_) => expected,
            Ok(_) if !expected => true,
            Ok(read) => case.get("fields").is_some_and(|fields| {
                let flags = u8::from_str_radix(text(fields, "flags_in"), 16).unwrap() & 3;
                let (trace_id, span_id) = (text(fields, "trace_id"), text(fields, "parent_id"));
                read.traceparent() != format!("00-{trace_id}-{span_id}-{flags:02x}")
                    || read.is_sampled() != fields["sampled"].as_bool().unwrap()
                    || (read.flags() & TraceContext::RANDOM != 0)
                        != fields["random"].as_bool().unwrap()
            }),
        }
    };
    let wrong: Vec<_> =
        cases.iter().filter(|case| is_wrong(case)).map(|case| text(case, "value").into()).collect();
    conclude(cases.len(), 83, &wrong);
}

#[test]
fn tracestate_lists_are_read_and_printed_in_canonical_form() {
    let cases = cases("trace-context/tracestate.json", "cases");
    let mut wrong = Vec::new();
    for case in &cases {
        let read = TraceState::parse(text(case, "in")).ok();
        let expected = match text(case, "result") {
            "invalid" => None,
            // Of two members with one key the first is kept.
            "duplicate" => Some("foo=1"),
            // The one unspecified case: empty members do not count toward the limit of 32.
            _ => Some(text(case, "out")),
        };
        if read.as_ref().map(TraceState::as_str) != expected {
            wrong.push(format!("{}: {read:?}", case["id"]));
        }
    }
    conclude(cases.len(), 58, &wrong);
}

#[test]
fn changed_members_go_to_the_left_and_the_last_falls_off() {
    let cases = cases("trace-context/tracestate.json", "mutations");
    let mut wrong = Vec::new();
    for case in &cases {
        let mut state = TraceState::parse(text(case, "in")).unwrap();
        let mut refused = false;
        for op in case["ops"].as_array().unwrap() {
            let argument = |at: usize| op[at].as_str().unwrap();
            match argument(0) {
                "set" => refused |= state.set(argument(1), argument(2)).is_err(),
                _ => refused |= !state.delete(argument(1)),
            }
        }
        let expected = case["out"].as_str().unwrap_or(text(case, "in"));
        let expects_refusal = case["refused"].as_bool().unwrap_or(false);
        if refused != expects_refusal || state.as_str() != expected {
            wrong.push(format!("{}: {refused} {state}", case["id"]));
        }
    }
    conclude(cases.len(), 20, &wrong);
}
