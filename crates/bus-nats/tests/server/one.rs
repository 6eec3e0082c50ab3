//! A real server in the caller's hand: it starts, dies, comes back, and leaves nothing behind.

use std::{
    fs,
    io::ErrorKind,
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::Path,
    time::Duration,
};

use bus_core::Error;
use bus_crypto::{
    NkeyKind, SigningKey, SystemEntropy,
    jwt::{Permissions, SubjectPermission},
};
use bus_nats::server::{
    Authorization, NatsServer, NkeyUser, ServerConfig, ServerError, ServerOptions, find_server,
};
use bus_testserver::{TestServer, options};

use crate::wire::Wire;

#[test]
fn a_started_server_answers_for_jetstream() {
    let server = TestServer::start();
    let answer = Wire::to(server.url()).unwrap().request("$JS.API.INFO", "").unwrap();
    assert!(answer.contains("account_info_response") && !answer.contains("\"error\""), "{answer}");
}

#[test]
fn a_frame_of_a_mebibyte_and_its_headers_fit() {
    let server = TestServer::start();
    let mut wire = Wire::to(server.url()).unwrap();
    keep(&mut wire, "S");
    let answer = wire.request("s.large", &"x".repeat(1024 * 1024 + 64 * 1024)).unwrap();
    assert!(answer.contains("\"seq\":1"), "{answer}");
}

#[test]
fn what_was_acknowledged_is_there_after_a_kill() {
    let mut server = TestServer::start();
    let mut wire = Wire::to(server.url()).unwrap();
    keep(&mut wire, "S");
    wire.request("s.a", "kept").unwrap();
    server.kill();
    server.restart().unwrap();
    let mut wire = Wire::to(server.url()).unwrap();
    let answer = wire.request("$JS.API.STREAM.INFO.S", "").unwrap();
    assert!(answer.contains("\"messages\":1"), "{answer}");
}

#[test]
fn a_restart_keeps_the_port_that_the_system_chose() {
    let mut server = TestServer::start();
    let (url, pid) = (server.url().to_owned(), server.pid());
    server.restart().unwrap();
    assert_eq!(server.url(), url);
    assert_ne!(server.pid(), pid);
}

#[test]
fn a_frozen_server_holds_its_connections_and_answers_when_it_is_thawed() {
    let server = TestServer::start();
    let mut wire = Wire::to(server.url()).unwrap();
    wire.ping().unwrap();
    server.freeze().unwrap();
    wire.patience(Duration::from_millis(100));
    let error = wire.ping().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    server.thaw().unwrap();
    wire.patience(Duration::from_secs(20));
    wire.pong().unwrap();
}

#[test]
fn a_frozen_server_can_be_stopped() {
    let mut server = TestServer::start();
    server.freeze().unwrap();
    server.stop();
    assert_eq!(server.pid(), None);
}

#[test]
fn a_stopped_server_is_gone() {
    let mut server = TestServer::start();
    let (pid, address) = (server.pid().unwrap(), address(&server));
    server.stop();
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert!(!is_alive(pid));
    assert!(matches!(server.freeze(), Err(ServerError::Ended { .. })));
}

#[test]
fn a_dropped_server_is_gone_and_its_directory_free() {
    let home = tempfile::tempdir().unwrap();
    let server = NatsServer::start(options(home.path())).unwrap();
    let pid = server.pid().unwrap();
    drop(server);
    assert!(!is_alive(pid));
    NatsServer::start(options(home.path())).unwrap();
}

#[test]
fn a_lame_duck_ends_of_its_own_accord() {
    let server = TestServer::start();
    server.lame_duck().unwrap();
    assert!(server.wait(Duration::from_secs(30)));
    assert!(server.last_lines().0.iter().any(|line| line.contains("Server Exiting")));
}

#[test]
fn two_servers_never_share_a_directory() {
    let home = tempfile::tempdir().unwrap();
    let _first = NatsServer::start(options(home.path())).unwrap();
    let error = NatsServer::start(options(home.path())).unwrap_err();
    let ServerError::InUse { owner, .. } = &error else { panic!("{error}") };
    assert_eq!(*owner, format!("pid {}", std::process::id()));
}

#[cfg(target_os = "linux")]
#[test]
fn the_server_itself_holds_the_lock_of_its_directory() {
    let home = tempfile::tempdir().unwrap();
    let server = NatsServer::start(options(home.path())).unwrap();
    let held = fs::read_link(format!("/proc/{}/fd/0", server.pid().unwrap())).unwrap();
    assert_eq!(held, home.path().canonicalize().unwrap().join("nats/lock"));
}

#[cfg(target_os = "linux")]
#[test]
fn the_server_inherits_no_variable_that_may_be_a_secret() {
    assert!(std::env::var_os("PATH").is_some(), "there is something to inherit");
    let server = TestServer::start();
    let inherited = fs::read(format!("/proc/{}/environ", server.pid().unwrap())).unwrap();
    let names = inherited.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    let names: Vec<_> = names.map(|entry| String::from_utf8_lossy(entry).into_owned()).collect();
    let tunes = |name: &String| ["GOM", "TZ="].iter().any(|begin| name.starts_with(begin));
    assert!(names.iter().all(tunes), "{names:?}");
}

#[test]
fn only_its_owner_reads_the_directory_and_the_configuration() {
    let server = TestServer::start();
    let mode = |path: &str| {
        let found = fs::metadata(server.home().join(path)).unwrap();
        found.permissions().mode() & 0o777
    };
    assert_eq!((mode("nats"), mode("nats/server.conf")), (0o700, 0o600));
}

#[test]
fn a_port_that_is_taken_is_named() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = other.local_addr().unwrap();
    let home = tempfile::tempdir().unwrap();
    let config = ServerConfig { listen, ..ServerConfig::default() };
    let error = NatsServer::start(ServerOptions { config, ..options(home.path()) }).unwrap_err();
    let ServerError::PortTaken { address } = &error else { panic!("{error}") };
    assert_eq!(*address, listen.to_string());
}

#[test]
fn a_server_that_cannot_open_its_store_says_why() {
    let home = tempfile::tempdir().unwrap();
    let options = options(home.path());
    fs::create_dir(&options.dir).unwrap();
    fs::write(options.dir.join("jetstream"), "no directory").unwrap();
    let error = Error::from(NatsServer::start(options).unwrap_err());
    assert_eq!(error.kind(), bus_core::ErrorKind::Unavailable);
    assert!(error.detail().contains("[FTL]"), "{error}");
}

#[test]
fn a_server_that_is_not_ready_in_time_is_killed() {
    let home = tempfile::tempdir().unwrap();
    let hasty = ServerOptions { ready_within: Duration::ZERO, ..options(home.path()) };
    let error = NatsServer::start(hasty).unwrap_err();
    assert!(matches!(error, ServerError::NotReady { .. }), "{error}");
    NatsServer::start(options(home.path())).unwrap();
}

#[test]
fn a_missing_program_is_a_sentence_that_says_what_to_do() {
    let error = find_server(Some(Path::new("/nowhere/nats-server"))).unwrap_err().to_string();
    let expected = "no nats-server: looked at /nowhere/nats-server (from the setting), which is \
                    no program; install nats-server 2.15.1, set NATS_SERVER or run `cargo xtask \
                    nats`";
    assert_eq!(error, expected);
}

#[test]
fn a_reloaded_configuration_is_in_force() {
    let mut server = TestServer::start();
    let mut wire = Wire::to(server.url()).unwrap();
    wire.ping().unwrap();
    server.reload(ServerConfig { authorization: one_user(), ..ServerConfig::default() }).unwrap();
    // Who has no key is sent away.
    wire.until_closed();
}

#[test]
fn a_configuration_that_is_refused_leaves_the_one_before() {
    let mut server = TestServer::start();
    let config = ServerConfig { name: "another".to_owned(), ..ServerConfig::default() };
    let error = server.reload(config).unwrap_err();
    assert!(matches!(error, ServerError::Config { field: "reload", .. }), "{error}");
    server.restart().unwrap();
    let text = fs::read_to_string(server.home().join("nats/server.conf")).unwrap();
    assert!(text.contains("server_name: \"vakbus\""), "{text}");
}

#[test]
fn a_server_with_users_is_ready_and_lets_no_stranger_in() {
    let config = ServerConfig { authorization: one_user(), ..ServerConfig::default() };
    let server = TestServer::start_with(config);
    let error = Wire::to(server.url()).and_then(|mut wire| wire.ping()).unwrap_err();
    let is_closed = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
    assert!(is_closed.contains(&error.kind()), "{error}");
}

#[test]
fn a_user_is_held_to_its_lists() {
    let publish =
        SubjectPermission { allow: vec!["a.>".to_owned()], deny: vec!["a.secret".to_owned()] };
    let mut wire = user_with(Permissions { publish, ..Permissions::default() });
    let told = |subject: &str| wire.1.refusal(subject).unwrap().unwrap_or_default();
    let told = ["a.b", "b.c", "a.secret"].map(told);
    assert_eq!(told[0], "");
    assert!(told[1].contains("Permissions Violation for Publish to \"b.c\""), "{told:?}");
    assert!(told[2].contains("Permissions Violation for Publish to \"a.secret\""), "{told:?}");
}

#[test]
fn a_user_without_lists_may_do_everything() {
    let mut wire = user_with(Permissions::default());
    assert_eq!(wire.1.refusal("any.subject").unwrap(), None);
}

/// A server that knows one user, and that user's connection.
fn user_with(permissions: Permissions) -> (TestServer, Wire) {
    let key = SigningKey::generate(NkeyKind::User, &SystemEntropy::new()).unwrap();
    let user = NkeyUser { key: *key.public(), permissions: Some(permissions) };
    let authorization = Authorization::Nkeys(vec![user]);
    let server = TestServer::start_with(ServerConfig { authorization, ..ServerConfig::default() });
    let wire = Wire::to_as(server.url(), &key).unwrap();
    (server, wire)
}

/// A stream that keeps `s.>`.
fn keep(wire: &mut Wire, name: &str) {
    let spec = format!(r#"{{"name":"{name}","subjects":["s.>"],"storage":"file"}}"#);
    let answer = wire.request(&format!("$JS.API.STREAM.CREATE.{name}"), &spec).unwrap();
    assert!(!answer.contains("error"), "{answer}");
}

fn one_user() -> Authorization {
    let key = SigningKey::generate(NkeyKind::User, &SystemEntropy::new()).unwrap();
    Authorization::Nkeys(vec![NkeyUser { key: *key.public(), permissions: None }])
}

fn address(server: &NatsServer) -> String {
    server.url().trim_start_matches("nats://").to_owned()
}

/// A child that was waited for has no number any more.
fn is_alive(pid: u32) -> bool {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::test_kill_process(pid).is_ok()
}
