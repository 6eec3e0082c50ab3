//! Where a swarm works: on NATS servers, with the daemon of the data home, else in its own memory.

use std::{path::PathBuf, sync::Arc};

use bus_core::{Engine, Identity, Roster, planes};
use bus_link::{LinkBus, LinkOptions};
use bus_mem::InMemoryBus;
use bus_otel::System;
use bus_subjects::{AgentId, Role, RoleName};

use super::VALID_FOR;
use crate::{
    args::Global,
    engine::{NatsPlace, Paths, Scope},
    error::CliError,
    home::Home,
    secrets::Secrets,
    workspace::{Part, Workspace},
};

/// Where a run is to work.
pub(super) enum Site {
    /// In its own memory.
    Own,
    /// With the daemon at this socket.
    Daemon(PathBuf),
    /// On NATS servers.
    Nats(NatsPlace),
}

/// The engine of a run.
pub(super) enum Ground {
    /// One of its own, which ends with it.
    Own(InMemoryBus),
    /// A daemon's, at this socket.
    Daemon(PathBuf),
    /// That of NATS servers.
    Nats(NatsPlace),
}

/// An agent's identity, twice: for who signs and for who connects.
pub(super) struct Twins {
    pub(super) signing: Identity,
    connecting: Option<Identity>,
}

impl Site {
    /// NATS servers that are named or run for the data home, else its daemon, else its own.
    ///
    /// # Errors
    /// As [`NatsPlace::find`].
    pub(super) fn find(global: &Global, home: &Home, secrets: &Secrets) -> Result<Self, CliError> {
        if let Some(place) = NatsPlace::find(global, home, secrets)? {
            return Ok(Self::Nats(place));
        }
        let paths = Paths::new(global, home);
        match !global.memory && paths.is_served() {
            true => Ok(Self::Daemon(paths.socket)),
            false => Ok(Self::Own),
        }
    }
}

impl Ground {
    /// Whose messages they are, as spans tell it.
    pub(super) fn system(&self) -> System {
        match self {
            Self::Nats(_) => System::Nats,
            Self::Own(_) | Self::Daemon(_) => System::Vakbus,
        }
    }

    /// The queue of a run where others are: no worker takes its tasks but its own and those that
    /// joined it.
    pub(super) fn queue(run_id: &str) -> Result<RoleName, CliError> {
        Ok(RoleName::parse(&format!("swarm-{run_id}"))?)
    }

    /// Makes an agent. In a run's own memory it has a name and a certificate for this run; where
    /// others are it is one of the workspace's own, whom the readers of its messages know.
    pub(super) fn agent(
        &self,
        workspace: &Workspace,
        roster: &Roster,
        (name, role): (&str, Role),
    ) -> Result<Twins, CliError> {
        let twins = match self {
            Self::Own(_) => {
                let agent = AgentId::parse(name)?;
                let signing =
                    workspace.issue(agent, vec![role], Some(VALID_FOR), Scope::default())?;
                Twins { signing, connecting: None }
            }
            Self::Daemon(_) | Self::Nats(_) => {
                let part = match role {
                    Role::Worker => Part::Worker,
                    Role::Keeper => Part::Recorder,
                    _ => Part::Operator,
                };
                let agent = workspace.actor(None, part)?;
                let connecting = Some(workspace.identity(&agent)?);
                Twins { signing: workspace.identity(&agent)?, connecting }
            }
        };
        roster.admit(twins.signing.certificate().token())?;
        Ok(twins)
    }

    /// A connection for an agent.
    pub(super) async fn connect(
        &self,
        twins: &mut Twins,
        scope: &Scope,
        ground: (&Workspace, &Arc<Roster>),
    ) -> Result<Arc<dyn Engine>, CliError> {
        match (self, twins.connecting.take()) {
            (Self::Daemon(socket), Some(identity)) => {
                let link = LinkBus::connect(socket, identity, LinkOptions::default()).await?;
                Ok(Arc::new(link))
            }
            (Self::Nats(place), Some(identity)) => place.connect(&identity, scope, ground).await,
            (Self::Own(bus), _) => Ok(Arc::new(bus.connect())),
            (Self::Daemon(_) | Self::Nats(_), None) => {
                Err(CliError::usage("an agent connects once for each identity"))
            }
        }
    }

    /// Declares the workspace's streams where nobody else does.
    pub(super) async fn declare(&self, workspace: &Workspace) -> Result<(), CliError> {
        let Self::Own(bus) = self else { return Ok(()) };
        let engine: Arc<dyn Engine> = Arc::new(bus.connect());
        for stream in planes::workspace_streams(workspace.name())? {
            engine.declare(stream).await?;
        }
        Ok(())
    }
}
