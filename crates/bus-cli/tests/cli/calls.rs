//! Calls that are wrong: refused with exit code 2 before anything runs.

use crate::support::{Gate, Lines, Place, Running, run};

/// Asserts that `vakbus swarm` with these options and one task is refused and runs nothing.
fn refused(place: &Place, options: &[&str], what: &str) {
    let mut command = place.command();
    command.arg("swarm").args(options).args(["--", "touch", "mark"]);
    run(command, "a\n").is_wrong_call(what);
    assert!(!place.path("mark").exists());
}

#[test]
fn a_directory_for_evidence_that_is_not_empty_is_refused() {
    let place = Place::new();
    std::fs::create_dir(place.path("run")).unwrap();
    place.write("run/file", "x");
    refused(&place, &["--evidence", "run"], "run is not empty\n  next: name a new directory");
}

#[test]
fn a_place_where_evidence_cannot_be_written_is_refused_before_the_work() {
    let place = Place::new();
    place.write("file", "x");
    refused(&place, &["--evidence", "file/run"], "cannot use file/run for evidence: ");
}

#[test]
#[cfg(target_os = "linux")]
fn a_place_where_no_directory_can_be_made_is_refused_before_the_work() {
    refused(&Place::new(), &["--evidence", "/proc/vakbus"], "cannot use /proc/vakbus for evidence");
}

#[test]
fn evidence_may_go_below_a_directory_that_is_not_there_yet() {
    let place = Place::new();
    let (outcome, _summary) = place.swarm("a\n", &["--evidence", "runs/of/today", "--", "true"]);
    assert_eq!((outcome.code, place.run(&["verify", "runs/of/today"]).code), (Some(0), Some(0)));
}

#[test]
fn a_tasks_file_that_is_not_there_is_refused() {
    refused(&Place::new(), &["--tasks", "nowhere"], "cannot read nowhere: ");
}

#[test]
fn a_tasks_file_that_is_a_directory_is_refused() {
    refused(&Place::new(), &["--tasks", "."], ".: line 1: cannot be read: ");
}

#[test]
fn a_role_that_is_no_name_is_refused() {
    refused(&Place::new(), &["--role", "no name"], "invalid value 'no name' for '--role <R>'");
}

#[test]
fn no_workers_at_all_are_refused() {
    refused(&Place::new(), &["--workers", "0"], "invalid value '0' for '--workers <N>'");
}

#[test]
fn more_workers_than_the_limit_are_refused() {
    refused(&Place::new(), &["--workers", "100000"], "100000 is not in 1..=1024");
}

#[test]
fn a_time_limit_of_nothing_is_refused() {
    refused(&Place::new(), &["--timeout", "0s"], "expected more than no time at all");
}

#[test]
fn a_duration_that_is_none_is_refused_with_examples() {
    refused(&Place::new(), &["--backoff", "soon"], "(examples: 100ms, 5s, 2m)");
}

#[test]
fn following_and_json_exclude_each_other() {
    refused(&Place::new(), &["--json", "--follow"], "cannot be used with");
}

#[test]
fn a_log_filter_that_is_none_is_refused() {
    let place = Place::new();
    let mut command = place.command();
    command.args(["workspace", "ls"]).env("VAKBUS_LOG", "vakbus=loud");
    run(command, "").is_wrong_call("VAKBUS_LOG: ");
}

#[test]
fn a_log_filter_that_is_no_text_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    let mut command = place.command();
    let filter = std::ffi::OsStr::from_bytes(b"debug\xff");
    command.args(["workspace", "ls"]).env("VAKBUS_LOG", filter);
    run(command, "").is_wrong_call("VAKBUS_LOG: expected UTF-8");
}

#[test]
fn a_swarm_without_a_command_is_refused() {
    Place::new().run(&["swarm"]).is_wrong_call("<CMD>...");
}

#[test]
fn an_option_that_does_not_exist_is_refused() {
    Place::new().run(&["swarm", "--wokers", "2", "--", "true"]).is_wrong_call("--workers");
}

/// A hundred commands at one time, started by a shell with this limit of open files; each says
/// that it has started and then waits at the gate.
fn hundred_workers(place: &Place, limit: &str) -> Running {
    let tasks: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    place.write("tasks", &tasks.join("\n"));
    let call = "\"$0\" swarm --workers 100 --tasks tasks -- sh -c 'echo >started; read x <gate'";
    Running::start(place.shell(&format!("ulimit {limit}; exec {call}")))
}

#[test]
fn more_workers_than_files_may_be_open_are_refused_with_the_number_that_works() {
    let place = Place::new();
    let outcome = hundred_workers(&place, "-n 128").ended();
    outcome.is_wrong_call("100 workers need 564 open files; 128 are allowed here");
    assert!(outcome.stderr.contains("next: --workers 12,"), "{outcome:?}");
    assert!(!place.path("started").exists());
}

#[test]
fn a_soft_limit_of_open_files_is_raised_when_the_workers_need_it() {
    let place = Place::new();
    let started = Lines::through(&place.pipe("started"));
    let mut gate = Gate::at(&place.pipe("gate"));
    let running = hundred_workers(&place, "-S -n 128");
    for _ in 0..100 {
        assert!(started.next().is_some());
    }
    gate.open_for(100);
    let outcome = running.ended();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}
