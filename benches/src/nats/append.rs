//! Durable messages, acknowledged (N4), and the same through a power cut (N5).
//!
//! Appends in a second. The bare client publishes to a stream of its own on the same server, as
//! many bytes as ours puts on the wire but without ids: its stream keeps every repeat. Beside raw
//! with ids it names them as well, in a stream like ours: to know repeats costs the server about
//! 3 us of its time a message, whoever the client is. N5 has both sides on a server that syncs
//! before it acknowledges.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, ensure};
use async_nats::jetstream::{self, Context, message::PublishMessage, stream::Config};
use bus_core::{Bus, Expect, Frame, FrameId, Retention, Seq, StreamSpec};
use bus_nats::NatsBus;
use bus_subjects::{Filter, StreamName, Subject};
use bytes::Bytes;
use futures_util::{
    StreamExt, TryStreamExt,
    stream::{self, FuturesUnordered},
};

use super::{Ground, Site, rate, round_trip, wire_bytes};
use crate::{
    case::{Case, Figures, wall_time},
    fanout::{in_task, in_turn},
};

pub(crate) const RATES: &[Case] = &[
    Case { name: "N4-append-one-by-one", goal: Some(0.95), measure: one_by_one },
    Case { name: "N4-append-256-in-flight", goal: Some(0.85), measure: in_flight },
    Case {
        name: "N4-append-256-in-flight-beside-raw-with-ids",
        goal: Some(0.85),
        measure: with_ids,
    },
    Case { name: "N5-synced-append-256-in-flight", goal: Some(3.0), measure: synced },
    Case { name: "N5-synced-append-one-by-one", goal: None, measure: synced_one_by_one },
];

/// How many at once, and how many in all.
#[derive(Clone, Copy)]
struct Load {
    in_flight: usize,
    count: usize,
}

fn one_by_one() -> Result<Figures> {
    let load = Load { in_flight: 1, count: 4_000 };
    beside_raw(&Ground::new()?, Ids::Missing, load, load)
}

fn in_flight() -> Result<Figures> {
    beside_raw(&Ground::new()?, Ids::Missing, IN_FLIGHT, IN_FLIGHT)
}

fn with_ids() -> Result<Figures> {
    beside_raw(&Ground::new()?, Ids::Named, IN_FLIGHT, IN_FLIGHT)
}

fn synced() -> Result<Figures> {
    let (raw, ours) = (RAW_SYNCED, Load { in_flight: 256, count: 20_000 });
    beside_raw(&Ground::synced()?, Ids::Missing, raw, ours)
}

fn synced_one_by_one() -> Result<Figures> {
    let raw = Load { in_flight: 1, count: 1_000 };
    beside_raw(&Ground::synced()?, Ids::Missing, raw, raw)
}

fn beside_raw(ground: &Ground, ids: Ids, raw_load: Load, our_load: Load) -> Result<Figures> {
    let (bus, raw) = ground.run(async {
        let bus = ready_bus(ground.site(), Retention::Kept).await?;
        let bytes = on_wire(ground.site(), &bus).await?;
        anyhow::Ok((bus, Raw::new(ground.site(), ids, bytes).await?))
    })?;
    in_turn(
        || ground.run(in_task(raw.clone().appends(raw_load))),
        || ground.run(in_task(appends(bus.clone(), our_load))),
    )
}

/// Whether the bare client names ids.
#[derive(Clone, Copy, PartialEq)]
enum Ids {
    Missing,
    Named,
}

#[derive(Clone)]
struct Raw {
    context: Context,
    ids: Ids,
    body: Bytes,
}

impl Raw {
    async fn new(site: &Site, ids: Ids, bytes: usize) -> Result<Self> {
        let context = jetstream::new(site.client().await?);
        let config = Config {
            name: "RAW".to_owned(),
            subjects: vec![RAW_SUBJECT.to_owned()],
            ..Config::default()
        };
        let (config, bytes) = match ids {
            Ids::Missing => (config, bytes),
            Ids::Named => (like_ours(site, config).await?, BYTES),
        };
        context.create_stream(config).await?;
        Ok(Self { context, ids, body: Bytes::from(vec![b'x'; bytes]) })
    }

    async fn appends(self, load: Load) -> Result<f64> {
        let start = wall_time();
        match self.ids {
            Ids::Missing => {
                publish_raw(&self.context, &self.body, load.in_flight, load.count).await
            }
            Ids::Named => self.publish_with_ids(load).await,
        }?;
        Ok(rate(load.count, start))
    }

    async fn publish_with_ids(&self, load: Load) -> Result<()> {
        let mut answers = FuturesUnordered::new();
        for _ in 0..load.count {
            if answers.len() == load.in_flight {
                answers.try_next().await?;
            }
            let message = PublishMessage::build().payload(self.body.clone()).message_id(next_id());
            let answer = self.context.send_publish(RAW_SUBJECT, message).await?;
            answers.push(answer.into_future());
        }
        while answers.try_next().await?.is_some() {}
        Ok(())
    }
}

/// The configuration with which our stream was declared, for another stream.
async fn like_ours(site: &Site, config: Config) -> Result<Config> {
    let context = jetstream::new(site.client().await?);
    let ours = context.get_stream(OUR_STREAM).await?.cached_info().config.clone();
    Ok(Config { name: config.name, subjects: config.subjects, ..ours })
}

/// Publishes so many messages with the bare client, so many of them without an answer yet.
pub(super) async fn publish_raw(
    context: &Context,
    body: &Bytes,
    in_flight: usize,
    count: usize,
) -> Result<()> {
    let mut answers = FuturesUnordered::new();
    for _ in 0..count {
        if answers.len() == in_flight {
            answers.try_next().await?;
        }
        let answer = context.publish(RAW_SUBJECT, body.clone()).await?;
        answers.push(answer.into_future());
    }
    while answers.try_next().await?.is_some() {}
    Ok(())
}

async fn appends(bus: NatsBus, load: Load) -> Result<f64> {
    let start = wall_time();
    append_ours(&bus, load.in_flight, load.count).await?;
    Ok(rate(load.count, start))
}

/// Appends so many messages, so many of them without an answer yet.
pub(super) async fn append_ours(bus: &NatsBus, in_flight: usize, count: usize) -> Result<()> {
    let appending = stream::iter(0..count).map(async |_| {
        let receipt = bus.append(frame()?, Expect::Any).await?;
        ensure!(!receipt.duplicate, "every id is new");
        Ok(())
    });
    appending.buffer_unordered(in_flight).try_collect().await
}

/// Our engine, with a stream for what [`append_ours`] appends.
pub(super) async fn ready_bus(site: &Site, retention: Retention) -> Result<NatsBus> {
    let bus = site.bus().await?;
    let filter = Filter::parse("vak.work.acme.*.task")?;
    bus.declare(StreamSpec::new(StreamName::parse(OUR_STREAM)?, vec![filter], retention)).await?;
    Ok(bus)
}

/// How many bytes of headers and body one of our messages has on the wire.
pub(super) async fn on_wire(site: &Site, bus: &NatsBus) -> Result<usize> {
    let client = site.client().await?;
    let mut messages = client.subscribe(SUBJECT).await?;
    round_trip(&client).await?;
    let receipt = bus.append(frame()?, Expect::Any).await?;
    let message = messages.next().await.context("the message comes")?;
    ensure!(receipt.seq == Seq(1), "the stream is new");
    Ok(wire_bytes(&message))
}

fn frame() -> Result<Frame> {
    let id = FrameId::parse(&next_id())?;
    Ok(Frame::new(Subject::parse(SUBJECT)?, id, Bytes::from_static(&[b'x'; BYTES])))
}

/// Another id each time, as long as a UUID.
fn next_id() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("0198c7a2-5a34-7cc1-9d2e-{number:012}")
}

const BYTES: usize = 256;
const IN_FLIGHT: Load = Load { in_flight: 256, count: 80_000 };
const RAW_SYNCED: Load = Load { in_flight: 256, count: 3_000 };
const SUBJECT: &str = "vak.work.acme.coder.task";
pub(super) const OUR_STREAM: &str = "VAK_WORK_acme";
pub(super) const RAW_SUBJECT: &str = "raw.task";
