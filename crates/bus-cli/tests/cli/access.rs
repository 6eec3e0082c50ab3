//! `vakbus acl explain`: the answer, the rule, and the exit code of a refusal.

use crate::support::{Outcome, Place};

fn explain(args: &[&str]) -> Outcome {
    Place::new().run(&[&["acl", "explain"][..], args].concat())
}

#[test]
fn what_is_allowed_names_its_rule() {
    let outcome =
        explain(&["--role", "worker", "subscribe", "vak.work.default.worker.task", "--json"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let said = outcome.json();
    assert_eq!(said["allowed"], true);
    assert!(said["rule"].as_str().unwrap().contains("vak.work.default."), "{said}");
}

#[test]
fn what_is_refused_ends_with_the_code_of_a_refusal() {
    let outcome =
        explain(&["--role", "observer", "publish", "vak.work.default.worker.task", "--json"]);
    assert_eq!(outcome.code, Some(4), "{outcome:?}");
    let said = outcome.json();
    assert_eq!(said["allowed"], false);
    assert!(said["reason"].is_string(), "{said}");
}

#[test]
fn another_workspace_is_refused() {
    let args = ["--role", "worker", "subscribe", "vak.work.other.worker.task"];
    assert_eq!(explain(&args).code, Some(4));
}

#[test]
fn a_narrower_scope_narrows_the_answer() {
    let args = ["--role", "worker", "--queue", "tester", "subscribe"];
    let own = explain(&[&args[..], &["vak.work.default.tester.task"]].concat());
    let other = explain(&[&args[..], &["vak.work.default.coder.task"]].concat());
    assert_eq!((own.code, other.code), (Some(0), Some(4)));
}

#[test]
fn the_rights_of_several_roles_add_up() {
    let one = explain(&["--role", "observer", "publish", "vak.work.default.worker.task"]);
    let args = ["--role", "observer", "--role", "orchestrator", "publish"];
    let both = explain(&[&args[..], &["vak.work.default.worker.task"]].concat());
    assert_eq!((one.code, both.code), (Some(4), Some(0)));
}

#[test]
fn without_a_question_all_rules_are_listed() {
    let outcome = explain(&["--role", "observer"]);
    assert_eq!(outcome.code, Some(0));
    insta::assert_snapshot!(outcome.stdout, @r"
    allow subscribe vak.events.default.>
    allow subscribe vak.history.default.tokens.*
    allow subscribe vak.history.default.terminal.*
    allow subscribe _INBOX.me.>
    allow subscribe $KV.VAK_AGENTS_default.>
    ");
}

#[test]
fn the_listing_has_a_form_for_programs() {
    let outcome = explain(&["--role", "observer", "--json"]);
    assert_eq!(outcome.code, Some(0));
    let rules: Vec<serde_json::Value> =
        outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rules.len(), explain(&["--role", "observer"]).stdout.lines().count());
    for rule in rules {
        for name in ["effect", "action", "filter"] {
            assert!(rule[name].is_string(), "{rule}");
        }
    }
}

#[test]
fn a_subject_that_is_none_is_a_wrong_call() {
    explain(&["--role", "worker", "publish", "vak..task"]).is_wrong_call("error: ");
}

#[test]
fn a_role_that_does_not_exist_is_a_wrong_call() {
    explain(&["--role", "king"]).is_wrong_call("invalid value 'king'");
}

#[test]
fn an_action_without_a_subject_is_a_wrong_call() {
    explain(&["--role", "worker", "publish"]).is_wrong_call("<SUBJECT>");
}
