//! The laws of filters, held against brute force over every small filter and subject.
//!
//! `c` stands in no filter, so it plays every level that no filter names.

use crate::{BucketKey, Filter, Subject, SubjectError};

#[test]
fn matches_agrees_with_the_definition_of_the_wildcards() {
    for filter in small_filters() {
        for subject in small_subjects() {
            let levels: Vec<_> = subject.levels().collect();
            let pattern: Vec<_> = filter.as_str().split('.').collect();
            assert_eq!(filter.matches(&subject), defined(&pattern, &levels), "{filter} {subject}");
        }
    }
}

#[test]
fn a_key_belongs_to_a_filter_as_the_subject_of_its_text_does() {
    for filter in small_filters() {
        for subject in small_subjects() {
            let key = BucketKey::parse(subject.as_str()).unwrap();
            assert_eq!(filter.matches_key(&key), filter.matches(&subject), "{filter} {key}");
        }
    }
}

#[test]
fn covers_means_that_every_subject_of_one_belongs_to_the_other() {
    let (filters, subjects) = (small_filters(), small_subjects());
    for outer in &filters {
        for inner in &filters {
            let all = subjects.iter().all(|s| !inner.matches(s) || outer.matches(s));
            assert_eq!(outer.covers(inner), all, "{outer} covers {inner}");
        }
    }
}

#[test]
fn overlaps_means_that_some_subject_belongs_to_both() {
    let (filters, subjects) = (small_filters(), small_subjects());
    for a in &filters {
        for b in &filters {
            let some = subjects.iter().any(|s| a.matches(s) && b.matches(s));
            assert_eq!(a.overlaps(b), some, "{a} overlaps {b}");
            assert_eq!(a.overlaps(b), b.overlaps(a), "{a} overlaps {b} is symmetric");
        }
    }
}

#[test]
fn filters_that_cover_each_other_are_equal() {
    let filters = small_filters();
    for a in &filters {
        for b in &filters {
            assert_eq!(a.covers(b) && b.covers(a), a == b, "{a} and {b}");
        }
    }
}

#[test]
fn a_literal_filter_matches_the_one_subject_it_spells() {
    for subject in small_subjects() {
        let filter = Filter::from(&subject);
        assert!(filter.is_literal());
        assert_eq!(small_subjects().iter().filter(|s| filter.matches(s)).count(), 1);
    }
}

#[test]
fn a_tail_stands_at_the_end_only() {
    let refused = Err(SubjectError::TailNotLast { field: "filter" });
    assert_eq!(Filter::parse("vak.>.task"), refused);
}

#[test]
fn a_serialized_filter_is_checked_when_it_is_read() {
    let filter: Filter = serde_json::from_str("\"vak.*.\\u0077.>\"").unwrap();
    assert_eq!(serde_json::to_string(&filter).unwrap(), "\"vak.*.w.>\"");
    for bad in ["\"\"", "\"a..b\"", "\"a.>.b\"", "\"a b\"", "7"] {
        assert!(serde_json::from_str::<Filter>(bad).is_err(), "{bad}");
    }
}

fn defined(pattern: &[&str], levels: &[&str]) -> bool {
    match (pattern, levels) {
        ([], []) => true,
        ([">"], [_, ..]) => true,
        (["*", pattern @ ..], [_, levels @ ..]) => defined(pattern, levels),
        ([p, pattern @ ..], [l, levels @ ..]) => p == l && defined(pattern, levels),
        _ => false,
    }
}

fn small_filters() -> Vec<Filter> {
    let mut texts = words(&["a", "b", "*"], 3);
    let tails: Vec<_> = words(&["a", "b", "*"], 2).iter().map(|t| format!("{t}.>")).collect();
    texts.extend(tails);
    texts.push(">".into());
    texts.iter().map(|text| Filter::parse(text).unwrap()).collect()
}

fn small_subjects() -> Vec<Subject> {
    words(&["a", "b", "c"], 4).iter().map(|text| Subject::parse(text).unwrap()).collect()
}

fn words(alphabet: &[&str], levels_max: usize) -> Vec<String> {
    let mut all: Vec<String> = alphabet.iter().map(|level| (*level).into()).collect();
    let mut last = all.clone();
    for _ in 1..levels_max {
        last = last.iter().flat_map(|w| alphabet.iter().map(move |l| format!("{w}.{l}"))).collect();
        all.extend(last.iter().cloned());
    }
    all
}
