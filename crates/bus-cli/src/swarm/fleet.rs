//! The agents of one swarm on an engine of their own, each with a key, a certificate and rights.

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use bus_core::{
    BusMetrics, CheckpointPolicy, Clock, Endpoint, EndpointParts, Engine, EventFeed, Guarded,
    Identity, Overflow, Roster, SystemClock, Worker, WorkerSpec, planes,
};
use bus_crypto::{Entropy, Keyring, PublicKey, SystemEntropy};
use bus_envelope::WireForm;
use bus_mem::InMemoryBus;
use bus_runner::CommandAgent;
use bus_subjects::{Address, AgentId, Role, SessionId, StreamName};

use super::{VALID_FOR, plan::Plan};
use crate::{error::CliError, workspace::Workspace};

/// A running fleet. Each agent has a connection of its own: whoever closes one ends no other.
pub(super) struct Fleet {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) session: SessionId,
    pub(super) run_id: String,
    pub(super) orchestrator: Endpoint,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Arc<BusMetrics>,
    pub(super) account: PublicKey,
    observer: Endpoint,
    observer_connection: Arc<dyn Engine>,
    workers: Vec<Endpoint>,
    work: StreamName,
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
    bus: InMemoryBus,
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

/// How many live messages may wait for the observer.
const WAITING_MAX: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

impl Fleet {
    /// Starts the engine, declares the workspace's streams, and certifies every agent.
    pub(super) async fn start(workspace: &Workspace, plan: &Plan) -> Result<Self, CliError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let bus = InMemoryBus::with_clock(Arc::clone(&clock));
        let engine: Arc<dyn Engine> = Arc::new(bus.connect());
        for stream in planes::workspace_streams(workspace.name())? {
            engine.declare(stream).await?;
        }
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy::new());
        let run_id = run_id(&*clock, &*entropy)?;
        let shared = Shared {
            bus,
            keyring: Arc::new(workspace.keyring()?),
            roster: Arc::new(Roster::new(*workspace.account())),
            clock,
            entropy,
            metrics: Arc::new(BusMetrics::default()),
            session: SessionId::parse(&format!("swarm-{run_id}"))?,
        };
        let certify = |name: String, role: Role| -> Result<Identity, CliError> {
            let identity = workspace.issue(AgentId::parse(&name)?, vec![role], Some(VALID_FOR))?;
            shared.roster.admit(identity.certificate().token())?;
            Ok(identity)
        };
        let orchestrator = certify("swarm".into(), Role::Orchestrator)?;
        let (orchestrator, _) = shared.endpoint(orchestrator, plan)?;
        let observer = certify("swarm-observer".into(), Role::Observer)?;
        let (observer, observer_connection) = shared.endpoint(observer, plan)?;
        let mut workers = Vec::with_capacity(plan.workers);
        for number in 1..=plan.workers {
            let identity = certify(format!("swarm-worker-{number}"), Role::Worker)?;
            workers.push(shared.endpoint(identity, plan)?.0);
        }
        Ok(Self {
            engine,
            session: shared.session,
            run_id,
            orchestrator,
            clock: shared.clock,
            metrics: shared.metrics,
            account: *workspace.account(),
            observer,
            observer_connection,
            workers,
            work: planes::work_stream(workspace.name())?,
        })
    }

    /// The workers, ready to run.
    pub(super) fn workers(&self, plan: &Plan) -> Vec<Worker> {
        let spec = worker_spec(plan);
        self.workers.iter().map(|w| Worker::new(w.clone(), spec.clone())).collect()
    }

    /// What each worker does.
    pub(super) fn agent(&self, plan: &Plan) -> CommandAgent {
        CommandAgent {
            command: plan.command.clone(),
            session: self.session.clone(),
            run_id: self.run_id.clone(),
        }
    }

    /// The live events of this session, from now on.
    pub(super) async fn hear(&self) -> Result<EventFeed, CliError> {
        let filter = Address::filter_session_events(self.observer.workspace(), &self.session);
        let overflow = Overflow::DropOldest { capacity: WAITING_MAX };
        Ok(self.observer.subscribe(filter, overflow).await?)
    }

    /// Ends the live events of this session for its observer, after those that are there.
    pub(super) async fn hush(&self) -> bus_core::Result<()> {
        self.observer_connection.close().await
    }

    /// How much work waits.
    pub(super) fn backlog(&self) -> Backlog {
        let (engine, work) = (Arc::clone(&self.engine), self.work.clone());
        Backlog { engine, work, metrics: Arc::clone(&self.metrics) }
    }

    /// The certificates of all agents that sign something.
    pub(super) fn certificates(&self) -> impl Iterator<Item = &str> {
        let all = std::iter::once(&self.orchestrator).chain(&self.workers);
        all.map(|endpoint| endpoint.identity().certificate().token())
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
    fn endpoint(
        &self,
        identity: Identity,
        plan: &Plan,
    ) -> Result<(Endpoint, Arc<dyn Engine>), CliError> {
        let connection: Arc<dyn Engine> = Arc::new(self.bus.connect());
        let session = Some(self.session.clone());
        let queue = Some(plan.role.clone());
        let policy = identity.certificate().policy_for(session.as_ref(), queue.as_ref());
        let endpoint = Endpoint::new(EndpointParts {
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
        })?;
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

/// A UUIDv7 for the run.
fn run_id(clock: &dyn Clock, entropy: &dyn Entropy) -> Result<String, CliError> {
    let mut random = [0; 10];
    entropy.fill(&mut random)?;
    let ms = u64::try_from(clock.now().unix_ns() / 1_000_000).unwrap_or(0);
    Ok(uuid::Builder::from_unix_timestamp_millis(ms, &random).into_uuid().to_string())
}
