//! The simulation holds the broker to its promises, and notices when the broker does not.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::{collections::BTreeSet, process::Command};

use bus_stories::sim::{Fault, Options, Report, simulate};

const SMALL: Options = Options { agents: 30, steps: 10_000, fault: None };

/// A planted fault must show within so many seeds.
const SEEDS_MAX: u64 = 10;

#[test]
fn ten_seeds_keep_all_promises_and_meet_every_kind_of_trouble() {
    let reports: Vec<Report> = (1..=10).map(|seed| simulate(seed, SMALL)).collect();

    for report in &reports {
        let replay = report.replay_command();
        assert!(report.is_good(), "{:?}\n{replay}", report.violation);
        assert_eq!(report.figure("left"), 0);
    }
    for (name, _) in reports[0].figures.iter().filter(|(name, _)| *name != "left") {
        let sum: u64 = reports.iter().map(|report| report.figure(name)).sum();
        assert!(sum > 0, "no seed met any {name}");
    }
}

#[test]
fn two_thousand_agents_keep_all_promises() {
    let report = simulate(1, Options { agents: 2_000, steps: 30_000, fault: None });
    assert!(report.is_good(), "{:?}", report.violation);
    assert!(report.figure("stored") > 1_000);
}

#[test]
fn one_seed_tells_one_story_to_the_byte() {
    let (once, again) = (simulate(7, SMALL), simulate(7, SMALL));
    assert_eq!(once, again);
    assert_ne!(once.digest, simulate(8, SMALL).digest);
}

#[test]
fn every_task_that_was_acknowledged_ends_in_one_way() {
    let report = simulate(3, SMALL);
    let ended = report.figure("done") + report.figure("dead_lettered") + report.figure("discarded");
    assert_eq!(ended, report.figure("stored"));
    assert!(report.figure("acknowledged") <= ended);
}

#[test]
fn every_planted_fault_is_found() {
    for &fault in Fault::ALL {
        let options = Options { fault: Some(fault), ..SMALL };
        let found = (1..=SEEDS_MAX).find_map(|seed| simulate(seed, options).violation);
        assert!(found.is_some(), "{} was not found in {SEEDS_MAX} seeds", fault.name());
    }
}

#[test]
fn every_fault_has_a_name_of_its_own() {
    let names: BTreeSet<&str> = Fault::ALL.iter().map(|fault| fault.name()).collect();
    assert_eq!(names.len(), Fault::ALL.len());
    assert!(Fault::ALL.iter().all(|fault| Fault::named(fault.name()) == Some(*fault)));
}

#[test]
fn the_command_that_a_failing_seed_prints_replays_it() {
    let words = ["--seed", "1", "--seeds", "1", "--agents", "30", "--sabotage", "hands-out-twice"];
    let (told, is_good) = run(&words);
    assert!(!is_good);
    let replay = told.lines().find_map(|line| line.strip_prefix("replay: cargo xtask sim "));
    let replay: Vec<&str> = replay.unwrap().split(' ').collect();
    assert_eq!(run(&replay), (told, false));
}

#[test]
fn json_tells_the_seed_the_options_and_what_came_of_them() {
    let (told, is_good) = run(&["--seed", "4", "--agents", "10", "--steps", "500", "--json"]);
    assert!(is_good);
    let row: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&row["seed"], &row["agents"], &row["steps"]), (&4.into(), &10.into(), &500.into()));
    assert_eq!(row["kept"], true);
    assert!(row["figures"]["stored"].as_u64().unwrap() > 0);
}

#[test]
fn a_seed_is_drawn_and_told_when_none_is_given() {
    let seed = || {
        let (told, _) = run(&["--agents", "10", "--steps", "10"]);
        told.split(' ').nth(1).unwrap().to_owned()
    };
    assert_ne!(seed(), seed());
}

#[test]
fn a_run_of_no_seed_and_seeds_beyond_the_last_number_are_refused() {
    let last = u64::MAX.to_string();
    for words in [&["--seeds", "0"][..], &["--seed", &last, "--seeds", "2"]] {
        let (told, is_good) = run(words);
        assert_eq!((told.as_str(), is_good), ("", false));
    }
}

fn run(words: &[&str]) -> (String, bool) {
    let output = Command::new(env!("CARGO_BIN_EXE_bus-sim")).args(words).output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.success())
}
