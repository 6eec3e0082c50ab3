//! What goes over the wire beside the envelope itself.

use bus_peers::{BusPayload, CallerIdentity, InstanceMeta, LiveInstance, Recipient};
use serde::{Deserialize, Serialize};

/// What registers an instance.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Registering {
    pub(super) definition_id: String,
    #[serde(default)]
    pub(super) project: Option<String>,
}

/// A new instance, with the secret that is told once.
#[derive(Serialize)]
pub(super) struct Registered<'a> {
    #[serde(flatten)]
    pub(super) meta: InstanceMeta,
    pub(super) secret: &'a str,
}

/// What is published.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Publishing {
    pub(super) from: CallerIdentity,
    pub(super) to: Recipient,
    pub(super) payload: BusPayload,
    #[serde(default)]
    pub(super) in_reply_to: Option<String>,
}

/// Who is live.
#[derive(Debug, Serialize)]
pub(super) struct Instances {
    pub(super) instances: Vec<Live>,
}

/// A live instance.
#[derive(Debug, Serialize)]
pub(super) struct Live {
    #[serde(flatten)]
    meta: InstanceMeta,
    subscriptions: usize,
    expires: String,
}

impl From<LiveInstance> for Live {
    fn from(live: LiveInstance) -> Self {
        let LiveInstance { meta, subscriptions, expires, .. } = live;
        Self { meta, subscriptions, expires: expires.to_string() }
    }
}
