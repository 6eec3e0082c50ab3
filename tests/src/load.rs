//! S0.2 as users run it: thousands of certified agents on one embedded bus, in one process.
//!
//! Each agent has a session, a connection with a policy of its own, a subscription, a mailbox and a
//! worker; each task is sealed, signed, claimed, done, reported live, and receipted.

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bus_core::{
    Bus as _, Clock, ConsumerSpec, Endpoint, Failure, FeedItem, Guarded, Handled, Handler, Job,
    Overflow, Recorded, Result, Stop, SystemClock, TaskEvent, Verdict, Worker, WorkerSpec, planes,
};
use bus_envelope::{ChainLimits, ChainScope, ChainSet, Draft, wire};
use bus_mem::InMemoryBus;
use bus_subjects::{Address, ConsumerName, Filter, Role, RoleName, SessionId, Subject};
use tokio::task::JoinSet;

use crate::{Stage, memory::Memory};

/// How many agents do how many tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Agents; each does any number of the tasks.
    pub agents: usize,
    /// Tasks altogether, over eight queues.
    pub tasks: usize,
}

/// What came of a load.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoadReport {
    /// Different tasks that were done.
    pub done: usize,
    /// Runs of tasks beyond the first one, each of which must be a redelivery.
    pub runs_again: usize,
    /// Deliveries beyond the first one of a task.
    pub redeliveries: u64,
    /// Receipts stored, each in its session's chain.
    pub receipts: u64,
    /// Whether every chain of receipts is complete.
    pub chains_hold: bool,
    /// Letters that reached the mailboxes they were sent to.
    pub mails: u64,
    /// Live events that the sessions' subscribers heard, and those they were told they missed.
    pub events: u64,
    /// What is left in the queues and mailboxes.
    pub left: u64,
    /// How long it took, set-up included.
    pub took: Duration,
    /// Memory before the first agent, with all agents idle, at its highest, and after the last one
    /// went; `None` where the system does not say.
    pub memory: Option<[Memory; 4]>,
}

/// What all agents count together.
#[derive(Default)]
struct Counts {
    runs: Mutex<HashMap<String, u32>>,
    redeliveries: AtomicU64,
    ended: AtomicU64,
    mails: AtomicU64,
    events: AtomicU64,
}

impl Load {
    /// The full size.
    pub const FULL: Self = Self { agents: 2_000, tasks: 20_000 };

    /// Runs it in the current runtime.
    ///
    /// # Errors
    /// What no agent expects: a refusal of the engine, or of the keys.
    pub async fn run(self) -> Result<LoadReport> {
        let before = Memory::now();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let started = clock.now();
        let bus = InMemoryBus::with_clock(Arc::clone(&clock));
        let stage = Arc::new(Stage::on(Arc::new(bus.connect()), Arc::clone(&clock)).await?);
        let (counts, stop) = (Arc::new(Counts::default()), Stop::default());
        let mut agents = JoinSet::new();
        for number in 0..self.agents {
            self.hire(&mut agents, (&stage, &bus), number, (&counts, &stop)).await?;
        }
        let idle = Memory::now();
        self.send_all(&stage).await?;
        // The last agents read their mail and end by themselves.
        let ending = async {
            while let Some(ended) = agents.join_next().await {
                ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
            }
            Ok(())
        };
        // When a task is lost they wait for ever: the report says what is missing.
        tokio::time::timeout(TIME_MAX, ending).await.unwrap_or(Ok::<(), bus_core::Error>(()))?;
        agents.shutdown().await;
        let mut report = self.judge(&stage, &counts).await?;
        report.took = clock.now().since(started);
        let high = Memory::highest();
        drop((stage, bus));
        report.memory = before
            .zip(idle)
            .zip(high.zip(Memory::now()))
            .map(|((before, idle), (high, after))| [before, idle, high, after]);
        Ok(report)
    }

    /// Starts one agent: a worker, a reader of its mailbox, and a listener to its session.
    async fn hire(
        self,
        agents: &mut JoinSet<Result<()>>,
        (stage, bus): (&Arc<Stage>, &InMemoryBus),
        number: usize,
        (counts, stop): (&Arc<Counts>, &Stop),
    ) -> Result<()> {
        let session = SessionId::parse(&format!("s{number}"))?;
        let queue = queue(number)?;
        let identity = stage.certified(&format!("agent-{number}"), Role::Worker)?;
        let policy = identity.certificate().policy_for(Some(&session), Some(&queue));
        let mut parts = stage.parts(identity);
        parts.engine = Arc::new(Guarded::new(Arc::new(bus.connect()), policy));
        (parts.session, parts.queue) = (Some(session.clone()), Some(queue.clone()));
        let endpoint = Endpoint::new(parts)?;

        let events = Filter::parse(&format!("vak.events.{}.{session}.>", stage.workspace))?;
        let connection = bus.connect();
        let mut heard = connection.subscribe(events, HEARD).await?;
        let (counted, stopped) = (Arc::clone(counts), stop.clone());
        agents.spawn(async move {
            // The subscription ends with its connection.
            let _connection = connection;
            while let Some(item) = next_unless(&stopped, heard.next()).await {
                let events = match item {
                    FeedItem::Frame(_) => 1,
                    FeedItem::Gap { missed } => missed,
                };
                counted.events.fetch_add(events, Ordering::Relaxed);
            }
            Ok(())
        });
        agents.spawn(read_mail(endpoint.clone(), Arc::clone(counts), stop.clone()));
        let handler = Doing { counts: Arc::clone(counts), session };
        let worker = Worker::new(endpoint, WorkerSpec::new(queue));
        let (counts, stop) = (Arc::clone(counts), stop.clone());
        agents.spawn(async move {
            let report = |event: TaskEvent| {
                if matches!(event, TaskEvent::Completed { .. } | TaskEvent::DeadLettered { .. })
                    && counts.ended.fetch_add(1, Ordering::Relaxed) + 1 == self.tasks as u64
                {
                    stop.drain.cancel();
                }
            };
            worker.run(&handler, &stop, report).await
        });
        Ok(())
    }

    /// Sends a letter to each agent and all tasks, from four senders at a time.
    async fn send_all(self, stage: &Arc<Stage>) -> Result<()> {
        let mut senders = JoinSet::new();
        for sender in 0..SENDERS {
            let (stage, Self { agents, tasks }) = (Arc::clone(stage), self);
            senders.spawn(async move {
                let boss = stage.agent(&format!("boss-{sender}"), Role::Orchestrator)?;
                let workspace = &stage.workspace;
                for number in (sender..agents).step_by(SENDERS) {
                    let inbox = format!("vak.agent.{workspace}.agent-{number}.inbox");
                    boss.send(draft(&inbox, "vak.steer", "welcome")?).await?;
                }
                for number in (sender..tasks).step_by(SENDERS) {
                    let queue = queue(number)?;
                    let tasks = format!("vak.work.{workspace}.{queue}.task");
                    boss.send(draft(&tasks, "vak.task", &number.to_string())?).await?;
                }
                Ok::<(), bus_core::Error>(())
            });
        }
        while let Some(sent) = senders.join_next().await {
            sent.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
        }
        Ok(())
    }

    async fn judge(self, stage: &Stage, counts: &Counts) -> Result<LoadReport> {
        let (done, all) = {
            let runs = counts.runs.lock().unwrap_or_else(PoisonError::into_inner);
            (runs.len(), runs.values().sum::<u32>() as usize)
        };
        let chains_max = NonZeroUsize::MIN.saturating_add(self.agents);
        let limits = ChainLimits { chains_max, window: WINDOW };
        let mut chains = ChainSet::new(limits);
        let mut receipts = 0;
        for frame in stage.stored(planes::receipts_stream()?).await? {
            let envelope = wire::decode(&frame.headers, &frame.body)?;
            chains.feed(ChainScope::subject_of(&envelope), &envelope);
            receipts += 1;
        }
        let inbox = planes::inbox_stream(&stage.workspace)?;
        let (work, mail) = (stage.lag().await?, stage.engine.lag(inbox).await?);
        Ok(LoadReport {
            done,
            runs_again: all - done,
            redeliveries: counts.redeliveries.load(Ordering::Relaxed),
            receipts,
            chains_hold: chains.totals().broken == 0,
            mails: counts.mails.load(Ordering::Relaxed),
            events: counts.events.load(Ordering::Relaxed),
            left: work.pending + work.in_flight + mail.pending + mail.in_flight,
            ..LoadReport::default()
        })
    }
}

impl LoadReport {
    /// What is wrong with it: one sentence each, nothing when all went as it must.
    #[must_use]
    pub fn complaints(&self, load: Load) -> Vec<String> {
        let mut complaints = Vec::new();
        let mut must = |holds: bool, text: String| {
            if !holds {
                complaints.push(text);
            }
        };
        let Load { agents, tasks } = load;
        must(self.done == tasks, format!("{} tasks of {tasks} were done", self.done));
        must(
            self.runs_again as u64 <= self.redeliveries,
            format!("{} runs too many, {} redeliveries", self.runs_again, self.redeliveries),
        );
        must(self.receipts == tasks as u64, format!("{} receipts", self.receipts));
        must(self.chains_hold, "a chain of receipts is broken".to_owned());
        must(self.mails == agents as u64, format!("{} mails of {agents} came", self.mails));
        must(self.left == 0, format!("{} messages are left", self.left));
        if let Some([before, _, high, _]) = self.memory {
            let used = high.bytes.saturating_sub(before.bytes);
            let (agents, tasks) = (agents as u64, tasks as u64);
            let bound = BASE_BYTES_MAX + agents * AGENT_BYTES_MAX + tasks * TASK_BYTES_MAX;
            must(used <= bound, format!("{used} bytes were used at most: {bound} are allowed"));
        }
        complaints
    }
}

/// What an agent does with a task: says so live, and leaves a receipt.
struct Doing {
    counts: Arc<Counts>,
    session: SessionId,
}

impl Handler for Doing {
    async fn handle(&self, job: Job<'_>) -> Result<Handled, Failure> {
        let (id, workspace) = (job.message.envelope.id.clone(), job.endpoint.workspace().clone());
        if job.attempt > 1 {
            self.counts.redeliveries.fetch_add(1, Ordering::Relaxed);
        }
        let runs = self.counts.runs.lock();
        *runs.unwrap_or_else(PoisonError::into_inner).entry(id.clone()).or_default() += 1;
        let failed = |error: bus_core::Error| Failure::Failed { reason: error.to_string() };
        let session = self.session.clone();
        let tokens = Address::Tokens { workspace: workspace.clone(), session: session.clone() };
        let event = Draft::new(tokens.subject(), "vak.tokens", "done");
        job.endpoint.publish(event).await.map_err(failed)?;
        let receipts = Address::Receipt { workspace, session }.subject();
        let receipt = Draft::new(receipts, "vak.receipt", id.clone())
            .id(format!("{id}.receipt"))
            .cause(job.message.hash);
        match job.endpoint.record(receipt).await.map_err(failed)? {
            Recorded::Stored(_) | Recorded::AlreadyThere => Ok(Handled),
        }
    }
}

/// Reads one agent's mailbox until all work is done and its letter has come.
async fn read_mail(endpoint: Endpoint, counts: Arc<Counts>, stop: Stop) -> Result<()> {
    let (workspace, agent) = (endpoint.workspace().clone(), endpoint.agent().clone());
    let spec = ConsumerSpec {
        stream: planes::inbox_stream(&workspace)?,
        name: ConsumerName::parse(agent.as_str())?,
        filter: Filter::from(&Address::Inbox { workspace, agent }.subject()),
        lease: Duration::from_secs(60),
    };
    let mut deliveries = endpoint.consume(spec).await?;
    let mut has_read = false;
    loop {
        let next = deliveries.next();
        let delivery = if has_read { next_unless(&stop, next).await } else { next.await };
        let Some(delivery) = delivery else { return Ok(()) };
        let delivery = delivery?;
        endpoint.open(&delivery.frame)?;
        delivery.settle(Verdict::Ack).await?;
        counts.mails.fetch_add(1, Ordering::Relaxed);
        has_read = true;
    }
}

/// The next item, or `None` once all work is done.
async fn next_unless<T>(stop: &Stop, next: impl Future<Output = Option<T>>) -> Option<T> {
    tokio::select! {
        item = next => item,
        () = stop.drain.cancelled() => None,
    }
}

/// The queue of an agent, and of a task.
fn queue(number: usize) -> Result<RoleName> {
    Ok(RoleName::parse(&format!("role-{}", number % QUEUES))?)
}

fn draft(subject: &str, event_type: &str, text: &str) -> Result<Draft> {
    Ok(Draft::new(Subject::parse(subject)?, event_type, text.to_owned()))
}

const QUEUES: usize = 8;
const SENDERS: usize = 4;
const WINDOW: NonZeroUsize = NonZeroUsize::new(64).unwrap();
const HEARD: Overflow = Overflow::DropOldest { capacity: NonZeroUsize::new(256).unwrap() };
/// How long the agents may take.
const TIME_MAX: Duration = Duration::from_secs(300);
/// What the runtime and its threads may take.
const BASE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// What one agent may take: keys, policy, connection, worker, mailbox, subscription.
const AGENT_BYTES_MAX: u64 = 32 * 1024;
/// What one task may leave behind: its id, its receipt, its claim mark, what is remembered of it.
const TASK_BYTES_MAX: u64 = 4 * 1024;
