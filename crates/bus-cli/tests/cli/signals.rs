//! Ctrl-C and its relatives in the middle of a run, and the true summary after each.

use rustix::process::Signal;
use serde_json::json;

use crate::support::{Gate, Held, LIMIT, Lines, Outcome, Place, Running, adds_up};

/// Ten tasks, two workers; each command says that it has started and then waits at the gate.
struct Scene {
    place: Place,
    running: Running,
    gate: Gate,
    started: Lines,
}

const SCRIPT: &str = "echo {} >started; read x <gate";

impl Scene {
    fn new(script: &str) -> Self {
        Self::with("exec", script)
    }

    /// `before` comes before the call in the shell that makes it.
    fn with(before: &str, script: &str) -> Self {
        let place = Place::new();
        let started = Lines::through(&place.pipe("started"));
        let gate = Gate::at(&place.pipe("gate"));
        place.pipe("held");
        let tasks: Vec<String> = (0..10).map(|number| format!("task-{number}")).collect();
        place.write("tasks", &tasks.join("\n"));
        let call = "\"$0\" swarm --json --workers 2 --tasks tasks --evidence run -- sh -c \"$1\"";
        let mut command = place.shell(&format!("{before} {call}"));
        command.arg(script);
        let running = Running::start(command);
        Self { place, running, gate, started }
    }

    fn two_run(&self) {
        for _ in 0..2 {
            assert!(self.started.next().unwrap().starts_with("task-"));
        }
    }

    fn ended(self) -> (Place, Outcome, serde_json::Value) {
        let outcome = self.running.ended();
        let summary = outcome.json();
        adds_up(&summary);
        (self.place, outcome, summary)
    }
}

/// What runs when the signal comes is finished, nothing is started any more.
fn drains(signal: Signal) {
    drains_in(Scene::new(SCRIPT), signal);
}

fn drains_in(mut scene: Scene, signal: Signal) {
    scene.two_run();
    scene.running.signal(signal);
    scene.running.says("finishing what runs");
    scene.gate.open_for(10);
    let (place, outcome, summary) = scene.ended();
    assert_eq!((outcome.code, &summary["interrupted"]), (Some(1), &json!(true)), "{summary}");
    assert_eq!((&summary["completed"], &summary["not_run"]), (&json!(2), &json!(8)), "{summary}");
    let verified = place.run(&["verify", "run", "--json"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
    assert_eq!(verified.json()["report"]["counts"]["receipts"], 2);
}

#[test]
fn ctrl_c_finishes_what_runs_and_starts_nothing_more() {
    drains(Signal::INT);
}

#[test]
fn sigterm_finishes_what_runs_and_starts_nothing_more() {
    drains(Signal::TERM);
}

#[test]
#[cfg(target_os = "linux")]
fn a_terminal_that_goes_away_finishes_what_runs_and_starts_nothing_more() {
    // Whoever runs the tests may have it ignored.
    drains_in(Scene::with("exec env --default-signal=HUP", SCRIPT), Signal::HUP);
}

#[test]
fn a_second_ctrl_c_kills_what_runs() {
    let mut scene = Scene::new(&format!("exec 3>held; {SCRIPT}"));
    let held = Held::through(&scene.place.path("held"));
    scene.two_run();
    scene.running.signal(Signal::INT);
    scene.running.says("finishing what runs");
    scene.running.signal(Signal::INT);
    scene.running.says("stopping now");
    held.released();
    let (place, outcome, summary) = scene.ended();
    assert_eq!((outcome.code, &summary["interrupted"]), (Some(1), &json!(true)), "{summary}");
    assert_eq!((&summary["completed"], &summary["not_run"]), (&json!(0), &json!(10)), "{summary}");
    assert_eq!(summary["dead_lettered"], 0);
    assert_eq!(place.run(&["verify", "run"]).code, Some(0));
}

#[test]
fn a_second_ctrl_c_lets_what_runs_hear_of_its_end() {
    let script = "trap 'echo heard >started; exit 1' TERM; echo {} >started; sleep 1000 & wait";
    let mut scene = Scene::new(script);
    scene.two_run();
    scene.running.signal(Signal::INT);
    scene.running.says("finishing what runs");
    scene.running.signal(Signal::INT);
    let heard = [scene.started.next().unwrap(), scene.started.next().unwrap()];
    assert_eq!(heard, ["heard", "heard"]);
    let (_place, outcome, summary) = scene.ended();
    assert_eq!((outcome.code, &summary["not_run"]), (Some(1), &json!(10)), "{summary}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_run_under_nohup_outlives_its_terminal() {
    let mut scene = Scene::with("trap '' HUP; exec", SCRIPT);
    scene.two_run();
    scene.running.signal(Signal::HUP);
    scene.gate.open_for(10);
    let (_place, outcome, summary) = scene.ended();
    assert_eq!((outcome.code, &summary["completed"]), (Some(0), &json!(10)), "{summary}");
    assert_eq!(summary["interrupted"], false);
}

#[test]
fn a_task_that_rests_before_a_retry_is_not_waited_for() {
    let mut scene = Scene::new("echo {} >started; exit 1");
    // Both workers have taken tasks; what failed rests for a second and longer.
    scene.two_run();
    scene.running.signal(Signal::INT);
    scene.running.says("finishing what runs");
    let (_place, outcome, summary) = scene.ended();
    assert_eq!((outcome.code, &summary["not_run"]), (Some(1), &json!(10)), "{summary}");
    // At least those that rest are queued.
    assert!(summary["metrics"]["active_queue_lag"].as_u64() >= Some(2), "{summary}");
}

#[test]
fn what_still_connects_ends_when_it_is_told_to() {
    // Accepts and says nothing, so that whoever connects waits for its first word.
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("nats://{}", server.local_addr().unwrap());
    let (accepts, accepted) = std::sync::mpsc::channel();
    std::thread::spawn(move || server.incoming().try_for_each(|one| accepts.send(one)));
    let place = Place::new();
    place.write("tasks", "one");
    for (args, code) in [
        (&["worker", "--", "cat"][..], 0),
        (&["reply", "coder.review", "--", "cat"], 0),
        (&["sub", ">"], 0),
        (&["tail", "--follow"], 0),
        (&["emit", "terminal", "--session", "s"], 1),
        (&["swarm", "--tasks", "tasks", "--", "cat"], 1),
    ] {
        let running = place.start(&[&["--nats-url", &url], args].concat());
        let held = accepted.recv_timeout(LIMIT).unwrap();
        running.signal(Signal::TERM);
        let outcome = running.ended();
        assert_eq!(outcome.code, Some(code), "{args:?}: {outcome:?}");
        drop(held);
    }
}
