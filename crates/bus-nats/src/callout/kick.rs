//! Users whose right has ended are cut off: each server is told which connection to close.

use std::{collections::HashMap, sync::Mutex, time::Duration};

use bus_core::{Error, ErrorKind, Result};
use bus_crypto::PublicKey;
use bus_envelope::Timestamp;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::time::timeout;

use super::{AdmittedUser, OP, lock};
use crate::claims::ServerClaims;

/// Cuts users off.
pub(super) struct Kicker {
    servers: ServerClaims,
    pending: Mutex<HashMap<Target, Pending>>,
}

/// A server, and the number of a connection there.
type Target = (PublicKey, u64);

/// A user that is to be cut off.
struct Pending {
    user: AdmittedUser,
    /// When its server was told first.
    since: Option<Timestamp>,
    /// Whether it was said that the server cannot be told.
    is_known_to_fail: bool,
}

impl Kicker {
    pub(super) fn new(servers: ServerClaims) -> Self {
        Self { servers, pending: Mutex::default() }
    }

    pub(super) fn add(&self, users: Vec<AdmittedUser>) {
        let mut pending = lock(&self.pending);
        for user in users {
            let target = (user.server, user.client_id);
            pending.insert(target, Pending { user, since: None, is_known_to_fail: false });
        }
    }

    /// Cuts off all that are left, none after another: a server that does not answer keeps no other
    /// from being told. Says when to do it again. Cancelled, it does again what was not done.
    pub(super) async fn kick_all(&self, now: Timestamp) -> Option<Duration> {
        let targets: Vec<_> = {
            let mut pending = lock(&self.pending);
            pending.retain(|_, left| left.user.until > now);
            pending.keys().copied().collect()
        };
        let kicks = targets.into_iter().map(|target| self.kick(target));
        let mut kicks: FuturesUnordered<_> = kicks.collect();
        while let Some((target, told)) = kicks.next().await {
            self.note(target, told, now);
        }
        (!lock(&self.pending).is_empty()).then_some(AGAIN)
    }

    /// Notes what became of one.
    fn note(&self, target: Target, told: Result<()>, now: Timestamp) {
        let mut pending = lock(&self.pending);
        let Some(left) = pending.get_mut(&target) else { return };
        match told {
            Ok(()) => {
                // It may have been let in just after it was cut off: a server waits for an answer.
                let since = *left.since.get_or_insert(now);
                if now.since(since) >= ANSWERS_WAITED_FOR {
                    pending.remove(&target);
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut left.is_known_to_fail, true) {
                    let agent = left.user.entrant.agent();
                    tracing::warn!(%agent, %error, "a user is not cut off yet");
                }
            }
        }
    }

    /// Has a server close a connection. That it knows none of this number is no failure: those are
    /// used once.
    async fn kick(&self, target: Target) -> (Target, Result<()>) {
        let (server, client_id) = (target.0.text(), target.1);
        let told = match timeout(ANSWERED_WITHIN, self.servers.kick(&server, client_id)).await {
            Ok(Err(error)) if error.kind() == ErrorKind::NotFound => Ok(()),
            Ok(kicked) => kicked,
            Err(_late) => Err(Error::new(ErrorKind::Timeout, OP, "the server does not answer")),
        };
        (target, told)
    }
}

/// How often who is left is cut off again.
const AGAIN: Duration = Duration::from_secs(1);
/// How long a server may take to answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);
/// Longer than servers wait for an answer about who may come in.
const ANSWERS_WAITED_FOR: Duration = Duration::from_secs(5);
