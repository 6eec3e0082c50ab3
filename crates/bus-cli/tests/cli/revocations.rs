//! `vakbus agent revoke`: a key that is taken back counts nowhere, and its name is free.

use std::fs;

use serde_json::Value;

use crate::support::{Outcome, Place};

fn with_agent() -> Place {
    let place = Place::new();
    add(&place);
    place
}

fn add(place: &Place) {
    let outcome = place.run(&["agent", "add", "alice", "--role", "worker"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

fn revoke(place: &Place) -> Outcome {
    place.run(&["agent", "revoke", "alice", "--yes"])
}

fn listed(place: &Place) -> Vec<Value> {
    let outcome = place.run(&["agent", "ls", "--json"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
    outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_revoked_agent_is_listed_as_such_and_its_key_is_gone() {
    let place = with_agent();
    let nkey = listed(&place)[0]["nkey"].clone();
    let outcome = revoke(&place);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stdout.starts_with("alice  revoked  U"), "{outcome:?}");
    let agents = listed(&place);
    assert_eq!((agents.len(), &agents[0]["nkey"]), (1, &nkey));
    assert!(agents[0]["revoked"].as_str().unwrap().ends_with('Z'), "{agents:?}");
    assert!(!place.workspace().join("agents/alice.creds").exists());
}

#[test]
fn the_name_of_a_revoked_agent_is_free_for_another_key() {
    let place = with_agent();
    revoke(&place);
    add(&place);
    let agents = listed(&place);
    assert_eq!(agents.len(), 2);
    assert_ne!(agents[0]["nkey"], agents[1]["nkey"]);
    assert_eq!((agents[0]["revoked"].is_null(), agents[1]["revoked"].is_null()), (true, false));
}

#[test]
fn an_agent_is_revoked_once() {
    let place = with_agent();
    revoke(&place);
    revoke(&place).is_wrong_call("agent alice is revoked already");
}

#[test]
fn an_agent_that_is_not_there_is_not_revoked() {
    let place = with_agent();
    place
        .run(&["agent", "revoke", "bob", "--yes"])
        .is_wrong_call("there is no agent bob in workspace default\n  next: vakbus agent ls");
}

#[test]
fn a_revocation_without_a_terminal_needs_a_yes() {
    let place = with_agent();
    place.run(&["agent", "revoke", "alice"]).is_wrong_call("There is no terminal to ask on");
    assert!(listed(&place)[0]["revoked"].is_null());
}

#[test]
fn credentials_that_were_put_back_are_left_out() {
    let place = with_agent();
    let creds = place.workspace().join("agents/alice.creds");
    let text = fs::read(&creds).unwrap();
    revoke(&place);
    place.write("data/workspaces/default/agents/alice.creds", "");
    fs::write(&creds, text).unwrap();
    fs::set_permissions(&creds, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let outcome = place.run(&["agent", "ls"]);
    assert!(outcome.stdout.starts_with("alice  revoked  "), "{outcome:?}");
    assert!(outcome.stderr.contains("the key of agent alice is revoked since"), "{outcome:?}");
    assert_eq!(revoke(&place).code, Some(0));
    assert!(!creds.exists());
}

#[test]
fn a_revocation_that_was_changed_is_an_error_and_not_passed_over() {
    let place = with_agent();
    revoke(&place);
    let file = fs::read_dir(place.workspace().join("revoked")).unwrap().next().unwrap().unwrap();
    let text = fs::read_to_string(file.path()).unwrap();
    fs::write(file.path(), text.replace(" alice ", " alicf ")).unwrap();
    for args in [&["agent", "ls"][..], &["swarm", "--tasks", "/dev/null", "--", "true"]] {
        let outcome = place.run(args);
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        assert!(outcome.stderr.contains("is damaged"), "{outcome:?}");
    }
}

/// The account key of the workspace.
fn account(place: &Place) -> String {
    let shown = place.run(&["workspace", "show", "--json"]).json();
    shown["account"].as_str().unwrap().to_owned()
}

/// Evidence of a run, and the revocations that the workspace printed.
fn verified(place: &Place, lines: &str) -> Outcome {
    place.swarm("a\n", &["--evidence", "run", "--", "true"]);
    place.write("revoked", lines);
    place.run(&["verify", "run", "--trust", &account(place), "--revoked", "revoked"])
}

#[test]
fn evidence_is_verified_with_the_revocations_that_are_printed() {
    let place = with_agent();
    revoke(&place);
    let lines = place.run(&["agent", "ls", "--revocations"]).stdout;
    assert!(lines.starts_with("vak-bus/revocation/v1 default alice U"), "{lines}");
    let outcome = verified(&place, &lines);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

#[test]
fn a_revocation_by_another_account_is_refused() {
    let (place, other) = (with_agent(), with_agent());
    revoke(&other);
    let lines = other.run(&["agent", "ls", "--revocations"]).stdout;
    verified(&place, &lines).is_wrong_call("revoked:1: ");
}
