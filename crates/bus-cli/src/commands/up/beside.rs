//! Which chores a daemon begins, on an engine of its own and on servers.

use std::sync::Arc;

use bus_core::{Clock, SystemClock};

use super::{
    audit,
    auditors::Auditors,
    chores::Chores,
    grounds::Grounds,
    hooks::Hooks,
    hub::{self, Carrying, Hub},
    watching,
};
use crate::{
    args::Global,
    engine::{NatsPlace, Paths, Scope},
    error::CliError,
    home::Home,
    secrets::Secrets,
};

/// A daemon, as far as its chores need to know.
#[derive(Clone, Copy)]
pub(super) struct Daemon<'a> {
    pub(super) global: &'a Global,
    pub(super) home: &'a Home,
    pub(super) paths: &'a Paths,
    /// Whether it has metrics to show.
    pub(super) is_asked: bool,
}

impl Daemon<'_> {
    /// Begins the chores of a daemon that has the engine itself; `carrying` is begun already.
    pub(super) fn on_its_own(
        &self,
        grounds: &Grounds,
        (carrying, hooks): (Option<Carrying>, Hooks),
        clock: Arc<dyn Clock>,
    ) -> Chores {
        let chores = Chores::new(grounds, carrying);
        self.begin(chores, hooks, clock, None)
    }

    /// Begins the chores of a daemon on servers: among them the courier to a hub that is named,
    /// with a connection of its own here; without one it tells what waits.
    ///
    /// # Errors
    /// When the courier cannot begin.
    pub(super) async fn on_servers(
        &self,
        (hub, hooks): (Option<Hub>, Hooks),
        place: &NatsPlace,
        grounds: &Grounds,
    ) -> Result<Chores, CliError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let carrying = match hub {
            Some(hub) => {
                let scope = Scope::default();
                let engine = place.connect(&hub.identity()?, &scope, hub.ground()).await?;
                Some(hub.carry(engine, Arc::clone(&clock)).await?)
            }
            None => {
                hub::tell_waiting(grounds.engines()).await;
                None
            }
        };
        let chores = Chores::new(grounds, carrying);
        Ok(self.begin(chores, hooks, clock, Some(place)))
    }

    fn begin(
        &self,
        mut chores: Chores,
        hooks: Hooks,
        clock: Arc<dyn Clock>,
        place: Option<&NatsPlace>,
    ) -> Chores {
        let Self { global, home, paths, is_asked } = self;
        let secrets = Secrets::new(&global.config, home);
        let bus = match place {
            None => OWN_BUS.to_owned(),
            Some(place) if place.is_kept_here() => OWN_SERVER.to_owned(),
            Some(place) => place.url(),
        };
        // A bus that keeps nothing has nothing to audit.
        if !global.memory {
            audit::start(&mut chores, home, &clock);
        }
        let served = chores.served();
        let place = place.cloned();
        let auditors = Auditors::new((*home).clone(), secrets.clone(), clock, place, served);
        if *is_asked {
            watching::start(&mut chores, &auditors);
        }
        hooks.start((&mut chores, &auditors), (&paths.run, &bus), &secrets);
        chores
    }
}

/// What tells this machine's own engine from servers.
const OWN_BUS: &str = "own";

/// What tells the server that this data directory keeps from others, wherever it listens.
const OWN_SERVER: &str = "own-server";
