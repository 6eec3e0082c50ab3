//! What happened last, and what happens now, as `tail` and `trace` show it.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    daemon_support::{Daemon, lines},
    support::{Lines, Outcome, Place},
};

/// A daemon; tasks `t-1` (done), `t-2` (given up) of the queue `r`, and `t-3`, which waits in `q`.
struct Scene {
    place: Place,
    daemon: Daemon,
}

impl Scene {
    fn new() -> Self {
        let place = Place::new();
        let daemon = Daemon::start(&place);
        let scene = Self { place, daemon };
        scene.send("r", "t-1", "good");
        scene.send("r", "t-2", "bad");
        let args = ["worker", "--role", "r", "--until-empty", "--max-retries", "0"];
        let script = ["--", "sh", "-c", "read t; test $t = good"];
        assert_eq!(scene.place.run(&[args.as_slice(), &script].concat()).code, Some(3));
        scene.send("q", "t-3", "later");
        scene
    }

    fn send(&self, role: &str, id: &str, text: &str) {
        let text = format!("{text}\n");
        let sent = self.place.run(&["task", "send", "--role", role, "--id", id, &text]);
        assert_eq!(sent.code, Some(0), "{sent:?}");
    }

    fn end(self) {
        assert_eq!(self.daemon.stop().code, Some(0));
    }
}

fn kinds(outcome: &Outcome) -> Vec<Value> {
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    lines(outcome).iter().map(|line| line["kind"].clone()).collect()
}

#[test]
fn the_last_records_of_all_kinds_come_in_the_order_of_their_time() {
    let scene = Scene::new();
    let all = scene.place.run(&["tail", "--json"]);
    assert_eq!(kinds(&all), ["receipts", "dead-letters", "tasks"]);
    let line = &lines(&all)[2];
    assert_eq!((&line["id"], &line["payload"]), (&json!("t-3"), &json!("later\n")), "{line}");
    assert_eq!(kinds(&scene.place.run(&["tail", "--json", "-n", "1"])), ["tasks"]);
    let only = ["tail", "--json", "--only", "receipts,dead-letters", "-n", "1"];
    assert_eq!(kinds(&scene.place.run(&only)), ["dead-letters"]);
    assert!(kinds(&scene.place.run(&["tail", "--json", "-n", "0"])).is_empty());
    scene.end();
}

#[test]
fn people_read_who_did_what_in_a_line_each() {
    let scene = Scene::new();
    let told = scene.place.run(&["tail"]).stdout;
    let said: Vec<&str> = told.lines().map(|line| line.get(9..).unwrap_or_default()).collect();
    assert_eq!(said[0], "cli-worker  receipt  task t-1 done, exit 0, attempt 1");
    assert!(said[1].starts_with("cli-worker  dead letter  1  exhausted  task t-2: "), "{told}");
    assert_eq!(said[2].trim_end(), "cli  task  t-3 for q: later");
    scene.end();
}

#[test]
fn what_could_steer_a_terminal_is_escaped_in_json() {
    let scene = Scene::new();
    scene.send("q", "t-4", "a\u{9b}2J\u{7f}b");
    let shown = scene.place.run(&["tail", "--json", "-n", "1"]);
    assert!(!shown.stdout.trim_end().contains(char::is_control), "{shown:?}");
    assert_eq!(lines(&shown)[0]["payload"], "a\u{9b}2J\u{7f}b\n");
    scene.end();
}

#[test]
fn a_session_is_shown_alone() {
    let scene = Scene::new();
    let receipt = lines(&scene.place.run(&["tail", "--json", "--only", "receipts"])).remove(0);
    let session = receipt["session"].as_str().unwrap();
    let shown = scene.place.run(&["tail", "--json", "--session", session]);
    assert_eq!(kinds(&shown), ["receipts", "dead-letters"]);
    assert!(kinds(&scene.place.run(&["tail", "--json", "--session", "other"])).is_empty());
    scene.end();
}

#[test]
fn what_comes_is_followed_records_and_live_events() {
    let scene = Scene::new();
    let mut tail = scene.place.start(&["tail", "--follow", "--json", "-n", "1"]);
    let heard = Lines::of(tail.take_stdout());
    let next = || -> Value { serde_json::from_str(&heard.next().unwrap()).unwrap() };
    assert_eq!(next()["id"], "t-3");
    scene.send("r", "t-4", "new");
    let line = next();
    assert_eq!((&line["kind"], &line["id"]), (&json!("tasks"), &json!("t-4")), "{line}");
    let said = scene.place.run(&["pub", "--session", "s1", "tokens", "hello"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let line = next();
    assert_eq!((&line["kind"], &line["payload"]), (&json!("tokens"), &json!("hello")), "{line}");
    assert_eq!(line["position"], Value::Null);
    tail.signal(Signal::INT);
    assert_eq!(tail.ended().code, Some(0));
    scene.end();
}

#[test]
fn a_closed_pipe_ends_tail_with_0() {
    let scene = Scene::new();
    let script = "\"$0\" tail --follow --json | head -n 1; exit ${PIPESTATUS[0]}";
    let command = scene.place.bash(script);
    let mut running = crate::support::Running::start(command);
    let heard = Lines::of(running.take_stdout());
    assert!(heard.next().is_some());
    // `head` is gone, and the next line finds that out.
    for id in ["t-5", "t-6"] {
        scene.send("q", id, "more");
    }
    assert_eq!(running.ended().code, Some(0));
    scene.end();
}

#[test]
fn who_may_not_read_a_kind_does_without_it_and_who_may_read_none_is_refused() {
    let place = Place::new();
    for (name, role) in [("ann", "auditor"), ("vera", "view"), ("otis", "observer")] {
        assert_eq!(place.run(&["agent", "add", name, "--role", role]).code, Some(0));
    }
    let daemon = Daemon::start(&place);
    let scene = Scene { place, daemon };
    scene.send("q", "t-1", "x");
    let shown = scene.place.run(&["--as", "ann", "tail", "--json"]);
    assert_eq!((shown.code, shown.stdout.as_str()), (Some(0), ""), "{shown:?}");
    assert!(shown.stderr.contains("ann may not read tasks: without them"), "{shown:?}");
    for (name, more) in [("vera", ["--follow"].as_slice()), ("vera", &[]), ("otis", &[])] {
        let refused = scene.place.run(&[&["--as", name, "tail"], more].concat());
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(4), ""), "{refused:?}");
    }
    scene.end();
}

#[test]
fn live_events_have_no_last_ones() {
    let place = Place::new();
    let refused = place.run(&["tail", "--only", "tokens,terminal"]);
    refused.is_wrong_call("live events are kept by nobody");
    assert!(refused.stderr.contains("--follow"), "{refused:?}");
    let alone = place.run(&["tail", "--follow"]);
    assert_eq!(alone.code, Some(5), "{alone:?}");
}

#[test]
fn a_trace_is_a_tree_of_what_led_to_what() {
    let scene = Scene::new();
    let traced = scene.place.run(&["trace", "t-2", "--json"]);
    assert_eq!(traced.code, Some(0), "{traced:?}");
    let told = lines(&traced);
    // The task left its queue, and its dead letter keeps it.
    let (task, letter, sum) = (&told[0], &told[1], &told[2]);
    assert_eq!((&task["kind"], &task["id"]), (&json!("task"), &json!("t-2")), "{task}");
    assert_eq!((&task["depth"], &task["position"]), (&json!(0), &Value::Null), "{task}");
    assert_eq!((&letter["kind"], &letter["depth"]), (&json!("dead letter"), &json!(1)));
    assert_eq!(letter["cause"], task["leaf"]);
    assert_eq!((&sum["events"], &sum["missing"]), (&json!(2), &json!(0)), "{sum}");
    // By its trace and by its hash it is the same.
    let trace = task["traceparent"].as_str().unwrap().split('-').nth(1).unwrap();
    for id in [trace, task["leaf"].as_str().unwrap()] {
        assert_eq!(lines(&scene.place.run(&["trace", id, "--json"])), told, "{id}");
    }
    scene.end();
}

#[test]
fn a_cause_that_was_not_kept_is_named() {
    let scene = Scene::new();
    let traced = scene.place.run(&["trace", "t-1", "--json"]);
    let told = lines(&traced);
    let (task, receipt, sum) = (&told[0], &told[1], &told[2]);
    assert_eq!((&task["seen"], &task["depth"]), (&json!(false), &json!(0)), "{traced:?}");
    assert_eq!((&receipt["kind"], &receipt["depth"]), (&json!("receipt"), &json!(1)));
    assert_eq!(receipt["cause"], task["leaf"]);
    assert_eq!((&sum["events"], &sum["missing"]), (&json!(1), &json!(1)), "{sum}");
    let shown = scene.place.run(&["trace", "t-1"]).stdout;
    assert!(shown.starts_with("task t-1   1 message, 1 not kept\n└─ [not kept] "), "{shown}");
    assert!(shown.contains("\n   └─ receipt 1  exit 0, attempt 1  cli-worker  "), "{shown}");
    assert!(shown.contains("\nnot seen: live events that nobody recorded; "), "{shown}");
    scene.end();
}

#[test]
fn what_is_not_kept_at_all_is_told() {
    let scene = Scene::new();
    let unknown = scene.place.run(&["trace", "t-9"]);
    unknown.failed_with("nothing of t-9 is kept", "vakbus tail");
    scene.end();
}

#[test]
fn a_daemon_that_died_and_came_back_is_followed_on() {
    let Scene { place, daemon } = Scene::new();
    let mut tail = place.start(&["tail", "--follow", "--json", "-n", "1"]);
    let heard = Lines::of(tail.take_stdout());
    let next = || -> Value { serde_json::from_str(&heard.next().unwrap()).unwrap() };
    assert_eq!(next()["id"], "t-3");
    daemon.kill();
    let scene = Scene { daemon: Daemon::start(&place), place };
    scene.send("q", "t-4", "after it");
    // Live events may have been missed, which is told.
    let line = std::iter::repeat_with(next).find(|line| line.get("gap").is_none()).unwrap();
    assert_eq!((&line["kind"], &line["id"]), (&json!("tasks"), &json!("t-4")), "{line}");
    tail.signal(Signal::INT);
    assert_eq!(tail.ended().code, Some(0));
    scene.end();
}
