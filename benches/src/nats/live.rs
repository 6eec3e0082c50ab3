//! Live messages, published and heard (N1), and the same sealed and chained (N2).
//!
//! Deliveries in a second, from the first message that is published until every subscriber has
//! read the last. Everybody has a connection of its own. A message is the envelope of a payload of
//! 256 bytes in the compact form: ours writes and reads it each time. The bare client sends a body
//! of as many bytes as ours puts on the wire, headers included, and its subscribers look at it.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::{Context, Result, anyhow, ensure};
use async_nats::{Client, Subscriber};
use bus_core::{
    Bus, Endpoint, EventFeed, FeedItem, Frame, FrameId, Incoming, Overflow, Subscription,
};
use bus_envelope::{Draft, MessageEnvelope, WireForm, wire};
use bus_nats::NatsBus;
use bus_subjects::{Filter, Role, Subject};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::{sync::Notify, task::JoinSet};

use super::{Ground, Site, rate, round_trip, wire_bytes};
use crate::{
    case::{Case, Figures, wall_time},
    event::Sender,
    fanout::in_turn,
    fleet::Fleet,
};

/// Deliveries in a second.
pub(crate) const RATES: &[Case] = &[
    Case { name: "N1-publish-subscribe-1", goal: Some(0.8), measure: || plain(1) },
    Case { name: "N1-publish-subscribe-4", goal: Some(0.8), measure: || plain(4) },
    Case { name: "N2-sealed-publish-subscribe-1", goal: Some(0.5), measure: || sealed(1) },
    Case { name: "N2-sealed-publish-subscribe-4", goal: Some(0.5), measure: || sealed(4) },
];

fn plain(subscribers: usize) -> Result<Figures> {
    let ground = Ground::new()?;
    let envelope = Arc::new(event()?);
    let bus = ground.run(ground.site().bus())?;
    let writer = PlainWriter { bus, envelope };
    let raw = ground.run(raw_like(ground.site(), writer.clone()))?;
    let hear = async |site: Site| {
        let bus = site.bus().await?;
        let frames = bus.subscribe(Filter::parse(SUBJECT)?, overflow()?).await?;
        anyhow::Ok(PlainReader { frames, _bus: bus })
    };
    beside_raw(&ground, &raw, subscribers, &writer, hear)
}

fn sealed(subscribers: usize) -> Result<Figures> {
    let ground = Ground::new()?;
    let fleet = Fleet::new()?;
    let bus = ground.run(ground.site().bus())?;
    let endpoint = fleet.agent(Arc::new(bus), "coder-1", Role::Worker)?;
    let draft = Draft::new(Subject::parse(SUBJECT)?, "vak.tokens", payload());
    let writer = SealedWriter { endpoint, draft };
    let raw = ground.run(raw_like(ground.site(), writer.clone()))?;
    let hear = async |site: Site| {
        let engine = Arc::new(site.bus().await?);
        let endpoint = fleet.agent(engine, "watcher-1", Role::Observer)?;
        let feed = endpoint.subscribe(Filter::parse(SUBJECT)?, overflow()?).await?;
        anyhow::Ok(SealedReader(feed))
    };
    beside_raw(&ground, &raw, subscribers, &writer, hear)
}

fn beside_raw<W: Writer, R: Reader>(
    ground: &Ground,
    raw: &RawWriter,
    subscribers: usize,
    writer: &W,
    hear: impl AsyncFn(Site) -> Result<R>,
) -> Result<Figures> {
    let bytes = raw.body.len();
    in_turn(
        || ground.run(round(raw, subscribers, || hear_raw(ground.site(), bytes))),
        || ground.run(round(writer, subscribers, || hear(ground.site().clone()))),
    )
}

async fn hear_raw(site: &Site, bytes: usize) -> Result<RawReader> {
    let client = site.client().await?;
    let messages = client.subscribe(SUBJECT).await?;
    round_trip(&client).await?;
    Ok(RawReader { messages, bytes, _client: client })
}

/// A bare client that sends as many bytes as a message of `writer` has on the wire.
async fn raw_like(site: &Site, mut writer: impl Writer) -> Result<RawWriter> {
    let client = site.client().await?;
    let mut messages = client.subscribe(SUBJECT).await?;
    round_trip(&client).await?;
    writer.write().await?;
    let message = messages.next().await.context("the message comes")?;
    let client = site.client().await?;
    Ok(RawWriter { client, body: Bytes::from(vec![BYTE; wire_bytes(&message)]) })
}

/// Publishes one message.
trait Writer: Clone + Send + 'static {
    fn write(&mut self) -> impl Future<Output = Result<()>> + Send;
}

/// Hears one message.
trait Reader: Send + 'static {
    fn read(&mut self) -> impl Future<Output = Result<()>> + Send;
}

/// Has `writer` publish and new subscribers hear; deliveries in a second.
async fn round<R: Reader>(
    writer: &impl Writer,
    subscribers: usize,
    hear: impl AsyncFn() -> Result<R>,
) -> Result<f64> {
    let messages = DELIVERIES / subscribers / STEP * STEP;
    let seen = Arc::new(Seen::by(subscribers));
    let mut tasks = JoinSet::new();
    for number in 0..subscribers {
        let (mut reader, seen) = (hear().await?, Arc::clone(&seen));
        tasks.spawn(async move {
            for count in 1..=messages {
                reader.read().await?;
                if count % STEP == 0 {
                    seen.step(number, count);
                }
            }
            anyhow::Ok(())
        });
    }
    let mut writer = writer.clone();
    let start = wall_time();
    tasks.spawn(async move {
        for count in 0..messages {
            if count % STEP == 0 {
                seen.at_least((count + STEP).saturating_sub(WINDOW)).await;
            }
            writer.write().await?;
        }
        Ok(())
    });
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(rate(messages * subscribers, start))
}

#[derive(Clone)]
struct RawWriter {
    client: Client,
    body: Bytes,
}

impl Writer for RawWriter {
    async fn write(&mut self) -> Result<()> {
        Ok(self.client.publish(SUBJECT, self.body.clone()).await?)
    }
}

struct RawReader {
    messages: Subscriber,
    bytes: usize,
    _client: Client,
}

impl Reader for RawReader {
    async fn read(&mut self) -> Result<()> {
        let message = self.messages.next().await.context("the subscription goes on")?;
        ensure!(message.payload.len() == self.bytes, "not ours");
        Ok(())
    }
}

#[derive(Clone)]
struct PlainWriter {
    bus: NatsBus,
    envelope: Arc<MessageEnvelope>,
}

impl Writer for PlainWriter {
    async fn write(&mut self) -> Result<()> {
        let (headers, body) = wire::encode(WireForm::Compact, &self.envelope);
        let id = FrameId::parse(&self.envelope.id)?;
        let mut frame = Frame::new(self.envelope.subject.clone(), id, body);
        frame.headers = headers;
        Ok(self.bus.publish(frame).await?)
    }
}

struct PlainReader {
    frames: Subscription,
    _bus: NatsBus,
}

impl Reader for PlainReader {
    async fn read(&mut self) -> Result<()> {
        let frame = match self.frames.next().await {
            Some(FeedItem::Frame(frame)) => frame,
            other => return Err(anyhow!("no frame but {other:?}")),
        };
        ensure!(WireForm::of(&frame.headers)? == WireForm::Compact, "another form");
        let envelope = wire::compact::view(&frame.body)?;
        ensure!(envelope.payload().len() == BYTES, "not ours");
        Ok(())
    }
}

#[derive(Clone)]
struct SealedWriter {
    endpoint: Endpoint,
    draft: Draft,
}

impl Writer for SealedWriter {
    async fn write(&mut self) -> Result<()> {
        self.endpoint.publish(self.draft.clone()).await?;
        Ok(())
    }
}

struct SealedReader(EventFeed);

impl Reader for SealedReader {
    async fn read(&mut self) -> Result<()> {
        match self.0.next().await {
            Some(Incoming::Message(opened)) => {
                ensure!(opened.payload.len() == BYTES, "not ours");
                Ok(())
            }
            other => Err(anyhow!("no message but {other:?}")),
        }
    }
}

/// How far each subscriber is.
struct Seen {
    counts: Vec<AtomicUsize>,
    more: Notify,
}

impl Seen {
    fn by(subscribers: usize) -> Self {
        let counts = (0..subscribers).map(|_| AtomicUsize::new(0)).collect();
        Self { counts, more: Notify::new() }
    }

    fn step(&self, number: usize, count: usize) {
        if let Some(own) = self.counts.get(number) {
            own.store(count, Ordering::Release);
        }
        self.more.notify_one();
    }

    /// Waits until every subscriber has read so many.
    async fn at_least(&self, count: usize) {
        while self.counts.iter().any(|own| own.load(Ordering::Acquire) < count) {
            self.more.notified().await;
        }
    }
}

/// A plain event with a place in a chain.
fn event() -> Result<MessageEnvelope> {
    let sender = Sender::new()?;
    let mut draft = sender.draft(BYTES)?;
    draft.subject = Subject::parse(SUBJECT)?;
    sender.stamp(&draft, &[7; 18])
}

fn payload() -> Bytes {
    Bytes::from_static(&[BYTE; BYTES])
}

/// More than are ever under way: nothing is dropped.
fn overflow() -> Result<Overflow> {
    let capacity = NonZeroUsize::new(8 * WINDOW).context("a capacity")?;
    Ok(Overflow::DropOldest { capacity })
}

/// The most messages between the publisher and its slowest subscriber.
const WINDOW: usize = 8_192;
const STEP: usize = 512;
const DELIVERIES: usize = 400 * STEP;
const BYTES: usize = 256;
const SUBJECT: &str = "vak.events.acme.session-7.tokens";
const BYTE: u8 = 0x5a;
