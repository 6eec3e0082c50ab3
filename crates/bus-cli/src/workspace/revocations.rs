//! The keys that a workspace took back: one signed file each, so that two revocations never meet.

use bus_core::{Certificate, Clock, Revocation, Roster, SystemClock};
use bus_subjects::AgentId;

use super::{Workspace, certificates, damaged};
use crate::{
    error::{CliError, Exit},
    home::Home,
};

impl Workspace {
    /// A roster under the workspace's account that refuses every revoked key.
    ///
    /// # Errors
    /// As [`Self::revoked`].
    pub(crate) fn roster(&self) -> Result<Roster, CliError> {
        let roster = Roster::new(*self.account());
        self.revoke_in(&roster)?;
        Ok(roster)
    }

    /// Has a roster refuse every key that is revoked by now. A process that goes on calls this
    /// when it is told to read again.
    ///
    /// # Errors
    /// As [`Self::each_revoked`].
    pub(crate) fn revoke_in(&self, roster: &Roster) -> Result<(), CliError> {
        self.each_revoked(|revocation| Ok(roster.revoke(&revocation)?))
    }

    /// Hands every revocation to `take`, in no order. One that cannot be read hides no other.
    ///
    /// # Errors
    /// The first that went wrong, after all others were taken.
    pub(crate) fn each_revoked(
        &self,
        mut take: impl FnMut(Revocation) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let dir = self.revocations_dir();
        let mut first = Ok(());
        for file in dir.list("")? {
            let taken = self.revocation(&dir, &file).and_then(&mut take);
            first = first.and(taken);
        }
        first
    }

    /// The keys that no longer count, by agent and time.
    ///
    /// # Errors
    /// When one of the files cannot be read or is not what the account signed: a revocation that
    /// is passed over would let its key in again.
    pub(crate) fn revoked(&self) -> Result<Vec<Revocation>, CliError> {
        let mut found = Vec::new();
        self.each_revoked(|revocation| {
            found.push(revocation);
            Ok(())
        })?;
        found.sort_by(|a, b| (a.agent.as_str(), a.at).cmp(&(b.agent.as_str(), b.at)));
        Ok(found)
    }

    fn revocation(&self, dir: &Home, file: &str) -> Result<Revocation, CliError> {
        let text = dir.read(file)?;
        let read = Revocation::parse(text.trim_end(), self.account());
        let revocation = read.map_err(|error| damaged(dir, file, error))?;
        if revocation.workspace != self.name || revocation.nkey.text() != file {
            return Err(damaged(dir, file, "it is about another key or workspace"));
        }
        Ok(revocation)
    }

    /// The lines of all revocations, as the account signed them.
    ///
    /// # Errors
    /// As [`Self::revoked`].
    pub(crate) fn revocation_lines(&self) -> Result<Vec<String>, CliError> {
        let revoked = self.revoked()?;
        revoked.iter().map(|one| Ok(one.sign(&self.account)?)).collect()
    }

    /// Keeps a revocation that another machine told, as if it had been made here.
    ///
    /// # Errors
    /// When the account did not sign it for this workspace; when it cannot be written.
    pub(crate) fn keep_revocation(&self, line: &str) -> Result<(), CliError> {
        let line = line.trim_end();
        let revocation = Revocation::parse(line, self.account())?;
        if revocation.workspace != self.name {
            let what = format!("the revocation is of workspace {}", revocation.workspace);
            return Err(CliError::new(Exit::Refused, what));
        }
        let dir = self.revocations_dir();
        let file = revocation.nkey.text();
        let _turn = self.dir.turn()?;
        if dir.below(&file).exists() {
            return Ok(());
        }
        dir.create()?;
        dir.write_new(&file, &format!("{line}\n"))
    }

    /// Takes the key of `agent` back for ever, and removes it. The name is free for a new key.
    ///
    /// # Errors
    /// When there is no such agent, or the revocation cannot be written; then the key still counts.
    pub(crate) fn revoke(&self, agent: &AgentId) -> Result<Revocation, CliError> {
        let agents = self.dir.below("agents");
        let file = format!("{agent}.creds");
        // Another one could make way for a new key of this name, which must not be removed here.
        let _turn = self.dir.turn()?;
        if !agents.below(&file).exists() {
            let was = self.revoked()?.iter().any(|one| one.agent == *agent);
            let what = match was {
                true => format!("agent {agent} is revoked already"),
                false => format!("there is no agent {agent} in workspace {}", self.name),
            };
            return Err(CliError::usage(what).next("vakbus agent ls"));
        }
        let text = agents.read(&file)?;
        let certificate = certificates::in_credentials(&agents, &file, &text)?;
        if certificate.issuer != *self.account() || certificate.workspace != self.name {
            return Err(damaged(&agents, &file, "its certificate is not of this workspace"));
        }
        // What it signed until now has to be shown for ever.
        self.keep_certificate(&certificate)?;
        let revocation = match self.revocation_of(&certificate)? {
            // Goes on where a crash came between the two steps.
            Some(revocation) => revocation,
            None => {
                let revocation = Revocation::of(&certificate, SystemClock::new().now());
                let line = revocation.sign(&self.account)?;
                let dir = self.revocations_dir();
                dir.create()?;
                dir.write_new(&certificate.nkey.text(), &format!("{line}\n"))?;
                revocation
            }
        };
        agents.remove(&file)?;
        Ok(revocation)
    }

    /// Refuses a certificate whose key is revoked.
    ///
    /// # Errors
    /// When it is, and as [`Self::revoked`].
    pub(super) fn check_not_revoked(&self, certificate: &Certificate) -> Result<(), CliError> {
        match self.revocation_of(certificate)? {
            None => Ok(()),
            Some(revocation) => {
                let agent = &certificate.agent;
                let what = format!("the key of agent {agent} is revoked since {}", revocation.at);
                Err(CliError::new(Exit::Refused, what)
                    .next(format!("vakbus agent revoke {agent} removes what is left of it")))
            }
        }
    }

    fn revocation_of(&self, certificate: &Certificate) -> Result<Option<Revocation>, CliError> {
        if !self.revocations_dir().below(&certificate.nkey.text()).exists() {
            return Ok(None);
        }
        let is_it = |one: &Revocation| one.nkey == certificate.nkey;
        Ok(self.revoked()?.into_iter().find(is_it))
    }

    pub(super) fn revocations_dir(&self) -> Home {
        self.dir.below("revoked")
    }
}
