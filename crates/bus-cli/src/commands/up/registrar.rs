//! What a keeper tells its servers of accounts: new workspaces, revoked keys, and everything again
//! when a server comes, which may have missed some of it.

use std::{collections::BTreeSet, time::Duration};

use bus_nats::NatsBus;
use bus_subjects::WorkspaceId;
use tokio::time::Instant;

use crate::{
    engine::NatsPlace,
    error::{CliError, Exit},
    operator::{Operator, all_workspaces},
    print,
    workspace::Workspace,
};

/// Tells the servers, when this data home's operator is theirs.
pub(super) struct Registrar {
    operator: Option<Operator>,
    /// The servers that were there, by the ids that they have until they end.
    known: BTreeSet<String>,
    /// When they were looked for last.
    looked: Option<Instant>,
    /// The workspaces that they were told of, and the accounts of those.
    told: BTreeSet<(WorkspaceId, String)>,
}

impl Registrar {
    /// Tells the servers of `place`.
    ///
    /// # Errors
    /// When the operator cannot be read.
    pub(super) fn of(place: &NatsPlace) -> Result<Self, CliError> {
        let (known, told) = (BTreeSet::new(), BTreeSet::new());
        Ok(Self { operator: place.operator()?, known, looked: None, told })
    }

    /// Has the servers know a workspace.
    pub(super) async fn introduce(
        &mut self,
        place: &NatsPlace,
        workspace: &Workspace,
    ) -> Result<(), CliError> {
        let Some(operator) = &self.operator else { return Ok(()) };
        if !self.told.contains(&named(workspace)) {
            place.introduce(operator, workspace).await?;
            self.told.insert(named(workspace));
        }
        Ok(())
    }

    /// Takes over what other machines revoke, so that the servers are told of it too.
    pub(super) async fn learn(
        &self,
        place: &NatsPlace,
        bus: &NatsBus,
        workspace: &Workspace,
    ) -> Result<(), CliError> {
        let Some(operator) = &self.operator else { return Ok(()) };
        match place.keep_revocations(bus, workspace, operator.home()).await {
            // Somebody else has the name on that bus, and nothing of ours is there.
            Err(error) if error.code() == Exit::Refused => {
                print::remark(&error.as_warning());
                Ok(())
            }
            learnt => learnt,
        }
    }

    /// Has the servers let in no more whose keys were revoked.
    pub(super) async fn revoke(
        &self,
        place: &NatsPlace,
        workspace: &Workspace,
    ) -> Result<(), CliError> {
        let Some(operator) = &self.operator else { return Ok(()) };
        place.revoke(operator, workspace).await.map(drop)
    }

    /// Tells everything to a server that has come since the last look, and whom to keep out to one
    /// that has missed it.
    pub(super) async fn look(&mut self, place: &NatsPlace) -> Result<(), CliError> {
        let Some(operator) = &self.operator else { return Ok(()) };
        if self.looked.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        let claims = place.claims(operator).await?;
        let looked = async {
            let servers = claims.servers().await?;
            let there: BTreeSet<_> = servers.answered.into_iter().map(|facts| facts.id).collect();
            let workspaces = all_workspaces(operator.home())?;
            if there.is_subset(&self.known) {
                operator.push_missed(&claims, &workspaces).await?;
                return Ok((there, Vec::new()));
            }
            operator.push_all(&claims, &workspaces).await?;
            Ok::<_, CliError>((there, workspaces))
        };
        let looked = looked.await;
        // It holds nothing that anybody waits for.
        let _closed = claims.close().await;
        let (there, workspaces) = looked?;
        self.known = there;
        self.told.extend(workspaces.iter().map(named));
        Ok(())
    }
}

/// What tells a workspace from another one of its name.
fn named(workspace: &Workspace) -> (WorkspaceId, String) {
    (workspace.name().clone(), workspace.account().text())
}

/// How often servers are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(10);
