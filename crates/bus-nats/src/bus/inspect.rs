//! What a connection can tell of its servers, for who looks after them. Changes nothing.

use std::time::Duration;

use bus_core::{Result, StreamSpec};
use bus_envelope::Timestamp;
use bus_subjects::StreamName;

use super::NatsBus;
use crate::{server::Version, streams::StreamStanding};

/// What one server and the streams behind it are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// The version of the server that this is connected to.
    pub version: String,
    /// Whether it is one that this engine works with.
    pub is_supported: bool,
    /// The largest message that it takes, headers included, in bytes.
    pub payload_max: usize,
    /// Its time as it is estimated now, and how wrong that may be; none when it did not tell.
    pub clock: Option<(Timestamp, Duration)>,
    /// How many copies of a stream the profile has.
    pub copies: u64,
    /// The streams that were asked for, in their order.
    pub streams: Vec<(StreamName, StreamStanding)>,
}

impl NatsBus {
    /// Asks how `streams` stand, and what the server is. Cancel safe.
    ///
    /// # Errors
    /// `Timeout`, `Unavailable`, `Closed`. A stream that is missing or may not be seen is told in
    /// its place.
    pub async fn inspect(&self, streams: &[StreamSpec]) -> Result<Inspection> {
        let mut standing = Vec::with_capacity(streams.len());
        for spec in streams {
            standing.push((spec.name.clone(), self.streams.standing(spec).await?));
        }
        let connection = &self.connection;
        let version = connection.server_version();
        Ok(Inspection {
            is_supported: Version::parse(&version).is_some_and(|it| it >= Version::OLDEST),
            version,
            payload_max: connection.payload_max(),
            clock: connection.heard_time(),
            copies: connection.profile().replicas(),
            streams: standing,
        })
    }
}
