//! The agents of one swarm, each with a key, a certificate, rights and a connection of its own.

use std::{collections::HashSet, num::NonZeroUsize, sync::Arc, time::Duration};

use bus_core::{
    BusMetrics, CheckpointPolicy, Clock, Endpoint, EndpointParts, Engine, EventFeed, Guarded,
    Overflow, Roster, SystemClock, Worker, WorkerSpec, planes,
};
use bus_crypto::{Entropy, Keyring, PublicKey, SystemEntropy};
use bus_envelope::WireForm;
use bus_mem::InMemoryBus;
use bus_runner::{CommandAgent, EmitSocket, Recorded};
use bus_subjects::{Address, Role, SessionId, StreamName};
use uuid::Uuid;

use super::{
    ground::{Ground, Site, Twins},
    ledger::Ledger,
    plan::Plan,
};
use crate::{
    engine::Scope,
    error::CliError,
    gateway::{Question, Working},
    recording::Recording,
    secrets::Secrets,
    telemetry,
    workspace::Workspace,
};

/// A running fleet. Each agent has a connection of its own: whoever closes one ends no other.
pub(super) struct Fleet {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) session: SessionId,
    pub(super) run_id: String,
    pub(super) orchestrator: Endpoint,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Arc<BusMetrics>,
    pub(super) account: PublicKey,
    /// Whether it works where others are, who may join it.
    pub(super) is_shared: bool,
    pub(super) roster: Arc<Roster>,
    recording: Option<Recording>,
    observer: Endpoint,
    observer_connection: Arc<dyn Engine>,
    workers: Vec<(Endpoint, Arc<dyn Engine>)>,
    work: StreamName,
    /// Where its commands emit.
    emit: Option<EmitSocket>,
}

/// How much work waits or is being done, as the engine tells.
#[derive(Clone)]
pub(super) struct Backlog {
    engine: Arc<dyn Engine>,
    work: StreamName,
    metrics: Arc<BusMetrics>,
}

/// What every endpoint of a fleet shares.
struct Shared {
    ground: Ground,
    keyring: Arc<Keyring>,
    roster: Arc<Roster>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    metrics: Arc<BusMetrics>,
    session: SessionId,
}

/// How long a claim lasts unless extended. Engine and workers are one process: none of them can be
/// lost alone, and a pause of all of them (Ctrl-Z, a frozen container) must not look like it.
const LEASE: Duration = Duration::from_secs(3600);

/// How long a claim lasts where the engine is another process's: a worker that died is missed no
/// later. All workers of a queue have the same.
pub(crate) const LEASE_OF_DAEMON: Duration = Duration::from_secs(30);

/// How many live messages may wait for the observer.
const WAITING_MAX: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

/// The same where a reader may be slow: 16 MiB of the largest ones.
const WAITING_MAX_SHOWN: NonZeroUsize = NonZeroUsize::new(256).unwrap();

impl Fleet {
    /// Starts the engine, declares the workspace's streams, and certifies every agent.
    pub(super) async fn start(
        workspace: &Workspace,
        plan: &mut Plan,
        (secrets, site): (&Secrets, Site),
    ) -> Result<Self, CliError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy::new());
        let run_id = run_id(&*clock, &*entropy)?;
        let ground = match site {
            Site::Own => Ground::Own(InMemoryBus::with_limits(Arc::clone(&clock), plan.limits)),
            Site::Daemon(socket) => Ground::Daemon(socket),
            Site::Nats(place) => Ground::Nats(place),
        };
        let is_shared = !matches!(ground, Ground::Own(_));
        if is_shared {
            plan.role = Ground::queue(&run_id)?;
        }
        ground.declare(workspace).await?;
        let shared = Shared {
            ground,
            keyring: Arc::new(workspace.keyring(secrets)?),
            // Whoever joins may be certified while it runs.
            roster: Arc::new(workspace.living_roster()?),
            clock,
            entropy,
            metrics: Arc::new(BusMetrics::default()),
            session: SessionId::parse(&format!("swarm-{run_id}"))?,
        };
        let agent = async |name: &str, role| {
            let twins = shared.ground.agent(workspace, &shared.roster, (name, role))?;
            shared.endpoint(twins, (workspace, plan)).await
        };
        let (orchestrator, connection) = agent("swarm", Role::Orchestrator).await?;
        let (observer, observer_connection) = agent("swarm-observer", Role::Observer).await?;
        let recording = match plan.recording {
            None => None,
            Some(policy) => {
                let (recorder, _) = agent("swarm-recorder", Role::Keeper).await?;
                Some(Recording::begin(recorder, &shared.session, policy).await?)
            }
        };
        let mut workers = Vec::with_capacity(plan.workers);
        for number in 1..=plan.workers {
            workers.push(agent(&format!("swarm-worker-{number}"), Role::Worker).await?);
        }
        Ok(Self {
            // The whole engine where it is this run's own; else what its operator may.
            engine: match &shared.ground {
                Ground::Own(bus) => Arc::new(bus.connect()),
                Ground::Daemon(_) | Ground::Nats(_) => connection,
            },
            is_shared,
            roster: shared.roster,
            session: shared.session,
            run_id,
            orchestrator,
            clock: shared.clock,
            metrics: shared.metrics,
            account: *workspace.account(),
            recording,
            observer,
            observer_connection,
            workers,
            emit: emit_socket(&*shared.entropy),
            work: planes::work_stream(workspace.name())?,
        })
    }

    /// The workers, ready to run.
    pub(super) fn workers(&self, plan: &Plan) -> Vec<Worker> {
        let mut spec = worker_spec(plan);
        if self.is_shared {
            (spec.lease, spec.hears_cancels) = (LEASE_OF_DAEMON, true);
        }
        self.endpoints().map(|worker| Worker::new(worker.clone(), spec.clone())).collect()
    }

    /// What each worker does.
    pub(super) fn agent(&self, plan: &Plan) -> CommandAgent {
        let (session, run_id) = (self.session.clone(), self.run_id.clone());
        let mut agent = CommandAgent::new(plan.command.clone(), session, run_id);
        agent.keeps_results = self.is_shared;
        agent.emit.clone_from(&self.emit);
        agent.output_bytes_max = plan.output_bytes_max;
        agent
    }

    /// The live events of this session, from now on; `is_shown` to a reader, who may be slow.
    pub(super) async fn hear(&self, is_shown: bool) -> Result<EventFeed, CliError> {
        let filter = Address::filter_session_events(self.observer.workspace(), &self.session);
        let capacity = if is_shown { WAITING_MAX_SHOWN } else { WAITING_MAX };
        let overflow = Overflow::DropOldest { capacity };
        Ok(self.observer.subscribe(filter, overflow).await?)
    }

    /// Ends the live events of this session for its observer, after those that are there.
    pub(super) async fn hush(&self) -> bus_core::Result<()> {
        // What a worker published last may still be on its way.
        for (_, connection) in &self.workers {
            connection.close().await?;
        }
        self.observer_connection.close().await
    }

    /// Ends the recording, if there is one, and says what was recorded.
    pub(super) async fn recorded(
        &self,
        hurry: impl Future<Output = ()>,
    ) -> Result<Option<Recorded>, CliError> {
        match &self.recording {
            Some(recording) => recording.finish(hurry).await,
            None => Ok(None),
        }
    }

    /// How much work waits.
    pub(super) fn backlog(&self) -> Backlog {
        let (engine, work) = (Arc::clone(&self.engine), self.work.clone());
        Backlog { engine, work, metrics: Arc::clone(&self.metrics) }
    }

    /// What this run shows of itself. All queues are its own only where its engine is.
    pub(super) fn working(&self) -> Working {
        Working {
            engine: Arc::clone(&self.engine),
            workspace: self.orchestrator.workspace().clone(),
            metrics: Arc::clone(&self.metrics),
            question: match self.is_shared {
                true => Question::Lag(self.work.clone()),
                false => Question::Queues,
            },
        }
    }

    /// What to say of tasks that did not run and stay where they are.
    pub(super) fn left_behind(&self, plan: &Plan, ledger: &Ledger) -> Option<String> {
        if !self.is_shared || ledger.is_settled() {
            return None;
        }
        let role = &plan.role;
        Some(format!("tasks stay in the queue {role}; to go on: vakbus worker --role {role} -- …"))
    }

    /// The lives of this run's own workers.
    pub(super) fn worker_lives(&self) -> HashSet<Uuid> {
        self.endpoints().map(Endpoint::incarnation).collect()
    }

    /// The certificates of this run's own agents that sign something.
    pub(super) fn certificates(&self) -> impl Iterator<Item = &str> {
        let all = std::iter::once(&self.orchestrator).chain(self.endpoints());
        all.map(|endpoint| endpoint.identity().certificate().token())
    }

    fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.workers.iter().map(|(endpoint, _)| endpoint)
    }
}

impl Backlog {
    /// Reads how many tasks wait or are under a lease, and notes it in the metrics.
    pub(super) async fn read(&self) -> Option<u64> {
        // A figure that cannot be had leaves the last one.
        let lag = self.engine.lag(self.work.clone()).await.ok()?;
        let tasks = lag.pending.saturating_add(lag.in_flight);
        self.metrics.lag(tasks);
        Some(tasks)
    }
}

impl Shared {
    /// An agent on a connection of its own.
    async fn endpoint(
        &self,
        mut twins: Twins,
        (workspace, plan): (&Workspace, &Plan),
    ) -> Result<(Endpoint, Arc<dyn Engine>), CliError> {
        let scope = Scope { session: Some(self.session.clone()), queue: Some(plan.role.clone()) };
        let ground = (workspace, &self.roster);
        let connection = self.ground.connect(&mut twins, &scope, ground).await?;
        let identity = twins.signing;
        let Scope { session, queue } = scope;
        let policy = identity.certificate().policy_for(session.as_ref(), queue.as_ref());
        let parts = EndpointParts {
            engine: Arc::new(Guarded::new(Arc::clone(&connection), policy)),
            identity,
            session,
            queue,
            keyring: Arc::clone(&self.keyring),
            roster: Arc::clone(&self.roster),
            clock: Arc::clone(&self.clock),
            entropy: Arc::clone(&self.entropy),
            metrics: Arc::clone(&self.metrics),
            wire: WireForm::Compact,
            checkpoints: Some(CheckpointPolicy::default()),
        };
        let endpoint = Endpoint::traced(parts, telemetry::tracing(self.ground.system()))?;
        Ok((endpoint, connection))
    }
}

/// How the workers of a fleet treat the tasks of `plan`.
pub(super) fn worker_spec(plan: &Plan) -> WorkerSpec {
    let mut spec = WorkerSpec::new(plan.role.clone());
    spec.lease = LEASE;
    spec.retry = plan.retry;
    spec
}

/// The socket through which commands emit. Without one they run all the same.
pub(crate) fn emit_socket(entropy: &dyn Entropy) -> Option<EmitSocket> {
    match EmitSocket::open(entropy) {
        Ok(socket) => Some(socket),
        Err(error) => {
            tracing::warn!(%error, "there is no place for a socket: commands cannot emit");
            None
        }
    }
}

/// A UUIDv7 for the run.
pub(crate) fn run_id(clock: &dyn Clock, entropy: &dyn Entropy) -> Result<String, CliError> {
    let mut random = [0; 10];
    entropy.fill(&mut random)?;
    let ms = u64::try_from(clock.now().unix_ns() / 1_000_000).unwrap_or(0);
    Ok(uuid::Builder::from_unix_timestamp_millis(ms, &random).into_uuid().to_string())
}
