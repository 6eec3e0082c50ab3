//! The mailbox: messages kept until they are acknowledged, and answered with their cause.

use std::time::Duration;

use bus_subjects::Role;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::stage::{LEASE, Stage, call, passed, refused, said, server};
use crate::Server;

fn sender(stage: &Stage, name: &str) -> Server {
    server(stage.agent(name, &[Role::Orchestrator]), None)
}

async fn sent(from: &Server, to: &str, text: &str) -> String {
    let answer = said(call(from, "message_send", json!({ "to": to, "text": text })).await);
    answer["message"].as_str().unwrap().to_owned()
}

async fn listed(of: &Server) -> Vec<Value> {
    said(call(of, "inbox_list", json!({})).await)["messages"].as_array().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn a_message_is_listed_with_its_sender_until_it_is_acknowledged() {
    let stage = Stage::new().await;
    let (ada, eve) = (sender(&stage, "ada"), sender(&stage, "eve"));
    let id = sent(&ada, "eve", "hello\u{1b}[2J").await;
    for _ in 0..2 {
        let messages = listed(&eve).await;
        assert_eq!(messages.len(), 1);
        assert_eq!(messages[0]["id"], id.as_str());
        assert_eq!(
            (&messages[0]["from"]["agent"], &messages[0]["body"]["text"]),
            (&json!("ada"), &json!("hello"))
        );
        assert_eq!(messages[0]["from"]["verified"], true);
    }
    said(call(&eve, "inbox_ack", json!({ "message": id })).await);
    assert!(listed(&eve).await.is_empty());
    let (kind, outcome, _) = refused(call(&eve, "inbox_ack", json!({ "message": id })).await);
    assert_eq!((kind.as_str(), outcome.as_str()), ("not-found", "not-done"));
    eve.end().await;
    assert!(listed(&sender(&stage, "eve")).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_a_new_message_and_shows_each_once() {
    let stage = Stage::new().await;
    let (ada, eve) = (sender(&stage, "ada"), sender(&stage, "eve"));
    let sending = async {
        passed(Duration::from_secs(20)).await;
        sent(&ada, "eve", "now").await
    };
    let waiting = call(&eve, "inbox_wait", json!({ "wait_seconds": 600 }));
    let began = Instant::now();
    let (answer, id) = tokio::join!(waiting, sending);
    assert_eq!(said(answer)["messages"][0]["id"], id.as_str());
    assert!(began.elapsed() < Duration::from_secs(60));
    let later = said(call(&eve, "inbox_wait", json!({ "wait_seconds": 5 })).await);
    assert_eq!(later["messages"], json!([]));
    assert_eq!(listed(&eve).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_acknowledged_is_held_beyond_its_lease_and_handed_back_at_the_end() {
    let stage = Stage::new().await;
    let (ada, eve) = (sender(&stage, "ada"), sender(&stage, "eve"));
    let id = sent(&ada, "eve", "stays").await;
    assert_eq!(listed(&eve).await.len(), 1);
    passed(LEASE * 4).await;
    let held = listed(&eve).await;
    assert_eq!((held.len(), &held[0]["delivery"]), (1, &json!(1)));
    eve.end().await;
    let next = listed(&sender(&stage, "eve")).await;
    assert_eq!((next.len(), next[0]["id"].as_str()), (1, Some(id.as_str())));
}

#[tokio::test(start_paused = true)]
async fn an_answer_goes_to_the_sender_and_names_its_cause() {
    let stage = Stage::new().await;
    let (ada, eve) = (sender(&stage, "ada"), sender(&stage, "eve"));
    let id = sent(&ada, "eve", "how are you?").await;
    let hash = listed(&eve).await[0]["hash"].clone();
    let args = json!({ "message": id, "text": "well", "ack": true });
    let answer = said(call(&eve, "message_reply", args).await);
    assert_eq!((&answer["to"], &answer["acknowledged"]), (&json!("ada"), &json!(true)));
    assert!(listed(&eve).await.is_empty());
    let answers = listed(&ada).await;
    assert_eq!((&answers[0]["cause"], &answers[0]["body"]["text"]), (&hash, &json!("well")));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_held_is_not_answered() {
    let stage = Stage::new().await;
    let eve = sender(&stage, "eve");
    let args = json!({ "message": "none", "text": "x" });
    assert_eq!(refused(call(&eve, "message_reply", args).await).0, "not-found");
}

#[tokio::test(start_paused = true)]
async fn more_than_is_held_at_a_time_comes_when_there_is_room() {
    let stage = Stage::new().await;
    let (ada, eve) = (sender(&stage, "ada"), sender(&stage, "eve"));
    for number in 0..70 {
        sent(&ada, "eve", &number.to_string()).await;
    }
    let first = said(call(&eve, "inbox_list", json!({})).await);
    assert_eq!(first["full"], true);
    let first = first["messages"].as_array().unwrap().clone();
    assert_eq!(first.len(), 64);
    let (kind, ..) = refused(call(&eve, "inbox_wait", json!({ "wait_seconds": 60 })).await);
    assert_eq!(kind, "full");
    for message in &first {
        said(call(&eve, "inbox_ack", json!({ "message": message["id"] })).await);
    }
    let rest = said(call(&eve, "inbox_wait", json!({ "wait_seconds": 60 })).await);
    assert_eq!(rest["messages"][0]["body"]["text"], "64");
}

#[tokio::test(start_paused = true)]
async fn the_id_of_a_held_message_that_another_sender_takes_moves_nothing() {
    let stage = Stage::new().await;
    let (ada, mallory, eve) = ("ada", "mallory", "eve");
    let [ada, mallory, eve] = [ada, mallory, eve].map(|name| sender(&stage, name));
    let args = |text: &str| json!({ "to": "eve", "text": text, "id": "m-1" });
    said(call(&ada, "message_send", args("from ada")).await);
    let hash = listed(&eve).await[0]["hash"].as_str().unwrap().to_owned();
    // Beyond the window in which an id is known.
    passed(Duration::from_secs(700)).await;
    said(call(&mallory, "message_send", args("from mallory")).await);
    said(call(&eve, "inbox_wait", json!({ "wait_seconds": 60 })).await);
    assert_eq!(listed(&eve).await.len(), 2);
    let (kind, ..) = refused(call(&eve, "inbox_ack", json!({ "message": "m-1" })).await);
    assert_eq!(kind, "ambiguous");
    said(call(&eve, "inbox_ack", json!({ "message": hash })).await);
    let left = listed(&eve).await;
    assert_eq!((left.len(), &left[0]["from"]["agent"]), (1, &json!("mallory")));
}

#[tokio::test(start_paused = true)]
async fn a_bus_that_goes_away_during_a_wait_is_not_told_as_an_empty_mailbox() {
    let stage = Stage::new().await;
    let eve = sender(&stage, "eve");
    assert!(listed(&eve).await.is_empty());
    let closing = async {
        passed(Duration::from_secs(5)).await;
        stage.close().await;
    };
    let waiting = call(&eve, "inbox_wait", json!({ "wait_seconds": 600 }));
    let (answer, ()) = tokio::join!(waiting, closing);
    let (kind, outcome, _) = refused(answer);
    assert_eq!((kind.as_str(), outcome.as_str()), ("closed", "not-done"));
}
