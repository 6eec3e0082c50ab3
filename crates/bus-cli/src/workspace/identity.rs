//! The identities that commands act as: one that was named, or the workspace's own.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use bus_core::{Certificate, Identity, Roster};
use bus_crypto::creds;
use bus_subjects::{AgentId, Role, WorkspaceId};

use super::{Workspace, certificates, damaged};
use crate::{
    engine::Scope,
    error::CliError,
    home::{Home, State},
};

/// What a command does, which says as whom it acts when nobody is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// Hands out and steers work: as `cli`, an operator.
    Operator,
    /// Takes tasks and reports on its session: as `cli-worker`, a worker.
    ///
    /// It is another one than the operator, because a worker may never hand out tasks.
    Worker,
    /// Carries what waits for a hub: as `cli-courier`, a keeper.
    Courier,
    /// Reads what is kept, vouches for it, and hands out nothing: as `cli-auditor`, an auditor.
    Auditor,
    /// Hears sessions and keeps what they say: as `cli-recorder`, a keeper and observer.
    Recorder,
}

impl Part {
    /// What the workspace's own agent for it is called.
    pub(crate) const fn name(self) -> &'static str {
        self.own().0
    }

    const fn own(self) -> (&'static str, Role) {
        match self {
            Self::Operator => ("cli", Role::Operator),
            Self::Worker => ("cli-worker", Role::Worker),
            Self::Courier => ("cli-courier", Role::Keeper),
            Self::Auditor => ("cli-auditor", Role::Auditor),
            Self::Recorder => ("cli-recorder", Role::Keeper),
        }
    }

    /// What it is beside that.
    const fn also(self) -> Option<Role> {
        match self {
            Self::Recorder => Some(Role::Observer),
            _ => None,
        }
    }
}

impl Workspace {
    /// The agent `named`, or the workspace's own for `part`, which is made when it is first needed.
    ///
    /// # Errors
    /// When the named one does not exist, was revoked or is damaged; when the own one cannot be
    /// made.
    pub(crate) fn actor(&self, named: Option<&AgentId>, part: Part) -> Result<AgentId, CliError> {
        if let Some(name) = named {
            return match self.has_agent(name) {
                true => Ok(name.clone()),
                false => {
                    let what = format!("there is no agent {name} in workspace {}", self.name);
                    Err(CliError::usage(what).next(format!("vakbus agent add {name} --role …")))
                }
            };
        }
        let (name, role) = part.own();
        let name = AgentId::parse(name)?;
        if !self.has_agent(&name) {
            let roles = std::iter::once(role).chain(part.also()).collect();
            match self.add_agent(name.clone(), roles, None, Scope::default()) {
                // Another process made it at the same moment: that one counts.
                Err(_) if self.has_agent(&name) => {}
                made => drop(made?),
            }
        }
        Ok(name)
    }

    /// The key and certificate of `agent`, read anew with each call.
    ///
    /// # Errors
    /// When its file cannot be read, is damaged or is not of this workspace.
    pub(crate) fn identity(&self, agent: &AgentId) -> Result<Identity, CliError> {
        let (agents, file) = (self.dir.below("agents"), format!("{agent}.creds"));
        // It holds the certificate to the workspace and the revocations.
        self.agent(&agents, agent.as_str())?;
        let text = agents.read(&file)?;
        let credentials = creds::parse(&text).map_err(|error| damaged(&agents, &file, error))?;
        let (token, key) = credentials.into_parts();
        let identity = Identity::from_parts(key, &token);
        identity.map_err(|error| damaged(&agents, &file, error))
    }

    /// A roster of the workspace's agents that also finds those who are added later, and knows
    /// those who are gone for what they signed before.
    ///
    /// # Errors
    /// As [`Workspace::roster`].
    pub(crate) fn living_roster(&self) -> Result<Roster, CliError> {
        let (agents, kept) = (self.dir.below("agents"), self.certificates_dir());
        let known = Mutex::new(Known::new());
        let roster = self.roster()?.finding(move |signer| find(&agents, &known, signer));
        Ok(roster.keeping(move |signer| certificates::kept(&kept, signer)))
    }

    /// Whether it was made, or an agent added or removed, less than `age` ago.
    pub(crate) fn is_younger_than(&self, age: Duration) -> bool {
        let changed = std::fs::metadata(self.dir.path()).and_then(|meta| meta.modified());
        changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|passed| passed < age))
    }

    /// What tells the workspace `name` from a later one of its name; none when there is none.
    pub(crate) fn state_of(home: &Home, name: &WorkspaceId) -> Option<State> {
        Self::dir(home, name).state("account.nk")
    }

    /// When its revocations were changed last; none as long as there is none.
    pub(crate) fn revocations_changed(&self) -> Option<SystemTime> {
        std::fs::metadata(self.revocations_dir().path()).and_then(|meta| meta.modified()).ok()
    }

    /// Whether it has an agent of this name.
    pub(crate) fn has_agent(&self, name: &AgentId) -> bool {
        self.dir.below("agents").below(&format!("{name}.creds")).exists()
    }
}

/// The certificate of `signer` among the agents' files. One that cannot be read hides no other.
///
/// Whoever is not found is looked for in the same files only when one of them has changed.
///
/// # Errors
/// When the files cannot be listed, or one that may be the signer's cannot be read.
fn find(agents: &Home, known: &Mutex<Known>, signer: &str) -> Result<Option<String>, String> {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    let names = agents.list(".creds").map_err(|error| error.to_string())?;
    let with_state = |name: String| {
        let state = agents.state(&format!("{name}.creds"))?;
        Some((name, state))
    };
    let files: HashSet<(String, State)> = names.into_iter().filter_map(with_state).collect();
    // The file of an agent that was revoked is gone, and so is its word. Another file of its name
    // has another key.
    known.retain(|file, _| files.contains(file));
    let mut unread = None;
    for file in files {
        if known.contains_key(&file) {
            continue;
        }
        match certificate(agents, &file.0) {
            Ok(Some(found)) => drop(known.insert(file, found)),
            // It is nobody's.
            Ok(None) => {}
            Err(error) => unread = Some(error),
        }
    }
    let found = known.values().find(|(nkey, _)| nkey == signer).map(|(_, token)| token.clone());
    match (found, unread) {
        (None, Some(unread)) => Err(unread),
        (found, _) => Ok(found),
    }
}

/// The certificate in the file of an agent; none when it holds none, or is gone by now.
fn certificate(agents: &Home, name: &str) -> Result<Option<(String, String)>, String> {
    let file = format!("{name}.creds");
    let text = match agents.read(&file) {
        Ok(text) => text,
        Err(_) if !agents.below(&file).exists() => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let Ok(credentials) = creds::parse(&text) else { return Ok(None) };
    let token = credentials.jwt().to_owned();
    let nkey = Certificate::parse(&token).map(|certificate| certificate.nkey.text());
    Ok(nkey.ok().map(|nkey| (nkey, token)))
}

/// Public key and certificate of each agent whose file was read, by its name and state.
type Known = HashMap<(String, State), (String, String)>;

#[cfg(test)]
mod tests;
