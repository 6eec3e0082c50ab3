//! What a server is told: the text, and that the server understands it as it is meant.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use bus_crypto::{
    NkeyKind, PublicKey,
    jwt::{Permissions, ResponsePermission, SubjectPermission},
};
use bus_nats::server::{
    Authorization, Cluster, NatsServer, NkeyUser, ServerConfig, ServerError, ServerOptions,
    ServerTls, SyncPolicy,
};
use bus_testserver::TestServer;

use crate::{linked::linked, tokens::Tokens};

#[test]
fn the_default_configuration_is_written_out() {
    let text = ServerConfig::default().render(Path::new("/var/lib/vakbus")).unwrap();
    assert_eq!(text, include_str!("golden/default.conf"));
}

#[test]
fn every_setting_is_written_out() {
    let text = everything().render(Path::new("/var/lib/vakbus")).unwrap();
    assert_eq!(text, include_str!("golden/everything.conf"));
}

#[test]
fn tokens_of_accounts_are_written_out() {
    let key = |fill| PublicKey::from_bytes(NkeyKind::Account, [fill; 32]);
    let authorization = Authorization::Jwt {
        operator: "the.operators.token".to_owned(),
        system_account: key(1),
        accounts: vec![(key(1), "the.systems.token".to_owned()), (key(2), "a.b.c".to_owned())],
    };
    let config = ServerConfig { authorization, ..ServerConfig::default() };
    let text = config.render(Path::new("/var/lib/vakbus")).unwrap();
    assert_eq!(text, include_str!("golden/tokens.conf"));
}

#[test]
fn the_server_accepts_the_default_configuration() {
    accept(&ServerConfig::default());
}

#[test]
fn the_server_accepts_every_setting() {
    // Certificates must exist; `linked` has real ones.
    let mut config = ServerConfig { tls: None, ..everything() };
    config.cluster.as_mut().unwrap().tls = None;
    accept(&config);
}

#[test]
fn the_server_reads_a_strange_directory_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("a $HOME b # {c} ; 'd' %e é [f]");
    let options = ServerOptions { dir: dir.clone(), ..bus_testserver::options(home.path()) };
    let _server = NatsServer::start(options).unwrap();
    assert!(dir.join("jetstream").is_dir());
}

#[test]
fn a_server_with_tokens_of_accounts_starts() {
    let authorization = Tokens::new().authorization();
    let server = TestServer::start_with(ServerConfig { authorization, ..ServerConfig::default() });
    assert!(server.pid().is_some());
}

#[test]
fn a_text_that_would_end_its_quotes_is_refused() {
    for bad in ["a\"b", "a\\", "a\nb", "a\tb", "a\u{7f}", "a b", ""] {
        let named = ServerConfig { name: bad.to_owned(), ..ServerConfig::default() };
        assert_eq!(refused(&named), "name", "{bad:?}");
    }
    let quoted = Path::new("/var/lib/va\"kbus");
    let error = ServerConfig::default().render(quoted).unwrap_err();
    assert!(matches!(error, ServerError::Config { field: "dir", .. }), "{error}");
}

#[test]
fn a_directory_must_be_absolute() {
    let error = ServerConfig::default().render(Path::new("data")).unwrap_err();
    assert_eq!(error.to_string(), "dir: expected an absolute path, not data");
}

#[test]
fn an_open_server_stays_on_its_machine() {
    let listen = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 4222));
    assert_eq!(refused(&ServerConfig { listen, ..ServerConfig::default() }), "listen");
    let with_users = ServerConfig { listen, ..everything() };
    with_users.render(Path::new("/var/lib/vakbus")).unwrap();
}

#[test]
fn what_the_server_would_refuse_is_refused_before() {
    let good = ServerConfig::default;
    let second = Duration::from_secs(1);
    let no_users = Authorization::Nkeys(Vec::new());
    let account = PublicKey::from_bytes(NkeyKind::Account, [1; 32]);
    let no_user = Authorization::Nkeys(vec![NkeyUser { key: account, permissions: None }]);
    let no_system = Authorization::Jwt {
        operator: "t".to_owned(),
        system_account: account,
        accounts: Vec::new(),
    };
    let tls = ServerTls { cert: "/c".into(), key: "/k".into(), ca: None, verify: true };
    let monitor = Some(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 8222)));
    let cases = [
        ("payload_bytes_max", ServerConfig { payload_bytes_max: 1024, ..good() }),
        ("payload_bytes_max", ServerConfig { payload_bytes_max: u32::MAX, ..good() }),
        ("lame_duck_duration", ServerConfig { lame_duck_duration: second, ..good() }),
        ("lame_duck_grace", ServerConfig { lame_duck_grace: second * 30, ..good() }),
        ("write_deadline", ServerConfig { write_deadline: Duration::ZERO, ..good() }),
        ("ping_interval", ServerConfig { ping_interval: Duration::MAX, ..good() }),
        ("sync", ServerConfig { sync: SyncPolicy::Every(Duration::ZERO), ..good() }),
        ("file_bytes_max", ServerConfig { file_bytes_max: Some(0), ..good() }),
        ("memory_bytes_max", ServerConfig { memory_bytes_max: Some(u64::MAX), ..good() }),
        ("authorization", ServerConfig { authorization: no_users, ..good() }),
        ("authorization", ServerConfig { authorization: no_user, ..good() }),
        ("authorization", ServerConfig { authorization: no_system, ..good() }),
        ("monitor", ServerConfig { monitor, ..good() }),
        ("tls.ca", ServerConfig { tls: Some(tls), ..good() }),
    ];
    for (field, config) in cases {
        assert_eq!(refused(&config), field, "{config:?}");
    }
}

/// Holds a configuration against the server's own reader.
pub(crate) fn accept(config: &ServerConfig) {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("server.conf");
    std::fs::write(&file, config.render(home.path()).unwrap()).unwrap();
    let mut test = Command::new(bus_testserver::binary().path());
    let output = test.arg("-t").arg("-c").arg(file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("is valid"), "{said}");
}

/// The setting that is refused.
pub(crate) fn refused(config: &ServerConfig) -> &'static str {
    match config.render(Path::new("/var/lib/vakbus")) {
        Err(ServerError::Config { field, .. }) => field,
        other => panic!("{other:?}"),
    }
}

/// No setting is at its default, but those of operator mode and of a leaf node.
fn everything() -> ServerConfig {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let permissions = Permissions {
        publish: SubjectPermission { allow: words(&["vak.>", "$JS.API.>"]), deny: words(&["x"]) },
        subscribe: SubjectPermission { allow: words(&["_INBOX.a.>"]), deny: Vec::new() },
        response: Some(ResponsePermission { answers_max: 1, ttl_ns: 5_000_000_000 }),
    };
    let forever = Permissions {
        response: Some(ResponsePermission { answers_max: -1, ttl_ns: -1 }),
        ..Permissions::default()
    };
    let user = |fill| PublicKey::from_bytes(NkeyKind::User, [fill; 32]);
    let tls = ServerTls {
        cert: PathBuf::from("/etc/vakbus/cert.pem"),
        key: PathBuf::from("/etc/vakbus/key.pem"),
        ca: Some(PathBuf::from("/etc/vakbus/ca.pem")),
        verify: true,
    };
    let doors = linked();
    ServerConfig {
        name: "hub-one".to_owned(),
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 4222)),
        monitor: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 8222))),
        payload_bytes_max: 8 * 1024 * 1024,
        control_line_bytes_max: 32 * 1024,
        login_within: Duration::from_millis(2_500),
        sync: SyncPolicy::Every(Duration::from_secs(120)),
        memory_bytes_max: Some(64 * 1024 * 1024),
        file_bytes_max: Some(1024 * 1024 * 1024),
        write_deadline: Duration::from_millis(1_500),
        ping_interval: Duration::from_secs(5),
        lame_duck_duration: Duration::from_secs(60),
        lame_duck_grace: Duration::from_secs(3),
        authorization: Authorization::Nkeys(vec![
            NkeyUser { key: user(1), permissions: Some(permissions) },
            NkeyUser { key: user(2), permissions: Some(forever) },
            NkeyUser { key: user(3), permissions: None },
        ]),
        tls: Some(tls.clone()),
        cluster: doors.cluster.map(|cluster| Cluster { tls: Some(tls), ..cluster }),
        // The rest belongs to accounts and has its own page.
        ..doors
    }
}
