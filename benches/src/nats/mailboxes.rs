//! A thousand agents with mailboxes: how long until all are open, and what they cost the server.
//!
//! The agents share a connection, as those of one process do, and each waits for its next letter.
//! Every one gets a letter afterwards, and acknowledges it. The figures of the first two rows stand
//! beside what is allowed: ten seconds and 256 MiB. The third is what each further agent costs the
//! server up to ten thousand, beside a bare durable consumer with an open pull: of those there are
//! fewer, as each takes longer to make than the one before.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use async_nats::jetstream::{
    self,
    consumer::{AckPolicy, pull},
    stream::{Config, RetentionPolicy},
};
use bus_core::{Bus, Endpoint, Engine, Outgoing, planes::workspace_streams};
use bus_envelope::Draft;
use bus_nats::NatsBus;
use bus_subjects::{AgentId, Role, Subject};
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::{sync::mpsc, task::JoinSet};

use super::{Ground, Site};
use crate::{
    case::{Case, Figures, wall_time},
    fleet::Fleet,
};

pub(crate) const COSTS: &[Case] = &[
    Case { name: "mailboxes-1000-seconds-of-10", goal: Some(1.0), measure: seconds },
    Case { name: "mailboxes-1000-server-mib-of-256", goal: Some(1.0), measure: memory },
    Case { name: "mailboxes-server-kib-each-to-10000", goal: None, measure: slope },
];

fn seconds() -> Result<Figures> {
    let ground = Ground::new()?;
    ground.run(async {
        let mut agents = Agents::new(ground.site()).await?;
        let start = wall_time();
        agents.grow_to(AGENTS).await?;
        let ours = wall_time().saturating_sub(start).as_secs_f64();
        agents.each_gets_a_letter().await?;
        Ok(Figures { raw: SECONDS_MAX, ours })
    })
}

fn memory() -> Result<Figures> {
    let ground = Ground::new()?;
    ground.run(async {
        let mut agents = Agents::new(ground.site()).await?;
        agents.grow_to(AGENTS).await?;
        agents.each_gets_a_letter().await?;
        Ok(Figures { raw: MEMORY_MIB_MAX, ours: ground.server_memory()? / f64::from(1 << 20) })
    })
}

fn slope() -> Result<Figures> {
    Ok(Figures { raw: raw_slope()?, ours: our_slope()? })
}

fn our_slope() -> Result<f64> {
    let ground = Ground::new()?;
    ground.run(async {
        let mut agents = Agents::new(ground.site()).await?;
        agents.grow_to(AGENTS).await?;
        let few = ground.server_memory()?;
        agents.grow_to(MANY).await?;
        Ok(each(few, ground.server_memory()?, MANY))
    })
}

fn raw_slope() -> Result<f64> {
    let ground = Ground::new()?;
    ground.run(async {
        let mut waiting = JoinSet::new();
        let stream = Config {
            name: "RAW".to_owned(),
            subjects: vec!["raw.*".to_owned()],
            retention: RetentionPolicy::WorkQueue,
            max_consumers: 100_000,
            ..Config::default()
        };
        let client = ground.site().client().await?;
        let stream = jetstream::new(client).create_stream(stream).await?;
        let mut few = 0.0;
        for number in 0..MANY_RAW {
            let config = pull::Config {
                durable_name: Some(format!("inbox_{number}")),
                filter_subject: format!("raw.{number}"),
                ack_policy: AckPolicy::Explicit,
                ..pull::Config::default()
            };
            let consumer = stream.create_consumer(config).await?;
            let mut messages = consumer.stream().max_messages_per_batch(1).messages().await?;
            waiting.spawn(async move { messages.try_next().await.map(drop) });
            if number == AGENTS {
                few = ground.server_memory()?;
            }
        }
        ensure!(waiting.try_join_next().is_none(), "every consumer waits");
        Ok(each(few, ground.server_memory()?, MANY_RAW))
    })
}

/// What each of those beyond the first thousand takes, in KiB.
fn each(few: f64, many: f64, count: usize) -> f64 {
    (many - few) / 1024.0 / (count - AGENTS) as f64
}

/// Agents of one process, each reading its mailbox.
struct Agents {
    bus: NatsBus,
    fleet: Fleet,
    sender: Endpoint,
    reading: JoinSet<Result<()>>,
    letters: (mpsc::UnboundedSender<()>, mpsc::UnboundedReceiver<()>),
}

impl Agents {
    async fn new(site: &Site) -> Result<Self> {
        let (bus, fleet) = (site.bus().await?, Fleet::new()?);
        for stream in workspace_streams(fleet.workspace())? {
            bus.declare(stream).await?;
        }
        let engine: Arc<dyn Engine> = Arc::new(bus.clone());
        let sender = fleet.agent(engine, "lead", Role::Orchestrator)?;
        let (reading, letters) = (JoinSet::new(), mpsc::unbounded_channel());
        Ok(Self { bus, fleet, sender, reading, letters })
    }

    /// Makes agents until there are `count`, one after the other.
    async fn grow_to(&mut self, count: usize) -> Result<()> {
        for number in self.reading.len()..count {
            let engine: Arc<dyn Engine> = Arc::new(self.bus.clone());
            let agent = self.fleet.agent(engine, &name(number), Role::Worker)?;
            let mut mailbox = agent.mailbox(LEASE).await?;
            let read = self.letters.0.clone();
            self.reading.spawn(async move {
                while let Some(mail) = mailbox.next().await {
                    let mail = mail?;
                    ensure!(mail.content.is_ok(), "a letter is opened");
                    mail.ack().await?;
                    read.send(())?;
                }
                Ok(())
            });
        }
        Ok(())
    }

    async fn each_gets_a_letter(&mut self) -> Result<()> {
        let count = self.reading.len();
        let sending = stream::iter(0..count).map(async |number| {
            let to = AgentId::parse(&name(number))?;
            let draft = Draft::new(Subject::parse(ANY_INBOX)?, "vak.letter", "hello");
            self.sender.send_to(&to, Outgoing::from(draft)).await?;
            anyhow::Ok(())
        });
        sending.buffer_unordered(SENT_AT_ONCE).try_collect::<()>().await?;
        for _ in 0..count {
            tokio::select! {
                read = self.letters.1.recv() => read.context("a letter is read")?,
                Some(ended) = self.reading.join_next() => ended.context("read a mailbox")??,
            }
        }
        Ok(())
    }
}

fn name(number: usize) -> String {
    format!("agent-{number}")
}

const AGENTS: usize = 1_000;
const MANY: usize = 10_000;
const MANY_RAW: usize = 4_000;
const SECONDS_MAX: f64 = 10.0;
const MEMORY_MIB_MAX: f64 = 256.0;
const LEASE: Duration = Duration::from_secs(30);
const SENT_AT_ONCE: usize = 16;
const ANY_INBOX: &str = "vak.agent.acme.any.inbox";
