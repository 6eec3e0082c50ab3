//! How a declared stream stands on its servers, for who looks after them. Changes nothing.

use bus_core::{ErrorKind, Result, StreamSpec};
use serde::Deserialize;

use super::{Streams, config, config::Config};
use crate::api::ApiFailure;

/// How one stream stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamStanding {
    /// It is not there.
    Missing,
    /// This login may not ask.
    Hidden,
    /// It is there.
    There(StreamFacts),
}

/// What a stream is and holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamFacts {
    /// How many copies it is to have.
    pub copies: u64,
    /// Servers with a copy that are away or behind, by name.
    pub behind: Vec<String>,
    /// Whether one of several copies leads now: without one nothing is stored.
    pub has_leader: bool,
    /// Every way in which it is not as it was declared, in words; the number of copies apart.
    pub drift: Vec<String>,
    /// How many messages it holds.
    pub messages: u64,
    /// How many consumers it has.
    pub consumers: u64,
}

#[derive(Deserialize)]
struct Told {
    config: Config,
    state: Held,
    #[serde(default)]
    cluster: Option<Cluster>,
}

#[derive(Deserialize)]
struct Held {
    messages: u64,
    #[serde(default)]
    consumer_count: u64,
}

#[derive(Deserialize)]
struct Cluster {
    #[serde(default)]
    leader: Option<String>,
    #[serde(default)]
    replicas: Option<Vec<Peer>>,
}

#[derive(Deserialize)]
struct Peer {
    name: String,
    #[serde(default)]
    current: bool,
    #[serde(default)]
    offline: bool,
}

impl Streams {
    /// How the stream of `spec` stands against it and the profile.
    ///
    /// # Errors
    /// `Timeout`, `Unavailable`, `Closed`.
    pub(crate) async fn standing(&self, spec: &StreamSpec) -> Result<StreamStanding> {
        const OP: &str = "inspect";
        self.api.connection().check_open(OP)?;
        let verb = format!("STREAM.INFO.{}", spec.name);
        let asked: std::result::Result<Told, ApiFailure> = self.api.ask(OP, &verb).await;
        let told = match asked.map_err(|failure| failure.into_error(OP, &spec.name)) {
            Ok(told) => told,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(StreamStanding::Missing);
            }
            Err(error) if error.kind() == ErrorKind::Denied => return Ok(StreamStanding::Hidden),
            Err(error) => return Err(error),
        };
        let mut spec = spec.clone();
        spec.filters.sort();
        spec.filters.dedup();
        let mut drift = config::drift(&config::wanted(&spec, self.profile)?, &told.config);
        drift.retain(|difference| !difference.starts_with(config::COPIES));
        let copies = told.config.get(config::COPIES).and_then(serde_json::Value::as_u64);
        Ok(StreamStanding::There(StreamFacts {
            copies: copies.unwrap_or(1),
            has_leader: told.cluster.as_ref().is_none_or(Cluster::has_leader),
            behind: told.cluster.map(Cluster::behind).unwrap_or_default(),
            drift,
            messages: told.state.messages,
            consumers: told.state.consumer_count,
        }))
    }
}

impl Cluster {
    fn has_leader(&self) -> bool {
        self.leader.as_ref().is_some_and(|leader| !leader.is_empty())
    }

    fn behind(self) -> Vec<String> {
        let peers = self.replicas.unwrap_or_default().into_iter();
        peers.filter(|peer| peer.offline || !peer.current).map(|peer| peer.name).collect()
    }
}
