//! `swarm --evidence` and `verify`: what was exported verifies, and what was changed is found.

use std::{fs, path::PathBuf};

use serde_json::Value;

use crate::support::{Outcome, Place};

/// A run with three receipts and one dead letter, and its evidence in `run`.
fn exported() -> Place {
    let place = Place::new();
    let args = ["--workers", "1", "--max-retries", "0", "--evidence", "run"];
    let script = ["--", "sh", "-c", "[ {} != bad ]"];
    let (outcome, summary) = place.swarm("a\nb\nbad\nc\n", &[&args[..], &script].concat());
    assert_eq!((outcome.code, summary["evidence"].as_str()), (Some(3), Some("run")));
    place
}

fn account(place: &Place, workspace: &str) -> String {
    let shown = place.run(&["workspace", "show", "--workspace", workspace, "--json"]);
    shown.json()["account"].as_str().unwrap().to_owned()
}

/// Verifies with the right account and returns what was found wrong.
fn finding(place: &Place, more: &[&str]) -> Value {
    let trust = account(place, "default");
    let args = [&["verify", "run", "--json", "--trust", &trust][..], more].concat();
    let outcome = place.run(&args);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let said = outcome.json();
    assert_eq!(said["ok"], false);
    said["finding"].clone()
}

/// Replaces the lines of one log of the evidence.
fn rewrite(place: &Place, log: &str, change: impl FnOnce(&mut Vec<String>)) {
    let name = format!("run/{log}");
    let mut lines: Vec<String> = place.read(&name).lines().map(str::to_owned).collect();
    change(&mut lines);
    place.write(&name, &(lines.join("\n") + "\n"));
}

fn is_at(finding: &Value, file: &str, line: u64, kind: &str) {
    let found = (&finding["file"], &finding["entry"], &finding["kind"]);
    assert_eq!(found, (&file.into(), &line.into(), &kind.into()), "{finding}");
}

#[test]
fn evidence_is_verified_against_the_workspaces_account() {
    let place = exported();
    let outcome = place.run(&["verify", "run", "--json", "--trust", &account(&place, "default")]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let said = outcome.json();
    assert_eq!((&said["ok"], &said["verdict"]), (&true.into(), &"verified".into()));
    let counts = &said["report"]["counts"];
    assert_eq!((&counts["tasks"], &counts["receipts"]), (&4.into(), &3.into()), "{said}");
    assert_eq!((&counts["dead_letters"], &said["report"]["tasks_open"]), (&1.into(), &0.into()));
}

#[test]
fn receipts_are_named_after_their_task_as_it_was_sent_and_not_after_its_id() {
    let place = Place::new();
    let task = "{\"id\": \"t-1\", \"payload\": \"x\"}\n";
    let ids = ["one", "two"].map(|run| {
        place.swarm(task, &["--evidence", run, "--", "true"]);
        let receipts = place.read(&format!("{run}/receipts.jsonl"));
        let receipt: Value = serde_json::from_str(receipts.trim_end()).unwrap();
        let id = format!("{}.receipt", receipt["cause"].as_str().unwrap());
        assert_eq!(receipt["id"], id);
        id
    });
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn without_an_account_the_signer_is_unknown() {
    let outcome = exported().run(&["verify", "run"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let first = outcome.stdout.lines().next().unwrap();
    assert_eq!(first, "consistent, signer unknown; completeness unknown");
}

#[test]
fn another_workspaces_account_does_not_verify_it() {
    let place = exported();
    place.run(&["workspace", "new", "other"]);
    let outcome = place.run(&["verify", "run", "--trust", &account(&place, "other")]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let said = "not verified: certificates.jsonl line 1: certificate by another account";
    assert!(outcome.stdout.starts_with(said), "{outcome:?}");
}

#[test]
fn an_account_that_is_none_is_a_wrong_call() {
    exported().run(&["verify", "run", "--trust", "nonsense"]).is_wrong_call("--trust: ");
}

#[test]
fn an_agents_key_is_no_account() {
    let place = exported();
    let agent = place.run(&["agent", "add", "me", "--role", "worker", "--json"]).json();
    let outcome = place.run(&["verify", "run", "--trust", agent["nkey"].as_str().unwrap()]);
    outcome.is_wrong_call("expected an account key, which begins with A\n  next: ");
}

#[test]
fn evidence_that_is_not_there_is_a_wrong_call() {
    Place::new()
        .run(&["verify", "nowhere"])
        .is_wrong_call("nowhere is neither a directory nor a file");
}

#[test]
fn one_changed_byte_in_any_file_is_found_and_its_file_is_named() {
    let place = exported();
    let mut files: Vec<PathBuf> =
        fs::read_dir(place.path("run")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 8, "{files:?}");
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        let whole = fs::read(&file).unwrap();
        let mut changed = whole.clone();
        let middle = changed.len() / 2;
        changed[middle] ^= 1;
        fs::write(&file, &changed).unwrap();
        let found = finding(&place, &[]);
        assert!(found["kind"].is_string() && found["detail"].is_string(), "{found}");
        assert_eq!(found["file"], name, "{found}");
        if name.ends_with(".jsonl") {
            let line = whole[..middle].iter().filter(|byte| **byte == b'\n').count() + 1;
            assert_eq!(found["entry"], line, "{found}");
        }
        fs::write(&file, &whole).unwrap();
    }
    assert_eq!(place.run(&["verify", "run"]).code, Some(0));
}

#[test]
fn a_receipt_that_was_taken_out_is_found_at_the_next_one() {
    let place = exported();
    rewrite(&place, "receipts.jsonl", |lines| drop(lines.remove(1)));
    is_at(&finding(&place, &[]), "receipts.jsonl", 2, "chain-gap");
}

#[test]
fn receipts_in_another_order_are_found() {
    let place = exported();
    rewrite(&place, "receipts.jsonl", |lines| lines.swap(0, 1));
    is_at(&finding(&place, &[]), "receipts.jsonl", 1, "chain-reordered");
}

#[test]
fn a_receipt_that_stands_twice_is_found() {
    let place = exported();
    rewrite(&place, "receipts.jsonl", |lines| lines.insert(1, lines[0].clone()));
    is_at(&finding(&place, &[]), "receipts.jsonl", 2, "chain-duplicate");
}

#[test]
fn people_are_told_file_line_and_kind() {
    let place = exported();
    rewrite(&place, "receipts.jsonl", |lines| lines.insert(1, lines[0].clone()));
    let outcome = place.run(&["verify", "run"]);
    assert_eq!(outcome.code, Some(1));
    let said = "not verified: receipts.jsonl line 2: repeated entry: ";
    assert!(outcome.stdout.starts_with(said), "{outcome:?}");
}

#[test]
fn a_tail_that_was_cut_off_is_found() {
    let place = exported();
    rewrite(&place, "receipts.jsonl", |lines| drop(lines.pop()));
    let found = finding(&place, &[]);
    assert_eq!((&found["file"], &found["kind"]), (&"receipts.jsonl".into(), &"truncated".into()));
}

fn kept(place: &Place, from: &str) -> Outcome {
    place.run(&["verify", "run", "--checkpoint", from])
}

#[test]
fn a_kept_checkpoint_makes_the_evidence_complete() {
    let place = exported();
    fs::copy(place.path("run/receipts.checkpoint"), place.path("kept")).unwrap();
    let outcome = kept(&place, "kept");
    assert_eq!(outcome.code, Some(0));
    let first = outcome.stdout.lines().next().unwrap();
    assert!(first.contains("; complete against the kept checkpoint"), "{outcome:?}");
}

#[test]
fn a_log_that_was_emptied_with_its_checkpoint_is_found_by_the_kept_one() {
    let place = exported();
    fs::copy(place.path("run/receipts.checkpoint"), place.path("kept")).unwrap();
    // The best an attacker without keys can do: genuine evidence of another, shorter run.
    fs::remove_dir_all(place.path("run")).unwrap();
    place.swarm("a\n", &["--evidence", "run", "--", "true"]);
    assert_eq!(place.run(&["verify", "run"]).code, Some(0));
    let found = finding(&place, &["--checkpoint", "kept"]);
    assert_eq!(found["kind"], "kept-foreign", "{found}");
}

#[test]
fn a_checkpoint_that_cannot_be_read_is_a_wrong_call() {
    kept(&exported(), "nowhere").is_wrong_call("cannot read nowhere: ");
}
