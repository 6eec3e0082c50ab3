//! What the command owes its streams and signals: readers that leave, full disks, colours, levels.

use std::{
    io::Write, os::unix::process::ExitStatusExt, process::Stdio, sync::mpsc, thread, time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{LIMIT, Lines, Outcome, Place, run};

/// Runs `call`, a line of bash with `vakbus` as `$0`; the codes of its first pipeline are told on
/// the last line.
fn piped(call: &str) -> Outcome {
    run(Place::new().bash(&format!("{call}; echo codes ${{PIPESTATUS[*]}}")), "")
}

fn quiet_when_the_reader_leaves(args: &str) {
    let outcome = piped(&format!("\"$0\" {args} | {{ read -r _; exec true; }}"));
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("codes 0 0\n", ""), "{args}");
}

#[test]
fn a_reader_that_leaves_is_no_failure_of_a_listing() {
    quiet_when_the_reader_leaves("acl explain --role worker");
}

#[test]
fn a_reader_that_leaves_is_no_failure_of_the_help() {
    quiet_when_the_reader_leaves("--help");
}

#[test]
fn a_reader_that_leaves_is_no_failure_of_a_script_or_a_page() {
    quiet_when_the_reader_leaves("completions bash");
    quiet_when_the_reader_leaves("man swarm");
}

#[cfg(target_os = "linux")]
fn fails_on_a_full_disk(args: &str) {
    let place = Place::new();
    let outcome = run(place.shell(&format!("exec \"$0\" {args} >/dev/full")), "");
    assert_eq!(outcome.code, Some(1), "{args}: {outcome:?}");
    let told = "error: cannot write to stdout: ";
    assert!(outcome.stderr.contains(told) && outcome.stderr.contains("\n  next: "), "{outcome:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn help_that_cannot_be_written_is_a_failure() {
    fails_on_a_full_disk("--help");
    fails_on_a_full_disk("swarm --help");
    fails_on_a_full_disk("--version");
}

#[test]
#[cfg(target_os = "linux")]
fn scripts_and_pages_that_cannot_be_written_are_a_failure() {
    fails_on_a_full_disk("completions fish");
    fails_on_a_full_disk("man");
    fails_on_a_full_disk("man --out pages");
}

#[test]
#[cfg(target_os = "linux")]
fn a_wrong_call_is_one_though_stderr_is_full() {
    let outcome = run(Place::new().shell("exec \"$0\" swrm 2>/dev/full"), "");
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
}

/// What `vakbus` prints with these settings of the environment.
fn with(settings: &[(&str, &str)], args: &[&str]) -> Outcome {
    let place = Place::new();
    place.write("tasks", "a\n");
    let mut command = place.command();
    command.args(args).envs(settings.iter().copied());
    run(command, "")
}

fn is_coloured(settings: &[(&str, &str)], args: &[&str]) -> bool {
    let outcome = with(settings, args);
    outcome.stdout.contains('\u{1b}') || outcome.stderr.contains('\u{1b}')
}

const SWARM: [&str; 5] = ["swarm", "--tasks", "tasks", "--", "true"];

#[test]
fn a_pipe_gets_no_colours() {
    assert!(!is_coloured(&[], &SWARM));
    assert!(!is_coloured(&[], &["--help"]));
}

#[test]
fn colours_can_be_forced_by_the_environment() {
    assert!(is_coloured(&[("CLICOLOR_FORCE", "1")], &SWARM));
    assert!(is_coloured(&[("CLICOLOR_FORCE", "1")], &["--help"]));
}

#[test]
fn no_color_wins_over_forced_colours() {
    let both = [("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")];
    assert!(!is_coloured(&both, &SWARM));
    assert!(!is_coloured(&both, &["--help"]));
}

#[test]
fn the_option_wins_over_the_environment() {
    let never: Vec<&str> = ["--color", "never"].into_iter().chain(SWARM).collect();
    assert!(!is_coloured(&[("CLICOLOR_FORCE", "1")], &never));
    let always: Vec<&str> = ["--color=always"].into_iter().chain(SWARM).collect();
    assert!(is_coloured(&[("NO_COLOR", "1")], &always));
}

#[test]
fn the_option_counts_for_help_and_wrong_calls_too() {
    assert!(is_coloured(&[], &["--color", "always", "--help"]));
    assert!(is_coloured(&[], &["swarm", "--color=always", "--wokers"]));
    assert!(!is_coloured(&[("CLICOLOR_FORCE", "1")], &["--help", "--color=never"]));
}

#[test]
fn what_comes_after_two_dashes_is_no_option_of_ours() {
    assert!(!is_coloured(&[], &["swarm", "--wokers", "--", "ls", "--color=always"]));
}

#[test]
fn logs_have_colours_when_they_are_asked_for() {
    let args: Vec<&str> = ["-v", "--color=always"].into_iter().chain(SWARM).collect();
    let outcome = with(&[("NO_COLOR", "1")], &args);
    let log = outcome.stderr.lines().find(|line| line.contains("INFO")).unwrap();
    assert!(log.contains('\u{1b}'), "{log}");
}

/// What a swarm that goes well says on stderr with these options.
fn said(options: &[&str]) -> String {
    let args: Vec<&str> = options.iter().copied().chain(SWARM).collect();
    let outcome = with(&[], &args);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stdout.contains("1 of 1 task completed"), "{outcome:?}");
    outcome.stderr
}

#[test]
fn each_v_says_more() {
    assert_eq!(said(&[]), "");
    let [one, two, three] = ["-v", "-vv", "-vvv"].map(|option| said(&[option]));
    assert!(one.contains("INFO") && !one.contains("DEBUG"), "{one}");
    assert!(two.contains("DEBUG") && !two.contains("TRACE"), "{two}");
    assert!(three.len() >= two.len(), "{three}");
}

#[test]
fn quiet_leaves_data_and_errors_only() {
    assert_eq!(said(&["-q"]), "");
    let outcome = with(&[], &["-q", "workspace", "show"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(1), ""));
    assert!(outcome.stderr.starts_with("error: "), "{outcome:?}");
}

#[test]
fn quiet_leaves_warnings_out() {
    let place = Place::new();
    assert_eq!(place.run(&["agent", "add", "bob", "--role", "worker"]).code, Some(0));
    std::fs::write(place.workspace().join("agents/bob.creds"), "damaged").unwrap();
    assert!(place.run(&["agent", "ls"]).stderr.starts_with("warning: "));
    let outcome = place.run(&["agent", "ls", "-q"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
}

#[test]
fn quiet_and_verbose_exclude_each_other() {
    Place::new().run(&["-q", "-v", "workspace", "ls"]).is_wrong_call("cannot be used with");
}

#[test]
fn a_quiet_run_says_nothing_though_it_is_stopped() {
    let place = Place::new();
    let started = Lines::through(&place.pipe("started"));
    place.pipe("gate");
    place.write("tasks", "a\n");
    let mut command = place.command();
    command.args(["-q", "swarm", "--tasks", "tasks", "--", "sh", "-c", "echo >started; cat gate"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let pid = Pid::from_child(&child);
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output().unwrap()));
    assert!(started.next().is_some());
    // Two signals may arrive as one: it is told to stop until it has.
    let output = (0..LIMIT.as_millis() / 20).find_map(|_| {
        let _gone = kill_process(pid, Signal::INT);
        ended.recv_timeout(Duration::from_millis(20)).ok()
    });
    let output = output.expect("still running");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
#[cfg(target_os = "linux")]
fn ctrl_c_before_there_is_anything_to_finish_ends_as_the_shell_expects() {
    let place = Place::new();
    // It reads its tasks, and their end never comes. Whoever runs the tests may ignore SIGINT.
    let script = "exec env --default-signal=INT \"$0\" swarm -- touch mark";
    let mut command = place.shell(script);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    // More than a pipe holds: when it is written, somebody reads.
    child.stdin.as_mut().unwrap().write_all(&[b'\n'; 1024 * 1024]).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let stdin = child.stdin.take();
    let status = child.wait().unwrap();
    drop(stdin);
    assert_eq!(status.signal(), Some(Signal::INT.as_raw()));
    assert!(!place.path("mark").exists());
}
