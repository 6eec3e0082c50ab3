//! A change that owns what it says, for whoever keeps changes beyond the call that made them.

use std::sync::Arc;

use bus_core::{ConsumerSpec, Frame, StreamSpec};
use bus_envelope::Timestamp;
use bus_subjects::{BucketKey, BucketName};
use bytes::Bytes;

use super::Change;

/// A [`Change`] with its parts; they are shared with the broker where they are large.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the fields are those of `Change`, where they are explained")]
pub enum Statement {
    /// See [`Change::Declared`].
    Declared { stream: u32, spec: StreamSpec, key: [u8; 16] },
    /// See [`Change::Stored`].
    Stored { stream: u32, seq: u64, time: Timestamp, frame: Arc<Frame> },
    /// See [`Change::Removed`].
    Removed { stream: u32, seq: u64 },
    /// See [`Change::ConsumerMade`].
    ConsumerMade { consumer: u64, stream: u32, spec: ConsumerSpec },
    /// See [`Change::ConsumerRemoved`].
    ConsumerRemoved { consumer: u64 },
    /// See [`Change::Paused`].
    Paused { consumer: u64, until: Option<Timestamp> },
    /// See [`Change::Leased`].
    Leased {
        consumer: u64,
        seq: u64,
        token: u64,
        attempt: u32,
        since: Timestamp,
        deadline: Timestamp,
    },
    /// See [`Change::Waits`].
    Waits { consumer: u64, seq: u64, attempt: u32, since: Timestamp, handed_back: bool },
    /// See [`Change::Done`].
    Done { consumer: u64, seq: u64 },
    /// See [`Change::Put`].
    Put {
        bucket: BucketName,
        key: BucketKey,
        revision: u64,
        time: Timestamp,
        end: Option<Timestamp>,
        value: Bytes,
    },
    /// See [`Change::Ended`].
    Ended { bucket: BucketName, key: BucketKey, revision: u64, time: Timestamp, expired: bool },
    /// See [`Change::StreamAt`].
    StreamAt { stream: u32, last: u64, ids: Vec<([u64; 2], u64, Timestamp)> },
    /// See [`Change::ConsumerAt`].
    ConsumerAt { consumer: u64, from: u64, fresh: Vec<u64>, token: u64 },
    /// See [`Change::BucketAt`].
    BucketAt { bucket: BucketName, last: u64, forgotten: u64 },
}

impl Statement {
    /// The change, without a copy.
    #[must_use]
    pub fn change(&self) -> Change<'_> {
        match self {
            Self::Declared { stream, spec, key } => {
                Change::Declared { stream: *stream, spec, key: *key }
            }
            Self::Stored { stream, seq, time, frame } => {
                Change::Stored { stream: *stream, seq: *seq, time: *time, frame }
            }
            &Self::Removed { stream, seq } => Change::Removed { stream, seq },
            Self::ConsumerMade { consumer, stream, spec } => {
                Change::ConsumerMade { consumer: *consumer, stream: *stream, spec }
            }
            &Self::ConsumerRemoved { consumer } => Change::ConsumerRemoved { consumer },
            &Self::Paused { consumer, until } => Change::Paused { consumer, until },
            &Self::Leased { consumer, seq, token, attempt, since, deadline } => {
                Change::Leased { consumer, seq, token, attempt, since, deadline }
            }
            &Self::Waits { consumer, seq, attempt, since, handed_back } => {
                Change::Waits { consumer, seq, attempt, since, handed_back }
            }
            &Self::Done { consumer, seq } => Change::Done { consumer, seq },
            Self::Put { bucket, key, revision, time, end, value } => {
                let (revision, time, end) = (*revision, *time, *end);
                Change::Put { bucket, key, revision, time, end, value }
            }
            Self::Ended { bucket, key, revision, time, expired } => {
                let (revision, time, expired) = (*revision, *time, *expired);
                Change::Ended { bucket, key, revision, time, expired }
            }
            Self::StreamAt { stream, last, ids } => {
                Change::StreamAt { stream: *stream, last: *last, ids }
            }
            Self::ConsumerAt { consumer, from, fresh, token } => {
                let (consumer, from, token) = (*consumer, *from, *token);
                Change::ConsumerAt { consumer, from, fresh, token }
            }
            Self::BucketAt { bucket, last, forgotten } => {
                Change::BucketAt { bucket, last: *last, forgotten: *forgotten }
            }
        }
    }
}

impl From<Change<'_>> for Statement {
    fn from(change: Change<'_>) -> Self {
        match change {
            Change::Declared { stream, spec, key } => {
                Self::Declared { stream, spec: spec.clone(), key }
            }
            Change::Stored { stream, seq, time, frame } => {
                Self::Stored { stream, seq, time, frame: Arc::clone(frame) }
            }
            Change::Removed { stream, seq } => Self::Removed { stream, seq },
            Change::ConsumerMade { consumer, stream, spec } => {
                Self::ConsumerMade { consumer, stream, spec: spec.clone() }
            }
            Change::ConsumerRemoved { consumer } => Self::ConsumerRemoved { consumer },
            Change::Paused { consumer, until } => Self::Paused { consumer, until },
            Change::Leased { consumer, seq, token, attempt, since, deadline } => {
                Self::Leased { consumer, seq, token, attempt, since, deadline }
            }
            Change::Waits { consumer, seq, attempt, since, handed_back } => {
                Self::Waits { consumer, seq, attempt, since, handed_back }
            }
            Change::Done { consumer, seq } => Self::Done { consumer, seq },
            Change::Put { bucket, key, revision, time, end, value } => {
                let (bucket, key, value) = (bucket.clone(), key.clone(), value.clone());
                Self::Put { bucket, key, revision, time, end, value }
            }
            Change::Ended { bucket, key, revision, time, expired } => {
                let (bucket, key) = (bucket.clone(), key.clone());
                Self::Ended { bucket, key, revision, time, expired }
            }
            Change::StreamAt { stream, last, ids } => {
                Self::StreamAt { stream, last, ids: ids.to_vec() }
            }
            Change::ConsumerAt { consumer, from, fresh, token } => {
                Self::ConsumerAt { consumer, from, fresh: fresh.to_vec(), token }
            }
            Change::BucketAt { bucket, last, forgotten } => {
                Self::BucketAt { bucket: bucket.clone(), last, forgotten }
            }
        }
    }
}
