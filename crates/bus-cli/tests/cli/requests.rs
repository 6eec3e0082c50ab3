//! Requests and their answers between processes.

use rustix::process::Signal;
use serde_json::json;

use crate::{
    daemon_support::{Daemon, lines},
    support::{Gate, Lines, Outcome, Place, Running, run},
};

/// A daemon, and a process that answers `judge.review` with a shell script.
struct Scene {
    place: Place,
    daemon: Daemon,
    responder: Running,
}

impl Scene {
    fn new(script: &str, args: &[&str]) -> Self {
        let place = Place::new();
        let daemon = Daemon::start(&place);
        let responder = responder(&place, script, args);
        Self { place, daemon, responder }
    }

    fn ask(&self, args: &[&str]) -> Outcome {
        self.place.run(&[&["request", "judge.review"], args].concat())
    }

    fn end(self) -> Outcome {
        self.responder.signal(Signal::INT);
        let outcome = self.responder.ended();
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let stopped = self.daemon.stop();
        assert_eq!(stopped.code, Some(0), "{stopped:?}");
        outcome
    }
}

fn responder(place: &Place, script: &str, args: &[&str]) -> Running {
    let args = [&["reply", "judge.review"], args, &["--", "sh", "-c", script]].concat();
    let mut responder = place.start(&args);
    responder.says("answering judge.review");
    responder
}

#[test]
fn an_answer_is_what_the_command_wrote() {
    let scene = Scene::new("tr a-z A-Z", &[]);
    let outcome = scene.ask(&["hello"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "HELLO"), "{outcome:?}");
    assert_eq!(outcome.stderr, "");
    scene.end();
}

#[test]
fn a_request_comes_from_a_file_or_from_standard_input_or_is_empty() {
    let scene = Scene::new("cat; echo .", &[]);
    scene.place.write("patch", "of a file");
    assert_eq!(scene.ask(&["--file", "patch"]).stdout, "of a file.\n");
    let mut command = scene.place.command();
    command.args(["request", "judge.review", "--stdin"]);
    assert_eq!(run(command, "of a pipe").stdout, "of a pipe.\n");
    assert_eq!(scene.ask(&[]).stdout, ".\n");
    scene.end();
}

#[test]
fn a_command_knows_who_asks_and_gets_the_text_as_an_argument() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let script = "echo \"$1 $VAKBUS_CALL $VAKBUS_FROM ${VAKBUS_WORKSPACE_SECRET-none}\"";
    let args = ["reply", "judge.review", "--", "sh", "-c", script, "sh", "{}"];
    let mut responder = place.start(&args);
    responder.says("answering judge.review");
    let outcome = place.run(&["request", "judge.review", "a b"]);
    assert_eq!(outcome.stdout, "a b judge.review cli none\n", "{outcome:?}");
    Scene { place, daemon, responder }.end();
}

#[test]
fn an_answer_for_programs_says_who_gave_it_and_to_what() {
    let scene = Scene::new("cat", &[]);
    let line = scene.ask(&["--json", "hello"]).json();
    assert_eq!(
        (line["payload"].clone(), line["outcome"].clone()),
        (json!("hello"), json!("answered"))
    );
    assert_eq!(
        (line["from"].clone(), line["standing"].clone()),
        (json!("cli-worker"), json!("signed"))
    );
    assert_eq!(line["request_hash"].as_str().unwrap().len(), 64, "{line}");
    scene.end();
}

#[test]
fn a_command_that_fails_answers_why() {
    let scene = Scene::new("echo half; echo no way >&2; exit 3", &["--json"]);
    let outcome = scene.ask(&["x"]);
    outcome.failed_with("judge.review failed at cli-worker", "ask again");
    assert!(outcome.stderr.contains("exit code 3: no way"), "{outcome:?}");
    let told = lines(&scene.end());
    assert_eq!(told.len(), 1);
    assert_eq!(
        (told[0]["event"].clone(), told[0]["from"].clone()),
        (json!("failed"), json!("cli"))
    );
}

#[test]
fn an_answer_that_is_too_long_is_a_failure_and_not_cut() {
    let scene = Scene::new("head -c 700000 /dev/zero", &[]);
    scene.ask(&["x"]).failed_with("more than 655360 bytes", "ask again");
    scene.end();
}

#[test]
fn a_command_that_takes_too_long_answers_so() {
    let place = Place::new();
    place.pipe("gate");
    let daemon = Daemon::start(&place);
    let responder = responder(&place, "read x <gate", &["--timeout", "50ms"]);
    let outcome = place.run(&["request", "judge.review", "x"]);
    outcome.failed_with("took longer than 50ms", "ask again");
    Scene { place, daemon, responder }.end();
}

#[test]
fn nobody_who_answers_is_told_at_once_and_apart_from_no_daemon() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let outcome = place.run(&["request", "judge.review", "x"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(5), ""), "{outcome:?}");
    assert!(outcome.stderr.contains("nobody answers judge.review"), "{outcome:?}");
    assert!(outcome.stderr.contains("vakbus reply judge.review -- CMD"), "{outcome:?}");
    daemon.stop();
    let outcome = place.run(&["request", "judge.review", "x"]);
    assert_eq!(outcome.code, Some(5), "{outcome:?}");
    assert!(outcome.stderr.contains("vakbus up"), "{outcome:?}");
}

#[test]
fn no_answer_in_time_is_told_with_a_code_of_its_own() {
    let place = Place::new();
    let mut gate = Gate::at(&place.pipe("gate"));
    let daemon = Daemon::start(&place);
    let responder = responder(&place, "read x <gate", &[]);
    let outcome = place.run(&["request", "judge.review", "--wait", "100ms", "x"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(7), ""), "{outcome:?}");
    assert!(outcome.stderr.contains("no answer within 100ms"), "{outcome:?}");
    gate.open_for(1);
    Scene { place, daemon, responder }.end();
}

#[test]
fn a_worker_may_not_ask_and_an_orchestrator_may_not_answer() {
    let place = Place::new();
    for (name, role) in [("bob", "worker"), ("ann", "orchestrator")] {
        assert_eq!(place.run(&["agent", "add", name, "--role", role]).code, Some(0));
    }
    let daemon = Daemon::start(&place);
    let asked = place.run(&["--as", "bob", "request", "judge.review", "x"]);
    let answered = place.run(&["--as", "ann", "reply", "judge.review", "--", "cat"]);
    assert_eq!((asked.code, answered.code), (Some(4), Some(4)), "{asked:?} {answered:?}");
    daemon.stop();
}

#[test]
fn a_signal_lets_the_running_command_answer() {
    let place = Place::new();
    let started = Lines::through(&place.pipe("started"));
    let mut gate = Gate::at(&place.pipe("gate"));
    let daemon = Daemon::start(&place);
    let mut responder = responder(&place, "echo >started; read x <gate; echo done", &[]);
    let asker = place.start(&["request", "judge.review", "x"]);
    assert!(started.next().is_some());
    responder.signal(Signal::INT);
    responder.says("finishing what runs");
    gate.open_for(1);
    let answer = asker.ended();
    assert_eq!((answer.code, answer.stdout.as_str()), (Some(0), "done"), "{answer:?}");
    assert_eq!(responder.ended().code, Some(0));
    daemon.stop();
}

#[test]
fn a_second_signal_ends_the_command_and_answers_that_it_failed() {
    let place = Place::new();
    let started = Lines::through(&place.pipe("started"));
    place.pipe("gate");
    let daemon = Daemon::start(&place);
    let mut responder = responder(&place, "echo >started; read x <gate", &[]);
    let asker = place.start(&["request", "judge.review", "x"]);
    assert!(started.next().is_some());
    responder.signal(Signal::INT);
    responder.says("finishing what runs");
    responder.signal(Signal::INT);
    asker.ended().failed_with("the command was stopped", "ask again");
    assert_eq!(responder.ended().code, Some(0));
    daemon.stop();
}

#[test]
fn no_more_commands_run_at_once_than_allowed_and_the_others_wait() {
    let place = Place::new();
    let started = Lines::through(&place.pipe("started"));
    let mut gate = Gate::at(&place.pipe("gate"));
    let daemon = Daemon::start(&place);
    let script = "mkdir alone || exit 9; echo >started; read x <gate; rmdir alone; cat";
    let responder = responder(&place, script, &["--concurrency", "1"]);
    let askers = ["1", "2", "3"].map(|text| place.start(&["request", "judge.review", text]));
    for _ in &askers {
        assert!(started.next().is_some());
        gate.open_for(1);
    }
    let answers = askers.map(|asker| asker.ended().stdout);
    assert_eq!(answers, ["1", "2", "3"]);
    Scene { place, daemon, responder }.end();
}

#[test]
fn a_responder_outlives_its_daemon() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let mut responder = responder(&place, "cat", &[]);
    daemon.kill();
    responder.says("the daemon was away");
    let daemon = Daemon::start(&place);
    // Until it listens again nobody does, which each asker is told at once.
    let answer = (0..1000)
        .map(|_| place.run(&["request", "judge.review", "again"]))
        .find(|outcome| outcome.code != Some(5));
    let answer = answer.expect("nobody answers");
    assert_eq!((answer.code, answer.stdout.as_str()), (Some(0), "again"), "{answer:?}");
    Scene { place, daemon, responder }.end();
}

#[test]
fn a_request_that_cannot_be_is_refused_before_anything_runs() {
    let place = Place::new();
    place.run(&["request", "review", "x"]).is_wrong_call("a module and its verb");
    place.run(&["request", "judge.a.b", "x"]).is_wrong_call("verb");
    place.run(&["request", "judge.review", "--wait", "3m"]).is_wrong_call("at most 2m");
    place.run(&["reply", "judge.review"]).is_wrong_call("CMD");
    place.run(&["--memory", "request", "judge.review"]).is_wrong_call("--memory");
}
