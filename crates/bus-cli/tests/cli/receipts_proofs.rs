//! Proofs and checkpoints of receipts: made here, checked anywhere.

use serde_json::Value;

use crate::{
    receipts::{done, listed, work},
    support::Place,
};

fn account(place: &Place) -> String {
    let shown = place.run(&["workspace", "show", "--json"]).json();
    shown["account"].as_str().unwrap().to_owned()
}

/// The session of the first receipt.
fn session(place: &Place) -> String {
    listed(place, &[])[0]["session"].as_str().unwrap().to_owned()
}

#[test]
fn a_proof_of_one_receipt_is_checked_without_the_bus() {
    let place = done(&["t-1", "t-2", "t-3"]);
    let made = place.run(&["receipts", "prove", "t-2", "-o", "t-2.tlog-proof", "--json"]).json();
    assert_eq!((&made["entry"], &made["entries"]), (&2.into(), &3.into()), "{made}");
    let elsewhere = Place::new();
    elsewhere.write("proof", &place.read("t-2.tlog-proof"));
    let checked = elsewhere.run(&["verify", "proof", "--trust", &account(&place), "--json"]).json();
    assert_eq!((&checked["ok"], &checked["verdict"]), (&true.into(), &"verified".into()));
    let report = &checked["report"];
    assert_eq!((&report["proof"], &report["entry"]), (&"inclusion".into(), &2.into()));
    assert_eq!(report["recorder"], "cli-auditor");
    assert_eq!(report["signer"], "cli-worker");
    // The receipt's text stays sealed; what it answers is known.
    let shown = place.run(&["receipts", "show", "t-2", "--json"]).json();
    assert_eq!((&report["cause"], &report["task"]), (&shown["envelope"]["cause"], &Value::Null));
    let people = elsewhere.run(&["verify", "proof", "--trust", &account(&place)]);
    assert!(people.stdout.starts_with("verified; entry 2 of 3 is in the log\n"), "{people:?}");
}

#[test]
fn a_proof_that_was_changed_is_refused() {
    let place = done(&["t-1", "t-2", "t-3"]);
    let proof = place.run(&["receipts", "prove", "t-2"]).stdout;
    place.write("proof", &proof.replace("index 1\n", "index 2\n"));
    let outcome = place.run(&["verify", "proof", "--json"]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert_eq!(outcome.json()["finding"]["kind"], "proof-mismatch");
    place.write("proof", "hello");
    let outcome = place.run(&["verify", "proof", "--json"]);
    assert_eq!(outcome.json()["finding"]["kind"], "proof-form");
}

#[test]
fn a_proof_never_overwrites_what_is_there() {
    let place = done(&["t-1"]);
    place.write("kept", "mine");
    let outcome = place.run(&["receipts", "prove", "t-1", "-o", "kept"]);
    outcome.failed_with("cannot write kept", "name a new file");
    assert_eq!(place.read("kept"), "mine");
}

#[test]
fn a_log_that_grew_is_shown_to_go_on_from_the_kept_checkpoint() {
    let place = done(&["t-1", "t-2"]);
    let session = session(&place);
    let kept = ["receipts", "checkpoint", "--session", &session, "-o", "kept"];
    assert_eq!(place.run(&kept).code, Some(0));
    let made = place.run(&["receipts", "prove", "--since", "kept", "-o", "grown"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let args = ["verify", "grown", "--trust", &account(&place), "--checkpoint", "kept"];
    let checked = place.run(&args);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let said = "verified; the log of 2 begins with the 2 kept entries\n";
    assert!(checked.stdout.starts_with(said), "{checked:?}");
    let outcome = place.run(&["verify", "grown"]);
    outcome.is_wrong_call("which is not given\n  next: give it with --checkpoint");
}

#[test]
fn a_kept_checkpoint_holds_against_a_later_export() {
    let place = done(&["t-1", "t-2"]);
    let session = session(&place);
    place.run(&["receipts", "checkpoint", "--session", &session, "-o", "kept"]);
    place.run(&["receipts", "export", "out", "--session", &session]);
    let checked = place.run(&["verify", "out", "--checkpoint", "kept"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    assert!(checked.stdout.contains("complete against the kept checkpoint: receipts"));
}

#[test]
fn a_worker_signs_no_checkpoint() {
    let place = done(&["t-1"]);
    let session = session(&place);
    let args = ["receipts", "checkpoint", "--session", &session, "--as", "cli-worker"];
    let outcome = place.run(&args);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(4), ""), "{outcome:?}");
}

#[test]
fn what_is_to_be_proved_has_to_be_said() {
    let place = Place::new();
    place.run(&["receipts", "prove"]).is_wrong_call("required");
    place.run(&["receipts", "prove", "t-1", "--since", "kept"]).is_wrong_call("cannot be used");
    place.run(&["receipts", "prove", "--since", "nowhere"]).is_wrong_call("cannot read nowhere");
}

#[test]
fn a_receipt_is_looked_for_in_the_session_that_is_named() {
    let place = done(&["t-1"]);
    // Each life of a worker has a session of its own.
    let first = session(&place);
    work(&place, &["t-2"]);
    let last = listed(&place, &[]).last().unwrap()["session"].as_str().unwrap().to_owned();
    assert_ne!(first, last);
    let proved = place.run(&["receipts", "prove", "t-2", "--session", &last, "--json"]);
    assert_eq!(proved.json()["origin"], format!("vakbus/default/{last}/receipts"));
    let none = place.run(&["receipts", "prove", "t-2", "--session", &first]);
    none.failed_with("there is no receipt of a task t-2", "vakbus receipts ls");
}
