//! A workspace on this machine: its account key, its secret and its agents.

mod accounts;
mod certificates;
mod identity;
mod keys;
mod revocations;

use std::{io, time::Duration};

use bus_core::{Certificate, Clock, Identity, Issue, SystemClock, certify};
use bus_crypto::{NkeyKind, PublicKey, SigningKey, SystemEntropy, creds};
use bus_subjects::{AgentId, Role, WorkspaceId};

use crate::{
    engine::Scope,
    error::{CliError, Exit},
    home::Home,
    print,
};

pub(crate) use self::{
    accounts::LoginFile,
    identity::Part,
    keys::{KeyStanding, NamedSecret},
};

/// An opened workspace. Keys are in memory only while this lives.
pub(crate) struct Workspace {
    name: WorkspaceId,
    dir: Home,
    account: SigningKey,
}

impl Workspace {
    /// Opens the workspace `name`, or makes it with new keys when there is none.
    pub(crate) fn open_or_new(home: &Home, name: &WorkspaceId) -> Result<Self, CliError> {
        // Says what is wrong with the place before anything is looked for there.
        home.below("workspaces").create()?;
        if Self::dir(home, name).exists() {
            return Self::open(home, name);
        }
        match Self::new(home, name) {
            // Somebody else made it at the same moment: theirs counts.
            Err(_) if Self::dir(home, name).exists() => Self::open(home, name),
            made => made,
        }
    }

    /// Makes the workspace `name` with a new account key and a new secret.
    pub(crate) fn new(home: &Home, name: &WorkspaceId) -> Result<Self, CliError> {
        let dir = Self::dir(home, name);
        let all = home.below("workspaces");
        all.create()?;
        if dir.exists() {
            let what = format!("workspace {name} exists already");
            return Err(
                CliError::usage(what).next(format!("vakbus workspace show --workspace {name}"))
            );
        }
        let entropy = SystemEntropy::new();
        // Complete or not there at all: it is made beside its place and moved there at once.
        let draft = all.draft()?;
        draft.dir().create()?;
        let account = SigningKey::generate(NkeyKind::Account, &entropy)?;
        draft.dir().write_new("account.nk", &account.seed_text())?;
        Self::first_secret(draft.dir())?;
        draft.dir().below("agents").create()?;
        let moved = std::fs::rename(draft.path(), dir.path()).and_then(|()| all.sync());
        moved.map_err(|error| {
            let what = match error.kind() {
                io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty => {
                    format!("workspace {name} exists already")
                }
                _ => format!("cannot create {}: {error}", dir.path().display()),
            };
            CliError::new(Exit::Failed, what)
        })?;
        Ok(Self { name: name.clone(), dir, account })
    }

    /// Opens the workspace `name`.
    pub(crate) fn open(home: &Home, name: &WorkspaceId) -> Result<Self, CliError> {
        let dir = Self::dir(home, name);
        if !dir.exists() {
            let what = format!("there is no workspace {name} in {}", home.path().display());
            return Err(
                CliError::new(Exit::Failed, what).next(format!("vakbus workspace new {name}"))
            );
        }
        dir.check()?;
        let seed = dir.read("account.nk")?;
        let account = SigningKey::from_seed_text(seed.trim_end())
            .map_err(|e| damaged(&dir, "account.nk", e))?;
        if account.public().kind() != NkeyKind::Account {
            return Err(damaged(&dir, "account.nk", "not an account's key"));
        }
        Ok(Self { name: name.clone(), dir, account })
    }

    /// The names of all workspaces below `home`.
    pub(crate) fn list(home: &Home) -> Result<Vec<WorkspaceId>, CliError> {
        let names = home.below("workspaces").list("")?;
        Ok(names.iter().filter_map(|name| WorkspaceId::parse(name).ok()).collect())
    }

    /// Its name.
    pub(crate) fn name(&self) -> &WorkspaceId {
        &self.name
    }

    /// Where it is kept.
    pub(crate) fn path(&self) -> &std::path::Path {
        self.dir.path()
    }

    /// The public key that certifies its agents.
    pub(crate) fn account(&self) -> &PublicKey {
        self.account.public()
    }

    /// Its account key, for who signs the users of its servers.
    pub(crate) fn account_key(&self) -> &SigningKey {
        &self.account
    }

    /// Makes an identity that lives in memory only. `scope` narrows its rights at a server.
    pub(crate) fn issue(
        &self,
        agent: AgentId,
        roles: Vec<Role>,
        valid_for: Option<Duration>,
        Scope { session, queue }: Scope,
    ) -> Result<Identity, CliError> {
        let mut issue = Issue::new(self.name.clone(), agent, roles, SystemClock::new().now());
        issue.valid_for = valid_for;
        issue.session = session;
        issue.role_name = queue;
        issue.permissions = self.permissions(&issue)?;
        let identity = Identity::issue(&self.account, &issue, &SystemEntropy::new())?;
        if identity.certificate().token().len() <= CERTIFICATE_BYTES_MAX {
            return Ok(identity);
        }
        // It is shown at every door, and some take no longer one; a login is made when needed.
        issue.permissions = None;
        let token = certify(&self.account, identity.key().public(), &issue)?;
        let key = SigningKey::from_seed_text(&identity.key().seed_text())?;
        Ok(Identity::from_parts(key, &token)?)
    }

    /// Makes an agent's key and certificate and keeps them as a credentials file.
    pub(crate) fn add_agent(
        &self,
        agent: AgentId,
        roles: Vec<Role>,
        valid_for: Option<Duration>,
        scope: Scope,
    ) -> Result<Certificate, CliError> {
        let agents = self.dir.below("agents");
        agents.create()?;
        let file = format!("{agent}.creds");
        if agents.below(&file).exists() {
            let what = format!("agent {agent} exists already in workspace {}", self.name);
            let next = format!("vakbus agent ls --workspace {}", self.name);
            return Err(CliError::usage(what).next(next));
        }
        let identity = self.issue(agent, roles, valid_for, scope)?;
        let certificate = identity.certificate().clone();
        let text = creds::render(certificate.token(), identity.key());
        // Before it can sign anything.
        self.keep_certificate(&certificate)?;
        agents.write_new(&file, &text)?;
        Ok(certificate)
    }

    /// The certificates of its agents, by name. A file that does not hold what its name promises
    /// is left out, and stderr says so: it must not take the others with it.
    pub(crate) fn agents(&self) -> Result<Vec<Certificate>, CliError> {
        let agents = self.dir.below("agents");
        let mut found = Vec::new();
        for name in agents.list(".creds")? {
            match self.agent(&agents, &name) {
                Ok(certificate) => found.push(certificate),
                Err(error) => print::remark(&error.as_warning()),
            }
        }
        Ok(found)
    }

    fn agent(&self, agents: &Home, name: &str) -> Result<Certificate, CliError> {
        let file = format!("{name}.creds");
        let text = agents.read(&file)?;
        let credentials = creds::parse(&text).map_err(|e| damaged(agents, &file, e))?;
        let certificate = Certificate::parse(credentials.jwt());
        let certificate = certificate.map_err(|error| damaged(agents, &file, error))?;
        let is_ours = certificate.issuer == *self.account();
        let other = match &certificate {
            _ if !is_ours => "is signed by another account than this workspace's",
            Certificate { workspace, .. } if *workspace != self.name => "is for another workspace",
            Certificate { agent, .. } if agent.as_str() != name => "is for another agent",
            _ => {
                self.check_not_revoked(&certificate)?;
                return Ok(certificate);
            }
        };
        let path = agents.path().join(&file);
        let what = format!("{}: its certificate {other}", path.display());
        Err(CliError::new(Exit::Failed, what).next("move it to where it belongs, or remove it"))
    }

    fn dir(home: &Home, name: &WorkspaceId) -> Home {
        home.below("workspaces").below(name.as_str())
    }
}

/// The longest certificate that holds the rights which a server enforces. A daemon's door takes up
/// to 16 KiB with all that stands beside it.
const CERTIFICATE_BYTES_MAX: usize = 12 * 1024;

/// A file of ours that says something else than it should; what it says is not told.
fn damaged(dir: &Home, file: &str, error: impl std::fmt::Display) -> CliError {
    let path = dir.path().join(file);
    CliError::new(Exit::Failed, format!("{} is damaged: {error}", path.display()))
        .next("put back your copy of it")
}
