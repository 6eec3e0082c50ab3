//! Overlap and containment of filters, by nats-server and its streams.

use bus_subjects::{Filter, Subject};

#[test]
fn filters_overlap_exactly_when_nats_says_so() {
    let Some(file) = bus_testdata::json("nats-subjects/overlap.json") else { return };
    let mut walked = 0;
    for case in file["cases"].as_array().unwrap() {
        walked += 1;
        let a = Filter::parse(case["a"].as_str().unwrap()).unwrap();
        let b = Filter::parse(case["b"].as_str().unwrap()).unwrap();
        let expected = case["overlap"].as_bool().unwrap();
        assert_eq!(a.overlaps(&b), expected, "{a} {b}");
        assert_eq!(b.overlaps(&a), expected, "{b} {a}");
        if let Some(witness) = case["witness"].as_str() {
            let witness = Subject::parse(witness).unwrap();
            assert!(a.matches(&witness) && b.matches(&witness), "{a} {b} {witness}");
        }
    }
    assert_eq!(walked, 99);
}

#[test]
fn streams_overlap_exactly_when_jetstream_refuses_the_second() {
    let Some(file) = bus_testdata::json("nats-subjects/server_stream_overlap.json") else {
        return;
    };
    let mut walked = 0;
    for case in file["cases"].as_array().unwrap() {
        walked += 1;
        let a = Filter::parse(case["a"].as_str().unwrap()).unwrap();
        let b = Filter::parse(case["b"].as_str().unwrap()).unwrap();
        let answer = case.get("overlap_by_rule").unwrap_or(&case["overlap"]);
        assert_eq!(a.overlaps(&b), answer.as_bool().unwrap(), "{a} {b}");
        assert_eq!(b.overlaps(&a), a.overlaps(&b), "{b} {a}");
    }
    assert_eq!(walked, 528);
}

#[test]
fn one_stream_may_have_subjects_that_do_not_overlap_each_other_or_the_servers_own() {
    let Some(file) = bus_testdata::json("nats-subjects/server_stream_overlap.json") else {
        return;
    };
    let filter = |text: &str| Filter::parse(text).unwrap();
    let (api, system) = (filter("$JS.API.>"), filter("$SYS.>"));
    let accounts = filter("$SYS.ACCOUNT.>");
    let mut walked = 0;
    for case in file["stream_subject_lists"].as_array().unwrap() {
        walked += 1;
        let texts = case["subjects"].as_array().unwrap().iter();
        let filters: Result<Vec<_>, _> =
            texts.map(|text| Filter::parse(text.as_str().unwrap())).collect();
        let accepted = filters.is_ok_and(|filters| {
            let apart = |(at, a): (usize, &Filter)| {
                filters.iter().skip(at + 1).all(|b: &Filter| !a.overlaps(b))
            };
            let reserved =
                |f: &Filter| f.overlaps(&api) || f.overlaps(&system) && !accounts.covers(f);
            filters.iter().enumerate().all(apart) && !filters.iter().any(reserved)
        });
        assert_eq!(accepted, case["accepted"].as_bool().unwrap(), "{}", case["subjects"]);
    }
    assert_eq!(walked, 19);
}

#[test]
fn a_filter_covers_another_exactly_when_the_token_rule_says_so() {
    let Some(file) = bus_testdata::json("nats-subjects/subset.json") else { return };
    let (mut walked, mut refused) = (0, 0);
    for case in file["cases"].as_array().unwrap() {
        walked += 1;
        let (inner, outer) = (case["inner"].as_str().unwrap(), case["outer"].as_str().unwrap());
        let answer = case.get("subset_by_rule").unwrap_or(&case["subset"]);
        let expected = answer.as_bool().unwrap();
        let (Ok(a), Ok(b)) = (Filter::parse(inner), Filter::parse(outer)) else {
            // A pattern with an empty level is never a subset; here it is not even a filter.
            assert!(!expected, "{inner} in {outer}");
            refused += 1;
            continue;
        };
        assert_eq!(b.covers(&a), expected, "{a} in {b}");
        assert!(!b.covers(&a) || b.overlaps(&a), "{a} in {b} must overlap it");
        assert_eq!(a.covers(&b) && b.covers(&a), a == b, "{a} and {b}");
    }
    assert_eq!((walked, refused), (452, 2));
}
