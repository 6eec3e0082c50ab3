//! Who is let in, whichever door they come to: the accounts that vouch for them, the keys that were
//! withdrawn, and the time. Every door asks this and gives what it says, so all give the same.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bus_crypto::{Entropy, PublicKey, SystemEntropy};
use bus_envelope::Timestamp;
use bus_subjects::{AclPolicy, Role, WorkspaceId};
use tokio::sync::watch;

use crate::{Certificate, Clock, EntryTicket, Error, ErrorKind, Result};

pub use self::{
    entrant::Entrant,
    proof::{Door, Proof},
};

mod entrant;
mod proof;

/// What doors hold their clients to. Clones share it, and it can be changed while doors are open:
/// connections whose right ends are ended at once.
#[derive(Clone)]
pub struct Admission {
    rules: Arc<Mutex<Rules>>,
    changes: Arc<watch::Sender<u64>>,
    policy: Arc<dyn Fn(&Entrant) -> AclPolicy + Send + Sync>,
    find: Find,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
}

/// Finds the certificate of a key.
type Find = Arc<dyn Fn(&PublicKey) -> Option<String> + Send + Sync>;

/// Who was let in, and to what.
#[derive(Debug, Clone)]
pub struct Admitted {
    /// Who it is. What a ticket gives begins only when it was used up: a door that takes tickets
    /// sees to it that nobody uses one twice.
    pub entrant: Entrant,
    /// What it may do.
    pub policy: AclPolicy,
    /// When that ends; `None`: not by itself.
    pub until: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct Rules {
    accounts: HashMap<WorkspaceId, PublicKey>,
    /// What one workspace takes back is none of another's business.
    revoked: HashMap<WorkspaceId, HashSet<PublicKey>>,
}

impl Admission {
    /// Lets nobody in yet. `clock` says whether a certificate is valid.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            rules: Arc::default(),
            changes: Arc::new(watch::Sender::new(0)),
            policy: Arc::new(Entrant::policy),
            find: Arc::new(|_| None),
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

    /// Lets `policy` say what an entrant may do; by default that is [`Entrant::policy`].
    #[must_use]
    pub fn policy(
        mut self,
        policy: impl Fn(&Entrant) -> AclPolicy + Send + Sync + 'static,
    ) -> Self {
        self.policy = Arc::new(policy);
        self
    }

    /// Asks `find` for the certificate of a key that comes without one. What it finds is held to
    /// the same rules as one that is shown.
    ///
    /// It is asked while somebody waits to be let in, and only about keys whose owner has just
    /// proved to have them: let it answer quickly.
    #[must_use]
    pub fn finding(
        mut self,
        find: impl Fn(&PublicKey) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.find = Arc::new(find);
        self
    }

    /// The clock by which certificates are valid.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Where challenges are drawn from.
    #[must_use]
    pub fn randomness(&self) -> &dyn Entropy {
        &*self.entropy
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

    /// Ends the right of the client with the key `nkey` in `workspace`, for ever. Let nobody call
    /// it who does not know that the workspace's account took the key back.
    pub fn revoke(&self, workspace: &WorkspaceId, nkey: PublicKey) {
        self.lock().revoked.entry(workspace.clone()).or_default().insert(nkey);
        self.tell();
    }

    /// Whose word counts for the members of `workspace`.
    ///
    /// # Errors
    /// `Denied` when nobody's does.
    pub fn account_of(&self, workspace: &WorkspaceId) -> Result<PublicKey> {
        let rules = self.lock();
        rules.accounts.get(workspace).copied().ok_or_else(|| denied(NOT_SERVED))
    }

    /// Who shows `proof` at `door` at the time `now`, if that lets anybody in there.
    ///
    /// # Errors
    /// `Invalid` when the proof is none, `Denied` when it does not let anybody in; with the reason,
    /// which says more than a stranger should hear.
    pub fn admit(&self, proof: &Proof<'_>, door: Door, now: Timestamp) -> Result<Admitted> {
        let entrant = match proof {
            Proof::Certificate { token, signed, signature } => {
                let certificate = Certificate::parse(token)?;
                prove(&certificate.nkey, signed, signature)?;
                Entrant::Member(certificate)
            }
            Proof::Key { nkey, signed, signature } => {
                prove(nkey, signed, signature)?;
                Entrant::Member(self.certificate_of(nkey)?)
            }
            Proof::Ticket(text) => {
                Entrant::Bearer(EntryTicket::parse(text, |workspace| self.account_of(workspace))?)
            }
        };
        if !is_taken(&entrant, door) {
            return Err(denied("this door takes tickets and views, no agent's key"));
        }
        self.check_at(&entrant, now)?;
        let policy = (self.policy)(&entrant);
        Ok(Admitted { until: entrant.until(), policy, entrant })
    }

    /// Whether the owner of `certificate` may be connected now.
    ///
    /// # Errors
    /// `Denied` with the reason.
    pub fn check(&self, certificate: &Certificate) -> Result<()> {
        self.check_member(certificate, self.clock.now())
    }

    /// Whether `entrant` may be connected at the time `now`.
    ///
    /// # Errors
    /// `Denied` with the reason.
    pub fn check_at(&self, entrant: &Entrant, now: Timestamp) -> Result<()> {
        match entrant {
            Entrant::Member(certificate) => self.check_member(certificate, now),
            Entrant::Bearer(ticket) => self.check_bearer(ticket, now),
        }
    }

    /// Returns the reason once `entrant` has no right any more. Cancel safe.
    pub async fn ends(&self, entrant: &Entrant) -> Error {
        let mut changes = self.changes.subscribe();
        loop {
            let now = self.clock.now();
            if let Err(error) = self.check_at(entrant, now) {
                return error;
            }
            let left = entrant.until().map(|end| end.since(now));
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

    /// Tells whenever somebody's right may have ended, or begun.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn certificate_of(&self, nkey: &PublicKey) -> Result<Certificate> {
        let Some(token) = (self.find)(nkey) else {
            return Err(denied("no certificate of a workspace names the key"));
        };
        let certificate = Certificate::parse(&token)?;
        if certificate.nkey != *nkey {
            return Err(denied("the certificate that was found names another key"));
        }
        Ok(certificate)
    }

    fn check_member(&self, certificate: &Certificate, now: Timestamp) -> Result<()> {
        let rules = self.lock();
        rules.check_account(&certificate.workspace, &certificate.issuer)?;
        let revoked = rules.revoked.get(&certificate.workspace);
        if revoked.is_some_and(|revoked| revoked.contains(&certificate.nkey)) {
            return Err(denied("the key was revoked"));
        }
        if certificate.has_ended_at(now) {
            return Err(denied("the certificate has expired"));
        }
        if !certificate.is_valid_at(now) {
            return Err(denied("the certificate is not valid yet"));
        }
        Ok(())
    }

    fn check_bearer(&self, ticket: &EntryTicket, now: Timestamp) -> Result<()> {
        self.lock().check_account(&ticket.workspace, &ticket.issuer)?;
        ticket.check_at(now)
    }

    fn tell(&self) {
        self.changes.send_modify(|number| *number += 1);
    }

    fn lock(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rules {
    fn check_account(&self, workspace: &WorkspaceId, issuer: &PublicKey) -> Result<()> {
        match self.accounts.get(workspace) {
            None => Err(denied(NOT_SERVED)),
            Some(account) if account != issuer => {
                Err(denied("another account signed the certificate than this workspace's"))
            }
            Some(_) => Ok(()),
        }
    }
}

/// Whether `entrant` may use `door` at all: a browser keeps no key safe, so an agent's is not taken
/// from one.
fn is_taken(entrant: &Entrant, door: Door) -> bool {
    match (door, entrant) {
        (Door::Link | Door::Nats, _) | (Door::WebSocket, Entrant::Bearer(_)) => true,
        (Door::WebSocket, Entrant::Member(certificate)) => {
            !certificate.roles.is_empty()
                && certificate.roles.iter().all(|role| *role == Role::View)
        }
    }
}

fn prove(nkey: &PublicKey, signed: &[u8], signature: &[u8; 64]) -> Result<()> {
    nkey.verify(signed, signature)
        .map_err(|_| denied("the challenge was not signed with the certificate's key"))
}

fn denied(why: &'static str) -> Error {
    Error::new(ErrorKind::Denied, "connect", why)
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").field("rules", &*self.lock()).finish_non_exhaustive()
    }
}

const NOT_SERVED: &str = "this server does not serve the certificate's workspace";

#[cfg(test)]
mod tests;
