//! `vakbus receipts`: what was done is listed, shown and exported, by whoever may read it.

use serde_json::Value;

use crate::{
    daemon_support::lines,
    support::{Outcome, Place},
};

/// A place where these tasks were sent and done, without a daemon.
pub(crate) fn done(tasks: &[&str]) -> Place {
    let place = Place::new();
    work(&place, tasks);
    place
}

/// Sends these tasks, and works on them until none is left.
pub(crate) fn work(place: &Place, tasks: &[&str]) {
    for task in tasks {
        let sent = place.run(&["task", "send", "--id", task, "hello"]);
        assert_eq!(sent.code, Some(0), "{sent:?}");
    }
    let args = ["worker", "--until-empty", "--max-retries", "0", "--", "sh", "-c"];
    let script = "case $VAKBUS_TASK_ID in bad*) exit 1;; *) cat;; esac";
    let worked = place.run(&[&args[..], &[script]].concat());
    assert!(matches!(worked.code, Some(0 | 3)), "{worked:?}");
}

/// The receipts that are listed.
pub(crate) fn listed(place: &Place, more: &[&str]) -> Vec<Value> {
    let outcome = place.run(&[&["receipts", "ls", "--json"][..], more].concat());
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    lines(&outcome)
}

fn tasks(listed: &[Value]) -> Vec<&str> {
    listed.iter().map(|line| line["task"].as_str().unwrap()).collect()
}

#[test]
fn receipts_are_listed_in_the_order_of_their_storing() {
    let place = done(&["t-1", "t-2", "t-3"]);
    let found = listed(&place, &[]);
    assert_eq!(tasks(&found), ["t-1", "t-2", "t-3"]);
    let first = &found[0];
    assert_eq!((&first["verified"], &first["worker"]), (&true.into(), &"cli-worker".into()));
    assert_eq!((&first["attempt"], &first["exit_code"]), (&1.into(), &0.into()));
    assert_eq!(first["leaf"].as_str().unwrap().len(), 64, "{first}");
    assert!(first["position"].as_u64().unwrap() < found[1]["position"].as_u64().unwrap());
}

#[test]
fn the_list_is_narrowed_by_task_worker_session_and_age() {
    let place = done(&["t-1", "t-2"]);
    assert_eq!(tasks(&listed(&place, &["--task", "t-2"])), ["t-2"]);
    assert_eq!(listed(&place, &["--worker", "nobody"]).len(), 0);
    assert_eq!(listed(&place, &["--newer", "1h"]).len(), 2);
    let session = listed(&place, &[])[0]["session"].as_str().unwrap().to_owned();
    assert_eq!(listed(&place, &["--session", &session]).len(), 2);
    assert_eq!(listed(&place, &["--session", "another"]).len(), 0);
}

#[test]
fn of_many_the_newest_are_listed_and_the_rest_is_counted() {
    let place = done(&["t-1", "t-2", "t-3"]);
    let outcome = place.run(&["receipts", "ls", "--limit", "1", "--json"]);
    assert_eq!(tasks(&lines(&outcome)), ["t-3"]);
    assert!(outcome.stderr.contains("2 earlier ones are not listed"), "{outcome:?}");
}

#[test]
fn a_receipt_is_shown_by_its_task_and_by_its_position() {
    let place = done(&["t-1"]);
    let line = &listed(&place, &[])[0];
    let position = line["position"].to_string();
    let by_task = place.run(&["receipts", "show", "t-1", "--json"]).json();
    let by_position = place.run(&["receipts", "show", &position, "--json"]).json();
    assert_eq!(by_task, by_position);
    assert_eq!((&by_task["leaf"], &by_task["queue"]), (&line["leaf"], &"worker".into()));
    assert_eq!(by_task["envelope"]["type"], "vak.receipt.completed");
    let people = place.run(&["receipts", "show", "t-1"]);
    assert!(people.stdout.contains("\nverified    yes"), "{people:?}");
}

#[test]
fn what_is_not_there_is_said_with_where_to_look() {
    let place = done(&["t-1"]);
    let none = place.run(&["receipts", "show", "t-9"]);
    none.failed_with("there is no receipt of a task t-9", "vakbus receipts ls");
    let none = place.run(&["receipts", "show", "999"]);
    none.failed_with("no receipt of this workspace at position 999", "vakbus receipts ls");
    let none = place.run(&["receipts", "export", "dir", "--session", "nobody"]);
    none.failed_with("there is no receipt of a session nobody", "vakbus receipts ls");
}

#[test]
fn a_worker_of_whom_nothing_is_known_any_more_is_listed_and_not_verified() {
    let place = done(&["t-1"]);
    std::fs::remove_file(place.workspace().join("agents/cli-worker.creds")).unwrap();
    std::fs::remove_dir_all(place.workspace().join("certificates")).unwrap();
    let found = listed(&place, &[]);
    assert_eq!((found.len(), &found[0]["verified"]), (1, &false.into()), "{found:?}");
    assert!(found[0]["unreadable"].is_string() && found[0]["leaf"].is_string(), "{found:?}");
    let people = place.run(&["receipts", "ls"]);
    assert!(people.stdout.contains("NOT VERIFIED"), "{people:?}");
}

#[test]
fn an_observer_may_not_read_receipts() {
    let place = done(&["t-1"]);
    place.run(&["agent", "add", "obs", "--role", "observer"]);
    let outcome = place.run(&["receipts", "ls", "--as", "obs"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(4), ""), "{outcome:?}");
}

fn session_of(place: &Place) -> String {
    listed(place, &[])[0]["session"].as_str().unwrap().to_owned()
}

fn verified(place: &Place, dir: &str, more: &[&str]) -> Outcome {
    let shown = place.run(&["workspace", "show", "--json"]).json();
    let account = shown["account"].as_str().unwrap();
    place.run(&[&["verify", dir, "--trust", account][..], more].concat())
}

#[test]
fn an_export_is_verified_and_says_that_it_has_no_tasks() {
    let place = done(&["t-1", "bad-1", "t-2"]);
    let session = session_of(&place);
    let said = place.run(&["receipts", "export", "out", "--session", &session, "--json"]).json();
    assert_eq!((&said["receipts"], &said["dead_letters"]), (&2.into(), &1.into()), "{said}");
    assert_eq!(
        (&said["recorder"], &said["dead_letters_left_out"]),
        (&"cli-auditor".into(), &0.into())
    );
    let outcome = verified(&place, "out", &[]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let first = outcome.stdout.lines().next().unwrap();
    assert_eq!(first, "verified, tasks not shown; completeness unknown");
    let outcome = verified(&place, "out", &["--require-tasks"]);
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stdout.starts_with("not verified: tasks.jsonl: bundle without"), "{outcome:?}");
}

#[test]
fn an_export_overwrites_nothing() {
    let place = done(&["t-1"]);
    let session = session_of(&place);
    std::fs::create_dir(place.path("out")).unwrap();
    place.write("out/mine", "mine");
    let outcome = place.run(&["receipts", "export", "out", "--session", &session]);
    outcome.is_wrong_call("is not empty");
    assert_eq!(place.read("out/mine"), "mine");
}

#[test]
fn a_record_that_nobody_vouches_for_keeps_what_stands_before_it_from_no_export() {
    let (place, run) = (Place::new(), "01a22b8f-de51-7ad5-ada0-081fe20357f1");
    let does = |args: &[&str]| {
        let done = place.run(args);
        assert_eq!(done.code, Some(0), "{args:?}: {done:?}");
        done
    };
    for agent in ["ann", "bob"] {
        does(&["agent", "add", agent, "--role", "worker"]);
    }
    let queue = format!("swarm-{run}");
    for (task, worker) in [("t-1", "ann"), ("t-2", "bob"), ("t-3", "ann")] {
        does(&["task", "send", "--role", &queue, "--id", task, "hello"]);
        does(&["worker", "--join", run, "--as", worker, "--until-empty", "--", "cat"]);
    }
    std::fs::remove_file(place.workspace().join("agents/bob.creds")).unwrap();
    std::fs::remove_dir_all(place.workspace().join("certificates")).unwrap();
    let found = listed(&place, &["--session", &queue]);
    let is_verified = |line: &Value| line["verified"] == true;
    assert_eq!(found.iter().map(is_verified).collect::<Vec<_>>(), [true, false, true]);

    let said = does(&["receipts", "export", "out", "--session", &queue, "--json"]).json();
    assert_eq!((&said["receipts"], &said["receipts_left_out"]), (&1.into(), &2.into()), "{said}");
    assert_eq!(said["left_out_from"], found[1]["position"], "{said}");
    assert!(said["left_out_why"].as_str().unwrap().contains("bob"), "{said}");
    let outcome = verified(&place, "out", &[]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stdout.contains("completeness unknown"), "{outcome:?}");
    let people = does(&["receipts", "export", "again", "--session", &queue]);
    assert!(people.stderr.contains("2 records are left out, from position"), "{people:?}");
}
