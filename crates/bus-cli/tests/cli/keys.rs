//! `vakbus keys`: secrets are rotated and withdrawn, and what is withdrawn opens nothing.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::Value;

use crate::support::{Outcome, Place, run};

fn with_workspace() -> Place {
    let place = Place::new();
    assert_eq!(place.run(&["workspace", "new", "default"]).code, Some(0));
    place
}

/// The names and what each is good for.
fn standings(place: &Place) -> Vec<(String, String)> {
    let outcome = place.run(&["keys", "ls", "--json"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let of = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| line[name].as_str().unwrap().to_owned();
        assert!(text("since").ends_with('Z'), "{line}");
        (text("name"), text("standing"))
    };
    outcome.stdout.lines().map(of).collect()
}

fn are(place: &Place, expected: &[(&str, &str)]) {
    let found = standings(place);
    let found: Vec<(&str, &str)> = found.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    assert_eq!(found, expected);
}

fn rotate(place: &Place) {
    let outcome = place.run(&["keys", "rotate"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

fn withdraw(place: &Place, name: &str) -> Outcome {
    place.run(&["keys", "withdraw", name, "--yes"])
}

#[test]
fn a_new_workspace_has_one_secret() {
    are(&with_workspace(), &[("v1", "seals")]);
}

#[test]
fn a_rotated_secret_seals_and_the_old_one_still_opens() {
    let place = with_workspace();
    let before = fs::read(place.workspace().join("secret")).unwrap();
    rotate(&place);
    are(&place, &[("v1", "opens"), ("v2", "seals")]);
    assert_eq!(fs::read(place.workspace().join("secret")).unwrap(), before);
    let made = fs::metadata(place.workspace().join("secret.v2")).unwrap();
    assert_eq!(made.permissions().mode() & 0o777, 0o600);
    assert_eq!(place.swarm("a\n", &["--", "true"]).0.code, Some(0));
}

#[test]
fn what_is_sealed_after_a_rotation_names_the_new_secret() {
    let place = with_workspace();
    rotate(&place);
    place.swarm("a\n", &["--evidence", "run", "--", "true"]);
    let tasks = place.read("run/tasks.jsonl");
    assert!(tasks.contains("\"default.v2.") && !tasks.contains("\"default.v1."), "{tasks}");
}

#[test]
fn a_withdrawn_secret_is_gone_and_its_name_is_not_used_again() {
    let place = with_workspace();
    rotate(&place);
    assert_eq!(withdraw(&place, "v1").code, Some(0));
    assert!(!place.workspace().join("secret").exists());
    are(&place, &[("v1", "withdrawn"), ("v2", "seals")]);
    rotate(&place);
    are(&place, &[("v1", "withdrawn"), ("v2", "opens"), ("v3", "seals")]);
    assert_eq!(place.swarm("a\n", &["--", "true"]).0.code, Some(0));
}

#[test]
fn the_secret_that_seals_is_not_withdrawn() {
    let place = with_workspace();
    let outcome = withdraw(&place, "v1");
    assert_eq!(outcome.code, Some(4), "{outcome:?}");
    assert!(outcome.stderr.contains("v1 is the secret that seals now\n  next: vakbus keys rotate"));
    are(&place, &[("v1", "seals")]);
}

#[test]
fn a_secret_that_is_not_there_is_not_withdrawn() {
    let place = with_workspace();
    for name in ["v2", "v01", "../v1", "secret"] {
        withdraw(&place, name).is_wrong_call("has no secret of this name\n  next: vakbus keys ls");
    }
}

#[test]
fn a_withdrawal_without_a_terminal_needs_a_yes() {
    let place = with_workspace();
    rotate(&place);
    let outcome = place.run(&["keys", "withdraw", "v1"]);
    outcome.is_wrong_call("There is no terminal to ask on\n  next: say --yes");
    are(&place, &[("v1", "opens"), ("v2", "seals")]);
}

#[test]
fn a_withdrawal_that_was_cut_off_is_finished() {
    let place = with_workspace();
    rotate(&place);
    fs::write(place.workspace().join("secret.v1.withdrawn"), "").unwrap();
    are(&place, &[("v1", "withdrawn"), ("v2", "seals")]);
    assert_eq!(withdraw(&place, "v1").code, Some(0));
    assert!(!place.workspace().join("secret").exists());
}

#[test]
fn rotations_at_the_same_moment_lose_no_secret() {
    let place = with_workspace();
    let all: Vec<_> = (0..4).map(|_| place.start(&["keys", "rotate"])).collect();
    let ended = all.into_iter().map(crate::support::Running::ended);
    let done = ended.filter(|outcome| outcome.code == Some(0)).count();
    assert!(done >= 1);
    assert_eq!(standings(&place).len(), done + 1);
}

#[test]
fn secrets_that_are_not_in_use_are_not_changed() {
    let place = with_workspace();
    for args in [&["keys", "rotate"][..], &["keys", "withdraw", "v1", "--yes"]] {
        let mut command = place.command();
        command.args(args).env("VAKBUS_WORKSPACE_SECRET", "x".repeat(32));
        run(command, "").is_wrong_call("the one in VAKBUS_WORKSPACE_SECRET");
    }
    are(&place, &[("v1", "seals")]);
}

#[test]
fn a_damaged_secret_is_an_error_without_its_text() {
    let place = with_workspace();
    rotate(&place);
    fs::write(place.workspace().join("secret.v2"), "canary").unwrap();
    let outcome = place.run(&["swarm", "--tasks", "/dev/null", "--", "true"]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.stderr.contains("secret.v2 is damaged") && !outcome.stderr.contains("canary"));
}
