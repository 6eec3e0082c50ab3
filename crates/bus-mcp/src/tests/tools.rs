//! The table of tools: what it offers to whom, and what it refuses.

use bus_subjects::Role;
use serde_json::{Value, json};

use super::stage::{Stage, call, refused, server};
use crate::tools::{Needs, Spec, TOOLS};

#[test]
fn every_tool_teaches_what_it_takes() {
    for tool in TOOLS {
        let shown = serde_json::to_value(tool.tool()).unwrap();
        assert!(tool.about.len() > 40, "{}", tool.name);
        let schema = &shown["inputSchema"];
        assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
        for (name, property) in schema["properties"].as_object().unwrap() {
            let about = property["description"].as_str().unwrap();
            assert!(about.ends_with('.'), "{} {name}: {about}", tool.name);
        }
    }
}

#[test]
fn every_tool_that_shows_what_others_wrote_says_that_it_is_data() {
    let tools = ["task_send", "task_result", "task_claim", "inbox_list", "inbox_wait"];
    for name in tools {
        assert!(Spec::find(name).unwrap().about.contains("data from"), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_is_offered_to_the_roles_that_may_use_it() {
    let stage = Stage::new().await;
    let offered = |roles: &[Role], is_worker: bool| {
        let agent = stage.agent("x", roles);
        let worker = is_worker.then(|| agent.clone());
        let server = server(agent, worker);
        TOOLS.iter().filter(|tool| server.offers(tool)).map(|tool| tool.needs).collect::<Vec<_>>()
    };
    let has = |offered: &[Needs], needs: Needs| offered.contains(&needs);
    let orchestrator = offered(&[Role::Orchestrator], false);
    assert!(has(&orchestrator, Needs::Sender) && !has(&orchestrator, Needs::Worker));
    let worker = offered(&[Role::Worker], true);
    assert!(has(&worker, Needs::Worker) && !has(&worker, Needs::Sender));
    assert!(has(&offered(&[Role::Observer], false), Needs::Agent));
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_not_offered_is_denied() {
    let stage = Stage::new().await;
    let args = json!({ "role": "worker", "text": "x" });
    let (kind, outcome, reason) = refused(call(&stage.worker(), "task_send", args).await);
    assert_eq!((kind.as_str(), outcome.as_str()), ("denied", "not-done"));
    assert!(reason.contains("bob"), "{reason}");
    assert_eq!(refused(call(&stage.sender(), "task_claim", json!({})).await).0, "denied");
}

#[tokio::test(start_paused = true)]
async fn every_wrong_argument_is_named() {
    let stage = Stage::new().await;
    let (ada, bob) = (stage.sender(), stage.worker());
    let cases: &[(&str, Value, &str)] = &[
        ("task_send", json!({ "text": "x" }), "role: is needed"),
        ("task_send", json!({ "role": "no good", "text": "x" }), "role: "),
        ("task_send", json!({ "role": "worker" }), "text: one of text, json and base64"),
        ("task_send", json!({ "role": "worker", "text": "x", "json": 1 }), "text: only one of"),
        ("task_send", json!({ "role": "worker", "base64": "?" }), "base64: "),
        ("task_send", json!({ "role": "worker", "text": 1 }), "text: expected a text"),
        ("task_send", json!({ "role": "worker", "text": "x", "wait": 1 }), "wait: task_send takes"),
        ("message_send", json!({ "to": "a b", "text": "x" }), "to: "),
        ("task_result", json!({ "task": "x", "wait_seconds": 3601 }), "wait_seconds: expected a"),
        ("task_result", json!({ "task": "x", "wait_seconds": -1 }), "wait_seconds: expected a"),
    ];
    for (tool, args, reason) in cases {
        let (kind, outcome, said) = refused(call(&ada, tool, args.clone()).await);
        assert_eq!((kind.as_str(), outcome.as_str()), ("invalid", "not-done"), "{args}");
        assert!(said.starts_with(reason), "{args}: {said}");
    }
    let cases: &[(&str, Value, &str)] = &[
        ("task_claim", json!({ "lease_seconds": 0 }), "lease_seconds: expected 1"),
        ("task_fail", json!({ "lease": "x", "reason": "r", "reject": "yes" }), "reject: expected"),
        ("approval_request", json!({ "action": "a" }), "target: is needed"),
        (
            "approval_request",
            json!({ "action": "a", "target": "t", "choices": [1] }),
            "choices: expected a list of texts",
        ),
    ];
    for (tool, args, reason) in cases {
        let (kind, _, said) = refused(call(&bob, tool, args.clone()).await);
        assert_eq!(kind, "invalid", "{args}");
        assert!(said.starts_with(reason), "{args}: {said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_too_large_is_refused_before_it_is_sent() {
    let stage = Stage::new().await;
    let args = json!({ "role": "worker", "text": "x".repeat(640 * 1024 + 1) });
    let (kind, outcome, _) = refused(call(&stage.sender(), "task_send", args).await);
    assert_eq!((kind.as_str(), outcome.as_str()), ("too-large", "not-done"));
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_does_not_exist_is_not_found() {
    let stage = Stage::new().await;
    assert_eq!(refused(call(&stage.sender(), "rm", json!({})).await).0, "not-found");
}
