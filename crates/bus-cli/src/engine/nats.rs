//! A bus on NATS servers: which ones, who logs in there, and what to do when they are not reached.

mod directory;
mod login;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bus_core::{Bus, Engine, ErrorKind, Identity, Roster};
use bus_nats::{NatsBus, NatsOptions, NatsTls, Profile};
use bus_subjects::AgentId;
use tokio::{
    sync::OnceCell,
    time::{Instant, sleep},
};

use self::directory::Directory;
pub(crate) use self::login::Login;
use super::{
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
            login: Login::of_secrets(secrets, home)?,
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
            login: Login::of_home(home)?,
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
        workspace: &Workspace,
        roster: &Arc<Roster>,
    ) -> Result<Arc<dyn Engine>, CliError> {
        let bus = self.open(&identity.certificate().agent).await?;
        let prepare = || Self::prepare(&bus, workspace, roster);
        if let Some(directory) = self.0.prepared.get_or_try_init(prepare).await? {
            match directory.tell_certificate(identity).await {
                // Others know it from their files, or not at all.
                Err(error) if error.kind() == ErrorKind::Denied => {
                    tracing::info!(%error, "this login may not tell whom it speaks for");
                }
                told => told?,
            }
        }
        Ok(Arc::new(bus))
    }

    /// Tells the bus what this machine knows of a workspace: also the keys that it took back.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub(crate) async fn tell(&self, workspace: &Workspace) -> Result<(), CliError> {
        let agent = workspace.actor(None, Part::Operator)?;
        let roster = Arc::new(workspace.roster()?);
        self.connect(&workspace.identity(&agent)?, workspace, &roster).await?;
        self.close().await
    }

    /// A connection with an inbox of its own, which nobody else may read.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub(crate) async fn open(&self, agent: &AgentId) -> Result<NatsBus, CliError> {
        let inner = &*self.0;
        let options = || {
            let mut options = NatsOptions::new("");
            options.servers.clone_from(&inner.servers);
            options.name = format!("vakbus {agent}");
            options.auth = inner.login.auth();
            options.tls = inner.tls.clone();
            options.inbox_prefix = format!("_INBOX.{agent}");
            options.profile = inner.profile;
            options
        };
        // Its supervisor starts it again when it died; it is away for a moment only.
        let until = Instant::now() + PATIENCE;
        let may_come = || match &inner.source {
            Source::Supervisor(running) => Instant::now() < until && running.is_alive(),
            Source::Setting(_) => false,
        };
        loop {
            match NatsBus::open(options()).await {
                Ok(bus) => {
                    self.opened().push(bus.clone());
                    return Ok(bus);
                }
                Err(error) if error.kind() == ErrorKind::Unavailable && may_come() => {
                    sleep(PAUSE).await;
                }
                Err(error) => return Err(self.unreached(&error)),
            }
        }
    }

    /// Declares the streams of a workspace and reads its directory. A login that may not do so
    /// leaves it to others.
    async fn prepare(
        bus: &NatsBus,
        workspace: &Workspace,
        roster: &Arc<Roster>,
    ) -> Result<Option<Directory>, CliError> {
        match declare(bus, workspace).await {
            Err(error) if error.code() == Exit::Refused => {
                tracing::info!("this login may not declare streams: {error}");
            }
            declared => declared?,
        }
        Directory::open(bus, workspace, roster).await
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

    /// The failure to connect, with what to do about it.
    fn unreached(&self, error: &bus_core::Error) -> CliError {
        // What the client says tells a wrong certificate from a server that is away.
        let cause = std::error::Error::source(error);
        let cause = cause.map_or_else(String::new, |cause| format!(" ({cause})"));
        let what = format!("{error}: {}{cause}", self.told());
        let failed = CliError::new(Exit::of(error.kind()), what);
        match error.kind() {
            ErrorKind::Denied => failed.next(self.0.login.advice()),
            ErrorKind::Invalid => failed.next("vakbus config show --origin says who named it"),
            _ => failed.next(
                "see that the server runs and that this machine reaches it; no other engine is \
                 used in its place",
            ),
        }
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
