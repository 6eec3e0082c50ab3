//! A workspace on a server of its own, in two accounts or, to show why not, in one.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use bus_core::Bus as _;
use bus_crypto::{
    Credentials, NkeyKind, SigningKey, SystemEntropy, creds,
    jwt::{
        AccountClaims, JetStreamLimits, OperatorClaims, Permissions, UserClaims, encode_account,
        encode_operator, encode_user,
    },
};
use bus_nats::{
    NatsAuth, NatsBus, NatsOptions, Profile,
    permissions::{Layout, permissions, store_exports, workspace_imports},
    server::{Authorization, Cluster, LeafNodes, LeafRemote, ServerConfig},
};
use bus_subjects::{AclPolicy, AclScope, Filter, Role};
use bus_testserver::{TestServer, free_address};
use serde_json::{Value, json};

use crate::raw::Raw;

/// The server and the keys of its accounts.
pub(crate) struct World {
    /// One, or those of a cluster.
    servers: Vec<TestServer>,
    /// Which of them is connected to.
    at: usize,
    store: SigningKey,
    agents: SigningKey,
    shape: Shape,
}

/// How many accounts a workspace has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The store and the agents, each in an account of its own.
    Two,
    /// Everything in one account: what the other shape is held against.
    One,
}

/// Everything in all streams that an attack could change.
pub(crate) type Snapshot = Vec<(String, Value)>;

impl World {
    pub(crate) fn start(shape: Shape) -> Self {
        Self::start_with(shape, ServerConfig::default())
    }

    pub(crate) fn start_with(shape: Shape, config: ServerConfig) -> Self {
        let (authorization, [store, agents]) = authorization_of(shape);
        let config = ServerConfig { authorization, ..config };
        Self { servers: vec![TestServer::start_with(config)], at: 0, store, agents, shape }
    }

    /// One whose agents' account is linked with that of a hub: `credentials` are the hub's, and
    /// what is `denied` crosses in neither direction.
    pub(crate) fn leaf_of(hub: SocketAddr, credentials: &Path, denied: &[Filter]) -> Self {
        let shape = Shape::Two;
        let (authorization, [store, agents]) = authorization_of(shape);
        let remote = LeafRemote {
            urls: vec![hub.into()],
            account: *agents.public(),
            credentials: credentials.to_owned(),
            deny_exports: denied.to_vec(),
            deny_imports: denied.to_vec(),
            tls: None,
        };
        let config = ServerConfig {
            name: "leaf".to_owned(),
            domain: Some("leaf".to_owned()),
            authorization,
            leafnodes: LeafNodes { remotes: vec![remote], ..LeafNodes::default() },
            ..ServerConfig::default()
        };
        Self { servers: vec![TestServer::start_with(config)], at: 0, store, agents, shape }
    }

    /// Three servers that know the same accounts and share what they keep.
    pub(crate) fn cluster(shape: Shape) -> Self {
        let (authorization, [store, agents]) = authorization_of(shape);
        let doors = [(); 3].map(|()| free_address());
        let server = |(number, listen): (usize, &SocketAddr)| {
            let routes = doors.map(Into::into).to_vec();
            let (name, listen) = ("vak".to_owned(), *listen);
            TestServer::start_with(ServerConfig {
                name: format!("n{number}"),
                authorization: authorization.clone(),
                cluster: Some(Cluster { name, listen, routes, password: None, tls: None }),
                ..ServerConfig::default()
            })
        };
        let servers = doors.iter().enumerate().map(server).collect();
        let world = Self { servers, at: 0, store, agents, shape };
        world.until_led();
        world
    }

    /// The same, seen from another server of the cluster.
    pub(crate) fn seen_from(&mut self, number: usize) -> &Self {
        self.at = number;
        self
    }

    /// Waits until the servers have agreed on who leads them.
    fn until_led(&self) {
        let config = json!({"name": "LED", "subjects": ["led"], "storage": "memory"}).to_string();
        let is_made = |_| {
            // A connection of its own: what is answered too late is nobody's.
            let Admin(mut admin) = self.admin();
            admin.patience(Duration::from_millis(500));
            let answer = admin.try_ask("$JS.API.STREAM.CREATE.LED", &config);
            answer.is_ok_and(|answer| answer.err_code().is_none())
        };
        assert!((0..120).any(is_made), "no server leads");
    }

    /// One with all streams, buckets and the board of the workspace.
    pub(crate) fn furnished(shape: Shape) -> Self {
        let world = Self::start(shape);
        world.furnish();
        world
    }

    /// Makes everything of the workspace, as whoever sets one up does, and consumers of others.
    pub(crate) fn furnish(&self) {
        let making = async {
            let store = NatsBus::open(self.store_options()).await.unwrap();
            store.declare_workspace(&layout()).await.unwrap();
            store.close().await.unwrap();
        };
        tokio::runtime::Runtime::new().unwrap().block_on(making);
        let mut admin = self.admin();
        for stream in admin.stream_names().iter().filter(|name| *name != "LED") {
            admin.until_heard(stream);
        }
        for (stream, name, filter) in [
            ("VAK_WORK_w1", "worker_judge", "vak.work.w1.judge.task"),
            ("VAK_INBOX_w1", "inbox_a2", "vak.agent.w1.a2.inbox"),
            ("VAK_OUTBOX_w1", "courier", "vak.outbox.w1.*.record"),
        ] {
            admin.consumer(stream, name, filter);
        }
    }

    /// How whoever sets up the workspace connects.
    pub(crate) fn store_options(&self) -> NatsOptions {
        let (key, token) = token_of(&self.store, "setup", Permissions::default());
        let auth = NatsAuth::Jwt(credentials(&key, &token));
        let is_one = self.servers.len() == 1;
        let profile = if is_one { Profile::Development } else { Profile::Replicated };
        NatsOptions { auth, profile, ..NatsOptions::new(self.server().url()) }
    }

    /// Somebody who may do everything in the account of the streams.
    pub(crate) fn admin(&self) -> Admin {
        Admin(self.connect(&self.store, "admin", Permissions::default()))
    }

    /// Somebody who may do everything in the account of the agents.
    pub(crate) fn resident(&self) -> Raw {
        self.connect(self.account_of_agents(), "resident", Permissions::default())
    }

    /// An agent with these rights.
    pub(crate) fn agent(&self, name: &str, permissions: Permissions) -> Raw {
        self.connect(self.account_of_agents(), name, permissions)
    }

    /// An agent of a role; its session is `s1` and its role name `coder`.
    pub(crate) fn agent_in(&self, role: Role, name: &str) -> Raw {
        let mut rights = rights_of(role, name);
        if self.shape == Shape::One {
            let own = |rules: &mut Vec<String>| {
                for rule in rules {
                    *rule = rule.replace("vakj.", "$JS.API.");
                }
            };
            own(&mut rights.publish.allow);
            own(&mut rights.publish.deny);
        }
        self.agent(name, rights)
    }

    /// What the API is called where agents are.
    pub(crate) fn api(&self) -> &'static str {
        match self.shape {
            Shape::Two => Layout::API_PREFIX,
            Shape::One => "$JS.API",
        }
    }

    pub(crate) fn server(&self) -> &TestServer {
        &self.servers[self.at]
    }

    pub(crate) fn token(&self, name: &str, rights: Permissions) -> (SigningKey, String) {
        token_of(self.account_of_agents(), name, rights)
    }

    fn account_of_agents(&self) -> &SigningKey {
        match self.shape {
            Shape::Two => &self.agents,
            Shape::One => &self.store,
        }
    }

    fn connect(&self, account: &SigningKey, name: &str, rights: Permissions) -> Raw {
        let (user, token) = token_of(account, name, rights);
        Raw::connect(self.server().url(), &user, &token, name).unwrap()
    }
}

/// The accounts of a workspace as a server is told of them, and the keys of the store's and the
/// agents'.
fn authorization_of(shape: Shape) -> (Authorization, [SigningKey; 2]) {
    let [operator, system] = [NkeyKind::Operator, NkeyKind::Account].map(new_key);
    let [store, agents] = [NkeyKind::Account, NkeyKind::Account].map(new_key);
    let mut claims = OperatorClaims::new("o", *operator.public(), 0);
    claims.system_account = Some(*system.public());
    let token = encode_operator(&claims, &operator).unwrap();
    let account = |key: &SigningKey| AccountClaims::new("a", *key.public(), *operator.public(), 0);
    let (layout, mut of_store, mut of_agents) = (layout(), account(&store), account(&agents));
    of_store.limits.jetstream = JetStreamLimits::unlimited();
    if shape == Shape::Two {
        of_store.exports = store_exports(&layout);
        of_agents.imports = workspace_imports(&layout, store.public());
    }
    let accounts = [account(&system), of_store, of_agents].into_iter();
    let accounts = accounts
        .map(|claims| (claims.subject, encode_account(&claims, &operator).unwrap()))
        .collect();
    let authorization =
        Authorization::Jwt { operator: token, system_account: *system.public(), accounts };
    (authorization, [store, agents])
}

/// A client without limits in the account of the streams.
pub(crate) struct Admin(pub(crate) Raw);

impl Admin {
    /// Asks the API, which must answer without an error.
    pub(crate) fn api(&mut self, verb: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.0.ask(&format!("$JS.API.{verb}"), &body).unwrap();
        assert_eq!(answer.err_code(), None, "{verb}: {}", answer.body);
        answer.json()
    }

    /// Makes a stream in memory.
    pub(crate) fn stream(&mut self, name: &str, subject: &str) {
        let config = json!({
            "name": name, "subjects": [subject], "storage": "memory", "retention": "limits",
            "allow_direct": true,
        });
        self.api(&format!("STREAM.CREATE.{name}"), &config);
        self.until_heard(name);
    }

    /// Waits until a stream answers: the server says that there is one before all of it listens.
    fn until_heard(&mut self, stream: &str) {
        let get = format!("$JS.API.DIRECT.GET.{stream}");
        let listens = |_| !self.0.ask(&get, r#"{"seq":1}"#).unwrap().is_from_nobody();
        assert!((0..100_000).any(listens), "{stream} does not listen");
    }

    /// Stores a message.
    pub(crate) fn store(&mut self, subject: &str, body: &str) -> u64 {
        let answer = self.0.ask(subject, body).unwrap().json();
        answer["seq"].as_u64().unwrap_or_else(|| panic!("{subject}: {answer}"))
    }

    /// Makes a durable pull consumer.
    pub(crate) fn consumer(&mut self, stream: &str, name: &str, filter: &str) {
        self.api(
            &format!("CONSUMER.CREATE.{stream}.{name}.{filter}"),
            &consumer(stream, name, filter),
        );
    }

    /// The names of all streams.
    pub(crate) fn stream_names(&mut self) -> Vec<String> {
        let list = self.api("STREAM.LIST", &json!({}));
        let names = list["streams"].as_array().unwrap().iter();
        names.map(|stream| stream["config"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// What all streams but `own` hold, after everything that was sent to them is stored.
    pub(crate) fn snapshot(&mut self, own: &[&str]) -> Snapshot {
        // Refused, but only after whatever came to the stream before.
        for place in [
            "vak.work.w1.judge.task",
            "vak.agent.w1.a2.inbox",
            "vak.outbox.w1.a2.record",
            "vak.approvals.w1.s9.request",
            "vak.dlq.w1.a9.failed",
            "vak.events.w1.s9.telemetry",
            "vakq.VAK_WORK_w1.worker_judge.m._.1.state",
            "$KV.VAK_CANCELS_w1.q",
            "$KV.VAK_CLAIMS_w1.q",
            "$KV.VAK_OUTBOX_w1.q",
            "vakblob.VAK_RESULTS_w1.m.k",
        ] {
            // Not by an id that is not the last: that ends a stream of several copies for good.
            let answer = self.0.ask_with(place, "Nats-Rollup: none\r\n", "").unwrap();
            let is_gone = answer.is_from_nobody();
            assert!(is_gone || answer.err_code().is_some(), "{place}: {}", answer.body);
        }
        let list = self.api("STREAM.LIST", &json!({}));
        let streams = list["streams"].as_array().unwrap().iter();
        let mut found = Vec::new();
        for stream in streams {
            let name = stream["config"]["name"].as_str().unwrap();
            let mut state = stream["state"].clone();
            state.as_object_mut().unwrap().retain(|member, _| !member.ends_with("_ts"));
            let consumers = self.api(&format!("CONSUMER.LIST.{name}"), &json!({}));
            let consumers = consumers["consumers"].as_array().unwrap().iter();
            let shown = [
                "name",
                "paused",
                "config",
                "num_pending",
                "num_ack_pending",
                "num_redelivered",
                "num_waiting",
            ];
            let reached = |consumer: &Value| {
                ["delivered", "ack_floor"].map(|at| consumer[at]["stream_seq"].clone())
            };
            let consumers: Vec<_> = consumers
                .map(|consumer| json!([shown.map(|member| &consumer[member]), reached(consumer)]))
                .collect();
            if !own.contains(&name) {
                found.push((name.to_owned(), json!([state, consumers])));
            }
        }
        found.sort_by(|one, other| one.0.cmp(&other.0));
        found
    }
}

/// What is asked to make a durable pull consumer.
pub(crate) fn consumer(stream: &str, name: &str, filter: &str) -> Value {
    json!({
        "stream_name": stream,
        "action": "create",
        "config": {
            "name": name, "durable_name": name, "ack_policy": "explicit",
            "filter_subject": filter, "deliver_policy": "all",
        },
    })
}

pub(crate) fn layout() -> Layout {
    Layout::of(&"w1".parse().unwrap()).unwrap()
}

pub(crate) fn policy_of(role: Role, name: &str) -> AclPolicy {
    AclPolicy::for_role(
        role,
        &AclScope {
            workspace: "w1".parse().unwrap(),
            agent: name.parse().unwrap(),
            session: Some("s1".parse().unwrap()),
            role_name: Some("coder".parse().unwrap()),
        },
    )
}

pub(crate) fn rights_of(role: Role, name: &str) -> Permissions {
    permissions(&policy_of(role, name), &name.parse().unwrap(), &layout()).unwrap()
}

pub(crate) fn new_key(kind: NkeyKind) -> SigningKey {
    SigningKey::generate(kind, &SystemEntropy::new()).unwrap()
}

pub(crate) fn token_of(
    account: &SigningKey,
    name: &str,
    rights: Permissions,
) -> (SigningKey, String) {
    let user = new_key(NkeyKind::User);
    let mut claims = UserClaims::new(name, *user.public(), *account.public(), 0);
    claims.permissions = rights;
    let token = encode_user(&claims, account).unwrap();
    (user, token)
}

pub(crate) fn credentials(key: &SigningKey, token: &str) -> Arc<Credentials> {
    Arc::new(creds::parse(&creds::render(token, key)).unwrap())
}
