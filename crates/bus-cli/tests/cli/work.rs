//! Tasks between processes: sent, done, given up, cancelled, and in which order.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    daemon_support::{Daemon, ids, lines},
    support::{Gate, Lines, Outcome, Place, Running},
};

/// A daemon, and a worker of the role `r` that runs a shell script.
struct Scene {
    place: Place,
    daemon: Daemon,
    worker: Running,
}

impl Scene {
    fn new(script: &str, args: &[&str]) -> Self {
        let place = Place::new();
        let daemon = Daemon::start(&place);
        let worker = worker(&place, script, args);
        Self { place, daemon, worker }
    }

    fn send(&self, args: &[&str]) -> Outcome {
        self.place.run(&[&["task", "send", "--role", "r"], args].concat())
    }

    fn end(self) {
        self.worker.signal(Signal::TERM);
        let outcome = self.worker.ended();
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let outcome = self.daemon.stop();
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
}

fn worker(place: &Place, script: &str, args: &[&str]) -> Running {
    let args = [&["worker", "--role", "r"], args, &["--", "sh", "-c", script]].concat();
    let mut worker = place.start(&args);
    worker.says("serving r");
    worker
}

#[test]
fn a_result_comes_home_and_its_receipt_vouches_for_it() {
    let scene = Scene::new("tr a-z A-Z", &[]);
    let outcome = scene.send(&["--wait", "hello"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "HELLO"), "{outcome:?}");
    assert!(outcome.stderr.contains("its signed receipt vouches for the output"), "{outcome:?}");
    scene.end();
}

#[test]
fn a_result_as_json_says_who_did_it_and_whether_it_is_verified() {
    let scene = Scene::new("cat; echo aside >&2", &[]);
    let outcome = scene.send(&["--wait", "--json", "--id", "t-1", "hello"]);
    let line = outcome.json();
    assert_eq!(line["output"], "hello", "{line}");
    assert_eq!((line["verified"].clone(), line["state"].clone()), (json!(true), json!("done")));
    assert_eq!((line["worker"].clone(), line["attempt"].clone()), (json!("cli-worker"), json!(1)));
    let shown = scene.place.run(&["task", "show", "t-1", "--json"]);
    assert_eq!(shown.json()["state"], "done", "{shown:?}");
    scene.end();
}

#[test]
fn an_output_that_is_too_large_to_stand_inline_comes_home_whole() {
    let scene = Scene::new("head -c 300000 /dev/zero | tr '\\0' x", &[]);
    let outcome = scene.send(&["--wait", "x"]);
    assert_eq!((outcome.code, outcome.stdout.len()), (Some(0), 300_000), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("vouches"), "{}", outcome.stderr);
    scene.end();
}

#[test]
fn a_task_that_fails_to_the_end_is_reported_as_given_up() {
    let scene = Scene::new("echo no way >&2; exit 3", &["--max-retries", "0"]);
    let outcome = scene.send(&["--wait", "--id", "t-1", "x"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(3), ""), "{outcome:?}");
    assert!(outcome.stderr.contains("exit code 3: no way"), "{outcome:?}");
    let result = scene.place.run(&["task", "result", "t-1", "--json"]);
    assert_eq!((result.code, result.json()["state"].clone()), (Some(3), json!("dead")));
    let listed = scene.place.run(&["task", "ls", "--state", "dead", "--role", "r", "--json"]);
    assert_eq!(ids(&listed), ["t-1"]);
    scene.end();
}

#[test]
fn a_wait_that_is_too_short_says_so_and_the_task_goes_on() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let outcome = place.run(&["task", "send", "--role", "r", "--id", "t-1", "--wait=50ms", "x"]);
    assert_eq!(outcome.code, Some(7), "{outcome:?}");
    assert!(outcome.stderr.contains("vakbus task result t-1 --wait"), "{outcome:?}");
    assert_eq!(place.run(&["task", "result", "t-1"]).code, Some(7));
    let worker = worker(&place, "cat", &[]);
    let result = place.run(&["task", "result", "t-1", "--wait"]);
    assert_eq!((result.code, result.stdout.as_str()), (Some(0), "x"), "{result:?}");
    Scene { place, daemon, worker }.end();
}

#[test]
fn a_task_that_nobody_knows_is_no_task() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    for verb in ["show", "cancel", "result"] {
        place.run(&["task", verb, "none"]).failed_with("no task none", "vakbus task ls");
    }
    daemon.stop();
}

#[test]
fn a_second_task_with_an_id_is_refused_and_the_first_one_named() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    assert_eq!(place.run(&["task", "send", "--id", "t-1", "x"]).code, Some(0));
    let again = place.run(&["task", "send", "--id", "t-1", "x"]);
    again.failed_with("the id t-1 was sent before", "vakbus task show t-1");
    assert_eq!(ids(&place.run(&["task", "ls", "--json"])), ["t-1"]);
    daemon.stop();
}

#[test]
fn a_worker_that_died_loses_no_task() {
    let place = Place::new();
    let started = place.pipe("started");
    let started = Lines::through(&started);
    let daemon = Daemon::start(&place);
    let dying = worker(&place, "echo on >started; exec sleep 600", &[]);
    assert_eq!(place.run(&["task", "send", "--role", "r", "--id", "t-1", "x"]).code, Some(0));
    assert_eq!(started.next().unwrap(), "on");
    dying.signal(Signal::KILL);
    assert_eq!(dying.ended().code, None);
    // Its lease runs on, and the task is there all the while.
    let shown = place.run(&["task", "show", "t-1", "--json"]).json();
    assert_eq!((shown["state"].clone(), shown["attempt"].clone()), (json!("running"), json!(1)));
    let queues = lines(&place.run(&["queue", "ls", "--json"]));
    assert_eq!(queues[0]["in_flight"], 1, "{queues:?}");
    daemon.stop();
}

#[test]
fn a_task_that_runs_while_its_daemon_dies_is_done_once() {
    outlives_its_daemon(&[], "done\n");
}

#[test]
fn a_task_in_a_terminal_that_runs_while_its_daemon_dies_is_done_once() {
    outlives_its_daemon(&["--pty"], "done\r\n");
}

/// A worker with these arguments does a task whose daemon is killed and started meanwhile.
fn outlives_its_daemon(args: &[&str], output: &str) {
    let place = Place::new();
    let (gate, started) = (place.pipe("gate"), place.pipe("started"));
    let (mut gate, started) = (Gate::at(&gate), Lines::through(&started));
    let daemon = Daemon::start(&place);
    let worker = worker(&place, "echo on >started; read x <gate; echo done", args);
    assert_eq!(place.run(&["task", "send", "--role", "r", "--id", "t-1", "x"]).code, Some(0));
    assert_eq!(started.next().unwrap(), "on");
    daemon.kill();
    let daemon = Daemon::start(&place);
    gate.open_for(1);
    let result = place.run(&["task", "result", "t-1", "--wait", "--json"]);
    assert_eq!(result.code, Some(0), "{result:?}");
    let result = result.json();
    assert_eq!(
        (result["output"].clone(), result["verified"].clone()),
        (json!(output), json!(true))
    );
    assert_eq!(result["attempt"], 1);
    Scene { place, daemon, worker }.end();
}

#[test]
fn a_payload_comes_from_a_file_or_from_stdin_as_it_is() {
    let scene = Scene::new("cat", &[]);
    scene.place.write("payload", "from\na file\n");
    let outcome = scene.send(&["--wait", "--file", "payload"]);
    assert_eq!(outcome.stdout, "from\na file\n", "{outcome:?}");
    let mut command = scene.place.command();
    command.args(["task", "send", "--role", "r", "--wait", "--stdin"]);
    let outcome = crate::support::run(command, "from stdin");
    assert_eq!(outcome.stdout, "from stdin", "{outcome:?}");
    scene.end();
}

#[test]
fn urgent_tasks_overtake_and_a_paused_queue_hands_out_nothing() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let paused = place.run(&["queue", "pause", "r", "--json"]);
    assert_eq!(paused.code, Some(0), "{paused:?}");
    let pipe = place.pipe("order");
    let order = Lines::through(&pipe);
    let worker = worker(&place, "cat >order; echo >>order", &[]);
    let scene = Scene { place, daemon, worker };
    for (priority, text) in [("0", "low"), ("4", "normal"), ("9", "high")] {
        assert_eq!(scene.send(&["--priority", priority, text]).code, Some(0));
    }
    let queues = lines(&scene.place.run(&["queue", "ls", "--json"]));
    assert_eq!((queues[0]["queue"].clone(), queues[0]["pending"].clone()), (json!("r"), json!(3)));
    assert_eq!(queues[0]["in_flight"], 0);
    assert!(queues[0]["paused_until"].is_string(), "{queues:?}");
    let resumed = scene.place.run(&["queue", "resume", "r"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    let seen: Vec<String> = std::iter::from_fn(|| order.next()).take(3).collect();
    assert_eq!(seen, ["high", "normal", "low"]);
    scene.end();
}

#[test]
fn tasks_of_one_key_wait_for_each_other_and_others_pass_by() {
    let place = Place::new();
    let (gate, started) = (place.pipe("gate"), place.pipe("started"));
    let (mut gate, started) = (Gate::at(&gate), Lines::through(&started));
    let daemon = Daemon::start(&place);
    let script = "read t; echo $t >started; read x <gate";
    let worker = worker(&place, script, &["--concurrency", "3"]);
    let scene = Scene { place, daemon, worker };
    for (key, text) in [("a", "first"), ("a", "second"), ("b", "other")] {
        assert_eq!(scene.send(&["--key", key, &format!("{text}\n")]).code, Some(0));
    }
    let mut seen = [started.next().unwrap(), started.next().unwrap()];
    seen.sort();
    assert_eq!(seen, ["first", "other"]);
    gate.open_for(3);
    assert_eq!(started.next().unwrap(), "second");
    scene.end();
}

#[test]
fn a_delayed_task_is_listed_as_scheduled() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    for (id, args) in [("t-1", ["--delay", "1h"]), ("t-2", ["--at", "2100-01-01T00:00:00Z"])] {
        let args = [&["task", "send", "--id", id], args.as_slice(), &["x"]].concat();
        assert_eq!(place.run(&args).code, Some(0));
    }
    assert_eq!(place.run(&["task", "send", "--id", "t-3", "x"]).code, Some(0));
    let listed = place.run(&["task", "ls", "--state", "scheduled", "--json"]);
    assert_eq!(ids(&listed), ["t-1", "t-2"]);
    assert_eq!(lines(&listed)[1]["not_before"], "2100-01-01T00:00:00.000000000Z");
    assert_eq!(ids(&place.run(&["task", "ls", "--state", "waiting", "--json"])), ["t-3"]);
    daemon.stop();
}

#[test]
fn a_task_past_its_deadline_is_given_up_unrun() {
    let scene = Scene::new("cat", &[]);
    let outcome = scene.send(&["--wait", "--deadline", "2020-01-01T00:00:00Z", "x"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(3), ""), "{outcome:?}");
    assert!(outcome.stderr.contains("its deadline 2020-01-01"), "{outcome:?}");
    scene.end();
}

#[test]
fn a_task_that_waits_is_taken_out_when_it_is_cancelled() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    assert_eq!(place.run(&["task", "send", "--id", "t-1", "x"]).code, Some(0));
    let cancelled = place.run(&["task", "cancel", "t-1", "--reason", "no need", "--json"]);
    assert_eq!(cancelled.json()["cancelled"], "taken-out", "{cancelled:?}");
    assert!(ids(&place.run(&["task", "ls", "--json"])).is_empty());
    let result = place.run(&["task", "result", "t-1"]);
    assert_eq!(result.code, Some(3), "{result:?}");
    assert!(result.stderr.contains("cancelled by cli: no need"), "{result:?}");
    place.run(&["task", "cancel", "t-1"]).failed_with("given up already", "vakbus task show t-1");
    daemon.stop();
}

#[test]
fn a_task_that_runs_is_stopped_when_it_is_cancelled() {
    let place = Place::new();
    let started = place.pipe("started");
    let started = Lines::through(&started);
    let daemon = Daemon::start(&place);
    let worker = worker(&place, "echo on >started; exec sleep 600", &[]);
    let scene = Scene { place, daemon, worker };
    assert_eq!(scene.send(&["--id", "t-1", "x"]).code, Some(0));
    assert_eq!(started.next().unwrap(), "on");
    let running = scene.place.run(&["task", "show", "t-1", "--json"]);
    assert_eq!(running.json()["state"], "running", "{running:?}");
    let cancelled = scene.place.run(&["task", "cancel", "t-1", "--json"]);
    assert_eq!(cancelled.json()["cancelled"], "told", "{cancelled:?}");
    let result = scene.place.run(&["task", "result", "t-1", "--wait", "--json"]);
    assert_eq!(
        (result.code, result.json()["reason"].clone()),
        (Some(3), json!("cancelled by cli"))
    );
    scene.end();
}

#[test]
fn a_worker_that_is_told_to_stop_finishes_what_it_runs() {
    let place = Place::new();
    let (gate, started) = (place.pipe("gate"), place.pipe("started"));
    let (mut gate, started) = (Gate::at(&gate), Lines::through(&started));
    let daemon = Daemon::start(&place);
    let mut worker = worker(&place, "echo on >started; read x <gate; echo done", &[]);
    assert_eq!(place.run(&["task", "send", "--role", "r", "--id", "t-1", "x"]).code, Some(0));
    assert_eq!(started.next().unwrap(), "on");
    worker.signal(Signal::TERM);
    worker.says("finishing what runs");
    gate.open_for(1);
    assert_eq!(worker.ended().code, Some(0));
    let result = place.run(&["task", "result", "t-1"]);
    assert_eq!((result.code, result.stdout.as_str()), (Some(0), "done\n"), "{result:?}");
    daemon.stop();
}

#[test]
fn a_worker_until_empty_says_that_some_were_given_up() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    for text in ["good", "bad"] {
        assert_eq!(place.run(&["task", "send", text]).code, Some(0));
    }
    let args = ["worker", "--until-empty", "--max-retries", "1", "--backoff", "10ms", "--json"];
    let script = ["--", "sh", "-c", "read t; test $t = good"];
    let worked = place.run(&[args.as_slice(), &script].concat());
    assert_eq!(worked.code, Some(3), "{worked:?}");
    let last: &Value = &lines(&worked)[lines(&worked).len() - 1];
    assert_eq!((last["completed"].clone(), last["dead_lettered"].clone()), (json!(1), json!(1)));
    assert_eq!(last["retried"], 1);
    daemon.stop();
}

#[test]
fn who_may_not_is_refused_and_who_is_not_there_is_named() {
    let place = Place::new();
    assert_eq!(place.run(&["agent", "add", "ann", "--role", "worker"]).code, Some(0));
    let daemon = Daemon::start(&place);
    let refused = place.run(&["--as", "ann", "task", "send", "x"]);
    assert_eq!(refused.code, Some(4), "{refused:?}");
    let unknown = place.run(&["--as", "nobody", "task", "send", "x"]);
    unknown.is_wrong_call("there is no agent nobody");
    assert!(unknown.stderr.contains("vakbus agent add nobody"), "{unknown:?}");
    daemon.stop();
}

#[test]
fn a_worker_takes_the_word_of_an_agent_that_was_added_after_it_began() {
    let scene = Scene::new("cat", &[]);
    let added = scene.place.run(&["agent", "add", "boss", "--role", "orchestrator"]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let args = ["--as", "boss", "task", "send", "--role", "r", "--wait", "x"];
    let outcome = scene.place.run(&args);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "x"), "{outcome:?}");
    scene.end();
}

#[test]
fn a_worker_opens_what_is_sealed_under_a_secret_that_came_later() {
    let scene = Scene::new("cat", &[]);
    assert_eq!(scene.send(&["--wait", "old"]).stdout, "old");
    let rotated = scene.place.run(&["keys", "rotate"]);
    assert_eq!(rotated.code, Some(0), "{rotated:?}");
    let outcome = scene.send(&["--wait", "new"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "new"), "{outcome:?}");
    scene.end();
}
