//! Approvals: who asks waits, who answers sees what for, and an answer is good once.

use serde_json::{Value, json};

use crate::{
    daemon_support::{Daemon, lines},
    support::{Lines, Outcome, Place, Running},
};

const WHAT: [&str; 4] = ["--action", "deploy.production", "--target", "web-1"];

/// `vakbus approvals` with `args` and what is to be done.
fn approvals(place: &Place, args: &[&str], more: &[&str]) -> Outcome {
    let all: Vec<&str> = ["approvals"].iter().chain(args).chain(more).copied().collect();
    place.run(&all)
}

/// Asks, and returns the approval's name.
fn asked(place: &Place, more: &[&str]) -> String {
    let outcome = approvals(place, &["request"], &[&WHAT, more].concat());
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    outcome.stdout.trim().to_owned()
}

fn answer(place: &Place, approval: &str, choice: &str) -> Outcome {
    approvals(place, &["resolve", approval, choice, "--yes"], &[])
}

fn allowed(place: &Place, more: &[&str]) -> String {
    let approval = asked(place, more);
    let answered = answer(place, &approval, "yes");
    assert_eq!(answered.code, Some(0), "{answered:?}");
    approval
}

fn taken(place: &Place, approval: &str) -> Outcome {
    approvals(place, &["use", approval], &WHAT)
}

fn shown(place: &Place, approval: &str) -> Value {
    approvals(place, &["show", approval, "--json"], &[]).json()
}

#[track_caller]
fn is_refused(outcome: &Outcome, exit: i32, code: &str) {
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(exit), ""), "{outcome:?}");
    assert!(outcome.stderr.starts_with("error: "), "{outcome:?}");
    assert!(outcome.stderr.contains(code) && outcome.stderr.contains("\n  next: "), "{outcome:?}");
}

/// A command that waits for the answer to what it asks, and the approval's name.
fn waiting(place: &Place, wait: &str) -> (Running, String, Lines) {
    let args = [&["approvals", "request"], &WHAT[..], &["--wait", wait, "--json"]].concat();
    let mut waiting = place.start(&args);
    let stdout = Lines::of(waiting.take_stdout());
    let line: Value = serde_json::from_str(&stdout.next().unwrap()).unwrap();
    assert_eq!((&line["state"], &line["session"]), (&json!("open"), &json!("cli")), "{line}");
    (waiting, line["approval"].as_str().unwrap().to_owned(), stdout)
}

#[test]
fn yes_is_0_no_is_4_no_answer_is_7() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let (running, approval, stdout) = waiting(&place, "60s");
    assert_eq!(answer(&place, &approval, "yes").code, Some(0));
    let used: Value = serde_json::from_str(&stdout.next().unwrap()).unwrap();
    assert_eq!((&used["state"], &used["choice"]), (&json!("consumed"), &json!("yes")), "{used}");
    assert_eq!(used["by"], "cli");
    assert_eq!(running.ended().code, Some(0));
    is_refused(&taken(&place, &approval), 4, "decision-consumed");

    let (running, approval, stdout) = waiting(&place, "60s");
    assert_eq!(answer(&place, &approval, "no").code, Some(0));
    let told: Value = serde_json::from_str(&stdout.next().unwrap()).unwrap();
    assert_eq!((&told["code"], &told["choice"]), (&json!("choice-refused"), &json!("no")));
    assert_eq!(running.ended().code, Some(4));

    let (running, approval, _stdout) = waiting(&place, "1s");
    assert_eq!(running.ended().code, Some(7));
    // Nobody waits for it any more, and nobody answers it.
    is_refused(&answer(&place, &approval, "yes"), 1, "decision-expired");
    daemon.stop();
}

#[test]
fn an_approval_is_used_once_for_exactly_what_was_asked() {
    let place = Place::new();
    let approval = asked(&place, &[]);
    is_refused(&taken(&place, &approval), 7, "decision-open");
    assert_eq!(answer(&place, &approval[..8], "yes").code, Some(0));

    let other = ["--action", "deploy.production", "--target", "web-2"];
    is_refused(&approvals(&place, &["use", &approval], &other), 4, "target-mismatch");
    let run = approvals(&place, &["use", &approval, "--run", "r-1"], &WHAT);
    is_refused(&run, 4, "run-mismatch");
    let session = approvals(&place, &["use", &approval, "--session", "s2"], &WHAT);
    is_refused(&session, 4, "session-mismatch");
    assert_eq!(shown(&place, &approval)["state"], "resolved");

    let used = taken(&place, &approval[..8]);
    assert_eq!((used.code, used.stdout.as_str()), (Some(0), "yes by cli\n"), "{used:?}");
    is_refused(&taken(&place, &approval), 4, "decision-consumed");
    let shown = shown(&place, &approval);
    assert_eq!(shown["state"], "consumed");
    assert_eq!(shown["end"]["by"], "cli-worker");
    let allows = json!({
        "action": "deploy.production", "target": "web-1", "approvalChoice": "yes",
    });
    assert_eq!(shown["authorization"], allows);
}

#[test]
fn a_refused_use_tells_its_code_as_json_too() {
    let place = Place::new();
    let approval = allowed(&place, &[]);
    let other = ["--action", "deploy.production", "--target", "web-2", "--json"];
    let refused = approvals(&place, &["use", &approval], &other);
    assert_eq!(refused.code, Some(4));
    assert_eq!(refused.json(), json!({ "approval": approval, "code": "target-mismatch" }));
}

#[test]
fn a_resolver_sees_the_target_before_it_is_asked() {
    let place = Place::new();
    let approval = asked(&place, &["--question", "Ship build 17?", "--run", "r-1"]);
    let outcome = approvals(&place, &["resolve", &approval, "yes"], &[]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{outcome:?}");
    let (shown, question) = outcome.stderr.split_once("There is no terminal").unwrap_or_default();
    for text in ["deploy.production", "web-1", "cli-worker", "r-1", "Ship build 17?"] {
        assert!(shown.contains(text), "{text}: {outcome:?}");
    }
    assert!(question.contains("--yes"), "{outcome:?}");
    assert_eq!(self::shown(&place, &approval)["state"], "open");
}

#[test]
fn a_question_does_not_steer_a_terminal() {
    let place = Place::new();
    let refused = approvals(&place, &["request", "--question", "Ship \u{1b}[2J?"], &WHAT);
    refused.is_wrong_call("control character");
}

#[test]
fn who_asks_does_not_resolve_with_its_own_name() {
    let place = Place::new();
    let approval = asked(&place, &[]);
    assert_eq!(shown(&place, &approval)["state"], "open");
    let args = ["--as", "cli-worker", "approvals", "resolve", &approval, "yes", "--yes"];
    is_refused(&place.run(&args), 4, "cli-worker may not read");
    let args = [&["--as", "cli", "approvals", "request"], &WHAT[..]].concat();
    is_refused(&place.run(&args), 4, "only a worker asks");
    assert_eq!(shown(&place, &approval)["state"], "open");
}

#[test]
fn what_cannot_be_answered_so_is_refused_with_its_code() {
    let place = Place::new();
    let approval = asked(&place, &["--choice", "yes,no,later"]);
    is_refused(&answer(&place, &approval, "perhaps"), 2, "option-missing");
    is_refused(&answer(&place, "ffffffff", "yes"), 1, "there is no approval");
    assert_eq!(answer(&place, &approval, "later").code, Some(0));
    is_refused(&answer(&place, &approval, "yes"), 1, "already-resolved");
    // The same answer again sends it again.
    assert_eq!(answer(&place, &approval, "later").code, Some(0));
    is_refused(&taken(&place, &approval), 4, "choice-refused");
}

#[test]
fn a_call_that_no_answer_could_allow_is_wrong() {
    let place = Place::new();
    let outcome = approvals(&place, &["request", "--choice", "ship,drop"], &WHAT);
    outcome.is_wrong_call("no answer allows it");
    let approval = asked(&place, &["--choice", "ship,drop", "--approve-with", "ship"]);
    assert_eq!(answer(&place, &approval, "ship").code, Some(0));
    assert_eq!(taken(&place, &approval).stdout, "ship by cli\n");
}

#[test]
fn nobody_answers_without_a_daemon() {
    let place = Place::new();
    let outcome = approvals(&place, &["request", "--wait", "30m"], &WHAT);
    is_refused(&outcome, 5, "no daemon runs");
}

#[test]
fn approvals_are_listed_as_they_stand() {
    let place = Place::new();
    let open = asked(&place, &["--question", "May I?"]);
    let resolved = allowed(&place, &[]);
    let withdrawn = asked(&place, &["--id", "ask-3"]);
    let outcome = approvals(&place, &["withdraw", "ask-3"], &[]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let old = asked(&place, &[]);
    let new = asked(&place, &["--supersedes", &old[..10]]);

    let of = |args: &[&str]| -> Vec<(String, String)> {
        let listed = approvals(&place, &["ls", "--json"], args);
        let text = |line: &Value, name: &str| line[name].as_str().unwrap().to_owned();
        lines(&listed).iter().map(|line| (text(line, "approval"), text(line, "state"))).collect()
    };
    let pair = |approval: &str, state: &str| (approval.to_owned(), state.to_owned());
    assert_eq!(of(&[]), [pair(&open, "open"), pair(&new, "open")]);
    let all = [
        pair(&open, "open"),
        pair(&resolved, "resolved"),
        pair(&withdrawn, "withdrawn"),
        pair(&old, "superseded"),
        pair(&new, "open"),
    ];
    assert_eq!(of(&["--state", "all"]), all);
    assert_eq!(of(&["--state", "resolved", "--state", "withdrawn"]), all[1..3]);
    assert!(of(&["--session", "elsewhere"]).is_empty());
    is_refused(&taken(&place, &withdrawn), 4, "decision-withdrawn");
    is_refused(&taken(&place, &old), 4, "decision-superseded");
    let human = approvals(&place, &["ls"], &[]).stdout;
    assert!(human.contains("deploy.production  web-1  May I?"), "{human}");
}

#[test]
fn asked_again_under_its_id_the_same_answer_is_waited_for() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let approval = allowed(&place, &["--id", "nightly"]);
    let again = approvals(&place, &["request", "--id", "nightly"], &WHAT);
    is_refused(&again, 1, "was asked for before");
    let used = approvals(&place, &["request", "--id", "nightly", "--wait", "60s"], &WHAT);
    assert_eq!((used.code, used.stdout.as_str()), (Some(0), "yes by cli\n"), "{used:?}");
    assert_eq!(shown(&place, &approval)["state"], "consumed");
    daemon.stop();
}

#[test]
fn a_request_survives_a_restart_of_the_daemon() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let approval = asked(&place, &[]);
    daemon.kill();
    let daemon = Daemon::start(&place);
    assert_eq!(shown(&place, &approval)["state"], "open");
    assert_eq!(answer(&place, &approval, "yes").code, Some(0));
    daemon.stop();
    let daemon = Daemon::start(&place);
    assert_eq!(taken(&place, &approval).code, Some(0));
    daemon.kill();
    is_refused(&taken(&place, &approval), 4, "decision-consumed");
}

#[test]
fn inbox_read_shows_a_verdict_and_leaves_it() {
    let place = Place::new();
    let approval = allowed(&place, &[]);
    let read = place.run(&["--as", "cli-worker", "inbox", "read", "--json"]);
    assert_eq!(lines(&read).len(), 1, "{read:?}");
    assert_eq!(taken(&place, &approval).code, Some(0));

    let approval = allowed(&place, &[]);
    let read = place.run(&["--as", "cli-worker", "inbox", "read", "--all", "--json"]);
    assert_eq!(lines(&read).len(), 1, "{read:?}");
    let missing = taken(&place, &approval);
    is_refused(&missing, 7, "decision-open");
    assert!(missing.stderr.contains("vakbus approvals show"), "{missing:?}");
}

#[test]
fn a_swarm_whose_command_used_an_approval_still_verifies() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let vakbus = env!("CARGO_BIN_EXE_vakbus");
    let script = format!(
        "what='--action a --target t'; \
         id=$('{vakbus}' approvals request $what) && \
         '{vakbus}' approvals resolve \"$id\" yes --yes >&2 && \
         '{vakbus}' approvals use \"$id\" $what"
    );
    let args = ["--workers", "1", "--evidence", "proof", "--", "sh", "-c", &script];
    let (outcome, summary) = place.swarm("a\n", &args);
    assert_eq!((outcome.code, &summary["receipts"]), (Some(0), &json!(1)), "{outcome:?}");
    let verified = place.run(&["verify", "proof", "--json"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
    let listed = approvals(&place, &["ls", "--state", "consumed", "--json"], &[]).json();
    assert_eq!((&listed["session"], &listed["run"]), (&summary["session"], &summary["run_id"]));
    daemon.stop();
}
