//! `vakbus auth serve`: decides about whoever comes to the servers without a token.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use bus_core::{Admission, Roster, SystemClock};
use bus_crypto::PublicKey;
use bus_nats::{
    NatsBus,
    callout::{Callout, CalloutWorkspace},
};
use bus_subjects::WorkspaceId;
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::{
    args::Global,
    commands::up::{notify, signals::Asks},
    engine::{self, NatsPlace},
    error::{CliError, Exit},
    home::{Home, State},
    operator::{Operator, all_workspaces},
    print,
    workspace::Workspace,
};

/// Runs one instance until it is told to stop.
pub(super) fn run(home: &Home, global: &Global) -> Result<Exit, CliError> {
    let operator = Operator::needed(home)?;
    let place = super::place(home, global)?;
    engine::block_on(async {
        let mut asks = Asks::new();
        // What the servers know of the workspaces may be older than what is here.
        let servers = place.claims(&operator).await?;
        let pushed = operator.push_all(&servers, &all_workspaces(home)?).await;
        // What one workspace lacks is told again when it is to be served.
        if let Err(error) = pushed {
            print::remark(&error.as_warning());
        }
        servers.close().await?;
        let members = Members::default();
        let find = members.clone();
        let admission = Admission::new(Arc::new(SystemClock::new()))
            .finding(move |nkey| find.certificate_of(nkey));
        let callout = place.callout(&operator, admission.clone()).await?;
        let broken = BTreeMap::new();
        let mut halls =
            Halls { home, operator: &operator, place: &place, members, admission, broken };
        halls.begin(&callout).await?;
        ready(&halls, global)?;
        let ran = tokio::select! {
            ran = callout.run(asks.stop()) => ran,
            never = halls.look_after(&callout) => match never {},
        };
        notify::tell("STOPPING=1");
        stopped(&callout, global)?;
        drop(callout);
        let closed = place.close().await;
        ran?;
        closed.map(|()| Exit::Done)
    })
}

/// The workspaces into which users are admitted.
struct Halls<'a> {
    home: &'a Home,
    operator: &'a Operator,
    place: &'a NatsPlace,
    members: Members,
    admission: Admission,
    /// Workspaces that cannot be served, and when that was tried last.
    broken: BTreeMap<WorkspaceId, Instant>,
}

/// Who is known of each workspace. A clone is the same.
#[derive(Clone, Default)]
struct Members(Arc<Mutex<BTreeMap<WorkspaceId, Hall>>>);

/// One workspace.
struct Hall {
    workspace: Workspace,
    /// What tells it from a later one of its name.
    state: Option<State>,
    /// Whom its account certified, here and on other machines, and whom it took back.
    roster: Arc<Roster>,
    /// Where that is read.
    bus: NatsBus,
    /// The revoked keys that the admission knows.
    revoked: HashSet<String>,
    /// When its files of revocations were changed last, as they were read.
    read: Option<SystemTime>,
}

impl Halls<'_> {
    /// Serves what can be served. What else there is is told, and tried again.
    ///
    /// # Errors
    /// When there is nothing but that.
    async fn begin(&mut self, callout: &Callout) -> Result<(), CliError> {
        match self.look(callout).await {
            Err(error) if self.members.lock().is_empty() => Err(error),
            Err(error) => {
                print::remark(&error.as_warning());
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Notices workspaces that came or went, and keys that were revoked. What is wrong with one
    /// workspace keeps neither another from being served nor its revocations back.
    ///
    /// # Errors
    /// The first that went wrong, after everything else was done.
    async fn look(&mut self, callout: &Callout) -> Result<(), CliError> {
        let listed = Workspace::list(self.home);
        if let Ok(names) = &listed {
            self.leave_outdated(names, callout).await;
        }
        // Before servers are waited for.
        let mut first = self.members.refresh(&self.admission);
        for name in listed? {
            let tried = self.broken.get(&name).is_some_and(|at| at.elapsed() < TRIED_EVERY);
            if tried || self.members.lock().contains_key(&name) {
                continue;
            }
            let served = self.serve(&name, callout).await;
            match &served {
                Ok(()) => self.broken.remove(&name),
                Err(_) => self.broken.insert(name, Instant::now()),
            };
            first = first.and(served);
        }
        first
    }

    async fn leave_outdated(&mut self, names: &[WorkspaceId], callout: &Callout) {
        self.broken.retain(|name, _| names.contains(name));
        for name in self.members.outdated(self.home, names) {
            callout.leave(&name);
            self.admission.distrust(&name);
            let left = self.members.lock().remove(&name);
            if let Some(hall) = left {
                close(&hall.bus).await;
            }
        }
    }

    /// Looks again and again; what goes wrong is told once for each time that it begins.
    async fn look_after(&mut self, callout: &Callout) -> std::convert::Infallible {
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = None;
        loop {
            looks.tick().await;
            let wrong = self.look(callout).await.err().map(|error| error.as_warning());
            if let Some(wrong) = wrong.as_ref().filter(|wrong| told.as_ref() != Some(*wrong)) {
                print::remark(wrong);
            }
            // What is tried again later is not over until it is served.
            if wrong.is_some() || self.broken.is_empty() {
                told = wrong;
            }
        }
    }

    async fn serve(&self, name: &WorkspaceId, callout: &Callout) -> Result<(), CliError> {
        let state = Workspace::state_of(self.home, name);
        let workspace = Workspace::open(self.home, name)?;
        self.place.introduce(self.operator, &workspace).await?;
        let (bus, roster) = self.place.members(&workspace, Operator::CALLOUT_USER).await?;
        let kept = bus.clone();
        let mut hall = Hall { workspace, state, roster, bus, revoked: HashSet::new(), read: None };
        let opened = hall.open(callout, &self.admission);
        if opened.is_err() {
            // It reads on until then.
            close(&kept).await;
        }
        opened?;
        let account = *hall.workspace.account();
        self.members.lock().insert(name.clone(), hall);
        self.admission.trust(name.clone(), account);
        tracing::info!(workspace = %name, "users are admitted");
        Ok(())
    }
}

impl Members {
    /// The certificate of a key, in whichever workspace it is.
    fn certificate_of(&self, nkey: &PublicKey) -> Option<String> {
        let rosters: Vec<_> = self.lock().values().map(|hall| Arc::clone(&hall.roster)).collect();
        only_certificate(&rosters, nkey)
    }

    /// Has `admission` know every key that was revoked.
    ///
    /// # Errors
    /// The first that went wrong, after all others were read.
    fn refresh(&self, admission: &Admission) -> Result<(), CliError> {
        let mut first = Ok(());
        for hall in self.lock().values_mut() {
            first = first.and(hall.refresh(admission));
        }
        first
    }

    /// Those that are there no more, or in whose place another one is.
    fn outdated(&self, home: &Home, names: &[WorkspaceId]) -> Vec<WorkspaceId> {
        let halls = self.lock();
        let is_outdated = |name: &WorkspaceId, hall: &Hall| {
            !names.contains(name) || hall.state != Workspace::state_of(home, name)
        };
        let outdated = halls.iter().filter(|(name, hall)| is_outdated(name, hall));
        outdated.map(|(name, _)| name.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<WorkspaceId, Hall>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hall {
    /// Has `callout` admit its members, once everybody is known who was revoked.
    fn open(&mut self, callout: &Callout, admission: &Admission) -> Result<(), CliError> {
        self.refresh(admission)?;
        let (account, signer) = (*self.workspace.account(), self.workspace.signer()?);
        let tickets = Arc::new(self.bus.clone());
        let served = CalloutWorkspace { account, signer, tickets };
        Ok(callout.serve(self.workspace.name().clone(), served)?)
    }

    /// Has `admission` know every key that was revoked here or on another machine, also when some
    /// cannot be read.
    fn refresh(&mut self, admission: &Admission) -> Result<(), CliError> {
        let changed = self.workspace.revocations_changed();
        let mut read = Ok(());
        if changed.is_some() && changed != self.read {
            read = self.workspace.revoke_in(&self.roster);
            let settled = |at: &SystemTime| at.elapsed().is_ok_and(|age| age >= SETTLED_AFTER);
            self.read = changed.filter(|at| read.is_ok() && settled(at));
        }
        for key in self.roster.all_revoked() {
            if self.revoked.contains(&key) {
                continue;
            }
            match PublicKey::parse(&key) {
                Ok(nkey) => admission.revoke(self.workspace.name(), nkey),
                Err(error) => read = read.and(Err(error.into())),
            }
            self.revoked.insert(key);
        }
        read
    }
}

/// The certificate of a key in one of `rosters`; none of a key that is in several: else one
/// workspace would say where the members of another come in.
fn only_certificate(rosters: &[Arc<Roster>], nkey: &PublicKey) -> Option<String> {
    let signer = nkey.text();
    let mut found = rosters.iter().filter_map(|roster| roster.find(&signer));
    let certificate = found.next()?;
    if found.next().is_some() {
        tracing::warn!(key = %signer, "several workspaces certify one key: it is not admitted");
        return None;
    }
    Some(certificate.token().to_owned())
}

/// Ends a connection that nobody uses any more.
async fn close(bus: &NatsBus) {
    if let Err(error) = bus_core::Bus::close(bus).await {
        tracing::info!(%error, "the connection to a workspace did not end well");
    }
}

/// Tells who started it that it admits.
fn ready(halls: &Halls<'_>, global: &Global) -> Result<(), CliError> {
    let names: Vec<String> =
        halls.members.lock().keys().map(|name| name.as_str().to_owned()).collect();
    let (pid, url) = (std::process::id(), halls.place.url());
    if global.json {
        print::json(&json!({ "ready": true, "pid": pid, "servers": url, "workspaces": names }))?;
    } else {
        let names = names.join(", ");
        print::line(&format!("ready: pid {pid}, servers {url}, workspaces {names}"))?;
    }
    notify::tell("READY=1");
    Ok(())
}

fn stopped(callout: &Callout, global: &Global) -> Result<(), CliError> {
    let stats = callout.stats();
    if global.json {
        return print::json(&json!({
            "stopped": true,
            "asked": stats.asked,
            "admitted": stats.admitted,
            "refused": stats.refused,
            "unanswered": stats.garbage + stats.late,
        }));
    }
    let (admitted, refused) = (stats.admitted, stats.refused);
    print::remark(&format!("stopped: {admitted} admitted, {refused} refused"));
    Ok(())
}

/// How often new workspaces and revocations are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How often it is tried to serve a workspace that cannot be served.
const TRIED_EVERY: Duration = Duration::from_secs(5);

/// How old a directory's time has to be before it tells changes apart: clocks of file systems tick,
/// and two changes within one tick have the same time.
const SETTLED_AFTER: Duration = Duration::from_secs(4);

#[cfg(test)]
mod tests;
