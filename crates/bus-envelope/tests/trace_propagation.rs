//! Header lists of the W3C test suite: which traces go on, and what goes out.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "helpers of tests: a damaged vector must fail the test"
)]

use serde_json::Value;

use bus_envelope::TraceContext;

const NEW_SPAN: [u8; 8] = [0xab; 8];

/// What is wrong with the answer to one case; `None` when nothing is.
fn wrong(case: &Value) -> Option<String> {
    let headers: Vec<(&str, &str)> = case["headers"]
        .as_array()?
        .iter()
        .map(|pair| (pair[0].as_str().unwrap(), pair[1].as_str().unwrap()))
        .collect();
    let read = TraceContext::extract(headers.iter().copied());
    let Some(parent) = read else {
        return (case["trace"] != "restart").then(|| "was restarted".to_owned());
    };
    if case["trace"] != "continue" {
        return Some(format!("went on as {parent:?}"));
    }
    let child = parent.child_span(NEW_SPAN);
    let out = case["out"]["traceparent"].as_str()?.replace("<new span>", "abababababababab");
    if child.traceparent() != out {
        return Some(format!("sent {}", child.traceparent()));
    }
    let sent = child.tracestate();
    if let Some(any_of) = case["tracestate_any_of"].as_array() {
        let fits = any_of.iter().any(|list| list == sent.as_str());
        return (!fits).then(|| format!("sent {sent}"));
    }
    if sent.as_str() != case["out"]["tracestate"].as_str().unwrap_or_default() {
        return Some(format!("sent {sent}"));
    }
    let has = case["tracestate_has"].as_object().into_iter().flatten();
    let lacks = case["tracestate_lacks"].as_array().into_iter().flatten();
    let is_wrong = has.clone().any(|(key, value)| sent.get(key) != value.as_str())
        || lacks.clone().any(|key| sent.get(key.as_str().unwrap()).is_some());
    is_wrong.then(|| format!("members are {sent}"))
}

#[test]
fn traces_go_on_or_start_anew_as_the_w3c_suite_says() {
    let Some(document) = bus_testdata::json("trace-context/w3c_header_cases.json") else { return };
    let cases = document["cases"].as_array().unwrap();
    let wrong: Vec<_> =
        cases.iter().filter_map(|case| Some((case["id"].as_str()?, wrong(case)?))).collect();
    assert_eq!(cases.len(), 79, "number of cases");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
