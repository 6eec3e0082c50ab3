//! Requests and their answers (N3): one after the other, and 64 at a time.
//!
//! Who asks and who answers have connections of their own. The question and the answer are bodies
//! of 256 bytes; the bare client's are as long as ours with its headers.

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use anyhow::{Context, Result, anyhow, ensure};
use async_nats::Client;
use bus_core::{Bus, FeedItem, Frame, FrameId, Overflow};
use bus_nats::NatsBus;
use bus_subjects::{Filter, Subject};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::task::JoinSet;

use super::{Ground, Site, middle, rate, round_trip, wire_bytes};
use crate::{
    case::{Case, Figures, wall_time},
    fanout::{in_task, in_turn},
};

/// Microseconds, the middle of a round.
pub(crate) const TIMES: &[Case] =
    &[Case { name: "N3-request-one-by-one-p50", goal: Some(1.1), measure: one_by_one }];

/// Requests in a second.
pub(crate) const RATES: &[Case] =
    &[Case { name: "N3-requests-64-in-flight", goal: Some(0.85), measure: in_flight }];

fn one_by_one() -> Result<Figures> {
    let (ground, raw, ours) = sides()?;
    in_turn(|| ground.run(in_task(times(raw.clone()))), || ground.run(in_task(times(ours.clone()))))
}

fn in_flight() -> Result<Figures> {
    let (ground, raw, ours) = sides()?;
    in_turn(|| ground.run(rates(&raw)), || ground.run(rates(&ours)))
}

/// Asks once and reads the answer.
trait Asker: Clone + Send + Sync + 'static {
    fn ask(&self) -> impl Future<Output = Result<()>> + Send;
}

async fn times(asker: impl Asker) -> Result<f64> {
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let start = wall_time();
        asker.ask().await?;
        times.push(wall_time().saturating_sub(start));
    }
    middle(times)
}

async fn rates(asker: &impl Asker) -> Result<f64> {
    let start = wall_time();
    let mut tasks = JoinSet::new();
    for _ in 0..ASKERS {
        let asker = asker.clone();
        tasks.spawn(async move {
            for _ in 0..CALLS_EACH {
                asker.ask().await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(rate(ASKERS * CALLS_EACH, start))
}

/// Both ways, each with somebody who answers for as long as the ground is there.
fn sides() -> Result<(Ground, Raw, Ours)> {
    let ground = Ground::new()?;
    let site = ground.site().clone();
    let (raw, ours) = ground.run(async {
        let ours = Ours::new(&site).await?;
        let raw = Raw::new(&site, ours.on_wire(&site).await?).await?;
        anyhow::Ok((raw, ours))
    })?;
    Ok((ground, raw, ours))
}

#[derive(Clone)]
struct Raw {
    client: Client,
    body: Bytes,
    _answering: Arc<JoinSet<Result<()>>>,
}

impl Raw {
    async fn new(site: &Site, bytes: usize) -> Result<Self> {
        let (client, body) = (site.client().await?, Bytes::from(vec![b'q'; bytes]));
        let (answerer, answer) = (site.client().await?, body.clone());
        let mut questions = answerer.subscribe("raw.call").await?;
        round_trip(&answerer).await?;
        let mut answering = JoinSet::new();
        answering.spawn(async move {
            while let Some(question) = questions.next().await {
                let reply = question.reply.context("a question names a place for its answer")?;
                answerer.publish(reply, answer.clone()).await?;
            }
            Ok(())
        });
        Ok(Self { client, body, _answering: Arc::new(answering) })
    }
}

impl Asker for Raw {
    async fn ask(&self) -> Result<()> {
        let answer = self.client.request("raw.call", self.body.clone()).await?;
        ensure!(answer.payload.len() == self.body.len(), "not the answer");
        Ok(())
    }
}

#[derive(Clone)]
struct Ours {
    bus: NatsBus,
    question: Frame,
    _answering: Arc<JoinSet<Result<()>>>,
}

impl Ours {
    async fn new(site: &Site) -> Result<Self> {
        let (bus, answerer) = (site.bus().await?, site.bus().await?);
        let subject = Subject::parse("vak.call.acme.tools.run")?;
        let capacity = NonZeroUsize::new(1024).context("a capacity")?;
        let overflow = Overflow::DropOldest { capacity };
        let mut questions = answerer.subscribe(Filter::from(&subject), overflow).await?;
        let id = FrameId::parse("0198c7a2-5a34-7cc1-9d2e-0a5b6c7d8e9f")?;
        let body = Bytes::from_static(&[b'q'; BYTES]);
        let (id_of_answer, answer) = (id.clone(), body.clone());
        let mut answering = JoinSet::new();
        answering.spawn(async move {
            loop {
                let question = match questions.next().await {
                    Some(FeedItem::Frame(question)) => question,
                    other => return Err(anyhow!("no question but {other:?}")),
                };
                let reply = question.reply.clone();
                let reply = reply.context("a question names a place for its answer")?;
                let answer = Frame::new(reply, id_of_answer.clone(), answer.clone());
                answerer.publish(answer).await?;
            }
        });
        let question = Frame::new(subject, id, body);
        Ok(Self { bus, question, _answering: Arc::new(answering) })
    }

    async fn on_wire(&self, site: &Site) -> Result<usize> {
        let client = site.client().await?;
        let mut questions = client.subscribe(self.question.subject.to_string()).await?;
        round_trip(&client).await?;
        self.ask().await?;
        let question = questions.next().await.context("the question comes")?;
        Ok(wire_bytes(&question))
    }
}

impl Asker for Ours {
    async fn ask(&self) -> Result<()> {
        let answer = self.bus.request(self.question.clone(), Duration::from_secs(5)).await?;
        ensure!(answer.body.len() == BYTES, "not the answer");
        Ok(())
    }
}

const BYTES: usize = 256;
const CALLS: usize = 2_000;
const ASKERS: usize = 64;
const CALLS_EACH: usize = 600;
