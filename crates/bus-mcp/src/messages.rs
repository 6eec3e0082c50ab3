//! The tools that send messages to the mailboxes of agents.

use bus_core::Endpoint;
use bus_envelope::Draft;
use bus_subjects::{Address, AgentId};
use serde_json::json;

use crate::{
    answer::{Answer, Refused},
    inbox::Inbox,
    tools::Args,
};

pub(crate) async fn send(endpoint: &Endpoint, args: &Args) -> Answer {
    let to = args.parsed("to", AgentId::parse)?;
    let to = to.ok_or_else(|| Refused::argument("to", "is needed"))?;
    let mut draft = draft(endpoint, &to, args)?;
    if let Some(id) = args.text("id") {
        draft = draft.id(id);
    }
    let sent = endpoint.send_to(&to, draft).await?;
    Ok(json!({ "message": sent.id, "to": to.as_str(), "state": "stored" }))
}

/// Answers a message of the mailbox; it is named as the cause, and its trace goes on.
pub(crate) async fn reply(endpoint: &Endpoint, inbox: &Inbox, args: &Args) -> Answer {
    let id = args.needed("message")?;
    let origin = inbox.origin(id)?;
    let draft = draft(endpoint, &origin.from, args)?.cause(origin.hash).trace(origin.trace);
    let sent = endpoint.send_to(&origin.from, draft).await?;
    let mut answer = json!({
        "message": sent.id,
        "to": origin.from.as_str(),
        "in_reply_to": id,
        "state": "stored",
        "acknowledged": false,
    });
    if args.flag("ack") {
        // The answer is stored: that it could not be acknowledged does not undo it.
        let (name, value) = match inbox.ack(id).await {
            Ok(_) => ("acknowledged", json!(true)),
            Err(refused) => ("not_acknowledged", json!(refused.reason)),
        };
        if let Some(answer) = answer.as_object_mut() {
            answer.insert(name.to_owned(), value);
        }
    }
    Ok(answer)
}

fn draft(endpoint: &Endpoint, to: &AgentId, args: &Args) -> Result<Draft, Refused> {
    let content = args.content()?;
    let (workspace, agent) = (endpoint.workspace().clone(), to.clone());
    let subject = Address::Inbox { workspace, agent }.subject();
    Ok(Draft::new(subject, "vak.message", content.bytes).content_type(content.content_type))
}
