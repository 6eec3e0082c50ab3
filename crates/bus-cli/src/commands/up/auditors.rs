//! The auditors of a daemon: in each workspace that it serves one agent that reads what is kept.

use std::{collections::BTreeMap, sync::Arc};

use bus_core::{Clock, Endpoint, Engine, Roster};
use bus_crypto::Keyring;
use bus_subjects::WorkspaceId;
use tokio::sync::{Mutex, watch};

use super::seat::seat;
use crate::{
    engine::{NatsPlace, Scope},
    error::CliError,
    home::{Home, State},
    secrets::Secrets,
    workspace::{Part, Workspace},
};

/// The workspaces that a daemon serves now, each with the engine that it is on.
pub(super) type Served = Vec<(WorkspaceId, Arc<dyn Engine>)>;

/// The auditors, made when they are first asked for. A clone has the same ones.
#[derive(Clone)]
pub(super) struct Auditors(Arc<Inner>);

struct Inner {
    home: Home,
    secrets: Secrets,
    clock: Arc<dyn Clock>,
    /// The servers that they connect to; none when the engine is this process's own.
    place: Option<NatsPlace>,
    served: watch::Receiver<Served>,
    seats: Mutex<BTreeMap<WorkspaceId, Seat>>,
}

/// One workspace's auditor.
struct Seat {
    workspace: Workspace,
    /// What tells the workspace from a later one of its name.
    state: Option<State>,
    roster: Arc<Roster>,
    keyring: Arc<Keyring>,
    endpoint: Endpoint,
}

/// The auditors that there are, and what kept the others away.
pub(super) struct Seated {
    /// One for each workspace that could be opened, by the workspace's name.
    pub(super) endpoints: Vec<Endpoint>,
    /// Why one of the others could not; the first of them.
    pub(super) trouble: Option<CliError>,
}

impl Auditors {
    pub(super) fn new(
        home: Home,
        secrets: Secrets,
        clock: Arc<dyn Clock>,
        place: Option<NatsPlace>,
        served: watch::Receiver<Served>,
    ) -> Self {
        let seats = Mutex::default();
        Self(Arc::new(Inner { home, secrets, clock, place, served, seats }))
    }

    /// Those of the workspaces that are served now. Who is there already has learned what was
    /// rotated and revoked meanwhile.
    pub(super) async fn seated(&self) -> Seated {
        let inner = &*self.0;
        let served = inner.served.borrow().clone();
        let mut seats = inner.seats.lock().await;
        seats.retain(|name, seat| {
            let state = Workspace::state_of(&inner.home, name);
            seat.state == state && served.iter().any(|(served, _)| served == name)
        });
        let mut trouble = None;
        for (name, engine) in served {
            let opened = match seats.get(&name) {
                Some(seat) => seat.renew(&inner.secrets),
                None => match inner.seat(&name, engine).await {
                    Ok(seat) => {
                        seats.insert(name, seat);
                        Ok(())
                    }
                    Err(error) => Err(error),
                },
            };
            trouble = trouble.or(opened.err());
        }
        let endpoints = seats.values().map(|seat| seat.endpoint.clone()).collect();
        Seated { endpoints, trouble }
    }
}

impl Inner {
    async fn seat(&self, name: &WorkspaceId, engine: Arc<dyn Engine>) -> Result<Seat, CliError> {
        let state = Workspace::state_of(&self.home, name);
        let workspace = Workspace::open(&self.home, name)?;
        let identity = workspace.identity(&workspace.actor(None, Part::Auditor)?)?;
        let roster = Arc::new(workspace.living_roster()?);
        let keyring = Arc::new(workspace.keyring(&self.secrets)?);
        let engine = match &self.place {
            Some(place) => {
                place.connect(&identity, &Scope::default(), (&workspace, &roster)).await?
            }
            None => engine,
        };
        let clock = Arc::clone(&self.clock);
        let endpoint = seat(engine, identity, &roster, &keyring, clock)?;
        Ok(Seat { workspace, state, roster, keyring, endpoint })
    }
}

impl Seat {
    /// Learns which secrets there are now, and which keys were taken back.
    fn renew(&self, secrets: &Secrets) -> Result<(), CliError> {
        // A secret from outside stands alone.
        if secrets.workspace_secret()?.is_none() {
            self.workspace.refresh(&self.keyring)?;
        }
        self.workspace.revoke_in(&self.roster)
    }
}
