//! Commands in terminals of their own.

use std::process::Stdio;

use rustix::{
    fs::{Mode, OFlags, open},
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use serde_json::json;

use crate::support::{Held, Lines, Place};

const NO_RETRY: [&str; 2] = ["--max-retries", "0"];

#[test]
fn commands_of_a_swarm_have_a_terminal_of_the_size_that_was_asked_for() {
    let place = Place::new();
    let script = "test -t 1 && test -t 2 && stty size </dev/tty; cat";
    let args = ["--follow", "--pty", "--pty-size", "40x120", "--", "sh", "-c", script];
    place.write("tasks", "payload");
    let outcome = place.run(&[&["swarm", "--tasks", "tasks"], &args[..]].concat());
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let shown: Vec<_> =
        outcome.stdout.lines().filter_map(|line| Some(line.split_once("] ")?.1)).collect();
    assert_eq!(shown, ["40 120", "payload"], "{outcome:?}");
}

#[test]
fn without_a_terminal_of_the_user_a_command_has_the_usual_size() {
    let place = Place::new();
    let script = "test \"$(stty size </dev/tty)\" = '24 80'";
    let (outcome, summary) = place.swarm("x", &["--pty", "--", "sh", "-c", script]);
    assert_eq!((outcome.code, &summary["completed"]), (Some(0), &json!(1)), "{summary}");
}

#[test]
fn a_size_without_a_terminal_is_a_wrong_call() {
    let place = Place::new();
    place.run(&["swarm", "--pty-size", "24x80", "--", "true"]).is_wrong_call("--pty");
    place.run(&["worker", "--pty-size", "24x80", "--", "true"]).is_wrong_call("--pty");
    let wrong = place.run(&["swarm", "--pty", "--pty-size", "80", "--", "true"]);
    wrong.is_wrong_call("a size is ROWSxCOLUMNS, like 40x120");
}

#[test]
fn the_reason_of_a_failure_is_what_a_person_would_have_read() {
    let place = Place::new();
    let script = "printf ' 10%%\\r\\033[1;31m 20%%: no space\\033[0m\\n\\n'; exit 3";
    let args = [&NO_RETRY[..], &["--pty", "--", "sh", "-c", script]].concat();
    let (_outcome, summary) = place.swarm("x", &args);
    let reason = summary["dead_letters"][0]["reason"].as_str().unwrap_or_default();
    assert!(reason.ends_with("exit code 3: 20%: no space"), "{summary}");
}

#[test]
fn what_job_control_started_ends_with_its_task() {
    let place = Place::new();
    let held = Held::through(&place.pipe("held"));
    let script = "exec 3>held; set -m; sleep 1000 >/dev/null 2>&1 & exit 0";
    let (outcome, _summary) = place.swarm("x", &["--pty", "--", "sh", "-c", script]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    held.released();
}

#[test]
fn a_terminal_follows_that_of_its_user() {
    let place = Place::new();
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).and_then(|()| unlockpt(&master)).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let size =
        |rows, columns| Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&master, size(31, 97)).unwrap();
    place.write("tasks", "x");
    let script = "trap 'stty size </dev/tty; exit 0' WINCH; stty size </dev/tty; \
                  while :; do sleep 0.02; done";
    let mut command = place.command();
    command.args(["swarm", "--tasks", "tasks", "--follow", "--pty", "--", "sh", "-c", script]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::from(slave));
    let mut child = command.spawn().unwrap();
    let lines = Lines::of(child.stdout.take().unwrap());
    let next = || lines.next().unwrap().split_once("] ").unwrap().1.to_owned();
    assert_eq!(next(), "31 97");
    tcsetwinsize(&master, size(50, 133)).unwrap();
    // It is no controlling terminal of that process, so the system tells it nothing.
    kill_process(Pid::from_child(&child), Signal::WINCH).unwrap();
    assert_eq!(next(), "50 133");
    assert!(child.wait().unwrap().success());
}
