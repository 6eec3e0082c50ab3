//! Approvals: asked for by an agent, answered by a person, used once.

use bus_core::ErrorKind;
use bus_envelope::EventHash;
use bus_subjects::{Role, SessionId};
use serde_json::{Value, json};

use super::stage::{Stage, call, refused, said};

async fn answer(stage: &Stage, approval: &str, choice: &str) {
    let olga = stage.agent("olga", &[Role::Operator]);
    let session = SessionId::parse("mcp").unwrap();
    let leaf = EventHash::parse(approval).unwrap();
    olga.resolve_approval(&session, leaf, choice, Some("fine\u{1b}[2J")).await.unwrap();
}

fn what(approval: &str) -> Value {
    json!({ "approval": approval, "action": "deploy", "target": "web-1", "wait_seconds": 60 })
}

#[tokio::test(start_paused = true)]
async fn an_approval_is_used_once_for_exactly_what_was_asked() {
    let stage = Stage::new().await;
    let bob = stage.worker();
    let args = json!({ "action": "deploy", "target": "web-1", "question": "may I?" });
    let asked = said(call(&bob, "approval_request", args).await);
    assert_eq!((&asked["state"], &asked["allowed"]), (&json!("open"), &json!(false)));
    let approval = asked["approval"].as_str().unwrap();
    answer(&stage, approval, "yes").await;
    let mut other = what(approval);
    other["target"] = json!("web-2");
    let (kind, outcome, _) = refused(call(&bob, "approval_wait", other).await);
    assert_eq!((kind.as_str(), outcome.as_str()), ("target-mismatch", "not-done"));
    let used = said(call(&bob, "approval_wait", what(approval)).await);
    assert_eq!((&used["state"], &used["allowed"]), (&json!("consumed"), &json!(true)));
    assert_eq!((&used["by"], &used["note"]), (&json!("olga"), &json!("fine")));
    let (kind, ..) = refused(call(&bob, "approval_wait", what(approval)).await);
    assert_eq!(kind, "decision-consumed");
}

#[tokio::test(start_paused = true)]
async fn another_answer_does_not_allow_it() {
    let stage = Stage::new().await;
    let bob = stage.worker();
    let args = json!({ "action": "deploy", "target": "web-1" });
    let asked = said(call(&bob, "approval_request", args).await);
    let approval = asked["approval"].as_str().unwrap();
    answer(&stage, approval, "no").await;
    let declined = said(call(&bob, "approval_wait", what(approval)).await);
    assert_eq!((&declined["state"], &declined["allowed"]), (&json!("declined"), &json!(false)));
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_in_time_it_stays_open() {
    let stage = Stage::new().await;
    let bob = stage.worker();
    let args = json!({ "action": "deploy", "target": "web-1", "wait_seconds": 5 });
    let asked = said(call(&bob, "approval_request", args).await);
    assert_eq!((&asked["state"], &asked["allowed"]), (&json!("open"), &json!(false)));
}

#[tokio::test(start_paused = true)]
async fn reading_the_mailbox_leaves_the_answer_to_who_waits_for_it() {
    let stage = Stage::new().await;
    let bob = stage.worker();
    said(call(&bob, "inbox_list", json!({})).await);
    let args = json!({ "action": "deploy", "target": "web-1" });
    let asked = said(call(&bob, "approval_request", args).await);
    let approval = asked["approval"].as_str().unwrap();
    answer(&stage, approval, "yes").await;
    assert_eq!(said(call(&bob, "inbox_list", json!({})).await)["messages"], json!([]));
    assert_eq!(said(call(&bob, "approval_wait", what(approval)).await)["allowed"], true);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_no_answer_allows_is_refused_before_it_is_asked() {
    let stage = Stage::new().await;
    let bob = stage.worker();
    let args = json!({ "action": "a", "target": "t", "choices": ["later", "never"] });
    let (kind, _, reason) = refused(call(&bob, "approval_request", args).await);
    assert_eq!(kind, ErrorKind::Invalid.as_str());
    assert!(reason.starts_with("approve_with: "), "{reason}");
}
