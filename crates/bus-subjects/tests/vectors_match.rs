//! Which filters match which subjects, by nats-server; through the filter and through the table.

use bus_subjects::{Filter, Subject, SubjectTable};

#[test]
fn a_filter_matches_exactly_what_nats_matches() {
    let Some(file) = bus_testdata::json("nats-subjects/match.json") else { return };
    let (mut walked, mut refused) = (0, 0);
    for case in file["cases"].as_array().unwrap() {
        walked += 1;
        let expected = case["matches"].as_bool().unwrap();
        let filter = Filter::parse(case["pattern"].as_str().unwrap());
        let subject = Subject::parse(case["subject"].as_str().unwrap());
        let (Ok(filter), Ok(subject)) = (filter, subject) else {
            assert!(!expected, "refused, but the server delivers: {case}");
            refused += 1;
            continue;
        };
        assert_eq!(filter.matches(&subject), expected, "{filter} {subject}");

        let mut table = SubjectTable::new();
        table.insert(filter.clone(), ());
        assert_eq!(table.matches(&subject).len(), usize::from(expected), "{filter} {subject}");
    }
    assert_eq!((walked, refused), (71, 6));
}

#[test]
fn every_filter_of_the_matrix_matches_every_subject_as_the_server_did() {
    let Some(file) = bus_testdata::json("nats-subjects/server_match_matrix.json") else { return };
    let patterns = file["patterns"].as_array().unwrap();
    let filters: Vec<_> =
        patterns.iter().map(|text| Filter::parse(text.as_str().unwrap()).unwrap()).collect();
    let mut table = SubjectTable::new();
    for (index, filter) in filters.iter().enumerate() {
        table.insert(filter.clone(), index);
    }
    let (mut walked, mut matched) = (0, 0);
    for case in file["cases"].as_array().unwrap() {
        let subject = Subject::parse(case["subject"].as_str().unwrap()).unwrap();
        let expected: Vec<_> = case["matched_by"]
            .as_array()
            .unwrap()
            .iter()
            .map(|index| usize::try_from(index.as_u64().unwrap()).unwrap())
            .collect();
        for (index, filter) in filters.iter().enumerate() {
            walked += 1;
            assert_eq!(filter.matches(&subject), expected.contains(&index), "{filter} {subject}");
        }
        let mut found = Vec::new();
        table.for_each_match(&subject, |index| found.push(*index));
        found.sort_unstable();
        assert_eq!(found, expected, "the table for {subject}");
        matched += found.len();
    }
    assert_eq!((walked, matched), (30_942, 1712));
}
