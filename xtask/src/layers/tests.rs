//! The table is the design's, and a graph that breaks it is told so.

use std::collections::BTreeSet;

use super::*;

fn graph(arrows: &[(&str, &str, DependencyKind)]) -> Graph {
    let mut graph = Graph::default();
    for (from, to, kind) in arrows {
        graph.arrows.push(Arrow { from: (*from).into(), to: (*to).into(), kind: *kind });
    }
    graph
}

fn judge(arrows: &[(&str, &str, DependencyKind)]) -> Vec<Violation> {
    graph(arrows).judge(HOUSE, KEEPERS)
}

fn upward(from: &str, to: &str, kind: &'static str) -> Vec<Violation> {
    vec![Violation::Upward { from: from.into(), to: to.into(), kind }]
}

use DependencyKind::{Build, Development, Normal};

#[test]
fn a_real_server_serves_tests_and_never_the_product() {
    let server = "bus-testserver";
    for user in ["bus-nats", "bus-cli", "bus-stories"] {
        assert_eq!(judge(&[(user, server, Development)]), []);
        assert_eq!(judge(&[(user, server, Normal)]), upward(user, server, "normal"));
    }
}

#[test]
fn arrows_that_point_down_are_right() {
    let found = judge(&[
        ("bus-envelope", "bus-subjects", Normal),
        ("bus-core", "bus-crypto", Normal),
        ("bus-disk", "bus-mem", Normal),
        ("bus-runner", "bus-evidence", Normal),
        ("bus-gateway", "bus-rooms", Normal),
        ("bus-cli", "bus-nats", Normal),
        ("bus-core", "serde", Normal),
    ]);
    assert_eq!(found, []);
}

#[test]
fn an_arrow_that_points_up_is_wrong() {
    let found = judge(&[("bus-subjects", "bus-core", Normal)]);
    assert_eq!(found, upward("bus-subjects", "bus-core", "normal"));
}

#[test]
fn services_do_not_know_each_other() {
    let found = judge(&[("bus-runner", "bus-peers", Normal)]);
    assert_eq!(found, upward("bus-runner", "bus-peers", "normal"));
}

#[test]
fn services_are_not_built_on_an_engine() {
    let found = judge(&[("bus-runner", "bus-mem", Normal)]);
    assert_eq!(found, upward("bus-runner", "bus-mem", "normal"));
}

#[test]
fn services_may_be_tested_on_the_embedded_engine() {
    assert_eq!(judge(&[("bus-runner", "bus-mem", Development)]), []);
}

#[test]
fn a_server_is_tested_over_other_engines_and_built_on_none() {
    for engine in ["bus-mem", "bus-disk"] {
        assert_eq!(judge(&[("bus-link", engine, Development)]), []);
        let found = judge(&[("bus-link", engine, Normal)]);
        assert_eq!(found, upward("bus-link", engine, "normal"));
    }
}

#[test]
fn the_suite_belongs_to_the_tests_of_engines() {
    assert_eq!(judge(&[("bus-mem", "bus-conformance", Development)]), []);
    let found = judge(&[("bus-mem", "bus-conformance", Normal)]);
    assert_eq!(found, upward("bus-mem", "bus-conformance", "normal"));
}

#[test]
fn the_crypto_leaf_knows_nobody() {
    let found = judge(&[("bus-crypto", "bus-subjects", Normal)]);
    assert_eq!(found, upward("bus-crypto", "bus-subjects", "normal"));
}

#[test]
fn a_build_script_is_judged_like_the_crate() {
    let found = judge(&[("bus-subjects", "bus-testdata", Build)]);
    assert_eq!(found, upward("bus-subjects", "bus-testdata", "build"));
}

#[test]
fn a_crate_without_a_row_is_wrong() {
    let graph = Graph { ours: vec!["bus-extra".into()], arrows: vec![] };
    assert_eq!(graph.judge(HOUSE, KEEPERS), [Violation::Unplaced("bus-extra".into())]);
}

#[test]
fn only_its_keeper_uses_a_kept_crate() {
    for (outside, keepers) in KEEPERS {
        for keeper in *keepers {
            assert_eq!(judge(&[(keeper, outside, Normal)]), []);
        }
        let found = judge(&[("bus-runner", outside, Development)]);
        let (from, to) = ("bus-runner".into(), (*outside).into());
        let keeper = keepers.join(" and ");
        assert_eq!(found, [Violation::NotTheKeeper { from, to, keeper }]);
    }
}

#[test]
fn a_kept_crate_does_not_come_in_through_a_crate_from_outside() {
    let found = judge(&[("some-helper", "axum", Normal)]);
    assert!(matches!(found.as_slice(), [Violation::NotTheKeeper { .. }]));
}

#[test]
fn the_table_has_the_crates_of_the_house_and_those_beside_it() {
    let names: BTreeSet<&str> = HOUSE.iter().map(|room| room.name).collect();
    assert_eq!(names.len(), HOUSE.len(), "a crate has two rows");
    assert_eq!(names.len(), 19 + 5);
}

#[test]
fn the_table_only_names_crates_that_have_a_row() {
    for room in HOUSE {
        for name in room.uses.iter().chain(room.tests_use).copied().flatten() {
            assert!(HOUSE.iter().any(|other| other.name == *name), "{} uses {name}", room.name);
        }
    }
}

#[test]
fn rows_only_use_rows_above_them_so_there_is_no_circle() {
    for (place, room) in HOUSE.iter().enumerate() {
        for name in room.uses.iter().copied().flatten() {
            let other = HOUSE.iter().position(|other| other.name == *name).unwrap();
            assert!(other < place, "{} uses {name}", room.name);
        }
    }
}

#[test]
fn deny_toml_names_the_same_keepers() {
    let deny = include_str!("../../../deny.toml");
    for (outside, keepers) in KEEPERS {
        let row = format!("{{ crate = \"{outside}\", wrappers = {keepers:?} }}");
        assert!(deny.contains(&row), "deny.toml lacks {row}");
    }
    assert_eq!(deny.matches("wrappers").count(), KEEPERS.len());
}
