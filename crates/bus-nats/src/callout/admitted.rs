//! Whom this instance has admitted, for as long as the tokens are good: a server knows its user by
//! a key of that one connection, not by the agent's own, so nobody else can tell whose it is.

use std::{
    collections::{HashMap, VecDeque},
    sync::Mutex,
};

use bus_core::{Admission, Entrant, Error, ErrorKind, Result};
use bus_crypto::PublicKey;
use bus_envelope::Timestamp;
use tokio::sync::Notify;

use super::{CalloutLimits, OP, lock};

/// A user that was admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdmittedUser {
    /// The key under which the server knows it, made for this one connection.
    pub user: PublicKey,
    /// The server that asked.
    pub server: PublicKey,
    /// The number of its connection there.
    pub client_id: u64,
    /// When its token ends, and the server its connection.
    pub until: Timestamp,
    /// Who it is.
    pub entrant: Entrant,
}

/// All whose tokens have not ended.
#[derive(Debug)]
pub(super) struct AdmittedUsers {
    known: Mutex<Known>,
    limits: CalloutLimits,
    news: Notify,
}

#[derive(Debug, Default)]
struct Known {
    users: HashMap<PublicKey, AdmittedUser>,
    /// The users of each agent's key, the oldest first; some may be gone.
    of: HashMap<PublicKey, VecDeque<PublicKey>>,
    /// Those in whose place a newer one of the same key came, until somebody asks for them.
    replaced: Vec<AdmittedUser>,
}

/// A user that is noted. Dropped before it is kept, it is forgotten again.
#[must_use]
pub(super) struct Noted<'a> {
    users: &'a AdmittedUsers,
    user: Option<PublicKey>,
}

impl AdmittedUsers {
    pub(super) fn new(limits: CalloutLimits) -> Self {
        Self { known: Mutex::default(), limits, news: Notify::new() }
    }

    /// Notes `user`, before it is let in. Where its key has as many as one may have, its oldest has
    /// to go for it: whoever comes again and again takes nobody else's place.
    ///
    /// # Errors
    /// `Full` when as many are known as may be: who is not known could not be cut off.
    pub(super) fn note(&self, user: AdmittedUser, now: Timestamp) -> Result<Noted<'_>> {
        let mut known = lock(&self.known);
        let key = match &user.entrant {
            Entrant::Member(certificate) => Some(certificate.nkey),
            // A ticket lets in once.
            Entrant::Bearer(_) => None,
        };
        let each_max = self.limits.admitted_each_max;
        if key.is_some_and(|key| known.make_room(key, each_max, now)) {
            self.news.notify_one();
        }
        if known.count() >= self.limits.admitted_max {
            known.sweep(now);
        }
        if known.count() >= self.limits.admitted_max {
            let why = "as many users are admitted as can be cut off again";
            return Err(Error::new(ErrorKind::Full, OP, why));
        }
        if let Some(key) = key {
            known.of.entry(key).or_default().push_back(user.user);
        }
        let noted = Noted { users: self, user: Some(user.user) };
        known.users.insert(user.user, user);
        Ok(noted)
    }

    /// Waits until somebody had to go for a newer one. Cancel safe.
    pub(super) async fn replaced(&self) {
        self.news.notified().await;
    }

    /// How many there are at the time `now`.
    pub(super) fn count(&self, now: Timestamp) -> usize {
        lock(&self.known).users.values().filter(|user| user.until > now).count()
    }

    /// Takes out those who may stay no longer at the time `now`, and gives out those whose tokens
    /// would let them.
    pub(super) fn take_ended(&self, admission: &Admission, now: Timestamp) -> Vec<AdmittedUser> {
        let is_over = |user: &AdmittedUser| {
            user.until <= now || admission.check_at(&user.entrant, now).is_err()
        };
        let mut known = lock(&self.known);
        let mut over = std::mem::take(&mut known.replaced);
        over.extend(known.users.extract_if(|_, user| is_over(user)).map(|(_, user)| user));
        over.retain(|user| user.until > now);
        over
    }
}

impl Known {
    fn count(&self) -> usize {
        self.users.len() + self.replaced.len()
    }

    /// Takes out what the key `of` has beyond one less than `max`; whether somebody has to go.
    fn make_room(&mut self, of: PublicKey, max: usize, now: Timestamp) -> bool {
        let Some(queue) = self.of.get_mut(&of) else { return false };
        queue.retain(|user| self.users.get(user).is_some_and(|user| user.until > now));
        let before = self.replaced.len();
        while queue.len() >= max {
            let Some(oldest) = queue.pop_front() else { break };
            self.replaced.extend(self.users.remove(&oldest));
        }
        self.replaced.len() > before
    }

    /// Takes out all whose tokens have ended.
    fn sweep(&mut self, now: Timestamp) {
        self.users.retain(|_, user| user.until > now);
        self.replaced.retain(|user| user.until > now);
        let users = &self.users;
        self.of.retain(|_, queue| {
            queue.retain(|user| users.contains_key(user));
            !queue.is_empty()
        });
    }
}

impl Noted<'_> {
    /// Leaves it noted.
    pub(super) fn keep(mut self) {
        self.user = None;
    }
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        if let Some(user) = &self.user {
            lock(&self.users.known).users.remove(user);
        }
    }
}
