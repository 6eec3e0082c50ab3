//! Where the bus is: with a daemon, in the data home, on NATS servers, or in this process alone.

use std::{path::PathBuf, sync::Arc, time::Duration};

use bus_core::{Bus, Clock, Engine, ErrorKind, Identity, Roster, planes};
use bus_disk::{DiskBus, DiskOptions, Sync};
use bus_link::{LinkBus, LinkOptions};
use bus_mem::InMemoryBus;
use bus_otel::System;
use tokio::time::{Instant, sleep};

use super::{Scope, daemon::Paths, nats::NatsPlace};
use crate::{
    args::Global,
    config::SyncMode,
    error::{CliError, Exit},
    home::Home,
    secrets::Secrets,
    workspace::Workspace,
};

/// The engine that a command uses.
pub(crate) enum Place {
    /// A daemon's, at this socket.
    Daemon {
        /// Its socket.
        socket: PathBuf,
        /// Whether it may not have noticed the workspace yet.
        is_new: bool,
    },
    /// That of the data home, which this process alone uses meanwhile.
    Disk(DiskBus),
    /// On NATS servers.
    Nats(NatsPlace),
    /// In the memory of this process.
    Memory(InMemoryBus),
}

impl Place {
    /// Picks one (D12).
    pub(super) async fn open(
        global: &Global,
        home: &Home,
        (workspace, secrets): (&Workspace, &Secrets),
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, CliError> {
        if global.memory {
            let bus = InMemoryBus::with_limits(Arc::clone(clock), global.config.limits());
            declare(&bus.connect(), workspace).await?;
            return Ok(Self::Memory(bus));
        }
        if let Some(place) = NatsPlace::find(global, home, secrets)? {
            return Ok(Self::Nats(place));
        }
        let paths = Paths::new(global, home);
        let until = Instant::now() + PATIENCE;
        loop {
            if paths.is_served() {
                let is_new = workspace.is_younger_than(NOTICED_WITHIN);
                return Ok(Self::Daemon { socket: paths.socket, is_new });
            }
            let options = disk_options(&paths, global, global.config.sync(), clock);
            match open_disk(options).await {
                Ok(bus) => {
                    declare(&bus.connect(), workspace).await?;
                    return Ok(Self::Disk(bus));
                }
                // Another command has it for a moment, or a daemon is about to serve it.
                Err(error) if is_taken(&error) && Instant::now() < until => sleep(PAUSE).await,
                Err(error) => return Err(cannot_open(error)),
            }
        }
    }

    /// A connection for one agent.
    pub(super) async fn connect(
        &self,
        identity: Identity,
        scope: &Scope,
        (workspace, roster): (&Workspace, &Arc<Roster>),
    ) -> Result<Arc<dyn Engine>, CliError> {
        match self {
            Self::Nats(place) => place.connect(&identity, scope, (workspace, roster)).await,
            Self::Daemon { socket, .. } => {
                let link = LinkBus::connect(socket, identity, LinkOptions::default()).await;
                Ok(Arc::new(link?))
            }
            Self::Disk(bus) => Ok(Arc::new(bus.connect())),
            Self::Memory(bus) => Ok(Arc::new(bus.connect())),
        }
    }

    /// A connection to the daemon; none without one.
    pub(super) async fn link(
        &self,
        identity: Identity,
        options: LinkOptions,
    ) -> Result<Option<LinkBus>, CliError> {
        let Self::Daemon { socket, .. } = self else { return Ok(None) };
        Ok(Some(LinkBus::connect(socket, identity, options).await?))
    }

    /// Whose messages they are, as spans tell it.
    pub(super) fn system(&self) -> System {
        match self {
            Self::Nats(_) => System::Nats,
            Self::Daemon { .. } | Self::Disk(_) | Self::Memory(_) => System::Vakbus,
        }
    }

    /// Whether a refused connection may be let in a moment later.
    pub(super) fn may_be_unnoticed(&self) -> bool {
        matches!(self, Self::Daemon { is_new: true, .. })
    }

    /// Refuses to go on where nobody else can take part.
    pub(crate) fn check_shared(&self, what: &str) -> Result<(), CliError> {
        match self {
            Self::Daemon { .. } | Self::Nats(_) => Ok(()),
            Self::Memory(_) => {
                let what = format!("with --memory this process is alone: nobody can {what}");
                Err(CliError::usage(what).next("leave it out, and start a daemon: vakbus up"))
            }
            Self::Disk(_) => {
                let what = format!("no daemon runs, so nobody can {what}");
                Err(CliError::new(Exit::Unreachable, what).next("start one: vakbus up"))
            }
        }
    }

    /// Whether what is stored there outlives this process.
    pub(crate) fn outlives(&self) -> bool {
        !matches!(self, Self::Memory(_))
    }

    pub(super) async fn close(self) -> Result<(), CliError> {
        match self {
            // Its connections close when their agents are gone; nothing waits here.
            Self::Daemon { .. } => Ok(()),
            Self::Nats(place) => place.close().await,
            Self::Disk(bus) => Ok(bus.shut_down().await?),
            Self::Memory(bus) => Ok(bus.close().await?),
        }
    }
}

/// Opens the data home's bus on a thread of its own: it reads back all that is kept.
#[expect(clippy::disallowed_methods, reason = "the command line is one of the places that spawn")]
pub(crate) async fn open_disk(options: DiskOptions) -> bus_core::Result<DiskBus> {
    let opened = tokio::task::spawn_blocking(|| DiskBus::open(options)).await;
    opened.unwrap_or_else(|error| {
        let detail = "the journal's reader broke";
        Err(bus_core::Error::new(ErrorKind::Unavailable, "open", detail).because(error))
    })
}

/// How the data home's bus is opened.
pub(crate) fn disk_options(
    paths: &Paths,
    global: &Global,
    sync: SyncMode,
    clock: &Arc<dyn Clock>,
) -> DiskOptions {
    let mut options = DiskOptions::new(&paths.bus);
    options.sync = match sync {
        SyncMode::Always => Sync::Always,
        SyncMode::Every(interval) => Sync::Interval(interval),
    };
    options.limits = global.config.limits();
    options.clock = Arc::clone(clock);
    options
}

/// Declares the streams of a workspace.
pub(crate) async fn declare(bus: &dyn Engine, workspace: &Workspace) -> Result<(), CliError> {
    for stream in planes::workspace_streams(workspace.name())? {
        bus.declare(stream).await?;
    }
    bus.declare(planes::recordings(workspace.name())?).await?;
    Ok(())
}

/// Whether another process has the data home.
pub(crate) fn is_taken(error: &bus_core::Error) -> bool {
    error.kind() == ErrorKind::Conflict
}

/// The failure to open the data home's bus, with what to do about it.
pub(crate) fn cannot_open(error: bus_core::Error) -> CliError {
    let next = match error.kind() {
        _ if is_taken(&error) => "wait for that process to end, or use its daemon",
        ErrorKind::Corrupt => "put back a backup, or move the directory away: it is kept as it is",
        _ => "name a directory of yours with --data-dir, or keep nothing with --memory",
    };
    CliError::from(error).next(next)
}

/// How long the data home is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// How soon a daemon notices a new workspace.
const NOTICED_WITHIN: Duration = Duration::from_secs(10);
