//! The harness of the NATS engine under least privilege: everything is kept in another account,
//! behind the imports of a workspace, and what makes or removes it is done by somebody else.

#![expect(clippy::unwrap_used, reason = "test support: without its server a test must fail")]

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bus_conformance::{Harness, wait_out};
use bus_core::{BoxFuture, Durability, Engine, Error, ErrorKind, Promises, Result};
use bus_crypto::{
    Credentials, NkeyKind, SigningKey, SystemEntropy, creds,
    jwt::{
        AccountClaims, Answers, Export, Import, JetStreamLimits, OperatorClaims, Permissions,
        SubjectPermission, UserClaims, encode_account, encode_operator, encode_user,
    },
};
use bus_nats::{
    NatsAuth, NatsBus, NatsOptions, Profile,
    permissions::{CALL_ANSWERS, Layout, store_exports, workspace_imports},
    server::{Authorization, ServerConfig},
};
use bus_testserver::TestServer;

use crate::split::{Known, Split};

/// A server with two accounts; a clone is the same one.
#[derive(Clone)]
pub(crate) struct LeastPrivilege(Arc<Inner>);

struct Inner {
    server: Mutex<TestServer>,
    store: SigningKey,
    agents: SigningKey,
    known: Arc<Known>,
}

impl LeastPrivilege {
    pub(crate) fn start() -> Self {
        let [operator, system] = [NkeyKind::Operator, NkeyKind::Account].map(new_key);
        let [store, agents] = [NkeyKind::Account; 2].map(new_key);
        let mut claims = OperatorClaims::new("o", *operator.public(), 0);
        claims.system_account = Some(*system.public());
        let account =
            |key: &SigningKey| AccountClaims::new("a", *key.public(), *operator.public(), 0);
        let (mut of_store, mut of_agents) = (account(&store), account(&agents));
        of_store.limits.jetstream = JetStreamLimits::unlimited();
        // The cases make workspaces of their own: of these all subjects that a stream keeps.
        let layout = layout();
        let is_wide = |subject: &str| subject.starts_with("vak.") || subject.starts_with("vakp.");
        of_store.exports = store_exports(&layout);
        of_store.exports.retain(|export| !is_wide(&export.subject));
        of_agents.imports = workspace_imports(&layout, store.public());
        of_agents.imports.retain(|import| !is_wide(&import.subject));
        for subject in kept() {
            of_store.exports.push(Export::service("kept", subject.as_str(), Answers::One));
            of_agents.imports.push(Import::service("kept", subject, *store.public()));
        }
        let accounts = [account(&system), of_store, of_agents].into_iter();
        let accounts = accounts
            .map(|claims| (claims.subject, encode_account(&claims, &operator).unwrap()))
            .collect();
        let authorization = Authorization::Jwt {
            operator: encode_operator(&claims, &operator).unwrap(),
            system_account: *system.public(),
            accounts,
        };
        let server =
            TestServer::start_with(ServerConfig { authorization, ..ServerConfig::default() });
        let known = Arc::default();
        Self(Arc::new(Inner { server: Mutex::new(server), store, agents, known }))
    }

    async fn open(&self, who: &str) -> Result<Arc<dyn Engine>> {
        let Inner { server, store, agents, known } = &*self.0;
        let url = server.lock().unwrap_or_else(PoisonError::into_inner).url().to_owned();
        // The servers of the tests sync every write.
        let options = |name: &str, auth| NatsOptions {
            name: name.to_owned(),
            auth,
            profile: Profile::Synced,
            ..NatsOptions::new(url.clone())
        };
        let setup = NatsAuth::Jwt(credentials(store, "setup", Permissions::default()));
        let store = NatsBus::open(options("setup", setup)).await?;
        let agent = NatsAuth::Jwt(credentials(agents, who, all_roles(who)));
        let agent = NatsBus::open(NatsOptions {
            inbox_prefix: format!("_INBOX.{who}"),
            api_prefix: Layout::API_PREFIX.to_owned(),
            ..options(who, agent)
        });
        Ok(Arc::new(Split::new(store, agent.await?, Arc::clone(known)).await?))
    }
}

impl Harness for LeastPrivilege {
    fn name(&self) -> &'static str {
        "nats-least-privilege"
    }

    fn promises(&self) -> Promises {
        Promises { engine: "nats", durability: Durability::Synced, shared: true }
    }

    fn connect<'a>(&'a self, who: &'a str) -> BoxFuture<'a, Result<Arc<dyn Engine>>> {
        Box::pin(self.open(who))
    }

    fn restart(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            let mut server = self.0.server.lock().unwrap_or_else(PoisonError::into_inner);
            server.kill();
            server.restart().map_err(|error| {
                Error::new(ErrorKind::Unavailable, "restart", error.to_string()).because(error)
            })
        })
    }

    fn virtual_time(&self) -> bool {
        false
    }

    fn elapse(&self, by: Duration) -> BoxFuture<'_, ()> {
        Box::pin(wait_out(by))
    }
}

/// What some role may, in every workspace; nothing that no role may.
fn all_roles(who: &str) -> Permissions {
    let own = format!("_INBOX.{who}.>");
    let named = workspace_imports(&layout(), new_key(NkeyKind::Account).public()).into_iter();
    let named = named.map(|import| import.local_subject.unwrap_or(import.subject));
    let level = |level: &str| {
        let is_star = level.strip_prefix('$').is_some_and(|star| star.parse::<u8>().is_ok());
        if is_star { "*".to_owned() } else { level.to_owned() }
    };
    let starred = |name: String| name.split('.').map(level).collect::<Vec<_>>().join(".");
    let said: HashSet<_> = named.map(starred).chain(kept()).collect();
    let more = ["$SYS.REQ.USER.INFO", "vak.>", CALL_ANSWERS, &own].map(str::to_owned);
    let removed = "$JS.EVENT.ADVISORY.CONSUMER.DELETED.>";
    let heard = ["vak.>", "vakp.>", removed, &own].map(str::to_owned);
    let allow = |allow| SubjectPermission { allow, deny: Vec::new() };
    Permissions {
        publish: allow(said.into_iter().chain(more).collect()),
        subscribe: allow(heard.into()),
        response: None,
    }
}

/// The subjects that the streams of the cases keep.
fn kept() -> Vec<String> {
    let planes = ["work", "agent", "receipts", "approvals", "dlq", "room", "history"];
    let plain = planes.map(|plane| format!("vak.{plane}.>"));
    let placed = planes.map(|plane| format!("vakp.*.*.vak.{plane}.>"));
    let samples = ["vak.events.*.*.telemetry".to_owned()];
    plain.into_iter().chain(placed).chain(samples).collect()
}

fn layout() -> Layout {
    Layout::of(&"w1".parse().unwrap()).unwrap()
}

fn credentials(account: &SigningKey, name: &str, rights: Permissions) -> Arc<Credentials> {
    let user = new_key(NkeyKind::User);
    let mut claims = UserClaims::new(name, *user.public(), *account.public(), 0);
    claims.permissions = rights;
    let token = encode_user(&claims, account).unwrap();
    Arc::new(creds::parse(&creds::render(&token, &user)).unwrap())
}

fn new_key(kind: NkeyKind) -> SigningKey {
    SigningKey::generate(kind, &SystemEntropy::new()).unwrap()
}
