//! The keys that a workspace has on servers beside its own: that of its store, and that of who
//! signs for it there.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use bus_core::{Clock, EntryTicket, Issue, SystemClock, certify};
use bus_crypto::{
    Credentials, NkeyKind, SigningKey, SystemEntropy, creds,
    jwt::{Permissions, decode_user},
};
use bus_nats::permissions::{Layout, permissions};
use bus_subjects::{AgentId, WorkspaceId};
use zeroize::Zeroizing;

use super::Workspace;
use crate::{
    engine::Scope,
    error::{CliError, Exit},
    home::Home,
    operator::{self, Lifetime},
};

impl Workspace {
    /// The account that keeps what is stored, made when it is first needed.
    ///
    /// # Errors
    /// When its key cannot be read, written or is damaged.
    pub(crate) fn store(&self) -> Result<SigningKey, CliError> {
        self.own_key(STORE_FILE)
    }

    /// The key that signs users of the workspace where its own must not be: with the callout. Made
    /// when it is first needed.
    ///
    /// # Errors
    /// As [`Self::store`].
    pub(crate) fn signer(&self) -> Result<SigningKey, CliError> {
        self.own_key(SIGNER_FILE)
    }

    /// Somebody who may do everything with what is stored.
    ///
    /// # Errors
    /// As [`Self::store`].
    pub(crate) fn store_user(
        &self,
        name: &str,
        lifetime: Lifetime,
    ) -> Result<Credentials, CliError> {
        operator::user(&self.store()?, name, lifetime)
    }

    /// A ticket for what `issue` says, and its text, which lets its bearer in.
    ///
    /// # Errors
    /// When it would be good for too long or for nothing; when there is no randomness.
    pub(crate) fn ticket(
        &self,
        issue: &Issue,
    ) -> Result<(EntryTicket, Zeroizing<String>), CliError> {
        let ticket = EntryTicket::new(issue, self.account.public(), &SystemEntropy::new())?;
        let text = ticket.sign(&self.account)?;
        Ok((ticket, text))
    }

    /// What a server has to allow the agent of a new certificate. None for one whose rights no
    /// token holds, as with very long names and many roles; then it is no login there.
    ///
    /// # Errors
    /// When the names are so long that there is no layout of them.
    pub(super) fn permissions(&self, issue: &Issue) -> Result<Option<Permissions>, CliError> {
        let layout = Layout::of(&self.name)?;
        match permissions(&issue.policy(), &issue.agent, &layout) {
            Ok(permissions) => Ok(Some(permissions)),
            Err(error) => {
                let agent = &issue.agent;
                tracing::info!(%agent, %error, "its certificate is no login at servers");
                Ok(None)
            }
        }
    }

    /// Whether servers know the workspace `name` of this data home, or will.
    pub(crate) fn has_store(home: &Home, name: &WorkspaceId) -> bool {
        Self::dir(home, name).below(STORE_FILE).exists()
    }

    /// What an agent of this data home logs in with: its certificate when that holds exactly the
    /// rights that its roles have within `scope`, else one that is made for an hour.
    ///
    /// # Errors
    /// When there is no such agent, it was revoked, or its rights are more than a token holds.
    pub(crate) fn login(&self, agent: &AgentId, scope: &Scope) -> Result<Credentials, CliError> {
        let Lifetime(hour) = Lifetime::OWN;
        self.login_for(agent, scope, Some(hour))
    }

    /// Writes what an agent logs in with from another machine to a new private file; it is good for
    /// as long as its certificate.
    ///
    /// # Errors
    /// As [`Self::login`]; when the file is there.
    pub(crate) fn write_login(
        &self,
        agent: &AgentId,
        scope: &Scope,
        file: LoginFile,
    ) -> Result<(), CliError> {
        let login = self.login_for(agent, scope, None)?;
        file.write(&creds::render(login.jwt(), login.key()))
    }

    fn login_for(
        &self,
        agent: &AgentId,
        scope: &Scope,
        most: Option<Duration>,
    ) -> Result<Credentials, CliError> {
        let identity = self.identity(agent)?;
        let (key, certificate) = (identity.key(), identity.certificate());
        let now = SystemClock::new().now();
        let mut issue =
            Issue::new(self.name.clone(), agent.clone(), certificate.roles.clone(), now);
        // What the certificate is bound to stays so.
        issue.session = certificate.session.clone().or_else(|| scope.session.clone());
        issue.role_name = certificate.queue.clone().or_else(|| scope.queue.clone());
        let layout = Layout::of(&self.name)?;
        let rights = permissions(&issue.policy(), agent, &layout).map_err(|error| {
            let what = format!("{agent} can log in at no NATS server: {error}");
            CliError::new(Exit::Refused, what).next("give it fewer roles or a shorter name")
        })?;
        let as_certified = decode_user(certificate.token())?;
        if as_certified.permissions == rights && !as_certified.connection_types.is_empty() {
            return Ok(Credentials::from_parts(certificate.token(), &key.seed_text())?);
        }
        let left = certificate.expires.map(|end| end.unix_ns().saturating_sub(now.unix_ns()));
        let left = left.map(|left| Duration::from_nanos(u64::try_from(left).unwrap_or(0)));
        issue.valid_for = left.into_iter().chain(most).min();
        issue.permissions = Some(rights);
        let token = certify(&self.account, key.public(), &issue)?;
        Ok(Credentials::from_parts(&token, &key.seed_text())?)
    }

    fn own_key(&self, file: &str) -> Result<SigningKey, CliError> {
        if !self.dir.below(file).exists() {
            let key = SigningKey::generate(NkeyKind::Account, &SystemEntropy::new())?;
            match self.dir.write_new(file, &key.seed_text()) {
                // Another process made it at the same moment: that one counts.
                Err(_) if self.dir.below(file).exists() => {}
                written => written?,
            }
        }
        operator::read_key(&self.dir, file, NkeyKind::Account)
    }
}

const STORE_FILE: &str = "store.nk";
const SIGNER_FILE: &str = "signer.nk";

/// A new private file for a login, made before there is one; removed again when there will be none.
pub(crate) struct LoginFile {
    path: PathBuf,
    file: File,
    is_written: bool,
}

impl LoginFile {
    /// Makes it.
    ///
    /// # Errors
    /// When something of that name is there, or it cannot be made.
    pub(crate) fn new(path: &Path) -> Result<Self, CliError> {
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let file = opened.map_err(|error| Self::failed(path, &error))?;
        Ok(Self { path: path.to_owned(), file, is_written: false })
    }

    fn write(mut self, text: &str) -> Result<(), CliError> {
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_all());
        written.map_err(|error| Self::failed(&self.path, &error))?;
        self.is_written = true;
        Ok(())
    }

    fn failed(path: &Path, error: &std::io::Error) -> CliError {
        let what = format!("cannot write {}: {error}", path.display());
        CliError::new(Exit::Failed, what).next("name a file that is not there yet")
    }
}

impl Drop for LoginFile {
    fn drop(&mut self) {
        if !self.is_written {
            // Best effort: nothing is in it.
            let _gone = std::fs::remove_file(&self.path);
        }
    }
}
