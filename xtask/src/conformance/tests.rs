//! What a suite may print, and what the lock file makes of it.

use super::*;

fn row(case: &str, outcome: Outcome, reason: Option<&str>) -> Row {
    let (engine, area, case) = ("mem".into(), "Leases".into(), case.into());
    Row { engine, area, case, outcome, reason: reason.map(str::to_owned) }
}

fn lock(text: &str) -> Lock {
    Lock::parse(text, &["mem", "disk"]).unwrap()
}

fn outcomes(rows: &[Row]) -> Vec<Outcome> {
    rows.iter().map(|row| row.outcome).collect()
}

#[test]
fn rows_are_told_from_talk() {
    let printed = "\nrunning 1 test\n\
                   {\"engine\":\"mem\",\"area\":\"Leases\",\"case\":\"a\",\"outcome\":\"passed\"}\n";
    let (rows, talk) = row::read("mem", printed).unwrap();
    assert_eq!(rows, [row("a", Outcome::Passed, None)]);
    assert_eq!(talk, ["running 1 test"]);
}

#[test]
fn a_row_survives_printing_and_reading() {
    let before = row("a", Outcome::NotApplicable, Some("forgets on restart, says so"));
    let (after, _) = row::read("mem", &before.to_json()).unwrap();
    assert_eq!(after, [before]);
}

#[test]
fn a_damaged_row_is_an_error() {
    for line in [
        "{\"engine\":\"mem\",\"area\":\"Leases\",\"case\":\"a\"",
        "{\"engine\":\"mem\",\"area\":\"Leases\",\"case\":\"a\"}",
        "{\"engine\":\"mem\",\"area\":\"Leases\",\"case\":\"a\",\"outcome\":\"skipped\"}",
        "{\"engine\":\"mem\",\"area\":\"Leases\",\"case\":\"a\",\"outcome\":\"not_applicable\"}",
        "{\"area\":\"Leases\",\"case\":\"a\",\"outcome\":\"passed\"}",
        "{\"engine\":\"mem\",\"case\":\"a\",\"outcome\":\"passed\"}",
    ] {
        assert!(row::read("mem", line).is_err(), "{line}");
    }
}

#[test]
fn a_suite_speaks_for_its_own_engine_only() {
    let line = "{\"engine\":\"disk\",\"area\":\"Leases\",\"case\":\"a\",\"outcome\":\"passed\"}";
    assert!(row::read("mem", line).is_err());
}

#[test]
fn a_case_that_ran_twice_is_an_error() {
    let line = row("a", Outcome::Passed, None).to_json();
    assert!(row::read("mem", &format!("{line}\n{line}")).is_err());
}

#[test]
fn a_case_that_does_not_apply_must_be_listed() {
    let rows = vec![row("a", Outcome::NotApplicable, Some("why not"))];
    assert_eq!(outcomes(&lock("").judge("mem", rows.clone(), true)), [Outcome::Failed]);
    let judged = lock("# known\nmem a why not\n").judge("mem", rows, true);
    assert_eq!(outcomes(&judged), [Outcome::NotApplicable]);
}

#[test]
fn another_reason_must_be_reviewed() {
    let rows = vec![row("a", Outcome::NotApplicable, Some("other"))];
    assert_eq!(outcomes(&lock("mem a why not").judge("mem", rows, true)), [Outcome::Failed]);
}

#[test]
fn a_listed_case_that_passes_must_be_taken_out() {
    let rows = vec![row("a", Outcome::Passed, None)];
    assert_eq!(outcomes(&lock("mem a why not").judge("mem", rows, true)), [Outcome::Failed]);
}

#[test]
fn a_listed_case_that_is_gone_must_be_taken_out() {
    let judged = lock("mem a why not").judge("mem", vec![], true);
    assert_eq!(outcomes(&judged), [Outcome::Failed]);
}

#[test]
fn a_filter_keeps_listed_cases_out_without_blame() {
    assert_eq!(lock("mem a why not").judge("mem", vec![], false), []);
}

#[test]
fn the_list_of_another_engine_says_nothing_about_this_one() {
    assert_eq!(lock("disk a why not").judge("mem", vec![], true), []);
}

#[test]
fn a_lock_line_without_a_reason_or_of_an_unknown_engine_is_an_error() {
    for text in ["mem a", "mem", "nats a why not", "mem a why\nmem a not"] {
        assert!(Lock::parse(text, &["mem"]).is_err(), "{text}");
    }
}

#[test]
fn a_run_without_a_case_is_no_good() {
    assert!(!Tally::of(&[]).is_good());
    assert!(!Tally::of(&[row("a", Outcome::NotApplicable, Some("why not"))]).is_good());
    assert!(Tally::of(&[row("a", Outcome::Passed, None)]).is_good());
}

#[test]
fn one_failure_spoils_the_run() {
    let rows = [row("a", Outcome::Passed, None), row("b", Outcome::Failed, Some("lost one"))];
    assert_eq!(Tally::of(&rows), Tally { passed: 1, failed: 1 });
    assert!(!Tally::of(&rows).is_good());
}

#[test]
fn an_unknown_engine_is_a_usage_error() {
    let args = Args::new(["--engine", "nats-like"].map(str::to_owned));
    assert!(Options::parse(args).unwrap_err().is::<UsageError>());
}

#[test]
fn all_engines_are_what_no_engine_means() {
    let args = Args::new(["--engine", "nats", "--engine=all"].map(str::to_owned));
    assert!(Options::parse(args).unwrap().is_whole());
    let args = Args::new(["--engine", "nats"].map(str::to_owned));
    assert!(!Options::parse(args).unwrap().is_whole());
    let args = Args::new(["--engine", "all", "--engine", "nats-like"].map(str::to_owned));
    assert!(Options::parse(args).unwrap_err().is::<UsageError>());
}

#[test]
fn the_cluster_is_run_when_it_is_asked_for_and_then_alone() {
    let run_by = |line: &str| {
        let args = Args::new(line.split(' ').filter(|it| !it.is_empty()).map(str::to_owned));
        let options = Options::parse(args).unwrap();
        let variants = VARIANTS.iter().map(|variant| &variant.engine);
        let all = ENGINES.iter().chain(variants);
        all.filter(|engine| options.wants(engine)).map(|engine| engine.name).collect::<Vec<_>>()
    };
    assert_eq!(run_by(""), ["mem", "disk", "link", "nats"]);
    assert_eq!(run_by("--engine nats"), ["nats"]);
    assert_eq!(run_by("--engine nats --cluster"), ["nats-cluster"]);
    assert_eq!(run_by("--cluster"), ["nats-cluster"]);
    assert_eq!(run_by("--engine nats --least-privilege"), ["nats-least-privilege"]);
}

#[test]
fn a_cluster_of_another_engine_is_a_usage_error() {
    let args = Args::new(["--cluster", "--engine", "mem"].map(str::to_owned));
    assert!(Options::parse(args).unwrap_err().is::<UsageError>());
}

#[test]
fn one_variant_is_run_at_a_time() {
    let args = Args::new(["--cluster", "--least-privilege"].map(str::to_owned));
    assert!(Options::parse(args).unwrap_err().is::<UsageError>());
}

#[test]
fn the_page_is_written_from_a_whole_run_only() {
    for line in ["--write-docs --engine mem", "--write-docs lease", "--write-docs --cluster lease"]
    {
        let args = Args::new(line.split(' ').map(str::to_owned));
        assert!(Options::parse(args).unwrap_err().is::<UsageError>(), "{line}");
    }
    let args = Args::new(["--write-docs".to_owned()]);
    assert!(Options::parse(args).unwrap().write_docs);
}
