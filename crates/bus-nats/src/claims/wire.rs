//! What servers answer, as far as it is read.

use serde::Deserialize;

/// An answer with its sender.
#[derive(Deserialize)]
pub(super) struct Answer<T> {
    pub(super) server: Sender,
    pub(super) data: Option<T>,
    pub(super) error: Option<Fault>,
}

/// Which server answers.
#[derive(Deserialize)]
pub(super) struct Sender {
    pub(super) name: String,
    pub(super) id: String,
    #[serde(default)]
    pub(super) ver: String,
    pub(super) cluster: Option<String>,
    pub(super) domain: Option<String>,
    #[serde(default)]
    pub(super) feature_flags: Flags,
}

#[derive(Default, Deserialize)]
pub(super) struct Flags {
    #[serde(default)]
    pub(super) js_ack_fc_v2: bool,
}

/// That a token was taken.
#[derive(Deserialize)]
pub(super) struct Taken {
    pub(super) code: u16,
}

/// That something was not done.
#[derive(Deserialize)]
pub(super) struct Fault {
    #[serde(default)]
    description: String,
}

/// The answer to a ping.
#[derive(Deserialize)]
pub(super) struct Stats {
    pub(super) server: Sender,
    pub(super) statsz: Figures,
}

#[derive(Deserialize)]
pub(super) struct Figures {
    pub(super) jetstream: Option<JetStream>,
}

#[derive(Deserialize)]
pub(super) struct JetStream {
    pub(super) config: Config,
    pub(super) limits: Option<Limits>,
    pub(super) meta: Option<Meta>,
}

#[derive(Deserialize)]
pub(super) struct Config {
    #[serde(default)]
    pub(super) sync_always: bool,
}

#[derive(Deserialize)]
pub(super) struct Limits {
    pub(super) default_max_consumers: Option<i64>,
}

/// What the servers of a cluster know of each other. Only the one that leads names them.
#[derive(Deserialize)]
pub(super) struct Meta {
    pub(super) leader: Option<String>,
    #[serde(default)]
    pub(super) replicas: Vec<Peer>,
    #[serde(default)]
    pub(super) cluster_size: usize,
}

#[derive(Deserialize)]
pub(super) struct Peer {
    pub(super) name: String,
}

impl Fault {
    /// What it says, fit to be shown.
    pub(super) fn shown(&self) -> String {
        bus_subjects::Shown(&self.description).to_string()
    }
}
