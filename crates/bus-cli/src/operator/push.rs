//! Tokens on their way to the servers, so that none loses what another machine has revoked.

use std::time::Duration;

use bus_core::ErrorKind;
use bus_crypto::PublicKey;
use bus_nats::claims::{Pushed, ServerClaims};
use tokio::time::sleep;

use super::{
    Operator,
    accounts::{Draft, all_workspaces},
};
use crate::{error::CliError, workspace::Workspace};

/// What became of the token of one account.
pub(crate) struct PushedAccount {
    /// What people call the account.
    pub(crate) name: String,
    /// Which servers took it.
    pub(crate) pushed: Pushed,
}

impl Operator {
    /// Gives the servers the tokens of all accounts.
    ///
    /// # Errors
    /// When the servers are not reached, or another machine pushes all the time.
    pub(crate) async fn push_all(
        &self,
        servers: &ServerClaims,
        workspaces: &[Workspace],
    ) -> Result<Vec<PushedAccount>, CliError> {
        let mut all = Vec::new();
        for draft in self.drafts(workspaces)? {
            all.push(self.push(servers, &draft).await?);
        }
        Ok(all)
    }

    /// Gives the servers the tokens of those workspaces of which one has missed a revocation: it
    /// was away, or answered too late to be counted.
    ///
    /// # Errors
    /// The first that went wrong, after all others were looked at.
    pub(crate) async fn push_missed(
        &self,
        servers: &ServerClaims,
        workspaces: &[Workspace],
    ) -> Result<(), CliError> {
        let mut first = Ok(());
        for workspace in workspaces {
            first = first.and(self.push_if_missed(servers, workspace).await);
        }
        first
    }

    async fn push_if_missed(
        &self,
        servers: &ServerClaims,
        workspace: &Workspace,
    ) -> Result<(), CliError> {
        let [_, agents] = self.workspace(workspace)?;
        let holdings = servers.lookup(agents.account(), self.claims()).await?;
        if self.is_missed(&agents, &holdings.held)? {
            self.push(servers, &agents).await?;
        }
        Ok(())
    }

    /// Gives the servers the tokens of one workspace, whatever they knew of it.
    ///
    /// # Errors
    /// As [`Self::push_all`].
    pub(crate) async fn push_workspace(
        &self,
        servers: &ServerClaims,
        workspace: &Workspace,
    ) -> Result<Vec<PushedAccount>, CliError> {
        let mut all = Vec::new();
        for draft in self.workspace(workspace)? {
            all.push(self.push(servers, &draft).await?);
        }
        // The callout may place its agents there from now on.
        let callout = self.callout(&all_workspaces(&self.home)?)?;
        all.push(self.push(servers, &callout).await?);
        Ok(all)
    }

    /// Gives the servers the token of one workspace's agents, whose revocations hold from then on.
    ///
    /// # Errors
    /// As [`Self::push_all`].
    pub(crate) async fn push_revoked(
        &self,
        servers: &ServerClaims,
        workspace: &Workspace,
    ) -> Result<Vec<PushedAccount>, CliError> {
        let [_, agents] = self.workspace(workspace)?;
        self.push_settled(servers, &[agents]).await
    }

    /// Gives the servers the tokens of `accounts`, in which users of machines were taken back. The
    /// system account is the first: whoever is out of that tells no operator anything any more.
    ///
    /// # Errors
    /// As [`Self::push_all`].
    pub(crate) async fn push_taken_back(
        &self,
        servers: &ServerClaims,
        workspaces: &[Workspace],
        accounts: &[PublicKey],
    ) -> Result<Vec<PushedAccount>, CliError> {
        let mut drafts = self.drafts(workspaces)?;
        drafts.retain(|draft| accounts.contains(draft.account()));
        self.push_settled(servers, &drafts).await
    }

    /// Gives the servers tokens that revoke somebody. Looks after them once more: a machine that
    /// has looked just before could still undo it.
    async fn push_settled(
        &self,
        servers: &ServerClaims,
        drafts: &[Draft],
    ) -> Result<Vec<PushedAccount>, CliError> {
        let mut all = Vec::new();
        for draft in drafts {
            all.push(self.push(servers, draft).await?);
        }
        for _ in 0..LOOKS {
            sleep(ServerClaims::SETTLED_AFTER).await;
            let mut is_settled = true;
            for (draft, pushed) in drafts.iter().zip(&mut all) {
                let holdings = servers.lookup(draft.account(), self.claims()).await?;
                let ours = self.token_of(draft, &holdings.held)?;
                if holdings.held.iter().any(|held| held.token != ours.token) {
                    is_settled = false;
                    *pushed = self.push(servers, draft).await?;
                }
            }
            if is_settled {
                break;
            }
        }
        Ok(all)
    }

    /// Gives the servers the token of one account, with what they hold of it themselves.
    async fn push(&self, servers: &ServerClaims, draft: &Draft) -> Result<PushedAccount, CliError> {
        let mut tries = 0;
        loop {
            let holdings = servers.lookup(draft.account(), self.claims()).await?;
            let ours = self.token_of(draft, &holdings.held)?;
            match servers.push(&ours.token, self.claims()).await {
                Ok(pushed) => return Ok(PushedAccount { name: ours.name, pushed }),
                // Somebody else pushed in between; what that revokes is taken over the next time.
                Err(error) if error.kind() == ErrorKind::Conflict && tries < TRIES => {
                    tries += 1;
                    sleep(PAUSE * tries).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// How often a token is made again when others push at the same time.
const TRIES: u32 = 8;
const PAUSE: Duration = Duration::from_millis(20);
/// How often a revocation is looked after, at most.
const LOOKS: usize = 4;
