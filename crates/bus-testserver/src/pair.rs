//! Two real servers, one of which is a leaf node of the other.

use std::{path::PathBuf, sync::Arc};

use bus_crypto::{
    NkeyKind, SigningKey, SystemEntropy, creds,
    jwt::{
        AccountClaims, JetStreamLimits, OperatorClaims, UserClaims, encode_account,
        encode_operator, encode_user,
    },
};
use bus_nats::{
    NatsAuth, NatsOptions,
    permissions::{Layout, leaf_denies},
    server::{Authorization, LeafDoor, LeafNodes, LeafRemote, ServerConfig, ServerError},
};
use bus_subjects::Filter;
use tempfile::TempDir;

use crate::{TestServer, free_address};

/// A hub and a leaf node of it on this machine, each with a store of its own for the workspace
/// `w1`: domains `hub` and `leaf1`, one operator, one account whose users may do everything in it.
///
/// What the stores keep does not cross the link ([`leaf_denies`]).
#[derive(Debug)]
pub struct TestPair {
    /// The hub.
    pub hub: TestServer,
    /// The leaf node.
    pub leaf: TestServer,
    account: SigningKey,
    _home: TempDir,
}

impl TestPair {
    /// Starts both. The link comes up a moment later.
    ///
    /// # Panics
    /// When there is no server, or one does not start.
    #[must_use]
    #[expect(clippy::panic, reason = "test support: without its servers a test must fail")]
    pub fn start() -> Self {
        Self::try_start().unwrap_or_else(|error| panic!("{error}"))
    }

    #[expect(clippy::panic, reason = "test support: without its keys and folder a test must fail")]
    fn try_start() -> Result<Self, ServerError> {
        let home = tempfile::tempdir().unwrap_or_else(|error| panic!("temporary folder: {error}"));
        let [operator, system] = [NkeyKind::Operator, NkeyKind::Account].map(new_key);
        let account = new_key(NkeyKind::Account);
        let authorization = authorization(&operator, &system, &account);
        let door = free_address();
        let hub = TestServer::try_start_with(ServerConfig {
            name: "hub".to_owned(),
            domain: Some("hub".to_owned()),
            authorization: authorization.clone(),
            leafnodes: LeafNodes {
                listen: Some(LeafDoor { listen: door, tls: None }),
                ..LeafNodes::default()
            },
            ..ServerConfig::default()
        })?;
        let credentials = credentials_file(&home, &account);
        let denied = denied();
        let remote = LeafRemote {
            urls: vec![door.into()],
            account: *account.public(),
            credentials,
            deny_exports: denied.clone(),
            deny_imports: denied,
            tls: None,
        };
        let leaf = TestServer::try_start_with(ServerConfig {
            name: "leaf1".to_owned(),
            domain: Some("leaf1".to_owned()),
            authorization,
            leafnodes: LeafNodes { remotes: vec![remote], ..LeafNodes::default() },
            ..ServerConfig::default()
        })?;
        Ok(Self { hub, leaf, account, _home: home })
    }

    /// How a user of the account that both know connects to `url`.
    ///
    /// # Panics
    /// When no token can be made.
    #[must_use]
    pub fn options(&self, url: &str) -> NatsOptions {
        let (token, key) = user(&self.account);
        let credentials = creds::parse(&creds::render(&token, &key));
        let auth = credentials.map_or(NatsAuth::None, |it| NatsAuth::Jwt(Arc::new(it)));
        NatsOptions { auth, ..NatsOptions::new(url) }
    }
}

fn authorization(
    operator: &SigningKey,
    system: &SigningKey,
    account: &SigningKey,
) -> Authorization {
    let mut claims = OperatorClaims::new("o", *operator.public(), 0);
    claims.system_account = Some(*system.public());
    let account_of = |key: &SigningKey, jetstream| {
        let mut claims = AccountClaims::new("a", *key.public(), *operator.public(), 0);
        claims.limits.jetstream = jetstream;
        (*key.public(), signed(encode_account(&claims, operator)))
    };
    Authorization::Jwt {
        operator: signed(encode_operator(&claims, operator)),
        system_account: *system.public(),
        accounts: vec![
            account_of(system, JetStreamLimits::default()),
            account_of(account, JetStreamLimits::unlimited()),
        ],
    }
}

/// What the stores of both keep.
#[expect(clippy::panic, reason = "test support: w1 is the name of a workspace")]
fn denied() -> Vec<Filter> {
    let layout = "w1".parse().map(|workspace| Layout::of(&workspace));
    let denied = layout.ok().and_then(Result::ok).and_then(|layout| leaf_denies(&layout).ok());
    denied.unwrap_or_else(|| panic!("the names of w1 are no names"))
}

/// What the leaf node shows to the hub.
#[expect(clippy::panic, reason = "test support: without its credentials a test must fail")]
fn credentials_file(home: &TempDir, account: &SigningKey) -> PathBuf {
    let (token, key) = user(account);
    let place = home.path().join("leaf.creds");
    let written = std::fs::write(&place, &*creds::render(&token, &key));
    written.unwrap_or_else(|error| panic!("{}: {error}", place.display()));
    place
}

fn user(account: &SigningKey) -> (String, SigningKey) {
    let key = new_key(NkeyKind::User);
    let claims = UserClaims::new("u", *key.public(), *account.public(), 0);
    (signed(encode_user(&claims, account)), key)
}

#[expect(clippy::panic, reason = "test support: without its keys a test must fail")]
fn new_key(kind: NkeyKind) -> SigningKey {
    SigningKey::generate(kind, &SystemEntropy::new()).unwrap_or_else(|error| panic!("{error}"))
}

#[expect(clippy::panic, reason = "test support: without its tokens a test must fail")]
fn signed<E: std::fmt::Display>(token: Result<String, E>) -> String {
    token.unwrap_or_else(|error| panic!("{error}"))
}
