//! The workspaces that a daemon serves: each has its streams, and its account says who comes in.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::{Duration, SystemTime},
};

use bus_core::Engine;
use bus_link::Admission;
use bus_subjects::WorkspaceId;

use crate::{
    engine::declare,
    error::CliError,
    home::{Home, State},
    print as out,
    workspace::Workspace,
};

/// What is served, as far as it was noticed.
pub(super) struct Grounds {
    home: Home,
    engine: Arc<dyn Engine>,
    /// Who is let in, where that is decided here.
    admission: Option<Admission>,
    served: BTreeMap<WorkspaceId, Served>,
    /// Workspaces that could not be opened; each is told once.
    broken: HashSet<WorkspaceId>,
}

/// One workspace that is served.
struct Served {
    workspace: Workspace,
    /// What tells it from a later one of its name.
    state: Option<State>,
    /// When its revocations were changed last, as they were read; none when they are to be read
    /// again in any case.
    revoked: Option<SystemTime>,
}

impl Grounds {
    pub(super) fn new(home: Home, engine: Arc<dyn Engine>, admission: Option<Admission>) -> Self {
        let (served, broken) = (BTreeMap::new(), HashSet::new());
        Self { home, engine, admission, served, broken }
    }

    /// The names of the workspaces.
    pub(super) fn names(&self) -> Vec<&str> {
        self.served.keys().map(WorkspaceId::as_str).collect()
    }

    /// The workspaces.
    pub(super) fn workspaces(&self) -> Vec<WorkspaceId> {
        self.served.keys().cloned().collect()
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
            if !self.served.contains_key(&name) && !self.broken.contains(&name) {
                match self.serve(&name).await {
                    Ok(()) => {}
                    // One that is damaged must not keep the others from being served.
                    Err(error) => {
                        out::remark(&error.as_warning());
                        self.distrust(&name);
                        self.broken.insert(name);
                    }
                }
            }
        }
        // What is wrong with one workspace keeps no revocation of another back.
        let Some(admission) = &self.admission else { return Ok(()) };
        self.served.values_mut().map(|served| served.refresh(admission)).fold(Ok(()), Result::and)
    }

    /// As [`Grounds::refresh`]; what goes wrong is told, and tried again the next time.
    pub(super) async fn refresh_or_warn(&mut self) {
        if let Err(error) = self.refresh().await {
            out::remark(&error.as_warning());
        }
    }

    fn distrust(&self, name: &WorkspaceId) {
        if let Some(admission) = &self.admission {
            admission.distrust(name);
        }
    }

    async fn serve(&mut self, name: &WorkspaceId) -> Result<(), CliError> {
        let state = Workspace::state_of(&self.home, name);
        let workspace = Workspace::open(&self.home, name)?;
        declare(&*self.engine, &workspace).await?;
        let mut served = Served { workspace, state, revoked: None };
        if let Some(admission) = &self.admission {
            // Before anybody is let in.
            served.refresh(admission)?;
            admission.trust(name.clone(), *served.workspace.account());
        }
        tracing::info!(workspace = %name, "workspace served");
        self.served.insert(name.clone(), served);
        Ok(())
    }
}

impl Served {
    fn refresh(&mut self, admission: &Admission) -> Result<(), CliError> {
        let changed = self.workspace.revocations_changed();
        if changed.is_some() && changed == self.revoked {
            return Ok(());
        }
        self.workspace.each_revoked(|revocation| {
            admission.revoke(revocation.nkey);
            Ok(())
        })?;
        self.revoked = changed.filter(|at| at.elapsed().is_ok_and(|age| age >= SETTLED_AFTER));
        Ok(())
    }
}

/// How old a directory's time has to be before it tells changes apart: clocks of file systems tick,
/// and two changes within one tick have the same time.
const SETTLED_AFTER: Duration = Duration::from_secs(4);

#[cfg(test)]
mod tests;
