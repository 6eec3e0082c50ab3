//! The workspaces that a daemon serves: each has its streams, and its account says who comes in.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, SystemTime},
};

use bus_core::Engine;
use bus_link::Admission;
use bus_subjects::WorkspaceId;

use super::registrar::Registrar;
use crate::{
    engine::{NatsPlace, declare},
    error::{CliError, Exit},
    home::{Home, State},
    print as out,
    workspace::Workspace,
};

/// What is served, as far as it was noticed.
pub(super) struct Grounds {
    home: Home,
    site: Site,
    served: BTreeMap<WorkspaceId, Served>,
    /// Workspaces that are not served, each told once, and whether their keys could be read: one
    /// whose keys could not is looked at again until they can.
    broken: HashMap<WorkspaceId, bool>,
    /// What went wrong the last time.
    told: Option<String>,
}

/// Where the workspaces are.
pub(super) enum Site {
    /// On one engine of this machine, which lets in whom this process admits.
    Own(Arc<dyn Engine>, Admission),
    /// On NATS servers, each workspace in accounts of its own.
    Servers(Box<NatsPlace>, Box<Registrar>),
}

/// One workspace that is served.
struct Served {
    workspace: Workspace,
    engine: Arc<dyn Engine>,
    /// What tells it from a later one of its name.
    state: Option<State>,
    /// When its revocations were changed last, as they were read; none when they are to be read
    /// again in any case.
    revoked: Option<SystemTime>,
}

impl Grounds {
    pub(super) fn new(home: Home, site: Site) -> Self {
        Self { home, site, served: BTreeMap::new(), broken: HashMap::new(), told: None }
    }

    /// The names of the workspaces.
    pub(super) fn names(&self) -> Vec<&str> {
        self.served.keys().map(WorkspaceId::as_str).collect()
    }

    /// The workspaces, each with the engine that it is on.
    pub(super) fn engines(&self) -> Vec<(WorkspaceId, Arc<dyn Engine>)> {
        let engine = |served: &Served| Arc::clone(&served.engine);
        self.served.iter().map(|(name, served)| (name.clone(), engine(served))).collect()
    }

    /// Has everything be read anew, whatever the times of the files say.
    pub(super) fn forget_times(&mut self) {
        self.broken.clear();
        for served in self.served.values_mut() {
            served.revoked = None;
        }
    }

    /// Notices workspaces that came or went, and keys that were revoked.
    pub(super) async fn refresh(&mut self) -> Result<(), CliError> {
        // A server that is told of a workspace lets its keeper in.
        let told = match &mut self.site {
            Site::Own(..) => Ok(()),
            Site::Servers(place, registrar) => registrar.look(place).await,
        };
        let names = Workspace::list(&self.home)?;
        let gone: Vec<WorkspaceId> =
            self.served.keys().filter(|name| !names.contains(name)).cloned().collect();
        for name in gone {
            self.distrust(&name);
            self.served.remove(&name);
        }
        // One that was made again has another account, which takes the place of the former.
        let home = &self.home;
        self.served.retain(|name, served| served.state == Workspace::state_of(home, name));
        for name in names {
            if !self.served.contains_key(&name) && self.may_be_served(&name) {
                match self.serve(&name).await {
                    Ok(()) => self.tell_mended(&name),
                    // That is nobody's damage, and may be over the next time.
                    Err(error) if is_away(&error) => return Err(error),
                    // One that is damaged must not keep the others from being served.
                    Err(error) => self.note_broken(name, &error),
                }
            }
        }
        self.broken.retain(|name, _| Workspace::state_of(&self.home, name).is_some());
        // What is wrong with one workspace keeps no revocation of another back.
        let mut first = Ok(());
        for served in self.served.values_mut() {
            first = first.and(served.refresh(&mut self.site).await);
        }
        told.and(first)
    }

    /// As [`Grounds::refresh`]; what goes wrong is told, and tried again the next time.
    pub(super) async fn refresh_or_warn(&mut self) {
        let wrong = self.refresh().await.err().map(|error| error.as_warning());
        // The same trouble is told once.
        if let Some(wrong) = wrong.as_ref().filter(|wrong| self.told.as_ref() != Some(wrong)) {
            out::remark(wrong);
        }
        self.told = wrong;
    }

    /// Whether it makes sense to try: a workspace whose keys cannot be read still is no other.
    fn may_be_served(&self, name: &WorkspaceId) -> bool {
        match self.broken.get(name) {
            None => true,
            Some(was_readable) => !was_readable && Workspace::open(&self.home, name).is_ok(),
        }
    }

    fn note_broken(&mut self, name: WorkspaceId, error: &CliError) {
        self.distrust(&name);
        let is_readable = Workspace::open(&self.home, &name).is_ok();
        if self.broken.insert(name.clone(), is_readable).is_none() {
            out::remark(&error.as_warning());
            out::remark(&match is_readable {
                true => format!("workspace {name} is not served; SIGHUP has it looked at again"),
                false => format!("workspace {name} is not served until its key can be read"),
            });
        }
    }

    fn tell_mended(&mut self, name: &WorkspaceId) {
        if self.broken.remove(name).is_some() {
            out::remark(&format!("workspace {name} is served again"));
        }
    }

    fn distrust(&self, name: &WorkspaceId) {
        if let Site::Own(_, admission) = &self.site {
            admission.distrust(name);
        }
    }

    async fn serve(&mut self, name: &WorkspaceId) -> Result<(), CliError> {
        let state = Workspace::state_of(&self.home, name);
        let workspace = Workspace::open(&self.home, name)?;
        // Those of agents that were made before certificates were kept. What is not kept today is
        // missed only once the agent is gone, so it keeps nobody out.
        if let Err(error) = workspace.keep_certificates() {
            out::remark(&error.as_warning());
        }
        // What comes after this is told to servers by itself.
        let changed = workspace.revocations_changed();
        let engine = self.site.engine(&workspace).await?;
        let mut served = Served { workspace, engine, state, revoked: None };
        if let Site::Own(_, admission) = &self.site {
            let admission = admission.clone();
            // Before anybody is let in.
            served.refresh(&mut self.site).await?;
            admission.trust(name.clone(), *served.workspace.account());
        } else {
            // The servers were told of them with the workspace.
            served.revoked = changed.filter(is_settled);
        }
        tracing::info!(workspace = %name, "workspace served");
        self.served.insert(name.clone(), served);
        Ok(())
    }
}

impl Site {
    /// The engine that a workspace is on, with everything that it needs there.
    async fn engine(&mut self, workspace: &Workspace) -> Result<Arc<dyn Engine>, CliError> {
        match self {
            Self::Own(engine, _) => {
                declare(&**engine, workspace).await?;
                Ok(Arc::clone(engine))
            }
            Self::Servers(place, registrar) => {
                registrar.introduce(place, workspace).await?;
                let bus = place.house(workspace.name(), KEEPER).await?;
                place.declare(&bus, workspace).await?;
                registrar.learn(place, &bus, workspace).await?;
                Ok(Arc::new(bus))
            }
        }
    }
}

impl Served {
    async fn refresh(&mut self, site: &mut Site) -> Result<(), CliError> {
        let changed = self.workspace.revocations_changed();
        if changed.is_some() && changed == self.revoked {
            return Ok(());
        }
        if changed.is_none() && matches!(site, Site::Servers(..)) {
            return Ok(());
        }
        match site {
            Site::Own(_, admission) => self.workspace.each_revoked(|revocation| {
                admission.revoke(self.workspace.name(), revocation.nkey);
                Ok(())
            })?,
            Site::Servers(place, registrar) => registrar.revoke(place, &self.workspace).await?,
        }
        self.revoked = changed.filter(is_settled);
        Ok(())
    }
}

/// Whether a directory changed so long ago that a later change has another time.
fn is_settled(at: &SystemTime) -> bool {
    at.elapsed().is_ok_and(|age| age >= SETTLED_AFTER)
}

/// Whether servers are not reached, or let this process do nothing.
fn is_away(error: &CliError) -> bool {
    matches!(error.code(), Exit::Unreachable | Exit::Refused | Exit::Timeout | Exit::Unknown)
}

/// As whom it connects.
const KEEPER: &str = "keeper";

/// How old a directory's time has to be before it tells changes apart: clocks of file systems tick,
/// and two changes within one tick have the same time.
const SETTLED_AFTER: Duration = Duration::from_secs(4);

#[cfg(test)]
mod tests;
