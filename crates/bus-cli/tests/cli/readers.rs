//! Who reads the output: people who follow it, pipes that break, disks that are full.

use std::io::{BufRead, BufReader};

use rustix::process::Signal;
use serde_json::json;

use crate::support::{Gate, Lines, Outcome, Place, Running, adds_up, run};

#[test]
fn following_shows_whole_lines_with_their_task() {
    let place = Place::new();
    let mut command = place.command();
    let script = "printf 'one\\ntw'; sleep 0.05; printf 'o\\nlast'; echo error >&2";
    command.args(["swarm", "--follow", "--workers", "1", "--", "sh", "-c", script]);
    let outcome = run(command, "{\"id\": \"t-1\", \"payload\": \"x\"}\n");
    let shown = outcome.stdout.lines().filter(|line| line.starts_with("[t-1] "));
    let mut shown: Vec<&str> = shown.collect();
    shown.sort_unstable();
    assert_eq!(shown, ["[t-1] error", "[t-1] last", "[t-1] one", "[t-1] two"]);
}

#[test]
fn a_follower_that_goes_away_does_not_stop_the_run() {
    let place = Place::new();
    let mut gate = Gate::at(&place.pipe("gate"));
    place.write("tasks", "a\nb\nc\n");
    let script = "echo {}; read x <gate; yes | head -n 10000; echo {} >>seen";
    let args = ["--follow", "--workers", "1", "--tasks", "tasks", "--", "sh", "-c", script];
    let mut running = place.start(&[&["swarm"][..], &args].concat());
    let mut line = String::new();
    // Dropped after the first line, as `head -n 1` does.
    BufReader::new(running.take_stdout()).read_line(&mut line).unwrap();
    gate.open_for(3);
    let outcome = running.ended();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(place.read("seen"), "a\nb\nc\n");
    assert!(outcome.stderr.starts_with("3 of 3 tasks completed"), "{outcome:?}");
}

/// Runs a swarm whose stdout nobody reads.
fn unread(place: &Place, args: &[&str]) -> Outcome {
    let mut running = place.start(args);
    drop(running.take_stdout());
    running.ended()
}

#[test]
fn a_summary_that_nobody_reads_goes_to_stderr() {
    let place = Place::new();
    place.write("tasks", "a\nb\n");
    let outcome = unread(&place, &["swarm", "--json", "--tasks", "tasks", "--", "true"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    adds_up(&serde_json::from_str(&outcome.stderr).unwrap());
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_under_stdout_is_a_failure_and_the_summary_is_still_told() {
    let place = Place::new();
    place.write("tasks", "a\n");
    let command = place.shell("exec \"$0\" swarm --tasks tasks -- true >/dev/full");
    let outcome = run(command, "");
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.stderr.contains("1 of 1 task completed"), "{outcome:?}");
    assert!(outcome.stderr.contains("error: cannot write to stdout"), "{outcome:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_listing_that_cannot_be_written_is_a_failure() {
    let place = Place::new();
    let command = place.shell("exec \"$0\" acl explain --role worker >/dev/full");
    let outcome = run(command, "");
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.stderr.contains("error: cannot write to stdout"), "{outcome:?}");
}

#[test]
fn no_progress_is_drawn_where_stderr_is_no_terminal() {
    let place = Place::new();
    place.write("tasks", "a\n");
    let script = "sleep 0.5";
    let outcome = place.run(&["swarm", "--tasks", "tasks", "--", "sh", "-c", script]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
}

#[test]
#[cfg(target_os = "linux")]
fn the_progress_of_a_terminal_is_wiped_at_the_end() {
    let place = Place::new();
    place.write("tasks", "a\n");
    // `script` gives the command a terminal; stdout goes elsewhere.
    let line = "script -qec \"'$0' swarm --tasks tasks -- sleep 0.5 >summary\" /dev/null";
    let running = Running::start(place.shell(line));
    let outcome = running.ended();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stdout.contains("0/1"), "{outcome:?}");
    let drawn = outcome.stdout.trim_end();
    assert!(drawn.ends_with("\u{1b}[2K") || drawn.ends_with("\u{1b}[K"), "{outcome:?}");
    assert!(place.read("summary").starts_with("1 of 1 task completed"));
}

#[test]
fn logs_have_no_colours_where_stderr_is_no_terminal() {
    let place = Place::new();
    place.write("tasks", "a\n");
    let outcome = place.run(&["swarm", "-vv", "--tasks", "tasks", "--", "true"]);
    assert!(outcome.stderr.contains("DEBUG"), "{outcome:?}");
    assert!(!outcome.stderr.contains('\u{1b}'), "{outcome:?}");
}

#[test]
fn colours_come_when_they_are_asked_for() {
    let place = Place::new();
    place.write("tasks", "a\n");
    let outcome = place.run(&["swarm", "--color", "always", "--tasks", "tasks", "--", "true"]);
    assert!(outcome.stdout.starts_with("\u{1b}[32m"), "{outcome:?}");
}

#[test]
fn the_output_of_a_command_can_be_followed_while_it_runs() {
    let place = Place::new();
    let mut gate = Gate::at(&place.pipe("gate"));
    place.write("tasks", "{\"id\": \"t-1\", \"payload\": \"x\"}\n");
    let script = "echo working; read x <gate";
    let args = ["swarm", "--follow", "--tasks", "tasks", "--", "sh", "-c", script];
    let mut running = place.start(&args);
    let shown = Lines::of(running.take_stdout());
    assert_eq!(shown.next().unwrap(), "[t-1] working");
    gate.open_for(1);
    assert_eq!(running.ended().code, Some(0));
}

#[test]
fn a_reader_that_does_not_read_holds_up_nothing_but_the_showing() {
    let place = Place::new();
    let done = Lines::through(&place.pipe("done"));
    let tasks: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    place.write("tasks", &tasks.join("\n"));
    // More than a pipe and everything behind it hold.
    let script = "yes | head -n 200000; echo {} >done";
    let args =
        ["swarm", "--follow", "--workers", "4", "--tasks", "tasks", "--", "sh", "-c", script];
    let mut running = place.start(&args);
    let stdout = running.take_stdout();
    for _ in 0..40 {
        assert!(done.next().is_some());
    }
    drop(stdout);
    let outcome = running.ended();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stderr.contains("40 of 40 tasks completed"), "{outcome:?}");
}

/// A swarm of two floods whose stdout nobody reads, though it stays open.
fn stuck(place: &Place, script: &str) -> (Running, std::process::ChildStdout) {
    place.write("tasks", "a\nb\n");
    let args = ["swarm", "-v", "--follow", "--workers", "1", "--tasks", "tasks", "--evidence"];
    let mut running = place.start(&[&args[..], &["run", "--", "sh", "-c", script]].concat());
    let stdout = running.take_stdout();
    (running, stdout)
}

#[test]
fn a_signal_when_the_tasks_are_done_gives_up_a_reader_that_does_not_read() {
    let place = Place::new();
    let (mut running, _stdout) = stuck(&place, "yes | head -n 200000");
    running.says("the tasks are done");
    running.signal(Signal::TERM);
    let outcome = running.ended();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stderr.contains("the rest of the output is not shown"), "{outcome:?}");
    assert!(outcome.stderr.contains("2 of 2 tasks completed in"), "{outcome:?}");
    assert_eq!(place.run(&["verify", "run"]).code, Some(0));
}

#[test]
fn an_interrupted_run_does_not_wait_for_a_reader_that_does_not_read() {
    let place = Place::new();
    let started = Lines::through(&place.pipe("started"));
    let mut gate = Gate::at(&place.pipe("gate"));
    let script = "yes | head -n 200000; echo >started; read x <gate";
    let (mut running, _stdout) = stuck(&place, script);
    assert!(started.next().is_some());
    running.signal(Signal::INT);
    running.says("finishing what runs");
    gate.open_for(1);
    let outcome = running.ended();
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.stderr.contains("1 of 2 tasks completed, 1 not run (stopped"), "{outcome:?}");
}

#[test]
fn signals_when_the_tasks_are_done_let_the_evidence_be_written_whole() {
    let place = Place::new();
    let tasks: Vec<String> = (0..200).map(|number| number.to_string()).collect();
    place.write("tasks", &tasks.join("\n"));
    let args = ["swarm", "-v", "--json", "--tasks", "tasks", "--evidence", "run", "--", "true"];
    let mut running = place.start(&args);
    running.says("the tasks are done");
    running.signal(Signal::INT);
    running.signal(Signal::TERM);
    let outcome = running.ended();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let summary = outcome.json();
    adds_up(&summary);
    assert_eq!((&summary["interrupted"], &summary["troubles"]), (&json!(false), &json!([])));
    assert_eq!(place.run(&["verify", "run"]).code, Some(0));
}

#[test]
fn tries_at_one_task_are_not_shown_as_one_line() {
    let place = Place::new();
    let script = "[ $VAKBUS_ATTEMPT = 2 ] && echo done || { printf half; exit 1; }";
    let mut command = place.command();
    command.args(["swarm", "--follow", "--backoff", "1ms", "--", "sh", "-c", script]);
    let outcome = run(command, "{\"id\": \"t-1\", \"payload\": \"x\"}\n");
    let shown = outcome.stdout.lines().filter(|line| line.starts_with("[t-1] "));
    assert_eq!(shown.collect::<Vec<_>>(), ["[t-1] half", "[t-1] done"]);
}

#[test]
#[cfg(target_os = "linux")]
fn an_unfinished_line_is_shown_when_its_command_ends_and_not_when_the_run_does() {
    let place = Place::new();
    let mut gate = Gate::at(&place.pipe("gate"));
    place.write(
        "tasks",
        "{\"id\": \"t-1\", \"payload\": \"a\"}\n{\"id\": \"t-2\", \"payload\": \"b\"}\n",
    );
    let script = "if [ {} = a ]; then printf half; else read x <gate; fi";
    let args =
        ["swarm", "--follow", "--workers", "1", "--tasks", "tasks", "--", "sh", "-c", script];
    let mut running = place.start(&args);
    let shown = Lines::of(running.take_stdout());
    assert_eq!(shown.next().unwrap(), "[t-1] half");
    gate.open_for(1);
    assert_eq!(running.ended().code, Some(0));
}
