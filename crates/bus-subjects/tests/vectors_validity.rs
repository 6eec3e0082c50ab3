//! Which texts are subjects and filters, by the rules of nats-server.

use bus_subjects::{Filter, Subject};

#[test]
fn subjects_and_filters_are_valid_exactly_when_nats_says_so() {
    let Some(file) = bus_testdata::json("nats-subjects/validity.json") else { return };
    let mut walked = 0;
    for case in file["cases"].as_array().unwrap() {
        walked += 1;
        let text = case["subject"].as_str().unwrap();
        let filter = Filter::parse(text);
        if let Some(valid) = case["valid"].as_bool() {
            assert_eq!(filter.is_ok(), valid, "filter {text:?}: {filter:?}");
        }
        if let Some(valid) = case["valid_literal"].as_bool() {
            // Upstream judges wildcards only; white space and control characters are ours to see.
            let clean = !text.chars().any(|c| c.is_whitespace() || c.is_control());
            let subject = Subject::parse(text);
            assert_eq!(subject.is_ok(), valid && clean, "subject {text:?}: {subject:?}");
        }
        if let Some(literal) = case["is_literal"].as_bool() {
            assert_eq!(filter.map(|f| f.is_literal()), Ok(literal), "literal {text:?}");
        }
    }
    assert_eq!(walked, 45);
}
