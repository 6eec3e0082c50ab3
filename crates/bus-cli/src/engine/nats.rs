//! A bus on NATS servers: which ones, who logs in there, and what to do when they are not reached.

mod directory;
mod login;
mod open;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bus_core::{Bus, Durability, Engine, ErrorKind, Guarded, Identity, Roster};
use bus_nats::{NatsBus, NatsTls, Profile, permissions::Layout};
use tokio::sync::OnceCell;

pub(crate) use self::login::{credentials, given};
use self::{directory::Directory, login::Login};
use super::{
    Scope,
    daemon::{NatsRunning, Paths},
    place::declare,
};
use crate::{
    args::Global,
    error::{CliError, Exit},
    home::Home,
    secrets::Secrets,
    workspace::{Part, Workspace},
};

/// NATS servers that keep a bus. A clone is the same place.
#[derive(Clone)]
pub(crate) struct NatsPlace(Arc<Inner>);

struct Inner {
    servers: Vec<String>,
    /// Who named them.
    source: Source,
    profile: Profile,
    tls: NatsTls,
    login: Login,
    /// Set once the workspace's streams are declared and its directory is read; none in it for a
    /// login that may not do so.
    prepared: OnceCell<Option<Directory>>,
    /// What was opened, to be closed in order.
    opened: Mutex<Vec<NatsBus>>,
}

/// Who named the servers.
enum Source {
    /// A setting; where it is made.
    Setting(String),
    /// `vakbus up --nats` of this data home.
    Supervisor(NatsRunning),
}

impl NatsPlace {
    /// The servers that the settings name, else the one that `vakbus up --nats` runs for this data
    /// home; none when the bus is this machine's own.
    ///
    /// # Errors
    /// When the data home's bus is a server's and nobody runs it: another one is never used in its
    /// place. When secrets or settings of the connection are wrong.
    pub(crate) fn find(
        global: &Global,
        home: &Home,
        secrets: &Secrets,
    ) -> Result<Option<Self>, CliError> {
        if global.memory {
            return Ok(None);
        }
        if global.config.nats_url().is_some() {
            return Self::configured(global, home, secrets).map(Some);
        }
        let paths = Paths::new(global, home);
        let Some(running) = paths.nats()? else { return Ok(None) };
        if !running.is_alive() {
            let what = format!(
                "the bus of {} is a nats-server's, and its supervisor (pid {}) does not run",
                home.path().display(),
                running.pid
            );
            return Err(CliError::new(Exit::Unreachable, what).next(
                "start it again: vakbus up --nats; or change to this machine's own engine, which \
                 has none of its messages: vakbus up",
            ));
        }
        Self::supervised(running, global, home).map(Some)
    }

    /// The servers that the settings name, else those of a deployment: `urls`, with commas between
    /// them. This data home's operator vouches for who logs in.
    ///
    /// # Errors
    /// When settings of the connection are wrong.
    pub(crate) fn deployed(global: &Global, home: &Home, urls: &str) -> Result<Self, CliError> {
        let config = &global.config;
        let (servers, source) = match config.nats_url() {
            Some((url, origin)) => (url, origin.to_string()),
            None => (urls, "the file of the deployment".to_owned()),
        };
        Ok(Self::new(Inner {
            servers: servers.split(',').map(str::to_owned).collect(),
            source: Source::Setting(source),
            profile: config.nats_profile(),
            tls: config.nats_tls()?,
            login: Login::of_home(home, &global.workspace)?,
            prepared: OnceCell::new(),
            opened: Mutex::default(),
        }))
    }

    /// Those that the settings name.
    fn configured(global: &Global, home: &Home, secrets: &Secrets) -> Result<Self, CliError> {
        let config = &global.config;
        let Some((url, origin)) = config.nats_url() else {
            return Err(CliError::usage("no NATS server is named").next("give --nats-url"));
        };
        Ok(Self::new(Inner {
            servers: url.split(',').map(str::to_owned).collect(),
            source: Source::Setting(origin.to_string()),
            profile: config.nats_profile(),
            tls: config.nats_tls()?,
            login: Login::find(global, secrets, home)?,
            prepared: OnceCell::new(),
            opened: Mutex::default(),
        }))
    }

    /// The one that `running` supervises.
    pub(crate) fn supervised(
        running: NatsRunning,
        global: &Global,
        home: &Home,
    ) -> Result<Self, CliError> {
        Ok(Self::new(Inner {
            servers: vec![running.url.clone()],
            profile: match running.durability == "synced" {
                true => Profile::Synced,
                false => Profile::Development,
            },
            tls: global.config.nats_tls()?,
            login: Login::of_home(home, &global.workspace)?,
            source: Source::Supervisor(running),
            prepared: OnceCell::new(),
            opened: Mutex::default(),
        }))
    }

    fn new(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    /// Its servers, as they were named.
    pub(crate) fn url(&self) -> String {
        self.0.servers.join(",")
    }

    /// Whether a daemon of this data directory keeps it: then its port may change.
    pub(crate) fn is_kept_here(&self) -> bool {
        matches!(self.0.source, Source::Supervisor(_))
    }

    /// How it is reached and who named it, in words.
    pub(crate) fn told(&self) -> String {
        match &self.0.source {
            Source::Setting(origin) => format!("{} ({origin})", self.url()),
            Source::Supervisor(running) => {
                format!("{} (vakbus up --nats, pid {})", self.url(), running.pid)
            }
        }
    }

    /// How the servers keep what is stored.
    pub(crate) fn profile(&self) -> &'static str {
        match self.0.profile {
            Profile::Development => "development",
            Profile::Synced => "synced",
            Profile::Replicated => "replicated",
        }
    }

    /// What the servers are said to keep of what they acknowledge.
    pub(crate) fn durability(&self) -> Durability {
        self.0.profile.durability()
    }

    /// Whether this data home's own users log in there.
    pub(crate) fn is_own(&self) -> bool {
        self.0.login.is_own()
    }

    /// What its supervisor says of itself; none when it is not of this data home.
    pub(crate) fn supervisor(&self) -> Option<&NatsRunning> {
        match &self.0.source {
            Source::Supervisor(running) => Some(running),
            Source::Setting(_) => None,
        }
    }

    /// A connection for an agent of `workspace`, whose streams are there afterwards. `roster`
    /// learns whom other machines certified and revoked, for as long as this is open.
    ///
    /// # Errors
    /// When no server is reached, it refuses the login, or the workspace there is another one.
    pub(crate) async fn connect(
        &self,
        identity: &Identity,
        scope: &Scope,
        (workspace, roster): (&Workspace, &Arc<Roster>),
    ) -> Result<Arc<dyn Engine>, CliError> {
        let agent = &identity.certificate().agent;
        let login = self.0.login.agent(workspace, agent, scope)?;
        let Some(login) = login else {
            let bus = self.house(workspace.name(), agent.as_str()).await?;
            let engine: Arc<dyn Engine> = Arc::new(bus.clone());
            self.furnish((&bus, &engine), identity, (workspace, roster)).await?;
            return Ok(engine);
        };
        if self.0.login.is_own() {
            // What an agent may not: it is this machine's own, which vouches for all of them.
            let house = self.house(workspace.name(), agent.as_str()).await?;
            let engine: Arc<dyn Engine> = Arc::new(house.clone());
            self.furnish((&house, &engine), identity, (workspace, roster)).await?;
            if !house.asks_who() {
                return Ok(engine);
            }
        }
        let bus = self.agent(workspace.name(), agent, login).await?;
        let engine: Arc<dyn Engine> = Arc::new(bus.clone());
        if !self.0.login.is_own() {
            // The server knows what it may not, and tells its operator of each try as a violation.
            let policy =
                identity.certificate().policy_for(scope.session.as_ref(), scope.queue.as_ref());
            let guarded: Arc<dyn Engine> = Arc::new(Guarded::new(Arc::clone(&engine), policy));
            self.furnish((&bus, &guarded), identity, (workspace, roster)).await?;
        }
        Ok(engine)
    }

    /// Sets the workspace up, once, and tells others of the agent; `engine` is the same connection,
    /// as far as the agent may use it.
    async fn furnish(
        &self,
        (bus, engine): (&NatsBus, &Arc<dyn Engine>),
        identity: &Identity,
        (workspace, roster): (&Workspace, &Arc<Roster>),
    ) -> Result<(), CliError> {
        let prepare = || self.prepare((bus, engine), workspace, roster);
        let Some(directory) = self.0.prepared.get_or_try_init(prepare).await? else {
            return Ok(());
        };
        match directory.tell_certificate(identity).await {
            // Others know it from their files, or not at all.
            Err(error) if error.kind() == ErrorKind::Denied => {
                tracing::info!(%error, "this login may not tell whom it speaks for");
                Ok(())
            }
            told => Ok(told?),
        }
    }

    /// Tells the bus what this machine knows of a workspace: also the keys that it took back.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub(crate) async fn tell(&self, workspace: &Workspace) -> Result<(), CliError> {
        let agent = workspace.actor(None, Part::Operator)?;
        let roster = Arc::new(workspace.roster()?);
        let identity = workspace.identity(&agent)?;
        self.connect(&identity, &Scope::default(), (workspace, &roster)).await?;
        self.close().await
    }

    /// Declares the streams of a workspace and reads its directory. A login that may not do so
    /// leaves it to others.
    async fn prepare(
        &self,
        (bus, engine): (&NatsBus, &Arc<dyn Engine>),
        workspace: &Workspace,
        roster: &Arc<Roster>,
    ) -> Result<Option<Directory>, CliError> {
        let declared = match self.0.login.is_own() {
            true => self.declare(bus, workspace).await,
            false => declare(&**engine, workspace).await,
        };
        match declared {
            Err(error) if error.code() == Exit::Refused => {
                tracing::info!("this login may not declare streams: {error}");
            }
            declared => declared?,
        }
        Directory::open(engine, workspace, roster, None).await
    }

    /// Has `home` keep what other machines revoke in `workspace`, for as long as `bus` is open.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub(crate) async fn keep_revocations(
        &self,
        bus: &NatsBus,
        workspace: &Workspace,
        home: &Home,
    ) -> Result<(), CliError> {
        let roster = Arc::new(workspace.roster()?);
        let engine: Arc<dyn Engine> = Arc::new(bus.clone());
        Directory::open(&engine, workspace, &roster, Some(home)).await.map(drop)
    }

    /// Makes what a workspace needs on its servers: everything, where its store is one of its own.
    ///
    /// # Errors
    /// When the servers do not let it, or it is there otherwise.
    pub(crate) async fn declare(
        &self,
        bus: &NatsBus,
        workspace: &Workspace,
    ) -> Result<(), CliError> {
        match self.0.login.is_own() {
            true => Ok(bus.declare_workspace(&Layout::of(workspace.name())?).await?),
            false => declare(bus, workspace).await,
        }
    }

    /// Closes what was opened: the server has everything that was handed over then.
    ///
    /// # Errors
    /// The first that went wrong; all are closed.
    pub(crate) async fn close(&self) -> Result<(), CliError> {
        let opened = std::mem::take(&mut *self.opened());
        let mut first = Ok(());
        for bus in opened {
            first = first.and(bus.close().await);
        }
        Ok(first?)
    }

    fn opened(&self) -> std::sync::MutexGuard<'_, Vec<NatsBus>> {
        self.0.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for NatsPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("NatsPlace").field(&self.told()).finish()
    }
}

/// How long a server that is being started again is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// The time between two tries.
const PAUSE: Duration = Duration::from_millis(50);
