//! What one connection does on a real server that the public calls do not show.

#![expect(clippy::disallowed_methods, reason = "tests run calls at once and time them")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bus_core::{Error, ErrorKind, Outcome};
use bus_crypto::{
    NkeyKind, SigningKey, SystemEntropy,
    jwt::{Permissions, SubjectPermission},
};
use bytes::Bytes;
use tempfile::TempDir;

use super::{Connection, ConnectionState};
use crate::{
    options::{NatsAuth, NatsOptions},
    server::{Authorization, NatsServer, NkeyUser, ServerConfig, ServerOptions, find_server},
};

mod answers;
mod fence;
mod size;
mod state;
mod time;

/// A server, and its folder, which goes after it.
struct Place {
    server: NatsServer,
    _home: TempDir,
}

impl Place {
    fn start() -> Self {
        Self::start_with(ServerConfig::default())
    }

    fn start_with(config: ServerConfig) -> Self {
        let home = tempfile::tempdir().unwrap();
        let binary = find_server(Some(bus_testserver::binary().path())).unwrap();
        let options = ServerOptions { config, ..ServerOptions::new(binary, home.path().join("s")) };
        Self { server: NatsServer::start(options).unwrap(), _home: home }
    }

    /// A server that lets the owner of a key do what `permissions` say, and that key.
    fn of_user(permissions: Option<Permissions>) -> (Self, NatsAuth) {
        let key = user();
        (Self::start_with(config_of(&key, permissions)), NatsAuth::Nkey(key))
    }

    fn options(&self) -> NatsOptions {
        NatsOptions::new(self.server.url())
    }

    async fn connect(&self) -> Arc<Connection> {
        Connection::open(self.options()).await.unwrap()
    }

    async fn connect_as(&self, auth: NatsAuth) -> Arc<Connection> {
        Connection::open(NatsOptions { auth, ..self.options() }).await.unwrap()
    }
}

fn user() -> Arc<SigningKey> {
    Arc::new(SigningKey::generate(NkeyKind::User, &SystemEntropy::new()).unwrap())
}

fn config_of(key: &SigningKey, permissions: Option<Permissions>) -> ServerConfig {
    let users = vec![NkeyUser { key: *key.public(), permissions }];
    let authorization = Authorization::Nkeys(users);
    ServerConfig { authorization, ..ServerConfig::default() }
}

fn deny_publish(subjects: &[&str]) -> Option<Permissions> {
    let deny = subjects.iter().map(|&subject| subject.to_owned()).collect();
    let publish = SubjectPermission { deny, ..SubjectPermission::default() };
    Some(Permissions { publish, ..Permissions::default() })
}

fn allow_subscribe(subjects: &[&str]) -> Option<Permissions> {
    let allow = subjects.iter().map(|&subject| subject.to_owned()).collect();
    let subscribe = SubjectPermission { allow, ..SubjectPermission::default() };
    Some(Permissions { subscribe, ..Permissions::default() })
}

async fn until(connection: &Connection, wanted: impl FnMut(&ConnectionState) -> bool) {
    let mut states = connection.states();
    let waited = tokio::time::timeout(Duration::from_secs(20), states.wait_for(wanted)).await;
    assert!(waited.is_ok(), "the state did not come: {connection:?}");
}

fn said(error: &Error) -> (ErrorKind, Outcome) {
    (error.kind(), error.outcome())
}

fn body(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

const OP: &str = "test";
/// Far less than the time that any call may take.
const SOON: Duration = Duration::from_secs(2);
