//! A bus on a NATS server.

use std::sync::Arc;

use bus_core::Result;
use bus_subjects::BucketName;
use tokio::sync::watch;

use crate::{
    api::Api,
    append::Append,
    blob::{BlobAges, BlobStore},
    bucket::Buckets,
    connection::{Connection, ConnectionState},
    live::Live,
    options::NatsOptions,
    profile::Profile,
    queue::Queues,
    read::Read,
    streams::Streams,
};

mod inspect;
mod traits;
mod workspace;

pub use inspect::Inspection;

/// A bus on a NATS server. A clone is the same connection.
///
/// Every call ends within `answer_wait` of the options, fails at once while there is no
/// connection, and is `Denied` when the server refuses its subject; only a live publish, which no
/// server answers, is `Ok` even then, and the refusal is logged.
#[derive(Clone)]
pub struct NatsBus {
    connection: Arc<Connection>,
    profile: Profile,
    streams: Arc<Streams>,
    append: Arc<Append>,
    read: Arc<Read>,
    live: Arc<Live>,
    queues: Arc<Queues>,
    buckets: Arc<Buckets>,
    blobs: Arc<BlobStore>,
}

impl NatsBus {
    /// Connects.
    ///
    /// # Errors
    /// `Invalid` (an address), `Denied` (the server knows no such user), `TooLarge` (the
    /// certificate, for this server's `max_control_line`), `Unavailable`.
    pub async fn open(options: NatsOptions) -> Result<Self> {
        let profile = options.profile;
        let connection = Connection::open(options).await?;
        let api = Api::new(Arc::clone(&connection));
        let streams = Streams::new(api.clone(), profile)?;
        Ok(Self {
            append: Arc::new(Append::new(api.clone(), Arc::clone(&streams))),
            read: Arc::new(Read::new(api.clone(), Arc::clone(&streams))),
            live: Arc::new(Live::new(api.clone())?),
            queues: Arc::new(Queues::new(api.clone(), Arc::clone(&streams), profile)),
            buckets: Arc::new(Buckets::new(api.clone(), profile.replicas())),
            blobs: Arc::new(BlobStore::new(api, profile.replicas())),
            connection,
            profile,
            streams,
        })
    }

    /// What the connection is now, to be watched.
    #[must_use]
    pub fn states(&self) -> watch::Receiver<ConnectionState> {
        self.connection.states()
    }

    /// Whether the server asks whoever connects who it is. One that does not has no accounts.
    #[must_use]
    pub fn asks_who(&self) -> bool {
        self.connection.asks_who()
    }

    /// The servers' own interface, through this connection.
    pub(crate) fn api(&self) -> Api {
        Api::new(Arc::clone(&self.connection))
    }

    /// Removes what dead uploads and replaced blobs left in `bucket`, and says how many pieces'
    /// subjects went.
    ///
    /// # Errors
    /// `Denied`, `Closed`; `Timeout` and `Unavailable` with outcome unknown.
    pub async fn sweep_blobs(&self, bucket: &BucketName, ages: BlobAges) -> Result<u64> {
        self.blobs.sweep(bucket, ages).await
    }
}

impl std::fmt::Debug for NatsBus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("NatsBus").field(&self.connection).finish()
    }
}
