//! Holds the documentation of the traits and the list of cases against each other.

use std::collections::BTreeSet;

use bus_conformance::case_names;

/// The files of bus-core whose documentation makes promises about engines.
const PROMISES: &[(&str, &str)] = &[
    ("bus.rs", include_str!("../../bus-core/src/bus.rs")),
    ("bucket.rs", include_str!("../../bus-core/src/bucket.rs")),
    ("blob.rs", include_str!("../../bus-core/src/blob.rs")),
    ("delivery.rs", include_str!("../../bus-core/src/delivery.rs")),
    ("engine.rs", include_str!("../../bus-core/src/engine.rs")),
    ("feed.rs", include_str!("../../bus-core/src/feed.rs")),
    ("frame.rs", include_str!("../../bus-core/src/frame.rs")),
    ("placement.rs", include_str!("../../bus-core/src/placement.rs")),
    ("spec.rs", include_str!("../../bus-core/src/spec.rs")),
];

/// The texts between backticks in the documentation lines that read as a case's name; links to
/// items are none.
fn cited(source: &str) -> impl Iterator<Item = &str> {
    let docs = source.lines().map(str::trim).filter(|line| line.starts_with("///"));
    let quoted =
        docs.flat_map(|line| line.split('`').step_by(2).zip(line.split('`').skip(1).step_by(2)));
    let texts = quoted.filter(|(before, _)| !before.ends_with('[')).map(|(_, text)| text);
    texts.filter(|text| {
        let is_name = text.bytes().all(|c| c.is_ascii_lowercase() || c == b'_');
        is_name && text.matches('_').count() >= 2
    })
}

#[test]
fn every_case_cited_in_a_trait_exists() {
    let names: BTreeSet<_> = case_names().collect();
    let mut seen = 0;
    for (file, source) in PROMISES {
        for name in cited(source) {
            assert!(names.contains(name), "{file} cites {name}, which is no case of the suite");
            seen += 1;
        }
    }
    assert!(seen >= 30, "only {seen} promises name their case");
}

#[test]
fn no_two_cases_share_a_name() {
    let names: BTreeSet<_> = case_names().collect();
    assert_eq!(names.len(), case_names().count());
}

/// The page of results names every case; `cargo xtask conformance --write-docs` writes it.
#[test]
fn the_page_of_results_lists_every_case() {
    let page = include_str!("../../../docs/conformance.md");
    for name in case_names() {
        let sentence = name.replace('_', " ");
        let is_there = page.lines().any(|line| {
            let promise = line.strip_prefix("| ").and_then(|row| row.split(" | ").next());
            promise.is_some_and(|promise| promise.eq_ignore_ascii_case(&sentence))
        });
        assert!(is_there, "docs/conformance.md does not list {name}");
    }
}
