//! The rules of the pure broker, with the time as an argument.

mod backlog;
mod batch;
mod blob;
mod broker;
mod bucket;
mod bucket_laws;
mod bucket_watches;
mod consumer;
mod feed;
mod image;
mod image_buckets;
mod image_laws;
mod kept;
mod laws;
mod log;
mod operators;
mod placement;
mod queue_laws;

use std::{num::NonZeroU64, time::Duration};

use bus_core::{
    ConsumerSpec, Durability, Expect, Frame, FrameId, Receipt, Result, Retention, StreamSpec,
    Verdict,
};
use bus_envelope::Timestamp;
use bus_subjects::{ConsumerName, Filter, StreamName, Subject};

use super::{Broker, ConsumerKey};
use crate::Limits;

const LEASE: Duration = Duration::from_secs(30);
const NO_REST: Verdict = Verdict::Release { after: Duration::ZERO };

fn at(ms: u64) -> Timestamp {
    Timestamp::from_unix_ns(0).plus(Duration::from_millis(ms))
}

fn subject(text: &str) -> Subject {
    Subject::parse(text).unwrap()
}

fn filter(text: &str) -> Filter {
    Filter::parse(text).unwrap()
}

fn stream(name: &str) -> StreamName {
    StreamName::parse(name).unwrap()
}

fn frame(on: &str, id: &str) -> Frame {
    Frame::new(subject(on), FrameId::parse(id).unwrap(), id.to_owned())
}

fn spec(name: &str, filters: &[&str], retention: Retention) -> StreamSpec {
    let filters = filters.iter().map(|text| filter(text)).collect();
    StreamSpec::new(stream(name), filters, retention)
}

fn bounded(spec: StreamSpec, messages_max: u64, per_subject_max: u64) -> StreamSpec {
    StreamSpec {
        messages_max: NonZeroU64::new(messages_max).unwrap(),
        messages_per_subject_max: NonZeroU64::new(per_subject_max).unwrap(),
        ..spec
    }
}

fn consumer(on: &str, name: &str, reads: &str) -> ConsumerSpec {
    let name = ConsumerName::parse(name).unwrap();
    ConsumerSpec { stream: stream(on), name, filter: filter(reads), lease: LEASE }
}

fn empty() -> Broker {
    Broker::new(Limits::default(), Durability::Memory)
}

fn with(spec: StreamSpec) -> Broker {
    let mut broker = empty();
    broker.declare(spec).unwrap();
    broker
}

/// A work queue `W` over `work.*` with the consumer `c` of `work.a`.
fn queue() -> (Broker, ConsumerKey) {
    let mut broker = with(spec("W", &["work.*"], Retention::WorkQueue));
    let key = broker.consume(consumer("W", "c", "work.a")).unwrap();
    (broker, key)
}

fn append(broker: &mut Broker, on: &str, id: &str) -> Result<Receipt> {
    broker.append(frame(on, id), Expect::Any, at(0), |_| {})
}

/// Claims at `ms` and returns body, token and attempt.
fn claim(broker: &mut Broker, key: ConsumerKey, ms: u64) -> Option<(String, u64, u32)> {
    let claim = broker.claim(key, at(ms))?;
    let body = String::from_utf8(claim.message.frame.body.to_vec()).unwrap();
    Some((body, claim.token, claim.attempt))
}

fn retry(after_ms: u64) -> Verdict {
    Verdict::Retry { after: Duration::from_millis(after_ms) }
}
