//! The tools about tasks that this agent sends.

use std::time::Duration;

use bus_core::{Endpoint, Sent};
use bus_envelope::Draft;
use bus_subjects::{Address, RoleName};
use serde_json::{Value, json};

use crate::{
    answer::{Answer, Refused},
    results,
    tools::Args,
};

pub(crate) async fn send(endpoint: &Endpoint, args: &Args) -> Answer {
    let role = args.parsed("role", RoleName::parse)?;
    let role = role.ok_or_else(|| Refused::argument("role", "is needed"))?;
    let content = args.content()?;
    let workspace = endpoint.workspace().clone();
    let subject = Address::Task { workspace, role: role.clone() }.subject();
    let mut draft =
        Draft::new(subject, "vak.task", content.bytes).content_type(content.content_type);
    if let Some(id) = args.text("id") {
        draft = draft.id(id);
    }
    let sent = endpoint.send(draft).await?;
    let wait = args.seconds("wait_seconds").unwrap_or_default();
    let mut answer = stored(&sent);
    answer.insert("role".to_owned(), json!(role.as_str()));
    answer.insert("state".to_owned(), json!("queued"));
    if !wait.is_zero() {
        match results::wait(endpoint, &sent.id, Some(sent.hash), wait).await {
            Ok(Some(Value::Object(end))) => answer.extend(end),
            Ok(_) => {}
            // It is sent all the same, and its end can be looked at later.
            Err(error) => {
                answer.insert("not_waited".to_owned(), json!(error.to_string()));
            }
        }
    }
    Ok(Value::Object(answer))
}

pub(crate) async fn result(endpoint: &Endpoint, args: &Args) -> Answer {
    let id = args.needed("task")?;
    let wait: Duration = args.seconds("wait_seconds").unwrap_or_default();
    Ok(match results::wait(endpoint, id, None, wait).await? {
        Some(end) => end,
        None => json!({ "task": id, "state": "no-end-yet" }),
    })
}

fn stored(sent: &Sent) -> serde_json::Map<String, Value> {
    let mut answer = serde_json::Map::new();
    answer.insert("task".to_owned(), json!(sent.id));
    answer.insert("hash".to_owned(), json!(sent.hash.to_string()));
    answer
}
