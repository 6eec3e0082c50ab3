//! A leaf node with a store of its own: no answer of one store may reach the other's.
//!
//! Either its agents use the hub's store through the link; then an account of its own stands
//! between them and the link. Or everything that a store keeps is denied on the link, which live
//! events and calls cross in both directions.

use std::{net::SocketAddr, path::Path};

use bus_crypto::{
    NkeyKind, SigningKey,
    jwt::{
        AccountClaims, Answers, Export, Import, JetStreamLimits, OperatorClaims, Permissions,
        encode_account, encode_operator,
    },
};
use bus_nats::{
    permissions::{Layout, leaf_denies, workspace_imports},
    server::{Authorization, LeafDoor, LeafNodes, LeafRemote, ServerConfig},
};
use bus_subjects::Filter;
use bus_testserver::{TestServer, free_address};
use serde_json::json;

use crate::{
    raw::Raw,
    world::{Admin, Shape, World, layout, new_key, token_of},
};

/// Which account of the leaf is linked with the agents' account of the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Linked {
    /// One of its own, from which the agents' account imports.
    Between,
    /// The agents' account itself.
    Agents,
}

struct Leaf {
    server: TestServer,
    store: SigningKey,
    agents: SigningKey,
}

impl Leaf {
    fn start(hub: SocketAddr, credentials: &Path, linked: Linked) -> Self {
        let [operator, system] = [NkeyKind::Operator, NkeyKind::Account].map(new_key);
        let [store, link, agents] = [NkeyKind::Account; 3].map(new_key);
        let mut claims = OperatorClaims::new("o", *operator.public(), 0);
        claims.system_account = Some(*system.public());
        let token = encode_operator(&claims, &operator).unwrap();
        let account =
            |key: &SigningKey| AccountClaims::new("a", *key.public(), *operator.public(), 0);
        let (mut of_store, mut of_link, mut of_agents) =
            (account(&store), account(&link), account(&agents));
        of_store.limits.jetstream = JetStreamLimits::unlimited();
        let kept = [("out.*", None), ("$JS.API.DIRECT.GET.*.>", Some("leafapi.GET.$1.>"))];
        for (subject, local) in kept {
            of_store.exports.push(Export::service("own", subject, Answers::One));
            let import = Import::service("own", subject, *store.public());
            of_agents.imports.push(match local {
                Some(local) => import.known_as(local),
                None => import,
            });
        }
        if linked == Linked::Between {
            for subject in names_in_the_workspace() {
                of_link.exports.push(Export::service("hub", subject.as_str(), Answers::One));
                of_agents.imports.push(Import::service("hub", subject, *link.public()));
            }
        }
        let accounts = [account(&system), of_store, of_link, of_agents].into_iter();
        let accounts = accounts
            .map(|claims| (claims.subject, encode_account(&claims, &operator).unwrap()))
            .collect();
        let remote = LeafRemote {
            urls: vec![hub.into()],
            account: *if linked == Linked::Between { &link } else { &agents }.public(),
            credentials: credentials.to_owned(),
            deny_exports: Vec::new(),
            deny_imports: Vec::new(),
            tls: None,
        };
        let config = ServerConfig {
            name: "leaf".to_owned(),
            domain: Some("leaf".to_owned()),
            authorization: Authorization::Jwt {
                operator: token,
                system_account: *system.public(),
                accounts,
            },
            leafnodes: LeafNodes { remotes: vec![remote], ..LeafNodes::default() },
            ..ServerConfig::default()
        };
        Self { server: TestServer::start_with(config), store, agents }
    }

    fn connect(&self, account: &SigningKey, name: &str) -> Raw {
        let (user, token) = token_of(account, name, Permissions::default());
        Raw::connect(self.server.url(), &user, &token, name).unwrap()
    }
}

/// The subjects of the hub's services, as agents know them.
fn names_in_the_workspace() -> Vec<String> {
    let own = new_key(NkeyKind::Account);
    let imports = workspace_imports(&layout(), own.public()).into_iter();
    let services = imports.filter(|import| import.kind == bus_crypto::jwt::ImportKind::Service);
    let name = |import: Import| {
        let name = import.local_subject.unwrap_or(import.subject);
        let level = |level: &str| match level.strip_prefix('$') {
            Some(number) if number.parse::<u8>().is_ok() => "*".to_owned(),
            _ => level.to_owned(),
        };
        name.split('.').map(level).collect::<Vec<_>>().join(".")
    };
    services.map(name).collect()
}

/// Asks until somebody answers: a link comes up some time after its server.
fn until_answered(agent: &mut Raw, subject: &str, body: &str) {
    let is_answered = |_| !agent.ask(subject, body).unwrap().is_from_nobody();
    assert!((0..200_000).any(is_answered), "nobody answers on {subject}");
}

/// How many tasks and letters the hub keeps after answers of both stores were sent there.
fn stored_by_bounces(linked: Linked) -> [u64; 2] {
    let home = tempfile::tempdir().unwrap();
    let door = free_address();
    let hub = World::start_with(
        Shape::Two,
        ServerConfig {
            domain: Some("hub".to_owned()),
            leafnodes: LeafNodes {
                listen: Some(LeafDoor { listen: door, tls: None }),
                ..LeafNodes::default()
            },
            ..ServerConfig::default()
        },
    );
    hub.furnish();
    let mut admin = hub.admin();
    let (key, token) = hub.token("leaf", Permissions::default());
    let credentials = home.path().join("leaf.creds");
    std::fs::write(&credentials, &*bus_crypto::creds::render(&token, &key)).unwrap();

    let leaf = Leaf::start(door, &credentials, linked);
    Admin(leaf.connect(&leaf.store, "admin")).stream("OUT", "out.*");
    let mut agent = leaf.connect(&leaf.agents, "a1");
    let get = "leafapi.GET.OUT.out.a1";
    let prefix = Layout::API_PREFIX;
    let (receipts, work) = ("vak.receipts.w1.s1.completed", "vak.work.w1.judge.task");
    until_answered(&mut agent, &format!("{prefix}.DIRECT.GET.VAK_WORK_w1.{work}"), "");
    until_answered(&mut agent, "out.a1", "{}");
    until_answered(&mut agent, get, "");
    agent.ask(receipts, "{}").unwrap();
    let hubs = format!("{prefix}.DIRECT.GET.VAK_RECEIPTS.{receipts}");
    for place in [work, "vak.agent.w1.a2.inbox"] {
        for (subject, body) in [(get, ""), ("out.a1", "{}"), (receipts, "{}"), (&hubs, "")] {
            agent.publish(subject, place, body);
            agent.ask(subject, body).unwrap();
        }
        // Refused, after whatever came before it over the same link.
        let never = "Nats-Expected-Last-Msg-Id: never\r\n";
        let barrier = agent.ask_with(place, never, "").unwrap();
        assert!(barrier.err_code().is_some(), "{barrier:?}");
    }
    ["VAK_WORK_w1", "VAK_INBOX_w1"].map(|stream| {
        let found = admin.api(&format!("STREAM.INFO.{stream}"), &json!({}));
        found["state"]["last_seq"].as_u64().unwrap()
    })
}

#[test]
fn with_an_account_between_no_answer_of_any_store_is_stored_at_the_hub() {
    assert_eq!(stored_by_bounces(Linked::Between), [0, 0]);
}

/// Why there is one, and that the test above can see it.
#[test]
fn without_an_account_between_answers_of_the_leafs_store_are_stored_at_the_hub() {
    let [tasks, letters] = stored_by_bounces(Linked::Agents);
    assert!(tasks > 0 && letters > 0, "{tasks} {letters}");
}

/// Publishes events until the other side hears one; whatever crossed before has arrived then.
fn until_heard(from: &mut Raw, to: &mut Raw) {
    to.subscribe("vak.events.w1.s1.tokens");
    to.fence();
    let is_heard = |_| {
        from.publish("vak.events.w1.s1.tokens", "", "event");
        from.fence();
        to.fence();
        !to.heard().is_empty()
    };
    assert!((0..200_000).any(is_heard), "the servers are not linked");
}

/// Two whole workspaces whose agents' accounts are linked. How many streams of each side answers of
/// the other one's store changed, sent there by who asked for them.
fn changed_by_bounces(denied: &[Filter]) -> [usize; 2] {
    let home = tempfile::tempdir().unwrap();
    let door = free_address();
    let listen = Some(LeafDoor { listen: door, tls: None });
    let hub = World::start_with(
        Shape::Two,
        ServerConfig {
            domain: Some("hub".to_owned()),
            leafnodes: LeafNodes { listen, ..LeafNodes::default() },
            ..ServerConfig::default()
        },
    );
    hub.furnish();
    let (key, token) = hub.token("leaf", Permissions::default());
    let credentials = home.path().join("leaf.creds");
    std::fs::write(&credentials, &*bus_crypto::creds::render(&token, &key)).unwrap();
    let leaf = World::leaf_of(door, &credentials, denied);
    leaf.furnish();
    [(&leaf, &hub), (&hub, &leaf)].map(|(from, to)| {
        let (mut agent, mut listener) = (from.resident(), to.resident());
        until_heard(&mut agent, &mut listener);
        let receipts = "vak.receipts.w1.s1.completed";
        agent.ask(receipts, "{}").unwrap();
        let get = format!("{}.DIRECT.GET.VAK_RECEIPTS.{receipts}", Layout::API_PREFIX);
        let before = to.admin().snapshot(&["VAK_RECEIPTS"]);
        for place in [
            "vak.work.w1.judge.task",
            "vak.agent.w1.a2.inbox",
            "vak.events.w1.s9.telemetry",
            "vakq.VAK_WORK_w1.worker_judge.m._.1.state",
            "$KV.VAK_CANCELS_w1.q",
            "vakblob.VAK_RESULTS_w1.m.k",
        ] {
            for (subject, body) in [(get.as_str(), ""), (receipts, "{}")] {
                agent.publish(subject, place, body);
                agent.ask(subject, body).unwrap();
            }
        }
        until_heard(&mut agent, &mut listener);
        let after = to.admin().snapshot(&["VAK_RECEIPTS"]);
        before.iter().zip(&after).filter(|(before, after)| before != after).count()
    })
}

#[test]
fn with_what_stores_keep_denied_no_answer_of_one_is_kept_by_the_other() {
    assert_eq!(changed_by_bounces(&leaf_denies(&layout()).unwrap()), [0, 0]);
}

/// Why it is denied, and that the test above can see it.
#[test]
fn with_nothing_denied_answers_of_one_store_are_kept_by_the_other() {
    let [at_hub, at_leaf] = changed_by_bounces(&[]);
    assert!(at_hub > 0 && at_leaf > 0, "{at_hub} {at_leaf}");
}
