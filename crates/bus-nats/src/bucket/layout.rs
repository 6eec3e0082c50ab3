//! How a bucket lies on a server: names, the stream behind it, and the marks of ends.

use std::time::Duration;

use async_nats::HeaderMap;
use bus_core::{KeyState, Result};
use bus_envelope::Timestamp;
use bus_subjects::{BucketKey, BucketName, Filter};
use serde::{Deserialize, Serialize};

use crate::{
    api::{Api, ApiFailure},
    codec::get,
};

/// Where a bucket lies.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The stream behind it.
    pub(super) stream: String,
    prefix: String,
    replicas: u64,
}

/// What the server says of the stream behind a bucket.
#[derive(Debug, Deserialize)]
pub(super) struct Info {
    /// Which life of the bucket this is.
    pub(super) created: String,
    /// How it was made.
    pub(super) config: Made,
    /// What it holds.
    pub(super) state: State,
    /// When the server said so.
    #[serde(default)]
    pub(super) ts: Option<String>,
}

/// How a bucket was made.
#[derive(Debug, Deserialize)]
pub(super) struct Made {
    /// The first revision of this life of the bucket; 0 when others made it.
    #[serde(default)]
    pub(super) first_seq: u64,
}

/// What a bucket holds.
#[derive(Debug, Deserialize)]
pub(super) struct State {
    /// The last revision given.
    pub(super) last_seq: u64,
}

/// The configuration of a bucket's stream.
#[derive(Serialize)]
struct Config<'a> {
    name: &'a str,
    subjects: [String; 1],
    storage: &'static str,
    retention: &'static str,
    discard: &'static str,
    /// One: with more, the end of a value's time would uncover the value before it.
    max_msgs_per_subject: i64,
    num_replicas: u64,
    max_consumers: i64,
    /// Each life of a bucket counts on from a time, so that no revision ever means two writes.
    first_seq: u64,
    allow_direct: bool,
    allow_rollup_hdrs: bool,
    deny_delete: bool,
    allow_msg_ttl: bool,
    subject_delete_marker_ttl: u64,
}

impl Place {
    pub(super) fn new(bucket: &BucketName, replicas: u64) -> Self {
        Self { stream: format!("KV_{bucket}"), prefix: format!("$KV.{bucket}."), replicas }
    }

    /// The subject of `key`.
    pub(super) fn subject(&self, key: &BucketKey) -> String {
        format!("{}{key}", self.prefix)
    }

    /// The subjects of the keys that match `keys`.
    pub(super) fn subjects(&self, keys: &Filter) -> String {
        format!("{}{keys}", self.prefix)
    }

    /// The key at `subject`; `None` when it is none of this bucket.
    pub(super) fn key(&self, subject: &str) -> Option<BucketKey> {
        BucketKey::parse(subject.strip_prefix(&self.prefix)?).ok()
    }

    /// The stream behind the bucket; `None` when there is none.
    pub(super) async fn info(&self, api: &Api, op: &'static str) -> Result<Option<Info>> {
        match api.ask(op, &format!("STREAM.INFO.{}", self.stream)).await {
            Ok(info) => Ok(Some(info)),
            Err(failure) if failure.err_code() == Some(NO_STREAM) => Ok(None),
            Err(failure) => Err(failure.into_error(op, &self.stream)),
        }
    }

    /// Makes the stream behind the bucket unless it is there.
    ///
    /// # Errors
    /// `Denied` where another account keeps it.
    pub(super) async fn ensure(&self, api: &Api, op: &'static str) -> Result<()> {
        api.check_keeps_itself(op).map_err(|error| error.at(&self.stream))?;
        let kept = u64::try_from(ENDS_KEPT.as_nanos()).unwrap_or(u64::MAX);
        let config = Config {
            name: &self.stream,
            subjects: [format!("{}>", self.prefix)],
            storage: "file",
            retention: "limits",
            discard: "new",
            max_msgs_per_subject: 1,
            num_replicas: self.replicas,
            max_consumers: CONSUMERS_MAX,
            first_seq: first_revision(api.connection().now()),
            allow_direct: true,
            allow_rollup_hdrs: true,
            deny_delete: true,
            allow_msg_ttl: true,
            subject_delete_marker_ttl: kept,
        };
        let verb = format!("STREAM.CREATE.{}", self.stream);
        match api.call::<serde_json::Value>(op, &verb, &config).await {
            Ok(_) => Ok(()),
            // Somebody made it with another configuration: what it cannot do it refuses itself.
            Err(failure) if failure.err_code() == Some(NAME_IN_USE) => Ok(()),
            Err(failure @ (ApiFailure::Refused(_) | ApiFailure::Bus(_))) => {
                Err(failure.into_error(op, &self.stream))
            }
        }
    }
}

impl Info {
    /// The server's time of the answer.
    pub(super) fn time(&self) -> Option<Timestamp> {
        Timestamp::parse_rfc3339(self.ts.as_deref()?).ok()
    }

    /// Since when the bucket is there.
    pub(super) fn born(&self) -> Option<Timestamp> {
        Timestamp::parse_rfc3339(&self.created).ok()
    }
}

/// Microseconds since 1970: what is written between two lives is less than one a microsecond, and
/// every reader of JSON can hold the number.
pub(super) fn first_revision(now: Timestamp) -> u64 {
    u64::try_from(now.unix_ns() / 1_000).unwrap_or_default().max(1)
}

/// The end that a stored message marks; `None` when it is a value.
pub(super) fn end(headers: &HeaderMap) -> Option<KeyState> {
    if let Some(reason) = get(headers, "Nats-Marker-Reason") {
        return Some(if reason == "MaxAge" { KeyState::Expired } else { KeyState::Deleted });
    }
    matches!(get(headers, OPERATION), Some("DEL" | "PURGE")).then_some(KeyState::Deleted)
}

/// The header that says what a write does.
pub(super) const OPERATION: &str = "KV-Operation";
/// How long the mark of an end stays, which is how far behind a watch can go on; one mark a key.
pub(super) const ENDS_KEPT: Duration = Duration::from_secs(3_600);
/// The server's own limit is 1,000 a stream.
const CONSUMERS_MAX: i64 = 100_000;
const NO_STREAM: u32 = 10_059;
const NAME_IN_USE: u32 = 10_058;
