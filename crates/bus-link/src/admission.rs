//! Who is let in: the accounts that vouch for clients, the keys that were withdrawn, and the time.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bus_core::{Certificate, Clock, Error, ErrorKind, Result};
use bus_crypto::{Entropy, PublicKey, SystemEntropy};
use bus_subjects::{AclPolicy, WorkspaceId};
use tokio::sync::watch;

/// What a server holds its clients to. Clones share it, and it can be changed while the server
/// runs: connections whose right ends are ended at once.
#[derive(Clone)]
pub struct Admission {
    rules: Arc<Mutex<Rules>>,
    changes: Arc<watch::Sender<u64>>,
    policy: Arc<dyn Fn(&Certificate) -> AclPolicy + Send + Sync>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
}

#[derive(Debug, Default)]
struct Rules {
    accounts: HashMap<WorkspaceId, PublicKey>,
    revoked: HashSet<PublicKey>,
}

impl Admission {
    /// Lets nobody in yet. `clock` says whether a certificate is valid.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            rules: Arc::default(),
            changes: Arc::new(watch::Sender::new(0)),
            policy: Arc::new(Certificate::policy),
            clock,
            entropy: Arc::new(SystemEntropy::new()),
        }
    }

    /// Draws the challenges from `entropy`.
    #[must_use]
    pub fn entropy(mut self, entropy: Arc<dyn Entropy>) -> Self {
        self.entropy = entropy;
        self
    }

    /// Lets `policy` say what a client may do; by default that is [`Certificate::policy`].
    #[must_use]
    pub fn policy(
        mut self,
        policy: impl Fn(&Certificate) -> AclPolicy + Send + Sync + 'static,
    ) -> Self {
        self.policy = Arc::new(policy);
        self
    }

    /// From now on takes the word of `account` for the members of `workspace`, and no other's.
    pub fn trust(&self, workspace: WorkspaceId, account: PublicKey) {
        self.lock().accounts.insert(workspace, account);
        self.tell();
    }

    /// From now on lets nobody of `workspace` in.
    pub fn distrust(&self, workspace: &WorkspaceId) {
        self.lock().accounts.remove(workspace);
        self.tell();
    }

    /// Ends the right of the client with the key `nkey`, for ever.
    pub fn revoke(&self, nkey: PublicKey) {
        self.lock().revoked.insert(nkey);
        self.tell();
    }

    /// Whether the owner of `certificate` may be connected now.
    ///
    /// # Errors
    /// `Denied` with the reason.
    pub fn check(&self, certificate: &Certificate) -> Result<()> {
        let refuse = |why| Err(Error::new(ErrorKind::Denied, "connect", why));
        let rules = self.lock();
        let Some(account) = rules.accounts.get(&certificate.workspace) else {
            return refuse("this server does not serve the certificate's workspace");
        };
        if *account != certificate.issuer {
            return refuse("another account signed the certificate than this workspace's");
        }
        if rules.revoked.contains(&certificate.nkey) {
            return refuse("the key was revoked");
        }
        let now = self.clock.now();
        if certificate.has_ended_at(now) {
            return refuse("the certificate has expired");
        }
        if !certificate.is_valid_at(now) {
            return refuse("the certificate is not valid yet");
        }
        Ok(())
    }

    /// What the owner of `certificate` may do.
    pub(crate) fn policy_of(&self, certificate: &Certificate) -> AclPolicy {
        (self.policy)(certificate)
    }

    /// Returns the reason once `certificate` gives no right any more. Cancel safe.
    pub(crate) async fn ends(&self, certificate: &Certificate) -> Error {
        let mut changes = self.changes.subscribe();
        loop {
            if let Err(error) = self.check(certificate) {
                return error;
            }
            let now = self.clock.now();
            let left = certificate.expires.map(|end| end.since(now));
            let over = async {
                match left {
                    Some(left) => tokio::time::sleep(left).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = over => {}
                // The sender lives as long as this.
                _changed = changes.changed() => {}
            }
        }
    }

    fn tell(&self) {
        self.changes.send_modify(|number| *number += 1);
    }

    fn lock(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").field("rules", &*self.lock()).finish_non_exhaustive()
    }
}
