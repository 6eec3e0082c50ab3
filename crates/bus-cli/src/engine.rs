//! The one place that picks an engine (D12), and what a command holds of it.

mod daemon;
mod nats;
mod place;

use std::{sync::Arc, time::Duration};

use bus_core::{
    BusMetrics, CheckpointPolicy, Clock, Endpoint, EndpointParts, Engine, Guarded, Identity,
    Outbox, Roster, SystemClock,
};
use bus_crypto::{Entropy, Keyring, SystemEntropy};
use bus_envelope::WireForm;
use bus_link::{LinkBus, LinkOptions};
use bus_subjects::{AgentId, RoleName, SessionId};
use tokio::time::{Instant, sleep};

pub(crate) use self::{
    daemon::{NatsRunning, Paths, Running},
    nats::{NatsPlace, credentials, given},
    place::{Place, cannot_open, declare, disk_options, is_taken, open_disk},
};
use crate::{
    args::Global,
    audit,
    error::{CliError, Exit},
    home::Home,
    print as out,
    secrets::Secrets,
    telemetry,
    workspace::{Part, Workspace},
};

/// A workspace with the engine that keeps its bus, open for one command.
pub(crate) struct Session {
    pub(crate) workspace: Workspace,
    pub(crate) secrets: Secrets,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) metrics: Arc<BusMetrics>,
    named: Option<AgentId>,
    home: Home,
    place: Place,
    keyring: Arc<Keyring>,
    roster: Arc<Roster>,
}

/// An agent on a connection of its own.
#[derive(Clone)]
pub(crate) struct Agent {
    pub(crate) endpoint: Endpoint,
    /// The same connection, for what an endpoint does not offer; it refuses what the agent may not.
    pub(crate) engine: Arc<dyn Engine>,
}

/// What narrows an agent's rights.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scope {
    pub(crate) session: Option<SessionId>,
    pub(crate) queue: Option<RoleName>,
}

impl Session {
    /// Opens the workspace and the engine: a daemon's when one runs, else that of the data home, or
    /// with `--memory` one of this process alone.
    pub(crate) async fn open(global: &Global) -> Result<Self, CliError> {
        let home = Home::locate(global.data_dir.as_deref())?;
        let workspace = Workspace::open_or_new(&home, &global.workspace)?;
        let secrets = Secrets::new(&global.config, &home);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let place = Place::open(global, &home, (&workspace, &secrets), &clock).await?;
        Ok(Self {
            keyring: Arc::new(workspace.keyring(&secrets)?),
            roster: Arc::new(workspace.living_roster()?),
            workspace,
            secrets,
            clock,
            entropy: Arc::new(SystemEntropy::new()),
            metrics: Arc::default(),
            named: global.agent.clone(),
            home,
            place,
        })
    }

    /// Where the bus is.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Whose signatures its agents accept; on servers it knows the agents of other machines, too,
    /// once one of its agents is there.
    pub(crate) fn roster(&self) -> &Roster {
        &self.roster
    }

    /// The agent that acts: the one that `--as` names, else the workspace's own for `part`.
    pub(crate) async fn agent(&self, part: Part, scope: Scope) -> Result<Agent, CliError> {
        self.join(self.named.as_ref(), part, scope).await
    }

    /// The worker `named`; else the agent that `--as` names, else the workspace's own.
    pub(crate) async fn worker(
        &self,
        named: Option<&AgentId>,
        scope: Scope,
    ) -> Result<Agent, CliError> {
        self.join(named.or(self.named.as_ref()), Part::Worker, scope).await
    }

    /// Who acts: the agent that `--as` names, else the workspace's own for `part`.
    pub(crate) fn actor(&self, part: Part) -> Result<AgentId, CliError> {
        self.workspace.actor(self.named.as_ref(), part)
    }

    /// A connection to the daemon for whoever acts; none without a daemon.
    pub(crate) async fn link(
        &self,
        part: Part,
        options: LinkOptions,
    ) -> Result<Option<LinkBus>, CliError> {
        let name = self.actor(part)?;
        let link = async |identity| self.place.link(identity, options).await;
        self.connect(&name, link).await
    }

    /// As [`Session::agent`], but what it sends to queues and mailboxes goes to the hub.
    pub(crate) async fn agent_to_hub(&self, part: Part) -> Result<Agent, CliError> {
        let name = self.workspace.actor(self.named.as_ref(), part)?;
        let Agent { engine, .. } = self.endpoint(&name, Scope::default()).await?;
        let outbox = Outbox::new(engine, self.workspace.name().clone(), name.clone());
        self.on(Arc::new(outbox), self.workspace.identity(&name)?, Scope::default())
    }

    /// What an agent may see of all that is kept, also where its own login is shown less: this data
    /// home keeps it.
    pub(crate) async fn overview(&self, agent: &Agent) -> Result<Arc<dyn Engine>, CliError> {
        let endpoint = &agent.endpoint;
        match &self.place {
            Place::Nats(place) if place.is_own() => {
                let bus = place.house(endpoint.workspace(), endpoint.agent().as_str()).await?;
                let policy = endpoint.identity().certificate().policy();
                Ok(Arc::new(Guarded::new(Arc::new(bus), policy)))
            }
            _ => Ok(Arc::clone(&agent.engine)),
        }
    }

    /// The workspace's own agent for `part`, whoever `--as` names.
    pub(crate) async fn own(&self, part: Part) -> Result<Agent, CliError> {
        self.join(None, part, Scope::default()).await
    }

    async fn join(
        &self,
        named: Option<&AgentId>,
        part: Part,
        scope: Scope,
    ) -> Result<Agent, CliError> {
        let name = self.workspace.actor(named, part)?;
        self.endpoint(&name, scope).await
    }

    /// A connection for the agent `name`. A daemon that has not noticed a new workspace yet refuses
    /// its agents for a moment.
    async fn connect<T>(
        &self,
        name: &AgentId,
        connect: impl AsyncFn(Identity) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let until = Instant::now() + NOTICED_WITHIN;
        loop {
            match connect(self.workspace.identity(name)?).await {
                Err(error)
                    if error.code() == Exit::Refused
                        && self.place.may_be_unnoticed()
                        && Instant::now() < until =>
                {
                    sleep(PAUSE).await;
                }
                connected => return connected,
            }
        }
    }

    /// Joins the bus as an agent; its key is needed twice, by who signs and by who connects.
    async fn endpoint(&self, name: &AgentId, scope: Scope) -> Result<Agent, CliError> {
        let identity = self.workspace.identity(name)?;
        let Scope { session, queue } = &scope;
        let policy = identity.certificate().policy_for(session.as_ref(), queue.as_ref());
        self.roster.admit(identity.certificate().token())?;
        let ground = (&self.workspace, &self.roster);
        let engine = self
            .connect(name, async |identity| self.place.connect(identity, &scope, ground).await)
            .await?;
        self.on(Arc::new(Guarded::new(engine, policy)), identity, scope)
    }

    /// An agent on an engine that it has to itself.
    fn on(
        &self,
        engine: Arc<dyn Engine>,
        identity: Identity,
        scope: Scope,
    ) -> Result<Agent, CliError> {
        let Scope { session, queue } = scope;
        let parts = EndpointParts {
            engine: Arc::clone(&engine),
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
        let endpoint = Endpoint::traced(parts, telemetry::tracing(self.place.system()))?;
        Ok(Agent { endpoint, engine })
    }

    /// Reads again which secrets and revocations there are, for a process that goes on. What cannot
    /// be read is told in the log, and what was known stays.
    pub(crate) fn renew(&self) {
        // A secret from outside stands alone.
        let renewed = match self.secrets.workspace_secret() {
            Ok(Some(_)) => Ok(()),
            Ok(None) => self.workspace.refresh(&self.keyring),
            Err(error) => Err(error),
        };
        if let Err(error) = renewed {
            tracing::warn!("secrets are not read again: {error}");
        }
        // Whatever is wrong with secrets, a key that was taken back counts no more.
        if let Err(error) = self.workspace.revoke_in(&self.roster) {
            tracing::warn!("not all revocations are read again: {error}");
        }
    }

    /// Stores what is not stored yet and lets go of the data home. Without a daemon, what the audit
    /// log lacks is written first.
    pub(crate) async fn close(self) -> Result<(), CliError> {
        if let Place::Disk(bus) = &self.place {
            let (engine, clock) = (Arc::new(bus.connect()), Arc::clone(&self.clock));
            if let Err(error) =
                audit::catch_up(&self.home, self.workspace.name(), engine, clock).await
            {
                // The bus has it, and who did its work has nothing to do with it.
                out::remark(&error.as_warning());
            }
        }
        self.place.close().await
    }
}

/// Runs a command on an opened session, and closes it whatever came of the command.
pub(crate) fn run<T>(
    global: &Global,
    work: impl AsyncFnOnce(&Session) -> Result<T, CliError>,
) -> Result<T, CliError> {
    block_on(with(global, work))
}

/// As [`run`], on the runtime that there is.
pub(crate) async fn with<T>(
    global: &Global,
    work: impl AsyncFnOnce(&Session) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let session = Session::open(global).await?;
    let done = work(&session).await;
    let closed = session.close().await;
    let done = done?;
    closed.map(|()| done)
}

/// Runs `work` on a runtime of its own. What it left behind is not waited for.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| CliError::new(Exit::Failed, format!("cannot start: {error}")))?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    done
}

/// How soon a daemon notices a new workspace.
const NOTICED_WITHIN: Duration = Duration::from_secs(5);

/// The time between two tries to be let in.
const PAUSE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests;
