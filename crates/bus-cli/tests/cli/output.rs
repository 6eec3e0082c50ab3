//! Large outputs: they come home while they are shown, in bounds, and whatever happens to the bus.

use rustix::process::Signal;
use serde_json::json;

use crate::{
    daemon_support::{Daemon, lines},
    support::{Gate, Lines, Place, Running, run},
};

fn worker(place: &Place, args: &[&str], script: &str) -> Running {
    let args = [&["worker", "--role", "r"], args, &["--", "sh", "-c", script]].concat();
    let mut worker = place.start(&args);
    worker.says("serving r");
    worker
}

fn send(place: &Place) {
    let sent = place.run(&["task", "send", "--role", "r", "--id", "t-1", "x"]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
}

#[test]
fn a_large_output_comes_home_while_it_is_shown() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let tasks = "{\"id\":\"t-1\",\"payload\":\"x\"}\n{\"id\":\"t-2\",\"payload\":\"x\"}\n";
    let bytes = 16 * 1024 * 1024;
    let script = format!("yes abcdefghijklmnopqrstuvwxyz | head -c {bytes}");
    let mut command = place.command();
    command.args(["swarm", "--workers", "2", "--follow", "--", "sh", "-c", &script]);
    let outcome = run(command, tasks);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("] abcdefghijklmnopqrstuvwxyz\n"), "nothing was shown");
    let result = place.run(&["task", "result", "t-2", "--json"]).json();
    assert_eq!((&result["output_bytes"], &result["verified"]), (&json!(bytes), &json!(true)));
    daemon.stop();
}

#[test]
fn a_flood_goes_on_while_its_daemon_dies() {
    let place = Place::new();
    let (gate, started) = (place.pipe("gate"), place.pipe("started"));
    let (mut gate, started) = (Gate::at(&gate), Lines::through(&started));
    let daemon = Daemon::start(&place);
    let script = "echo begun >>times; yes abc | head -c 2000000; echo on >started; read x <gate; \
                  yes abc | head -c 8000000; echo over >started; read x <gate";
    let worker = worker(&place, &[], script);
    send(&place);
    assert_eq!(started.next().unwrap(), "on");
    daemon.kill();
    gate.open_for(1);
    // It writes all of it while nobody is there to take any.
    assert_eq!(started.next().unwrap(), "over");
    let daemon = Daemon::start(&place);
    gate.open_for(1);
    let result = place.run(&["task", "result", "t-1", "--wait", "--json"]);
    assert_eq!(result.code, Some(0), "{result:?}");
    assert_eq!((place.read("times").as_str(), &result.json()["attempt"]), ("begun\n", &json!(1)));
    worker.signal(Signal::TERM);
    let said = worker.ended().stderr;
    let warned = said.matches("output is not shown now").count();
    assert!(warned <= 2, "the same is told {warned} times: {said}");
    daemon.stop();
}

#[test]
fn an_output_beyond_the_bound_is_kept_at_both_ends() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let worker = worker(&place, &["--output-max", "1kB"], "seq 1 100000");
    send(&place);
    let result = place.run(&["task", "result", "t-1", "--wait"]);
    assert_eq!((result.code, result.stdout.len()), (Some(0), 1000), "{result:?}");
    assert!(result.stdout.starts_with("1\n2\n") && result.stdout.ends_with("\n100000\n"));
    assert!(result.stderr.contains("587895 bytes are left out here"), "{}", result.stderr);
    assert!(result.stderr.contains("shown by the word of cli-worker"), "{}", result.stderr);
    worker.signal(Signal::TERM);
    assert_eq!(worker.ended().code, Some(0));
    daemon.stop();
}

#[test]
fn what_is_left_out_is_told_in_json_too() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let worker = worker(&place, &["--output-max", "10"], "printf 0123456789abcdef");
    send(&place);
    let result = place.run(&["task", "result", "t-1", "--wait", "--json"]).json();
    assert_eq!((&result["output"], &result["output_tail"]), (&json!("01234"), &json!("bcdef")));
    assert_eq!((&result["left_out"]["at"], &result["left_out"]["bytes"]), (&json!(5), &json!(6)));
    assert_eq!((&result["verified"], &result["output_bytes"]), (&json!(false), &json!(10)));
    assert_eq!(result["left_out"]["hash_verified"], json!(true));
    worker.signal(Signal::TERM);
    worker.ended();
    daemon.stop();
}

#[test]
fn where_no_output_is_wanted_none_is_kept() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let worker = worker(&place, &["--output-max", "0"], "echo out");
    send(&place);
    let result = place.run(&["task", "result", "t-1", "--wait"]);
    assert_eq!((result.code, result.stdout.as_str()), (Some(0), ""), "{result:?}");
    assert!(result.stderr.contains("its worker keeps no output"), "{}", result.stderr);
    let listed = lines(&place.run(&["task", "result", "t-1", "--json"]));
    let (state, reason) = (&listed[0]["state"], &listed[0]["not_kept"]);
    assert_eq!((state, reason), (&json!("done"), &json!("its worker keeps no output")));
    worker.signal(Signal::TERM);
    let said = worker.ended().stderr;
    assert!(!said.contains("not kept"), "{said}");
    daemon.stop();
}
