//! Servers for these tests, places that use them, and copies of them as other machines have.

use std::{path::PathBuf, process::Command};

use bus_crypto::{
    NkeyKind, SigningKey, SystemEntropy,
    jwt::{
        AccountClaims, JetStreamLimits, OperatorClaims, Permissions, SubjectPermission, UserClaims,
        encode_account, encode_operator, encode_user,
    },
};
use bus_nats::server::{Authorization, NkeyUser, ServerConfig};
use bus_testserver::TestServer;

use crate::support::{Outcome, Place, Running, run};

/// A machine: a place whose commands use one server.
pub(crate) struct Machine {
    pub(crate) place: Place,
    url: String,
}

impl Machine {
    /// One with keys of its own.
    pub(crate) fn new(server: &TestServer) -> Self {
        Self { place: Place::new(), url: server.url().to_owned() }
    }

    /// Another one with a copy of the workspaces that this one has now.
    pub(crate) fn copy(&self) -> Self {
        let place = Place::new();
        std::fs::create_dir(place.path("data")).unwrap();
        let copied = Command::new("cp")
            .arg("-a")
            .arg(self.place.path("data/workspaces"))
            .arg(place.path("data"))
            .status();
        assert!(copied.unwrap().success());
        Self { place, url: self.url.clone() }
    }

    /// `vakbus` with these arguments, ready to run on the server.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.place.command();
        command.args(args).env("VAKBUS_NATS_URL", &self.url);
        command
    }

    /// Runs `vakbus` to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Outcome {
        run(self.command(args), "")
    }

    /// As [`Machine::run`], when it has to go well.
    pub(crate) fn does(&self, args: &[&str]) -> String {
        let outcome = self.run(args);
        assert_eq!(outcome.code, Some(0), "{args:?}: {outcome:?}");
        outcome.stdout.trim_end().to_owned()
    }

    /// Starts `vakbus`; its stdin is empty.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        Running::start(self.command(args))
    }
}

/// A key to log in with.
pub(crate) fn login() -> SigningKey {
    SigningKey::generate(NkeyKind::User, &SystemEntropy::new()).unwrap()
}

/// A server that knows the owner of `login` and nobody else.
pub(crate) fn guarded_server(login: &SigningKey) -> TestServer {
    server_for(login, None)
}

/// As [`guarded_server`], where that user may not publish to these subjects.
pub(crate) fn server_that_denies(login: &SigningKey, subjects: &str) -> TestServer {
    let publish = SubjectPermission { deny: vec![subjects.to_owned()], ..Default::default() };
    server_for(login, Some(Permissions { publish, ..Default::default() }))
}

fn server_for(login: &SigningKey, permissions: Option<Permissions>) -> TestServer {
    let users = vec![NkeyUser { key: *login.public(), permissions }];
    let authorization = Authorization::Nkeys(users);
    TestServer::start_with(ServerConfig { authorization, ..ServerConfig::default() })
}

/// A server that knows the users of one account by their tokens, with the token of a user and its
/// key.
pub(crate) fn server_with_accounts() -> (TestServer, String, SigningKey) {
    let new = |kind| SigningKey::generate(kind, &SystemEntropy::new()).unwrap();
    let (operator, system, account) =
        (new(NkeyKind::Operator), new(NkeyKind::Account), new(NkeyKind::Account));
    let mut claims = OperatorClaims::new("o", *operator.public(), 0);
    claims.system_account = Some(*system.public());
    let operator_token = encode_operator(&claims, &operator).unwrap();
    let account_of = |key: &SigningKey, jetstream| {
        let mut claims = AccountClaims::new("a", *key.public(), *operator.public(), 0);
        claims.limits.jetstream = jetstream;
        (*key.public(), encode_account(&claims, &operator).unwrap())
    };
    let authorization = Authorization::Jwt {
        operator: operator_token,
        system_account: *system.public(),
        accounts: vec![
            account_of(&system, JetStreamLimits::default()),
            account_of(&account, JetStreamLimits::unlimited()),
        ],
    };
    let server = TestServer::start_with(ServerConfig { authorization, ..ServerConfig::default() });
    let user = login();
    let claims = UserClaims::new("u", *user.public(), *account.public(), 0);
    (server, encode_user(&claims, &account).unwrap(), user)
}

/// The program of the servers that these tests start by `vakbus up --nats`.
pub(crate) fn program() -> PathBuf {
    bus_testserver::binary().path().to_owned()
}
