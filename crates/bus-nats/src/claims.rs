//! What servers in operator mode know of accounts: tokens pushed to them, read back, held against
//! each other.
//!
//! A server checks none of that. It takes a token that another operator signed, which locks
//! everybody out, and an older one, which lets in again who was revoked. So it is checked here, and
//! whoever pushes in another way has to do the same.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bus_core::{Error, ErrorKind, Result};
use bus_crypto::{
    PublicKey,
    jwt::{AccountClaims, OperatorClaims, decode_account},
};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

pub use self::facts::{ServerFacts, Servers};
use self::wire::{Answer, Stats, Taken};
use crate::{connection::Connection, options::NatsOptions};

mod ask;
mod facts;
mod wire;

/// The servers of one operator, asked by a user of their system account.
pub struct ServerClaims {
    connection: Arc<Connection>,
    /// Who answered last, and when.
    known: Mutex<Option<(Instant, Servers)>>,
}

/// The token of an account, as some server holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The token.
    pub token: String,
    /// What it says.
    pub claims: AccountClaims,
}

/// What the servers hold of one account.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holdings {
    /// The tokens of those who have one that the operator signed, one entry a server.
    pub held: Vec<Held>,
    /// How many servers know no such account, or have a token of it that the operator did not sign.
    pub without: usize,
}

/// What became of a token that was pushed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct Pushed {
    /// The servers that took it.
    pub taken: Vec<String>,
    /// Servers that are there and have not answered, and those that are known to be away. They
    /// fetch it from the others when they are back, within the interval of their resolver.
    pub silent: Vec<String>,
    /// The servers that refused it, and why.
    pub refused: Vec<(String, String)>,
}

impl Pushed {
    /// Whether every server that is known has it.
    #[must_use]
    pub fn is_everywhere(&self) -> bool {
        self.silent.is_empty() && self.refused.is_empty()
    }
}

impl ServerClaims {
    /// After how long nobody who had looked before a push puts another token in its place any more:
    /// who looks again then knows whether its own stays.
    pub const SETTLED_AFTER: Duration = Duration::from_secs(1);

    /// Connects. `options` log in as a user of the system account.
    ///
    /// # Errors
    /// As [`crate::NatsBus::open`]; `Denied` when that user is of another account.
    pub async fn open(options: NatsOptions) -> Result<Self> {
        let connection = Connection::open(options).await?;
        let claims = Self { connection, known: Mutex::default() };
        match claims.servers().await {
            Err(error) if error.kind() == ErrorKind::NoRecipient => {
                claims.close().await?;
                Err(Error::new(ErrorKind::Denied, OPEN, NOT_SYSTEM))
            }
            Err(error) => Err(error),
            Ok(_) => Ok(claims),
        }
    }

    /// The servers that answer, what they say of themselves, and who is missing among them.
    ///
    /// Of a server that is away only those of its own cluster know.
    ///
    /// # Errors
    /// `Denied`, `Unavailable`, `Timeout` when nobody answers.
    pub async fn servers(&self) -> Result<Servers> {
        let answers = self.ask_all(SERVERS, PING, Bytes::new(), None).await?;
        let stats = answers.iter().map(|answer| read::<Stats>(SERVERS, answer));
        let servers = facts::of(stats.collect::<Result<Vec<_>>>()?);
        *self.known() = Some((Instant::now(), servers.clone()));
        Ok(servers)
    }

    /// The tokens of `account` that the servers hold and `operator` signed.
    ///
    /// # Errors
    /// As [`servers`](Self::servers).
    pub async fn lookup(&self, account: &PublicKey, operator: &OperatorClaims) -> Result<Holdings> {
        let count = self.now().await?.answered.len();
        self.look(account, operator, count).await
    }

    /// Gives `token` to all servers, once nothing speaks against it, and reads it back.
    ///
    /// Cancelled in the middle, some servers may have it; they hand it on to the others.
    ///
    /// # Errors
    /// `Invalid`: the token is none. `Denied`: `operator` did not sign it. `Conflict`: a server
    /// holds one that is newer, or that revokes somebody whom this one does not; make another one
    /// of both ([`lookup`](Self::lookup)). `Unavailable`, `Timeout`, with outcome unknown once it
    /// was sent; `Unavailable` too when servers hold another one afterwards, and then what others
    /// pushed meanwhile has to be looked at.
    pub async fn push(&self, token: &str, operator: &OperatorClaims) -> Result<Pushed> {
        let claims = decode_account(token).map_err(Error::from)?;
        operator.check_account(&claims).map_err(|error| {
            Error::new(ErrorKind::Denied, PUSH, "another operator signed the token").because(error)
        })?;
        let servers = self.check(token, &claims, operator).await?;
        let count = Some(servers.answered.len());
        let body = Bytes::from(token.to_owned());
        let answers = self.ask_all(PUSH, UPDATE, body, count).await;
        let answers = answers.map_err(|error| no_resolver(PUSH, error).unknown())?;
        let taken = answers.iter().map(|answer| read::<Answer<Taken>>(PUSH, answer));
        let pushed = sort(taken.collect::<Result<Vec<_>>>().map_err(Error::unknown)?, &servers);
        if pushed.taken.is_empty() {
            // Each said why, and there is nothing to be read back.
            return Ok(pushed);
        }
        let after = self.look(&claims.subject, operator, pushed.taken.len()).await?;
        match after.held.iter().find(|held| held.token != token) {
            None => Ok(pushed),
            Some(_) => {
                let why = "somebody else pushed another token meanwhile";
                Err(Error::new(ErrorKind::Conflict, PUSH, why).unknown())
            }
        }
    }

    /// Ends the connection `client` of the server that has the id `server`.
    ///
    /// # Errors
    /// `NotFound` when there is no such connection; as [`servers`](Self::servers).
    pub async fn kick(&self, server: &str, client: u64) -> Result<()> {
        let subject = format!("$SYS.REQ.SERVER.{server}.KICK");
        let body = Bytes::from(format!("{{\"cid\":{client}}}"));
        let answer = self.connection.request(KICK, &subject, None, body).await?;
        match read::<Answer<serde::de::IgnoredAny>>(KICK, &answer.payload)?.error {
            None => Ok(()),
            Some(error) => Err(Error::new(ErrorKind::NotFound, KICK, error.shown())),
        }
    }

    /// Ends the connection.
    ///
    /// # Errors
    /// Those of closing one.
    pub async fn close(&self) -> Result<()> {
        self.connection.close().await
    }

    /// Holds a token against what the servers have a moment before it is sent; who they are.
    async fn check(
        &self,
        token: &str,
        claims: &AccountClaims,
        operator: &OperatorClaims,
    ) -> Result<Servers> {
        for _ in 0..LOOKS {
            let servers = self.now().await?;
            let looked = Instant::now();
            let count = servers.answered.len();
            let holdings = self.look(&claims.subject, operator, count).await?;
            holdings.held.iter().try_for_each(|held| check_newer(token, claims, held))?;
            if looked.elapsed() < SENT_WITHIN {
                return Ok(servers);
            }
            // One is gone, or slow, and others may have pushed in between.
            *self.known() = None;
        }
        Err(Error::new(ErrorKind::Unavailable, PUSH, "the servers answer too slowly"))
    }

    /// The servers as of a moment ago.
    async fn now(&self) -> Result<Servers> {
        let known = self.known().as_ref().filter(|(at, _)| at.elapsed() < KNOWN_FOR).cloned();
        match known {
            Some((_, servers)) => Ok(servers),
            None => self.servers().await,
        }
    }

    fn known(&self) -> MutexGuard<'_, Option<(Instant, Servers)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn look(
        &self,
        account: &PublicKey,
        operator: &OperatorClaims,
        servers: usize,
    ) -> Result<Holdings> {
        let subject = format!("$SYS.REQ.ACCOUNT.{}.CLAIMS.LOOKUP", account.text());
        let mut holdings = Holdings::default();
        let answers = self.ask_all(LOOKUP, &subject, Bytes::new(), Some(servers)).await;
        for answer in answers.map_err(|error| no_resolver(LOOKUP, error))? {
            let held = std::str::from_utf8(&answer).ok().and_then(|token| {
                let claims = decode_account(token).ok()?;
                let is_ours = claims.subject == *account && operator.check_account(&claims).is_ok();
                is_ours.then(|| Held { token: token.to_owned(), claims })
            });
            match held {
                Some(held) => holdings.held.push(held),
                None => holdings.without += 1,
            }
        }
        Ok(holdings)
    }
}

impl std::fmt::Debug for ServerClaims {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ServerClaims").field(&self.connection).finish()
    }
}

fn no_resolver(op: &'static str, error: Error) -> Error {
    match error.kind() {
        ErrorKind::NoRecipient => Error::new(ErrorKind::Unavailable, op, NO_RESOLVER),
        _ => error,
    }
}

/// Refuses a token over one that says more.
fn check_newer(token: &str, claims: &AccountClaims, held: &Held) -> Result<()> {
    let refuse = |why| Err(Error::new(ErrorKind::Conflict, PUSH, why));
    if held.token == token {
        return Ok(());
    }
    if held.claims.issued_at_unix_s >= claims.issued_at_unix_s {
        return refuse("a server holds a token that is newer");
    }
    let is_kept = |(key, until): (&String, &i64)| {
        claims.revocations.get(key).is_some_and(|ours| ours >= until)
    };
    if !held.claims.revocations.iter().all(is_kept) {
        return refuse("a server holds a token that revokes more");
    }
    Ok(())
}

fn sort(answers: Vec<Answer<Taken>>, servers: &Servers) -> Pushed {
    let mut pushed = Pushed::default();
    for answer in answers {
        let name = answer.server.name;
        match (answer.data, answer.error) {
            (Some(Taken { code: 200 }), None) => pushed.taken.push(name),
            (_, Some(error)) => pushed.refused.push((name, error.shown())),
            (_, None) => pushed.refused.push((name, "it does not say why".to_owned())),
        }
    }
    let has_answered = |name: &str| {
        pushed
            .taken
            .iter()
            .chain(pushed.refused.iter().map(|(name, _)| name))
            .any(|one| one == name)
    };
    let there = servers.answered.iter().map(|facts| &facts.name);
    let silent = there.filter(|name| !has_answered(name)).chain(&servers.away);
    pushed.silent = silent.cloned().collect();
    pushed.taken.sort();
    pushed.silent.sort();
    pushed
}

fn read<A: DeserializeOwned>(op: &'static str, body: &[u8]) -> Result<A> {
    serde_json::from_slice(body).map_err(|error| {
        Error::new(ErrorKind::Unavailable, op, "the answer of a server cannot be read")
            .because(error)
    })
}

const OPEN: &str = "open the system account";
const SERVERS: &str = "ask the servers";
const LOOKUP: &str = "look up an account";
const PUSH: &str = "push an account";
const KICK: &str = "end a connection";
const PING: &str = "$SYS.REQ.SERVER.PING";
const UPDATE: &str = "$SYS.REQ.CLAIMS.UPDATE";
const NOT_SYSTEM: &str = "this login is not of the servers' system account";
const NO_RESOLVER: &str = "no server takes tokens: each needs a resolver of its own (full)";
/// How old what was looked up may be when something is sent on its account.
const SENT_WITHIN: Duration = Duration::from_millis(400);
/// How long it is not asked again who is there. One that has come since fetches what it lacks.
const KNOWN_FOR: Duration = Duration::from_secs(1);
/// How often is looked again when servers answer slowly.
const LOOKS: usize = 3;

#[cfg(test)]
mod tests;
