//! Servers in operator mode, in clusters and with leaf nodes: the text, and what it brings about.

use std::{
    io::{ErrorKind, Read},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use bus_crypto::{NkeyKind, PublicKey, SigningKey, SystemEntropy, Zeroizing};
use bus_nats::server::{
    Authorization, Cluster, HostPort, LeafDoor, LeafNodes, LeafRemote, LeafTls, NatsServer,
    NkeyUser, Resolver, RoutePassword, ServerConfig, ServerError, ServerOptions, ServerTls,
    WebSocketDoor, find_server,
};
use bus_subjects::Filter;
use bus_testserver::TestServer;

use crate::{
    config::{accept, refused},
    tokens::{Tokens, user_of},
    wire::Wire,
};

#[test]
fn a_leaf_node_in_operator_mode_is_written_out() {
    let key = |fill| PublicKey::from_bytes(NkeyKind::Account, [fill; 32]);
    let authorization = Authorization::Jwt {
        operator: "the.operators.token".to_owned(),
        system_account: key(1),
        accounts: vec![(key(1), "the.systems.token".to_owned()), (key(2), "a.b.c".to_owned())],
    };
    let sentinel = Some("the.sentinels.token".to_owned());
    let credentials = Path::new("/etc/vakbus");
    let text = ServerConfig { authorization, sentinel, ..leaf(key(1), key(2), credentials) }
        .render(Path::new("/var/lib/vakbus"))
        .unwrap();
    assert_eq!(text, include_str!("golden/leaf.conf"));
}

#[test]
fn the_server_accepts_a_leaf_node_in_operator_mode() {
    let tokens = Tokens::new();
    let home = tempfile::tempdir().unwrap();
    for (name, key) in [("system", &tokens.system), ("workspace", &tokens.account)] {
        let (token, user) = user_of(key, |_| {});
        let text = bus_crypto::creds::render(&token, &user);
        std::fs::write(home.path().join(format!("{name}.creds")), &*text).unwrap();
    }
    let mut config = leaf(*tokens.system.public(), *tokens.account.public(), home.path());
    config.authorization = tokens.authorization();
    config.sentinel = Some(tokens.user(|claims| claims.is_bearer = true).0);
    for remote in &mut config.leafnodes.remotes {
        remote.tls = Some(LeafTls { ca: Some(file("ca.pem")), client: None });
    }
    accept(&config);
}

#[test]
fn the_server_accepts_every_door_with_its_certificate() {
    let tls = || {
        let (cert, key) = (file("server.pem"), file("server.key"));
        ServerTls { cert, key, ca: Some(file("ca.pem")), verify: true }
    };
    let mut config = linked();
    config.tls = Some(tls());
    config.cluster.as_mut().unwrap().tls = Some(tls());
    config.leafnodes.listen.as_mut().unwrap().tls = Some(tls());
    config.websocket.as_mut().unwrap().tls = Some(tls());
    accept(&config);
}

#[test]
fn a_server_in_operator_mode_lets_in_the_users_of_its_accounts() {
    let tokens = Tokens::new();
    let server = operated(&tokens);
    let (token, user) = tokens.user(|_| {});
    let mut wire = Wire::to_with(server.url(), &token, &user).unwrap();
    let answer = wire.request("$JS.API.INFO", "").unwrap();
    assert!(answer.contains("account_info_response") && !answer.contains("\"error\""), "{answer}");
    let stranger = Tokens::new().user(|_| {});
    let mut wire = Wire::to_with(server.url(), &stranger.0, &stranger.1).unwrap();
    assert!(wire.ping().is_err());
}

#[test]
fn a_full_resolver_keeps_the_tokens_that_it_began_with_on_disk() {
    let tokens = Tokens::new();
    let server = operated(&tokens);
    for key in [&tokens.system, &tokens.account] {
        let name = format!("nats/jwt/{}.jwt", key.public().text());
        assert!(server.home().join(&name).is_file(), "{name}");
    }
}

#[test]
fn a_token_longer_than_the_servers_own_line_gets_in() {
    let tokens = Tokens::new();
    let server = operated(&tokens);
    let subjects: Vec<_> = (0..1_000).map(|n| format!("vak.events.one.session-{n}.>")).collect();
    let (token, user) = tokens.user(|claims| claims.permissions.publish.allow = subjects);
    assert!(token.len() > 32 * 1024, "{}", token.len());
    let mut wire = Wire::to_with(server.url(), &token, &user).unwrap();
    wire.ping().unwrap();
}

#[test]
fn whoever_proves_nothing_in_time_is_cut_off() {
    let tokens = Tokens::new();
    let login_within = Duration::from_millis(200);
    let authorization = tokens.authorization();
    let config = ServerConfig { authorization, login_within, ..ServerConfig::default() };
    let server = TestServer::start_with(config);
    let address = server.url().split_once("://").unwrap().1;
    let mut silent = TcpStream::connect(address).unwrap();
    // Less than the server's own two seconds.
    silent.set_read_timeout(Some(Duration::from_millis(1_500))).unwrap();
    let mut said = Vec::new();
    match silent.read_to_end(&mut said) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
    assert!(String::from_utf8_lossy(&said).contains("Authentication Timeout"));
}

#[test]
fn the_acknowledgements_of_a_linked_server_name_its_domain() {
    let domain = Some("hub".to_owned());
    let server = TestServer::start_with(ServerConfig { domain, ..ServerConfig::default() });
    let mut wire = Wire::to(server.url()).unwrap();
    for (subject, body) in [
        ("$JS.API.STREAM.CREATE.S", r#"{"name":"S","subjects":["s.>"]}"#),
        ("s.a", "work"),
        (
            "$JS.API.CONSUMER.CREATE.S.c",
            r#"{"stream_name":"S","config":{"durable_name":"c","ack_policy":"explicit"}}"#,
        ),
    ] {
        let answer = wire.request(subject, body).unwrap();
        assert!(!answer.contains("\"error\""), "{answer}");
    }
    let reply = wire.reply_of("$JS.API.CONSUMER.MSG.NEXT.S.c", "1").unwrap();
    assert!(reply.starts_with("$JS.ACK.hub."), "{reply}");
}

#[test]
fn a_linked_server_needs_a_program_that_knows_domains_in_acknowledgements() {
    let home = tempfile::tempdir().unwrap();
    let program = home.path().join("nats-server");
    std::fs::write(&program, "#!/bin/sh\necho nats-server: v2.13.4\n").unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).unwrap();
    let binary = find_server(Some(&program)).unwrap();
    let mut options = ServerOptions::new(binary, home.path().join("nats"));
    options.config.domain = Some("hub".to_owned());
    let error = NatsServer::start(options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "domain: a domain, a cluster and leaf nodes need nats-server 2.14.0, this is 2.13.4"
    );
}

#[test]
fn a_door_beyond_this_machine_needs_a_certificate() {
    let far = |port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    let mut cluster = linked();
    cluster.cluster.as_mut().unwrap().listen = far(6222);
    assert_eq!(refused(&cluster), "cluster.listen");
    let mut routes = linked();
    routes.cluster.as_mut().unwrap().routes = vec![host("10.0.0.2:6222")];
    assert_eq!(refused(&routes), "cluster.routes");
    let mut leaves = linked();
    leaves.leafnodes.listen.as_mut().unwrap().listen = far(7422);
    assert_eq!(refused(&leaves), "leafnodes.listen");
    let mut browsers = linked();
    browsers.websocket.as_mut().unwrap().listen = far(8443);
    assert_eq!(refused(&browsers), "websocket.listen");
    browsers.websocket.as_mut().unwrap().tls =
        Some(ServerTls { cert: "/c".into(), key: "/k".into(), ca: None, verify: false });
    browsers.authorization = Authorization::Open;
    browsers.resolver = Resolver::Memory;
    browsers.leafnodes = LeafNodes::default();
    assert_eq!(refused(&browsers), "websocket.listen");
    let account = PublicKey::from_bytes(NkeyKind::Account, [1; 32]);
    let mut hub = leaf(account, account, Path::new("/etc"));
    hub.leafnodes.remotes.truncate(1);
    hub.leafnodes.remotes[0].tls = None;
    assert_eq!(refused(&hub), "leafnodes.remotes.urls");
}

#[test]
fn an_open_server_takes_leaf_nodes_of_its_own_machine_alone() {
    let mut config = linked();
    config.authorization = Authorization::Open;
    let leaves = config.leafnodes.listen.as_mut().unwrap();
    leaves.listen = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 7422));
    leaves.tls = Some(ServerTls { cert: "/c".into(), key: "/k".into(), ca: None, verify: false });
    assert_eq!(refused(&config), "leafnodes.listen");
}

#[test]
fn what_would_link_servers_wrongly_is_refused() {
    let account = PublicKey::from_bytes(NkeyKind::Account, [1; 32]);
    let user = PublicKey::from_bytes(NkeyKind::User, [1; 32]);
    let cases: Vec<(&str, Edit)> = vec![
        ("domain", |config| config.domain = Some("a.b".to_owned())),
        ("domain", |config| config.domain = None),
        ("control_line_bytes_max", |config| config.control_line_bytes_max = 1024),
        ("control_line_bytes_max", |config| config.control_line_bytes_max = u32::MAX),
        ("login_within", |config| config.login_within = Duration::ZERO),
        ("login_within", |config| config.login_within = Duration::from_secs(61)),
        ("resolver", |config| config.resolver = Resolver::FULL),
        ("sentinel", |config| config.sentinel = Some("a.b.c".to_owned())),
        ("cluster.name", |config| config.cluster.as_mut().unwrap().name = "a b".to_owned()),
        ("cluster.routes", |config| config.cluster.as_mut().unwrap().routes.clear()),
        ("cluster.listen", |config| config.cluster.as_mut().unwrap().listen.set_port(0)),
        ("cluster.tls.ca", |config| {
            let tls = ServerTls { cert: "/c".into(), key: "/k".into(), ca: None, verify: false };
            config.cluster.as_mut().unwrap().tls = Some(tls);
        }),
        ("leafnodes.listen", |config| {
            config.leafnodes.listen.as_mut().unwrap().listen.set_port(0);
        }),
        ("websocket.origins", |config| {
            config.websocket.as_mut().unwrap().origins = vec!["https://a/b".to_owned()];
        }),
        ("websocket.tls.ca", |config| {
            let tls = ServerTls { cert: "/c".into(), key: "/k".into(), ca: None, verify: true };
            config.websocket.as_mut().unwrap().tls = Some(tls);
        }),
    ];
    for (field, edit) in cases {
        let mut config = linked();
        edit(&mut config);
        assert_eq!(refused(&config), field, "{config:?}");
    }
    let remotes: Vec<(&str, Edit)> = vec![
        ("leafnodes.remotes.urls", |config| config.leafnodes.remotes[0].urls.clear()),
        ("leafnodes.remotes", |config| {
            config.leafnodes.remotes[1].account = config.leafnodes.remotes[0].account;
        }),
        ("leafnodes.remotes", |config| config.authorization = Authorization::Open),
        ("leafnodes.remotes.credentials", |config| {
            config.leafnodes.remotes[0].credentials = PathBuf::from("a.creds");
        }),
        ("leafnodes.reconnect", |config| config.leafnodes.reconnect = Duration::ZERO),
        ("resolver.interval", |config| {
            let timeout = Duration::from_secs(1);
            config.resolver = Resolver::Full { interval: Duration::ZERO, timeout };
        }),
        ("resolver.timeout", |config| {
            let interval = Duration::from_secs(1);
            config.resolver = Resolver::Full { interval, timeout: Duration::ZERO };
        }),
    ];
    for (field, edit) in remotes {
        let second = PublicKey::from_bytes(NkeyKind::Account, [2; 32]);
        let mut config = leaf(account, second, Path::new("/etc"));
        edit(&mut config);
        if matches!(config.authorization, Authorization::Open) {
            config.resolver = Resolver::Memory;
        }
        assert_eq!(refused(&config), field, "{config:?}");
    }
    let mut config = leaf(account, user, Path::new("/etc"));
    assert_eq!(refused(&config), "leafnodes.remotes.account");
    config = leaf(account, PublicKey::from_bytes(NkeyKind::Account, [3; 32]), Path::new("/etc"));
    config.resolver = Resolver::Memory;
    assert_eq!(refused(&config), "leafnodes.remotes");
}

#[test]
fn an_address_is_a_host_and_a_port_and_nothing_else() {
    for good in ["10.0.0.2:6222", "[::1]:6222", "hub-1.example.org:7422", "localhost:1"] {
        assert_eq!(host(good).to_string(), good);
    }
    for bad in [
        "",
        "host",
        "host:",
        ":1",
        "host:0",
        "10.0.0.1:0",
        "host:65536",
        "host:+1",
        "a@b:1",
        "route:secret@b:1",
        "nats://b:1",
        "a b:1",
        "a..b:1",
        "::1:6222",
        "b:1/x",
    ] {
        let error = HostPort::parse("cluster.routes", bad).unwrap_err();
        assert!(matches!(error, ServerError::Config { field: "cluster.routes", .. }), "{bad}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[test]
fn a_route_password_is_long_plain_and_never_printed() {
    let parse = |text: &str| RoutePassword::parse(Zeroizing::new(text.to_owned()));
    for bad in ["", "short", "aaaaaaaaaaaaaaaaaaaaa:", "a/aaaaaaaaaaaaaaaaaaaaa", &"a".repeat(129)]
    {
        let error = parse(bad).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cluster.password: expected 22 to 128 letters, digits, `-` and `_`"
        );
    }
    let fresh = RoutePassword::generate(&SystemEntropy::new()).unwrap();
    let other = RoutePassword::generate(&SystemEntropy::new()).unwrap();
    assert_ne!(fresh.expose(), other.expose());
    let mut config = linked();
    config.cluster.as_mut().unwrap().password = Some(fresh.clone());
    assert!(!format!("{config:?}").contains(fresh.expose()));
}

type Edit = fn(&mut ServerConfig);

/// A server in operator mode whose resolver is on disk.
fn operated(tokens: &Tokens) -> TestServer {
    let (authorization, resolver) = (tokens.authorization(), Resolver::FULL);
    TestServer::start_with(ServerConfig { authorization, resolver, ..ServerConfig::default() })
}

/// A leaf node of two accounts; their credentials lie in a folder.
fn leaf(system: PublicKey, account: PublicKey, credentials: &Path) -> ServerConfig {
    let denied = || vec![Filter::parse("vak.work.>").unwrap(), Filter::parse("vakp.>").unwrap()];
    let remote = |account, name: &str| LeafRemote {
        urls: vec![host("hub-1:7422"), host("10.0.0.2:7422")],
        account,
        credentials: credentials.join(name),
        deny_exports: denied(),
        deny_imports: denied(),
        tls: Some(LeafTls {
            ca: Some(PathBuf::from("/etc/vakbus/ca.pem")),
            client: Some((PathBuf::from("/etc/vakbus/c.pem"), PathBuf::from("/etc/vakbus/c.key"))),
        }),
    };
    let mut system_remote = remote(system, "system.creds");
    (system_remote.deny_exports, system_remote.deny_imports) = (Vec::new(), Vec::new());
    system_remote.tls = Some(LeafTls::default());
    let authorization = Authorization::Jwt {
        operator: "a.b.c".to_owned(),
        system_account: system,
        accounts: vec![(system, "a.b.c".to_owned())],
    };
    ServerConfig {
        name: "leaf1".to_owned(),
        authorization,
        resolver: Resolver::FULL,
        domain: Some("leaf1".to_owned()),
        leafnodes: LeafNodes {
            remotes: vec![remote(account, "workspace.creds"), system_remote],
            ..LeafNodes::default()
        },
        ..ServerConfig::default()
    }
}

/// A server with all doors, each without a certificate.
pub(crate) fn linked() -> ServerConfig {
    let here = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let key = SigningKey::from_seed(NkeyKind::User, Zeroizing::new([1; 32])).unwrap();
    let password = Zeroizing::new("0123456789abcdef-_ABCD".to_owned());
    ServerConfig {
        authorization: Authorization::Nkeys(vec![NkeyUser {
            key: *key.public(),
            permissions: None,
        }]),
        domain: Some("hub".to_owned()),
        cluster: Some(Cluster {
            name: "vak".to_owned(),
            listen: here(6222),
            routes: vec![here(6223).into(), host("localhost:6224")],
            password: Some(RoutePassword::parse(password).unwrap()),
            tls: None,
        }),
        leafnodes: LeafNodes {
            listen: Some(LeafDoor { listen: here(7422), tls: None }),
            ..LeafNodes::default()
        },
        websocket: Some(WebSocketDoor {
            listen: here(8443),
            tls: None,
            origins: vec!["https://vakbus.example.org".to_owned()],
        }),
        ..ServerConfig::default()
    }
}

fn host(text: &str) -> HostPort {
    HostPort::parse("test", text).unwrap()
}

/// A certificate that really is one.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../bus-cli/tests/cli/tls").join(name)
}
