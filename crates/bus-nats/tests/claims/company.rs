//! An operator with one account, and servers that are its.

use std::{sync::Arc, time::Duration};

use bus_core::{Clock, ErrorKind, Result, SystemClock};
use bus_crypto::{
    Credentials, NkeyKind, PublicKey, SigningKey, SystemEntropy,
    jwt::{
        AccountClaims, JetStreamLimits, OperatorClaims, UserClaims, encode_account,
        encode_operator, encode_user,
    },
};
use bus_nats::{
    ConnectionState, NatsAuth, NatsBus, NatsOptions, Profile,
    claims::ServerClaims,
    server::{Authorization, Resolver, ServerConfig},
};
use bus_testserver::{TestCluster, TestServer};
use tokio::time::Instant;

/// The keys of an operator, its system account and one account with JetStream.
pub(crate) struct Company {
    operator: SigningKey,
    pub(crate) claims: OperatorClaims,
    system: SigningKey,
    pub(crate) account: SigningKey,
    /// When the tokens that servers begin with are issued.
    pub(crate) begun: i64,
}

impl Company {
    pub(crate) fn new() -> Self {
        let new = |kind| SigningKey::generate(kind, &SystemEntropy::new()).unwrap();
        let (operator, system) = (new(NkeyKind::Operator), new(NkeyKind::Account));
        let begun = now() - 1_000;
        let mut claims = OperatorClaims::new("o", *operator.public(), begun);
        claims.system_account = Some(*system.public());
        Self { operator, claims, system, account: new(NkeyKind::Account), begun }
    }

    /// The configuration of its servers.
    pub(crate) fn config(&self) -> ServerConfig {
        let system =
            AccountClaims::new("s", *self.system.public(), self.claims.subject, self.begun);
        let authorization = Authorization::Jwt {
            operator: encode_operator(&self.claims, &self.operator).unwrap(),
            system_account: *self.system.public(),
            accounts: vec![(
                *self.system.public(),
                encode_account(&system, &self.operator).unwrap(),
            )],
        };
        ServerConfig { authorization, resolver: Resolver::FULL, ..ServerConfig::default() }
    }

    pub(crate) fn server(&self) -> TestServer {
        TestServer::start_with(self.config())
    }

    /// Three servers that know each other, one of which leads.
    pub(crate) async fn cluster(&self) -> TestCluster {
        let cluster = TestCluster::start_with(&self.config());
        let servers = self.servers(&cluster.urls()[0]).await;
        for _ in 0..60 {
            let told = servers.servers().await.unwrap();
            let are_there = told.answered.len() == TestCluster::SERVERS && told.away.is_empty();
            if are_there && told.leaderless.is_empty() {
                return cluster;
            }
        }
        panic!("the servers elect no leader");
    }

    /// The token of the account, so many seconds younger than the first, which revokes these keys.
    pub(crate) fn token(&self, younger: i64, revoked: &[PublicKey]) -> String {
        let mut claims = self.account_claims(younger);
        revoked.iter().for_each(|key| claims.revoke(key));
        encode_account(&claims, &self.operator).unwrap()
    }

    fn account_claims(&self, younger: i64) -> AccountClaims {
        let (account, issued) = (*self.account.public(), self.begun + younger);
        let mut claims = AccountClaims::new("a", account, self.claims.subject, issued);
        claims.limits.jetstream = JetStreamLimits::unlimited();
        claims
    }

    /// A user of the account, whose token `edit` may change.
    pub(crate) fn user(&self, edit: impl FnOnce(&mut UserClaims)) -> Credentials {
        user_of(&self.account, edit)
    }

    /// The servers' own interface, as their operator sees it.
    pub(crate) async fn servers(&self, url: &str) -> ServerClaims {
        let auth = NatsAuth::Jwt(Arc::new(user_of(&self.system, |_| {})));
        ServerClaims::open(NatsOptions { auth, ..NatsOptions::new(url) }).await.unwrap()
    }
}

pub(crate) fn user_of(account: &SigningKey, edit: impl FnOnce(&mut UserClaims)) -> Credentials {
    let key = SigningKey::generate(NkeyKind::User, &SystemEntropy::new()).unwrap();
    let mut claims = UserClaims::new("u", *key.public(), *account.public(), now());
    edit(&mut claims);
    let token = encode_user(&claims, account).unwrap();
    Credentials::from_parts(&token, &key.seed_text()).unwrap()
}

/// Logs in, however slow the server is; refused means so within half a second, also where one is
/// cut off later.
pub(crate) async fn log_in(url: &str, auth: NatsAuth) -> Result<NatsBus> {
    let begun = Instant::now();
    loop {
        match try_log_in(url, auth.clone()).await {
            Err(error)
                if error.kind() != ErrorKind::Denied && begun.elapsed() < SLOW_SERVER_WAIT => {}
            told => return told,
        }
    }
}

async fn try_log_in(url: &str, auth: NatsAuth) -> Result<NatsBus> {
    let connect_wait = Duration::from_millis(500);
    let (inbox_prefix, profile) = ("_INBOX.u".to_owned(), Profile::Synced);
    let options =
        NatsOptions { auth, inbox_prefix, profile, connect_wait, ..NatsOptions::new(url) };
    NatsBus::open(options).await
}

const SLOW_SERVER_WAIT: Duration = Duration::from_secs(20);

pub(crate) fn jwt(credentials: Credentials) -> NatsAuth {
    NatsAuth::Jwt(Arc::new(credentials))
}

/// Waits until the server lets this identity in no more.
pub(crate) async fn denied(bus: &NatsBus) {
    let mut states = bus.states();
    let waiting = states.wait_for(|state| *state == ConnectionState::Denied);
    tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap().unwrap();
}

/// Waits until there is no connection.
pub(crate) async fn cut_off(bus: &NatsBus) {
    let mut states = bus.states();
    let waiting = states.wait_for(|state| state.epoch() != Some(1));
    tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap().unwrap();
}

pub(crate) fn now() -> i64 {
    SystemClock::new().now().unix_ns().div_euclid(1_000_000_000).try_into().unwrap()
}
