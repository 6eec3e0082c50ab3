//! Sessions that are recorded, and late viewers who see the past and what follows.

use bus_testserver::TestServer;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    daemon_support::{Daemon, lines},
    nats_support::Machine,
    support::{Outcome, Place},
};

const PAST: [&str; 7] = ["sub", "--json", "--session", "s1", "--window", "500", "--count"];

/// Publishes words of a model of the session `s1`.
fn says(place: &Place, text: &str) {
    let outcome = place.run(&["pub", "--session", "s1", "tokens", text]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

/// What a viewer was shown: each text, and whether it is of the past.
fn shown(outcome: &Outcome) -> Vec<(Value, bool)> {
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let one = |line: &Value| (line["payload"].clone(), line["past"] == true);
    lines(outcome).iter().map(one).collect()
}

/// Records the session `s1` while these are said, and gives what the recorder printed.
fn recorded(place: &Place, texts: &[&str]) -> Outcome {
    let mut recorder = place.start(&["record", "--session", "s1", "--json"]);
    recorder.says("recording tokens,terminal of session s1, at most 64 MiB");
    texts.iter().for_each(|text| says(place, text));
    recorder.signal(Signal::TERM);
    recorder.ended()
}

#[test]
fn a_late_viewer_sees_the_past_and_what_comes_as_one() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let outcome = recorded(&place, &["one", "two"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let told = outcome.json();
    assert_eq!((&told["session"], &told["recorded"]["events"]), (&json!("s1"), &json!(2)));
    assert_eq!(told["recorded"]["missed"], 0);

    let mut viewer = place.start(&[&PAST[..], &["3"]].concat());
    viewer.says("2 events of the past of session s1; listening from there on");
    says(&place, "three");
    let texts = shown(&viewer.ended());
    assert_eq!(texts, [(json!("one"), true), (json!("two"), true), (json!("three"), false)]);
    assert_eq!(daemon.stop().code, Some(0));
}

#[test]
fn a_recorder_that_is_started_again_goes_on() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    recorded(&place, &["one"]);
    recorded(&place, &["two"]);
    let texts = shown(&place.run(&[&PAST[..], &["2"]].concat()));
    assert_eq!(texts, [(json!("one"), true), (json!("two"), true)]);
    daemon.kill();
    let _again = Daemon::start(&place);
    let texts =
        shown(&place.run(&["sub", "--json", "--session", "s1", "--window", "1", "--count", "1"]));
    assert_eq!(texts, [(json!("two"), true)], "after the daemon's end as well");
}

#[test]
fn a_viewer_of_what_nobody_recorded_is_told_so() {
    let place = Place::new();
    let _daemon = Daemon::start(&place);
    let mut viewer = place.start(&[&PAST[..], &["1"]].concat());
    viewer.says("nothing of session s1 is recorded (vakbus record --session s1)");
    says(&place, "one");
    assert_eq!(shown(&viewer.ended()), [(json!("one"), false)]);
}

#[test]
fn a_swarm_records_what_its_tasks_write() {
    let place = Place::new();
    let _daemon = Daemon::start(&place);
    let args = ["--record", "--", "echo", "hello {}"];
    let (outcome, summary) = place.swarm("a\nb\n", &args);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    // What each wrote, and that it ended.
    assert!(summary["recorded"]["events"] == 4, "{summary}");
    assert_eq!(summary["recorded"]["missed"], 0);
    let session = summary["session"].as_str().unwrap();

    let seen = place.run(&["sub", "--raw", "--session", session, "--window", "9", "--count", "2"]);
    assert_eq!(seen.code, Some(0), "{seen:?}");
    let mut seen: Vec<_> = seen.stdout.lines().collect();
    seen.sort_unstable();
    assert_eq!(seen, ["hello a", "hello b"]);
}

#[test]
fn a_worker_records_its_session() {
    let place = Place::new();
    let _daemon = Daemon::start(&place);
    assert_eq!(place.run(&["task", "send", "--role", "r", "hello"]).code, Some(0));
    let args = ["worker", "--role", "r", "--until-empty", "--record=1MiB", "--", "cat"];
    let mut worker = place.start(&args);
    let session = worker.hears_after("recording session ").split(';').next().unwrap().to_owned();
    assert_eq!(worker.ended().code, Some(0));
    let seen = place.run(&["sub", "--raw", "--session", &session, "--window", "9", "--count", "1"]);
    assert_eq!((seen.code, seen.stdout.as_str()), (Some(0), "hello"), "{seen:?}");
}

#[test]
fn a_swarm_that_nobody_can_look_at_later_is_not_recorded() {
    let place = Place::new();
    place.write("tasks", "a\n");
    place.run(&["swarm", "--tasks", "tasks", "--record", "--", "true"]).is_wrong_call(
        "no daemon runs, so nobody could see later what is recorded\n  next: start one: vakbus up",
    );
}

#[test]
fn who_is_no_keeper_is_told_what_a_recorder_needs() {
    let place = Place::new();
    assert_eq!(place.run(&["agent", "add", "ann", "--role", "observer"]).code, Some(0));
    let _daemon = Daemon::start(&place);
    let mut recorder = place.start(&["--as", "ann", "record", "--session", "s1"]);
    recorder.says("recording");
    says(&place, "one");
    let outcome = recorder.ended();
    assert_eq!(outcome.code, Some(4), "{outcome:?}");
    let next = "vakbus agent add NAME --role observer --role keeper";
    assert!(outcome.stderr.contains(next), "{outcome:?}");
}

#[test]
fn a_window_belongs_to_a_session() {
    let place = Place::new();
    place.run(&["sub", "--window", "500"]).is_wrong_call("--session <NAME>");
    place.run(&["sub", "--window", "500", "vak.>"]).is_wrong_call("cannot be used with");
    place.run(&["sub", "--session", "s1", "vak.>"]).is_wrong_call("cannot be used with");
    place.run(&["sub"]).is_wrong_call("<FILTER>");
    place.run(&["sub", "--session", "s1", "--window", "soon"]).is_wrong_call("500, 64KiB, 10m");
    place.run(&["record", "--session", "s1", "--max", "0"]).is_wrong_call("more than nothing");
    place
        .run(&["record", "--session", "s1", "--kinds", "sounds"])
        .is_wrong_call("tokens or terminal");
}

#[test]
fn on_a_server_a_recording_is_seen_from_another_machine() {
    let server = TestServer::start();
    let here = Machine::new(&server);
    here.does(&["task", "ls"]);
    let there = here.copy();
    let mut recorder = here.start(&["record", "--session", "s1"]);
    recorder.says("recording");
    for text in ["one", "two"] {
        here.does(&["pub", "--session", "s1", "tokens", text]);
    }
    recorder.signal(Signal::TERM);
    let outcome = recorder.ended();
    assert_eq!(outcome.stdout, "recorded 2 events in 1 batch, 0 missed", "{outcome:?}");

    let mut viewer = there.start(&[&PAST[..], &["3"]].concat());
    viewer.says("2 events of the past");
    here.does(&["pub", "--session", "s1", "tokens", "three"]);
    let texts = shown(&viewer.ended());
    assert_eq!(texts, [(json!("one"), true), (json!("two"), true), (json!("three"), false)]);
}

#[test]
fn a_trace_tells_what_was_recorded_of_a_task_as_one_line() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let script = "printf one; sleep 0.01; printf two";
    let (outcome, summary) = place.swarm("a\n", &["--record", "--", "sh", "-c", script]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let receipts = place.run(&["receipts", "ls", "--json"]);
    let task = lines(&receipts)[0]["task"].as_str().unwrap().to_owned();
    let traced = place.run(&["trace", &task, "--json"]);
    assert_eq!(traced.code, Some(0), "{traced:?}");
    let told = lines(&traced);
    let recorded: Vec<&Value> = told.iter().filter(|line| line["kind"] == "terminal").collect();
    let [recorded] = recorded[..] else { panic!("{traced:?}") };
    assert_eq!(recorded["recorded"]["events"], summary["recorded"]["events"], "{traced:?}");
    assert!(recorded["recorded"]["bytes"].as_u64().unwrap() >= 6, "{traced:?}");
    // Led to by the task, as its receipt is.
    let receipt = told.iter().find(|line| line["kind"] == "receipt").unwrap();
    assert_eq!(recorded["cause"], receipt["cause"], "{traced:?}");
    let shown = place.run(&["trace", &task]).stdout;
    assert!(shown.contains("─ terminal  "), "{shown}");
    daemon.stop();
}
