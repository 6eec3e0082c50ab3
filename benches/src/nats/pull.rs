//! Work queues (N6): what waits, pulled and acknowledged; and tasks from end to end.
//!
//! Tasks in a second. A worker takes up to 256 tasks at a time and acknowledges them together;
//! every acknowledgement is answered by the server before it counts, on both sides. Tasks that
//! arrive are taken while those before them are acknowledged. The bare client also has a row with
//! acknowledgements that are sent and not answered: faster, and nobody knows whether they came.
//! Where the server syncs first, each acknowledgement is a removal that it syncs by itself, whoever
//! asks for it.

use std::{num::NonZeroUsize, time::Duration};

use anyhow::{Context as _, Result};
use async_nats::{
    Client,
    jetstream::{
        self, Context, Message,
        consumer::{AckPolicy, PullConsumer, pull},
        stream::{Config, RetentionPolicy},
    },
};
use bus_core::{Bus, ConsumerSpec, Deliveries, Delivery, Retention, Verdict, settle_all};
use bus_nats::NatsBus;
use bus_subjects::{ConsumerName, Filter, StreamName};
use bytes::Bytes;
use futures_util::{TryStreamExt, future::try_join_all};
use tokio::sync::Mutex;

use super::{
    Ground, Site,
    append::{OUR_STREAM, RAW_SUBJECT, append_ours, on_wire, publish_raw, ready_bus},
    rate,
};
use crate::{
    case::{Case, Figures, wall_time},
    fanout::in_turn,
};

pub(crate) const RATES: &[Case] = &[
    Case {
        name: "N6-pull-and-ack",
        goal: Some(0.9),
        measure: || beside_raw(&Ground::new()?, Work::Waiting, Acks::Answered),
    },
    Case {
        name: "N6-queue-end-to-end",
        goal: Some(0.85),
        measure: || beside_raw(&Ground::new()?, Work::Arriving, Acks::Answered),
    },
    Case {
        name: "N6-queue-end-to-end-beside-acks-sent",
        goal: None,
        measure: || beside_raw(&Ground::new()?, Work::Arriving, Acks::Sent),
    },
    Case {
        name: "N6-synced-pull-and-ack",
        goal: None,
        measure: || beside_raw(&Ground::synced()?, Work::Waiting, Acks::Answered),
    },
    Case {
        name: "N6-synced-queue-end-to-end",
        goal: None,
        measure: || beside_raw(&Ground::synced()?, Work::Arriving, Acks::Answered),
    },
];

/// Whether the tasks are there before the clock starts.
#[derive(Clone, Copy, PartialEq)]
enum Work {
    Waiting,
    Arriving,
}

/// What the bare client does to acknowledge.
#[derive(Clone, Copy, PartialEq)]
enum Acks {
    Answered,
    Sent,
}

fn beside_raw(ground: &Ground, work: Work, acks: Acks) -> Result<Figures> {
    let (raw, ours) = ground.run(async {
        let (ours, bytes) = Ours::new(ground.site()).await?;
        anyhow::Ok((Raw::new(ground.site(), bytes, acks).await?, ours))
    })?;
    in_turn(|| ground.run(raw.round(work)), || ground.run(ours.round(work)))
}

struct Raw {
    context: Context,
    client: Client,
    consumer: PullConsumer,
    body: Bytes,
    /// For acknowledgements that are sent: pulls that are always open.
    open: Option<Mutex<pull::Stream>>,
}

impl Raw {
    async fn new(site: &Site, bytes: usize, acks: Acks) -> Result<Self> {
        let context = jetstream::new(site.client().await?);
        let client = site.client().await?;
        let stream = Config {
            name: "RAW".to_owned(),
            subjects: vec![RAW_SUBJECT.to_owned()],
            retention: RetentionPolicy::WorkQueue,
            ..Config::default()
        };
        let stream = jetstream::new(client.clone()).create_stream(stream).await?;
        let consumer = pull::Config {
            durable_name: Some("coder".to_owned()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: LEASE,
            max_ack_pending: 20_000,
            ..pull::Config::default()
        };
        let consumer = stream.create_consumer(consumer).await?;
        let open = match acks {
            Acks::Answered => None,
            Acks::Sent => {
                let pulls = consumer.stream().max_messages_per_batch(BATCH).messages();
                Some(Mutex::new(pulls.await?))
            }
        };
        Ok(Self { context, client, consumer, body: Bytes::from(vec![b'x'; bytes]), open })
    }

    async fn round(&self, work: Work) -> Result<f64> {
        let publishing = publish_raw(&self.context, &self.body, IN_FLIGHT, TASKS);
        if work == Work::Waiting {
            publishing.await?;
            let start = wall_time();
            for _ in 0..TASKS / BATCH {
                self.acknowledge(self.take().await?).await?;
            }
            return Ok(rate(TASKS, start));
        }
        let start = wall_time();
        tokio::try_join!(publishing, self.drain())?;
        Ok(rate(TASKS, start))
    }

    /// Takes what arrives.
    async fn drain(&self) -> Result<()> {
        if let Some(open) = &self.open {
            let mut messages = open.lock().await;
            for _ in 0..TASKS {
                let message = messages.try_next().await?.context("the pulls go on")?;
                message.ack().await.map_err(anyhow::Error::from_boxed)?;
            }
            return Ok(());
        }
        let (mut left, mut taken) = (TASKS, Vec::new());
        while left > 0 {
            let (next, ()) = tokio::try_join!(self.take(), self.acknowledge(taken))?;
            left -= next.len();
            taken = next;
        }
        self.acknowledge(taken).await
    }

    async fn take(&self) -> Result<Vec<Message>> {
        let pulling = self.consumer.batch().max_messages(BATCH).expires(PULL).messages();
        pulling.await?.try_collect().await.map_err(anyhow::Error::from_boxed)
    }

    async fn acknowledge(&self, messages: Vec<Message>) -> Result<()> {
        let asking = messages.into_iter().map(async |message| {
            let reply = message.message.reply.context("a task names its acknowledgement")?;
            self.client.request(reply, "+ACK".into()).await?;
            anyhow::Ok(())
        });
        try_join_all(asking).await.map(drop)
    }
}

struct Ours {
    producer: NatsBus,
    member: Mutex<Deliveries>,
    _bus: NatsBus,
}

impl Ours {
    async fn new(site: &Site) -> Result<(Self, usize)> {
        let (producer, bus) = (ready_bus(site, Retention::WorkQueue).await?, site.bus().await?);
        let bytes = on_wire(site, &producer).await?;
        let consumer = ConsumerSpec {
            stream: StreamName::parse(OUR_STREAM)?,
            name: ConsumerName::parse("coder")?,
            filter: Filter::parse("vak.work.acme.coder.task")?,
            lease: LEASE,
        };
        let mut member = bus.consume(consumer).await?;
        let first = member.next().await.context("the first task comes")??;
        first.settle(Verdict::Ack).await?;
        Ok((Self { producer, member: Mutex::new(member), _bus: bus }, bytes))
    }

    async fn round(&self, work: Work) -> Result<f64> {
        let publishing = append_ours(&self.producer, IN_FLIGHT, TASKS);
        if work == Work::Waiting {
            publishing.await?;
            let mut member = self.member.lock().await;
            let start = wall_time();
            let mut left = TASKS;
            while left > 0 {
                let taken = take(&mut member).await?;
                left -= taken.len();
                acknowledge(taken).await?;
            }
            return Ok(rate(TASKS, start));
        }
        let start = wall_time();
        tokio::try_join!(publishing, self.drain())?;
        Ok(rate(TASKS, start))
    }

    /// Takes what arrives.
    async fn drain(&self) -> Result<()> {
        let mut member = self.member.lock().await;
        let (mut left, mut taken) = (TASKS, Vec::new());
        while left > 0 {
            let (next, ()) = tokio::try_join!(take(&mut member), acknowledge(taken))?;
            left -= next.len();
            taken = next;
        }
        acknowledge(taken).await
    }
}

async fn take(member: &mut Deliveries) -> Result<Vec<Delivery>> {
    let max = NonZeroUsize::new(BATCH).context("a batch has a task")?;
    Ok(member.next_many(max).await.context("the member goes on")??)
}

async fn acknowledge(deliveries: Vec<Delivery>) -> Result<()> {
    let done = deliveries.into_iter().map(|delivery| (delivery, Verdict::Ack)).collect();
    for settled in settle_all(done).await {
        settled?;
    }
    Ok(())
}

/// Whole batches: the bare client waits until one is full.
const TASKS: usize = 80 * BATCH;
const BATCH: usize = 256;
const IN_FLIGHT: usize = 256;
const LEASE: Duration = Duration::from_secs(30);
/// How long the server may gather a batch.
const PULL: Duration = Duration::from_secs(2);
