//! The workspaces whose members are admitted, and with which key.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex},
};

use bus_core::{Buckets, Result};
use bus_crypto::{NkeyKind, PublicKey, SigningKey};
use bus_subjects::WorkspaceId;

use super::{CalloutWorkspace, denied, invalid, lock};
use crate::permissions::Layout;

/// The workspaces.
#[derive(Debug, Default)]
pub(super) struct Workspaces(Mutex<HashMap<WorkspaceId, Arc<Served>>>);

/// One of them.
pub(super) struct Served {
    pub(super) account: PublicKey,
    pub(super) signer: SigningKey,
    pub(super) tickets: Arc<dyn Buckets>,
    pub(super) layout: Layout,
}

impl Workspaces {
    /// Serves `workspace` from now on.
    ///
    /// # Errors
    /// `Invalid` when the keys are not those of an account and of another one that signs for it.
    pub(super) fn insert(&self, workspace: WorkspaceId, served: CalloutWorkspace) -> Result<()> {
        let CalloutWorkspace { account, signer, tickets } = served;
        let is_account = |key: &PublicKey| key.kind() == NkeyKind::Account;
        if !is_account(&account) || !is_account(signer.public()) {
            return Err(invalid("a workspace needs an account and a signing key of it"));
        }
        // A token by the account itself would pass for a certificate.
        if *signer.public() == account {
            return Err(invalid("users are admitted by a signing key, not by the account's own"));
        }
        let layout = Layout::of(&workspace)?;
        let served = Served { account, signer, tickets, layout };
        lock(&self.0).insert(workspace, Arc::new(served));
        Ok(())
    }

    pub(super) fn remove(&self, workspace: &WorkspaceId) {
        lock(&self.0).remove(workspace);
    }

    /// # Errors
    /// `Denied` when it is not served.
    pub(super) fn get(&self, workspace: &WorkspaceId) -> Result<Arc<Served>> {
        let served = lock(&self.0).get(workspace).cloned();
        served.ok_or_else(|| denied("this service does not admit into the workspace"))
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served").field("account", &self.account).finish_non_exhaustive()
    }
}
