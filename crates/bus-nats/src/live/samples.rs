//! The newest frame of each latest-value subject, kept by a stream in memory for a little while.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use async_nats::{HeaderMap, Message};
use bus_core::{ErrorKind, Frame, Result};
use bus_subjects::Filter;
use bytes::Bytes;
use serde::Serialize;

use super::{EXPECTED_STREAM, NO_STREAM, arrival::decode};
use crate::{
    api::{Api, ApiFailure, GetRequest, RawStored},
    codec::{self, parse_subject},
    permissions::Layout,
    queue::pattern::intersect,
};

/// The samples of a server.
pub(super) struct Samples {
    api: Api,
    sampled: Vec<Filter>,
    /// The last epoch of the connection in which the stream was there.
    there: AtomicU64,
    /// The last epoch in which a publisher looked, whatever came of it.
    looked: AtomicU64,
}

#[derive(Serialize)]
struct Config<'a> {
    name: &'a str,
    subjects: Vec<&'a str>,
    retention: &'a str,
    storage: &'a str,
    discard: &'a str,
    max_msgs: usize,
    max_msgs_per_subject: usize,
    max_bytes: usize,
    max_age: u128,
    num_replicas: usize,
    allow_direct: bool,
}

impl Samples {
    pub(super) fn new(api: Api, sampled: Vec<Filter>) -> Self {
        Self { api, sampled, there: AtomicU64::new(0), looked: AtomicU64::new(0) }
    }

    /// Makes sure that what is published next is kept, once for each connection. A sample that
    /// nobody keeps is still heard, so nothing fails.
    pub(super) async fn prepare(&self) {
        const OP: &str = "publish";
        if !self.api.keeps_itself() {
            return;
        }
        let epoch = self.epoch();
        if self.looked.load(Ordering::Relaxed) == epoch {
            return;
        }
        if let Err(error) = self.make(OP).await {
            tracing::warn!(%error, "samples are not kept for late readers");
        }
        self.looked.store(epoch, Ordering::Relaxed);
    }

    /// The samples under `filter`, the oldest first.
    pub(super) async fn read(&self, op: &'static str, filter: &Filter) -> Result<Vec<Frame>> {
        if !self.api.keeps_itself()
            && let Some(one) = self.one(filter)
        {
            return self.read_one(op, one).await;
        }
        // Who may only read sees what others had kept.
        unless_denied(self.make(op).await)?;
        unless_denied(self.pass(op).await)?;
        let now = self.api.connection().now();
        let (mut samples, mut from, mut read) = (Vec::new(), 1, 0);
        while read < SAMPLES_MAX {
            let wanted = GetRequest {
                seq: Some(from),
                next_by_subj: Some(filter.as_str().to_owned()),
                batch: Some(PAGE),
                max_bytes: Some(PAGE_BYTES),
                ..GetRequest::default()
            };
            let page = match self.api.get(op, STREAM, &wanted).await {
                Ok(page) => page,
                Err(failure) => {
                    let error = failure.into_error(op, STREAM);
                    if error.kind() != ErrorKind::NotFound {
                        return Err(error);
                    }
                    // Nobody made it yet, or somebody removed it: the next to publish looks again.
                    self.there.store(0, Ordering::Relaxed);
                    self.looked.store(0, Ordering::Relaxed);
                    break;
                }
            };
            let Some(last) = page.last() else { break };
            let is_last = codec::get(&last.headers, PENDING).is_none_or(|left| left == "0");
            (from, read) = (last.seq.saturating_add(1), read + page.len());
            let fresh = page.into_iter().filter(|stored| now.since(stored.time) <= AGE_MAX);
            samples.extend(fresh.filter_map(sample));
            if is_last {
                break;
            }
        }
        Ok(samples)
    }

    /// The one subject of samples under `filter`, when there is one.
    fn one(&self, filter: &Filter) -> Option<String> {
        let part = self.sampled.iter().find_map(|sampled| intersect(sampled, filter))?;
        (!part.contains(['*', '>'])).then_some(part)
    }

    /// The sample under `subject`, by a question that names it: that can be granted alone.
    async fn read_one(&self, op: &'static str, subject: String) -> Result<Vec<Frame>> {
        let now = self.api.connection().now();
        let wanted = GetRequest { last_by_subj: Some(subject), ..GetRequest::default() };
        let got = self.api.get(op, STREAM, &wanted).await;
        let got = got.map_err(|failure| failure.into_error(op, STREAM))?;
        let fresh = got.into_iter().filter(|stored| now.since(stored.time) <= AGE_MAX);
        Ok(fresh.filter_map(sample).collect())
    }

    /// Makes sure that the stream is there.
    ///
    /// # Errors
    /// `Denied` where another account keeps it; those of a call.
    pub(super) async fn make(&self, op: &'static str) -> Result<()> {
        self.api.check_keeps_itself(op)?;
        let epoch = self.epoch();
        if self.there.load(Ordering::Relaxed) == epoch {
            return Ok(());
        }
        let mut subjects: Vec<&str> = self.sampled.iter().map(Filter::as_str).collect();
        subjects.push(FENCE);
        let config = Config {
            name: STREAM,
            subjects,
            retention: "limits",
            storage: "memory",
            discard: "old",
            max_msgs: SAMPLES_MAX,
            max_msgs_per_subject: 1,
            max_bytes: BYTES_MAX,
            max_age: AGE_MAX.as_nanos(),
            num_replicas: 1,
            allow_direct: true,
        };
        let verb = format!("STREAM.CREATE.{STREAM}");
        match self.api.call::<serde::de::IgnoredAny>(op, &verb, &config).await {
            Ok(_) => {}
            // Another version of this bus may keep them within other bounds.
            Err(failure) if failure.err_code() == Some(NAME_IN_USE) => {}
            Err(failure) => return Err(failure.into_error(op, STREAM)),
        }
        self.there.store(epoch, Ordering::Relaxed);
        Ok(())
    }

    /// Waits until the stream has stored whatever it was handed before: it takes messages in by a
    /// queue, and answers reads beside it. What is sent here takes the same queue and is refused.
    async fn pass(&self, op: &'static str) -> Result<()> {
        self.api.check_keeps_itself(op)?;
        let mut map = HeaderMap::new();
        codec::set(&mut map, EXPECTED_STREAM, NO_STREAM)?;
        match self.api.publish(op, FENCE.to_owned(), map, Bytes::new()).await {
            Ok(_) | Err(ApiFailure::Refused(_)) => Ok(()),
            // No stream of ours: somebody else's keeps samples under its name.
            Err(ApiFailure::Bus(error)) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(failure) => Err(failure.into_error(op, STREAM)),
        }
    }

    fn epoch(&self) -> u64 {
        self.api.connection().states().borrow().epoch().unwrap_or_default()
    }
}

fn unless_denied(done: Result<()>) -> Result<()> {
    done.or_else(|error| if error.kind() == ErrorKind::Denied { Ok(()) } else { Err(error) })
}

/// The frame of a stored sample; `None` when it is none.
fn sample(stored: RawStored) -> Option<Frame> {
    let RawStored { subject, headers, body, .. } = stored;
    let message = Message {
        length: body.len(),
        subject: subject.into(),
        reply: None,
        payload: body,
        headers: Some(headers),
        status: None,
        description: None,
    };
    let subject = parse_subject(&message.subject).ok()?;
    let mut frames = Vec::with_capacity(1);
    decode(&subject, &message, true, &mut frames).ok()?;
    frames.pop()
}

const STREAM: &str = Layout::LATEST;
/// A subject that the stream answers for and never keeps anything under.
const FENCE: &str = "vakl.fence";
const PENDING: &str = "Nats-Num-Pending";
const NAME_IN_USE: u32 = 10_058;

/// How long a sample is shown: a process that ended is not shown for ever.
const AGE_MAX: Duration = Duration::from_secs(10);
/// The bounds of all samples together; beyond them the oldest go.
const SAMPLES_MAX: usize = 65_536;
const BYTES_MAX: usize = 64 << 20;
/// How many samples, and about how many bytes, are read at a time.
const PAGE: usize = 256;
const PAGE_BYTES: usize = 4 << 20;
