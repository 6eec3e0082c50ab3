//! Durable messages, acknowledged (N4), and the same through a power cut (N5).
//!
//! Appends in a second. The bare client publishes to a stream of its own on the same server, as
//! many bytes as ours puts on the wire but without ids: its stream keeps every repeat. N5 has both
//! sides on a server that syncs before it acknowledges; the bare client's figure there is always
//! that of 256 in flight.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, ensure};
use async_nats::jetstream::{self, Context, stream::Config};
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
    beside_raw(&Ground::new()?, load, load)
}

fn in_flight() -> Result<Figures> {
    let load = Load { in_flight: 256, count: 80_000 };
    beside_raw(&Ground::new()?, load, load)
}

fn synced() -> Result<Figures> {
    let (raw, ours) = (RAW_SYNCED, Load { in_flight: 256, count: 20_000 });
    beside_raw(&Ground::synced()?, raw, ours)
}

fn synced_one_by_one() -> Result<Figures> {
    let raw = Load { in_flight: 1, count: 1_000 };
    beside_raw(&Ground::synced()?, raw, raw)
}

fn beside_raw(ground: &Ground, raw_load: Load, our_load: Load) -> Result<Figures> {
    let (bus, raw) = ground.run(async {
        let bus = ready_bus(ground.site(), Retention::Kept).await?;
        let body = Bytes::from(vec![b'x'; on_wire(ground.site(), &bus).await?]);
        anyhow::Ok((bus, Raw { context: ready_raw(ground.site()).await?, body }))
    })?;
    in_turn(
        || ground.run(in_task(raw.clone().appends(raw_load))),
        || ground.run(in_task(appends(bus.clone(), our_load))),
    )
}

#[derive(Clone)]
struct Raw {
    context: Context,
    body: Bytes,
}

impl Raw {
    async fn appends(self, load: Load) -> Result<f64> {
        let start = wall_time();
        publish_raw(&self.context, &self.body, load.in_flight, load.count).await?;
        Ok(rate(load.count, start))
    }
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

/// The bare client, with a stream for [`RAW_SUBJECT`].
async fn ready_raw(site: &Site) -> Result<Context> {
    let context = jetstream::new(site.client().await?);
    let subjects = vec![RAW_SUBJECT.to_owned()];
    let config = Config { name: "RAW".to_owned(), subjects, ..Config::default() };
    context.create_stream(config).await?;
    Ok(context)
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
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let id = FrameId::parse(&format!("0198c7a2-5a34-7cc1-9d2e-{number:012}"))?;
    Ok(Frame::new(Subject::parse(SUBJECT)?, id, Bytes::from_static(&[b'x'; 256])))
}

const RAW_SYNCED: Load = Load { in_flight: 256, count: 3_000 };
const SUBJECT: &str = "vak.work.acme.coder.task";
pub(super) const OUR_STREAM: &str = "VAK_WORK_acme";
pub(super) const RAW_SUBJECT: &str = "raw.task";
