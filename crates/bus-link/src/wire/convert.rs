//! The words of the bus as they travel, and the way back, where everything is checked.

use std::{
    num::{NonZeroU64, NonZeroUsize},
    time::Duration,
};

use bus_core::{
    BlobInfo, ConsumerSpec, ConsumerState, Durability, Error, ErrorKind, Expect, ExpectRevision,
    Lag, Overflow, Put, Receipt, Result, Retention, Revision, Seq, StreamSpec, Verdict,
};
use bus_envelope::{EventHash, Timestamp};
use bus_subjects::{BucketKey, ConsumerName, Filter, StreamName};
use serde::{Deserialize, Serialize};

use super::packet::corrupt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WireOverflow {
    DropOldest(u64),
    Latest(u64),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WireStream {
    name: String,
    filters: Vec<String>,
    retention: WireRetention,
    dedupe_window: Duration,
    messages_max: u64,
    messages_per_subject_max: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum WireRetention {
    WorkQueue,
    AppendOnly,
    Kept,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WireExpect {
    Any,
    LastOfSubject(u64),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WireConsumer {
    stream: String,
    name: String,
    filter: String,
    lease: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WireConsumerState {
    spec: WireConsumer,
    lag: WireLag,
    paused_until: Option<i128>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WireLag {
    pending: u64,
    in_flight: u64,
    oldest: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WireReceipt {
    stream: String,
    seq: u64,
    duplicate: bool,
    durability: u8,
}

/// Where a stored frame stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WirePlace {
    pub(crate) seq: u64,
    time: i128,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WireDelivery {
    /// Its name at the server, whatever the connection.
    pub(crate) id: u64,
    pub(crate) place: WirePlace,
    pub(crate) attempt: u32,
    pub(crate) lease: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WireVerdict {
    Ack,
    Retry(Duration),
    Release(Duration),
    Reject(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WireExpectRevision {
    Any,
    Absent,
    Exactly(u64),
}

/// A write into a bucket, its value apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WirePut {
    expect: WireExpectRevision,
    ttl: Option<Duration>,
}

/// What a key holds, its value apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WireState {
    Value,
    Deleted,
    Expired,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WireBlob {
    key: String,
    bytes: u64,
    digest: [u8; 32],
}

impl WireOverflow {
    /// The rule, with `frames_max` frames at most.
    pub(crate) fn parse(self, frames_max: NonZeroUsize) -> Result<Overflow> {
        let (Self::DropOldest(count) | Self::Latest(count)) = self;
        let count = NonZeroUsize::new(usize::try_from(count).unwrap_or(usize::MAX));
        let count = count.ok_or_else(|| corrupt("a subscription holds at least one frame"))?;
        let count = count.min(frames_max);
        Ok(match self {
            Self::DropOldest(_) => Overflow::DropOldest { capacity: count },
            Self::Latest(_) => Overflow::Latest { subjects: count },
        })
    }
}

impl From<Overflow> for WireOverflow {
    fn from(overflow: Overflow) -> Self {
        match overflow {
            Overflow::DropOldest { capacity } => Self::DropOldest(capacity.get() as u64),
            Overflow::Latest { subjects } => Self::Latest(subjects.get() as u64),
        }
    }
}

impl WireStream {
    pub(crate) fn parse(&self) -> Result<StreamSpec> {
        let retention = match self.retention {
            WireRetention::WorkQueue => Retention::WorkQueue,
            WireRetention::AppendOnly => Retention::AppendOnly,
            WireRetention::Kept => Retention::Kept,
        };
        let count = |count| {
            NonZeroU64::new(count).ok_or_else(|| corrupt("a stream holds at least one message"))
        };
        let filters = self.filters.iter().map(|filter| Filter::parse(filter));
        Ok(StreamSpec {
            name: StreamName::parse(&self.name)?,
            filters: filters.collect::<std::result::Result<_, _>>()?,
            retention,
            dedupe_window: self.dedupe_window,
            messages_max: count(self.messages_max)?,
            messages_per_subject_max: count(self.messages_per_subject_max)?,
        })
    }
}

impl From<&StreamSpec> for WireStream {
    fn from(spec: &StreamSpec) -> Self {
        Self {
            name: spec.name.as_str().to_owned(),
            filters: spec.filters.iter().map(|filter| filter.as_str().to_owned()).collect(),
            retention: match spec.retention {
                Retention::WorkQueue => WireRetention::WorkQueue,
                Retention::AppendOnly => WireRetention::AppendOnly,
                Retention::Kept => WireRetention::Kept,
            },
            dedupe_window: spec.dedupe_window,
            messages_max: spec.messages_max.get(),
            messages_per_subject_max: spec.messages_per_subject_max.get(),
        }
    }
}

impl From<WireExpect> for Expect {
    fn from(expect: WireExpect) -> Self {
        match expect {
            WireExpect::Any => Self::Any,
            WireExpect::LastOfSubject(seq) => Self::LastOfSubject(Seq(seq)),
        }
    }
}

impl From<Expect> for WireExpect {
    fn from(expect: Expect) -> Self {
        match expect {
            Expect::Any => Self::Any,
            Expect::LastOfSubject(seq) => Self::LastOfSubject(seq.0),
        }
    }
}

impl WireConsumer {
    pub(crate) fn parse(&self) -> Result<ConsumerSpec> {
        Ok(ConsumerSpec {
            stream: StreamName::parse(&self.stream)?,
            name: ConsumerName::parse(&self.name)?,
            filter: Filter::parse(&self.filter)?,
            lease: self.lease,
        })
    }
}

impl From<&ConsumerSpec> for WireConsumer {
    fn from(spec: &ConsumerSpec) -> Self {
        Self {
            stream: spec.stream.as_str().to_owned(),
            name: spec.name.as_str().to_owned(),
            filter: spec.filter.as_str().to_owned(),
            lease: spec.lease,
        }
    }
}

impl WireConsumerState {
    pub(crate) fn parse(&self) -> Result<ConsumerState> {
        Ok(ConsumerState {
            spec: self.spec.parse()?,
            lag: self.lag.into(),
            paused_until: self.paused_until.map(time).transpose()?,
        })
    }
}

impl From<&ConsumerState> for WireConsumerState {
    fn from(state: &ConsumerState) -> Self {
        Self {
            spec: (&state.spec).into(),
            lag: state.lag.into(),
            paused_until: state.paused_until.map(Timestamp::unix_ns),
        }
    }
}

impl From<WireLag> for Lag {
    fn from(lag: WireLag) -> Self {
        Self { pending: lag.pending, in_flight: lag.in_flight, oldest: lag.oldest }
    }
}

impl From<Lag> for WireLag {
    fn from(lag: Lag) -> Self {
        Self { pending: lag.pending, in_flight: lag.in_flight, oldest: lag.oldest }
    }
}

impl WireReceipt {
    pub(crate) fn parse(&self) -> Result<Receipt> {
        Ok(Receipt {
            stream: StreamName::parse(&self.stream)?,
            seq: Seq(self.seq),
            duplicate: self.duplicate,
            durability: durability(self.durability)?,
        })
    }
}

impl From<&Receipt> for WireReceipt {
    fn from(receipt: &Receipt) -> Self {
        Self {
            stream: receipt.stream.as_str().to_owned(),
            seq: receipt.seq.0,
            duplicate: receipt.duplicate,
            durability: match receipt.durability {
                Durability::Memory => 0,
                Durability::Written => 1,
                Durability::Synced => 2,
            },
        }
    }
}

impl WirePlace {
    pub(crate) fn new(seq: Seq, time: Timestamp) -> Self {
        Self { seq: seq.0, time: time.unix_ns() }
    }

    pub(crate) fn parse(self) -> Result<(Seq, Timestamp)> {
        Ok((Seq(self.seq), time(self.time)?))
    }
}

impl From<WireVerdict> for Verdict {
    fn from(verdict: WireVerdict) -> Self {
        match verdict {
            WireVerdict::Ack => Self::Ack,
            WireVerdict::Retry(after) => Self::Retry { after },
            WireVerdict::Release(after) => Self::Release { after },
            WireVerdict::Reject(reason) => Self::Reject { reason },
        }
    }
}

impl From<Verdict> for WireVerdict {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Ack => Self::Ack,
            Verdict::Retry { after } => Self::Retry(after),
            Verdict::Release { after } => Self::Release(after),
            Verdict::Reject { reason } => Self::Reject(reason),
        }
    }
}

impl From<WireExpectRevision> for ExpectRevision {
    fn from(expect: WireExpectRevision) -> Self {
        match expect {
            WireExpectRevision::Any => Self::Any,
            WireExpectRevision::Absent => Self::Absent,
            WireExpectRevision::Exactly(revision) => Self::Exactly(Revision(revision)),
        }
    }
}

impl From<ExpectRevision> for WireExpectRevision {
    fn from(expect: ExpectRevision) -> Self {
        match expect {
            ExpectRevision::Any => Self::Any,
            ExpectRevision::Absent => Self::Absent,
            ExpectRevision::Exactly(revision) => Self::Exactly(revision.0),
        }
    }
}

impl WirePut {
    pub(crate) fn with(self, value: bytes::Bytes) -> Put {
        Put { value, expect: self.expect.into(), ttl: self.ttl }
    }
}

impl From<&Put> for WirePut {
    fn from(put: &Put) -> Self {
        Self { expect: put.expect.into(), ttl: put.ttl }
    }
}

impl WireBlob {
    pub(crate) fn parse(&self) -> Result<BlobInfo> {
        let (key, digest) = (BucketKey::parse(&self.key)?, EventHash::from_bytes(self.digest));
        Ok(BlobInfo { key, bytes: self.bytes, digest })
    }
}

impl From<&BlobInfo> for WireBlob {
    fn from(info: &BlobInfo) -> Self {
        let digest = *info.digest.as_bytes();
        Self { key: info.key.as_str().to_owned(), bytes: info.bytes, digest }
    }
}

pub(crate) fn time(unix_ns: i128) -> Result<Timestamp> {
    let time = Timestamp::from_unix_ns(unix_ns);
    if time.unix_ns() == unix_ns {
        Ok(time)
    } else {
        Err(corrupt("a time is outside the calendar"))
    }
}

pub(super) fn durability(number: u8) -> Result<Durability> {
    match number {
        0 => Ok(Durability::Memory),
        1 => Ok(Durability::Written),
        2 => Ok(Durability::Synced),
        _ => Err(Error::new(ErrorKind::Corrupt, "read", "there is no such durability")),
    }
}
