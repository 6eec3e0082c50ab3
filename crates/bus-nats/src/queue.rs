//! The queue: plain messages by JetStream, everything out of the ordinary on a board.

use std::sync::Arc;

use bus_core::{ConsumerSpec, ConsumerState, Deliveries, Error, ErrorKind, Lag, Result};
use bus_envelope::Timestamp;
use bus_subjects::{ConsumerName, StreamName};

use crate::{api::Api, profile::Profile, streams::Streams};

pub(crate) mod board;

/// The consumers of this connection.
pub(crate) struct Queues {
    api: Api,
    streams: Arc<Streams>,
    profile: Profile,
}

impl Queues {
    pub(crate) fn new(api: Api, streams: Arc<Streams>, profile: Profile) -> Self {
        Self { api, streams, profile }
    }

    pub(crate) async fn consume(&self, _: ConsumerSpec) -> Result<Deliveries> {
        let _ = (&self.api, &self.streams, self.profile);
        Err(Error::new(ErrorKind::Unsupported, "consume", "being built"))
    }

    pub(crate) async fn consumers(&self, _: StreamName) -> Result<Vec<ConsumerState>> {
        Err(Error::new(ErrorKind::Unsupported, "consumers", "being built"))
    }

    pub(crate) async fn pause(
        &self,
        _: StreamName,
        _: ConsumerName,
        _: Option<Timestamp>,
    ) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "pause", "being built"))
    }

    pub(crate) async fn remove_consumer(&self, _: StreamName, _: ConsumerName) -> Result<bool> {
        Err(Error::new(ErrorKind::Unsupported, "remove", "being built"))
    }

    pub(crate) async fn lag(&self, _: StreamName) -> Result<Lag> {
        Err(Error::new(ErrorKind::Unsupported, "lag", "being built"))
    }

    pub(crate) async fn close(&self) {}
}
