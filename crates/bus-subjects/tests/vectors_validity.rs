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

#[test]
fn what_a_real_server_refuses_is_refused_here_first() {
    let file = "nats-subjects/server_subject_check.json";
    let Some(file) = bus_testdata::json(file) else { return };
    let (mut walked, mut stricter) = (0, Vec::new());
    for case in file["cases"].as_array().unwrap() {
        walked += 1;
        let text = case["subject"].as_str().unwrap();
        // Without pedantic the server takes any subject to publish on, so pedantic is the measure.
        for (ours, theirs) in [
            (Subject::parse(text).is_ok(), &case["pub_pedantic"]),
            (Filter::parse(text).is_ok(), &case["sub"]),
        ] {
            match (ours, theirs == "ok") {
                (true, false) => panic!("{text:?} is accepted here and refused there: {theirs}"),
                (false, true) => stricter.push(text),
                _ => {}
            }
        }
    }
    assert_eq!(walked, 82);
    let white = |c: char| c.is_whitespace() || c.is_control();
    for text in stricter {
        let has_reason = text.contains(white) || text.len() > Subject::BYTES_MAX;
        assert!(has_reason, "{text:?} is refused here only, and without a reason");
    }
}

#[test]
fn the_sources_of_mappings_match_what_a_server_maps() {
    // Mappings themselves are not made here (cases.md): their sources are filters all the same.
    let Some(file) = bus_testdata::json("nats-subjects/mapping.json") else { return };
    let mut walked = 0;
    for case in file["cases"].as_array().unwrap() {
        walked += 1;
        // A server takes an empty source for everything; a filter has to say so.
        let source = match case["src"].as_str().unwrap() {
            "" => ">",
            source => source,
        };
        let filter = Filter::parse(source);
        if case["valid"] == true {
            assert!(filter.is_ok(), "{source:?}: {filter:?}");
        }
        if let (Some(subject), Ok(filter)) = (case["subject"].as_str(), filter) {
            let subject = Subject::parse(subject).unwrap();
            let maps = !case["result_any_of"].as_array().unwrap().is_empty();
            assert_eq!(filter.matches(&subject), maps, "{source:?} of {subject}");
        }
    }
    assert_eq!(walked, 81);
}
