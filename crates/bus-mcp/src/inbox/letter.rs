//! A message of the mailbox as it is held: what its client sees, whom it is from, and its lease.

use std::sync::atomic::AtomicBool;

use bus_core::Mail;
use bus_envelope::{EventHash, TraceContext};
use bus_subjects::AgentId;
use serde_json::{Value, json};

use crate::data;

/// A message that is held.
#[derive(Debug)]
pub(super) struct Letter {
    pub(super) id: String,
    pub(super) shown: Value,
    pub(super) origin: Option<Origin>,
    pub(super) was_shown: AtomicBool,
    /// Its lease. The lock keeps a message from being extended while it is acknowledged.
    pub(super) mail: tokio::sync::Mutex<Option<Mail>>,
}

/// What an answer to a message has to name.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub from: AgentId,
    pub hash: EventHash,
    pub trace: TraceContext,
}

impl Letter {
    /// None of one that cannot be opened.
    pub(super) fn hash(&self) -> Option<String> {
        self.origin.as_ref().map(|origin| origin.hash.to_string())
    }

    pub(super) fn new(mail: Mail) -> Self {
        let (id, mut shown, origin) = match &mail.content {
            Ok(opened) => {
                let envelope = &opened.envelope;
                let origin = Origin {
                    from: envelope.lineage.agent.clone(),
                    hash: opened.hash,
                    trace: envelope.trace.clone(),
                };
                (envelope.id.clone(), data::message(opened), Some(origin))
            }
            Err(error) => {
                let id = mail.id().to_string();
                let reason = data::clean(error.to_string().as_bytes());
                let shown = json!({
                    "id": id,
                    "from": { "agent": null, "key": null, "verified": false },
                    "unopened": { "kind": error.kind().as_str(), "reason": reason },
                });
                (id, shown, None)
            }
        };
        if let Some(shown) = shown.as_object_mut() {
            shown.insert("delivery".to_owned(), json!(mail.attempt()));
        }
        let mail = tokio::sync::Mutex::new(Some(mail));
        Self { id, shown, origin, was_shown: AtomicBool::new(false), mail }
    }
}
