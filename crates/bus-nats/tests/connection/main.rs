//! A connection to a real server: who is let in, what is refused, and what a lost one does.
#![cfg(test)]

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use bus_core::{Bus, ErrorKind, Expect, Frame, FrameId, Outcome, Retention, StreamSpec};
use bus_crypto::{
    Credentials, NkeyKind, SigningKey, SystemEntropy,
    jwt::{Permissions, SubjectPermission},
};
use bus_nats::{
    ConnectionState, NatsAuth, NatsBus, NatsOptions,
    server::{Authorization, NkeyUser, ServerConfig},
};
use bus_subjects::{Filter, StreamName, Subject};
use bus_testserver::TestServer;

use tokens::Tokens;

mod inspect;
#[path = "../server/tokens.rs"]
mod tokens;

fn user() -> Arc<SigningKey> {
    Arc::new(SigningKey::generate(NkeyKind::User, &SystemEntropy::new()).unwrap())
}

fn server_of(key: &SigningKey, permissions: Option<Permissions>) -> TestServer {
    let users = vec![NkeyUser { key: *key.public(), permissions }];
    let authorization = Authorization::Nkeys(users);
    TestServer::start_with(ServerConfig { authorization, ..ServerConfig::default() })
}

fn options(server: &TestServer) -> NatsOptions {
    NatsOptions { answer_wait: Duration::from_secs(2), ..NatsOptions::new(server.url()) }
}

fn task(id: &str) -> Frame {
    let subject = Subject::parse("vak.work.w1.coder.task").unwrap();
    Frame::new(subject, FrameId::parse(id).unwrap(), "task")
}

fn tasks() -> StreamSpec {
    let filter = Filter::parse("vak.work.w1.*.task").unwrap();
    StreamSpec::new(StreamName::parse("VAK_WORK_w1").unwrap(), vec![filter], Retention::WorkQueue)
}

async fn until(bus: &NatsBus, wanted: impl FnMut(&ConnectionState) -> bool) {
    let mut states = bus.states();
    let waited = tokio::time::timeout(Duration::from_secs(30), states.wait_for(wanted)).await;
    assert!(waited.is_ok(), "the state did not come");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_of_a_known_key_is_let_in() {
    let key = user();
    let server = server_of(&key, None);
    let auth = NatsAuth::Nkey(Arc::clone(&key));
    let bus = NatsBus::open(NatsOptions { auth, ..options(&server) }).await.unwrap();
    bus.declare(tasks()).await.unwrap();
    assert_eq!(bus.append(task("t1"), Expect::Any).await.unwrap().seq.0, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_of_another_key_is_denied_at_once() {
    let server = server_of(&user(), None);
    let auth = NatsAuth::Nkey(user());
    let begun = Instant::now();
    let refused = NatsBus::open(NatsOptions { auth, ..options(&server) }).await.unwrap_err();
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Denied, Outcome::NotDone));
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_that_the_server_refuses_is_denied_at_once() {
    let key = user();
    let publish = SubjectPermission {
        allow: vec!["$JS.API.>".to_owned(), "_INBOX.>".to_owned()],
        ..SubjectPermission::default()
    };
    let server = server_of(&key, Some(Permissions { publish, ..Permissions::default() }));
    let auth = NatsAuth::Nkey(key);
    let bus = NatsBus::open(NatsOptions { auth, ..options(&server) }).await.unwrap();
    bus.declare(tasks()).await.unwrap();
    let begun = Instant::now();
    let refused = bus.append(task("t1"), Expect::Any).await.unwrap_err();
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Denied, Outcome::NotDone));
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_holds_a_password_is_refused_and_not_quoted() {
    let options = NatsOptions::new("nats://me:s3cret@127.0.0.1:4222");
    let refused = NatsBus::open(options).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(!format!("{refused:?} {refused}").contains("s3cret"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_is_unavailable() {
    let mut server = TestServer::start();
    let options = options(&server);
    server.kill();
    let refused = NatsBus::open(options).await.unwrap_err();
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Unavailable, Outcome::NotDone));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_fails_calls_at_once_and_comes_back_with_what_was_stored() {
    let mut server = TestServer::start();
    let bus = NatsBus::open(options(&server)).await.unwrap();
    bus.declare(tasks()).await.unwrap();
    bus.append(task("t1"), Expect::Any).await.unwrap();
    server.kill();
    until(&bus, |state| *state == ConnectionState::Disconnected).await;
    let begun = Instant::now();
    let refused = bus.append(task("t2"), Expect::Any).await.unwrap_err();
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Unavailable, Outcome::NotDone));
    assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
    server.restart().unwrap();
    until(&bus, |state| state.epoch() == Some(2)).await;
    let again = bus.append(task("t1"), Expect::Any).await.unwrap();
    assert_eq!((again.seq.0, again.duplicate), (1, true));
    assert_eq!(bus.append(task("t2"), Expect::Any).await.unwrap().seq.0, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_ends_a_call_in_time_with_its_outcome_unknown() {
    let server = TestServer::start();
    let bus = NatsBus::open(options(&server)).await.unwrap();
    bus.declare(tasks()).await.unwrap();
    server.freeze().unwrap();
    let begun = Instant::now();
    let late = bus.append(task("t1"), Expect::Any).await.unwrap_err();
    assert_eq!((late.kind(), late.outcome()), (ErrorKind::Timeout, Outcome::Unknown));
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    server.thaw().unwrap();
    // What was sent was stored after all: the repeat finds it.
    let again = bus.append(task("t1"), Expect::Any).await.unwrap();
    assert_eq!((again.seq.0, again.duplicate), (1, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_bus_says_so_to_every_call() {
    let server = TestServer::start();
    let bus = NatsBus::open(options(&server)).await.unwrap();
    bus.declare(tasks()).await.unwrap();
    bus.close().await.unwrap();
    bus.close().await.unwrap();
    let refused = bus.append(task("t1"), Expect::Any).await.unwrap_err();
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Closed, Outcome::NotDone));
    until(&bus, |state| *state == ConnectionState::Closed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_printed() {
    let key = user();
    let seed = key.seed_text();
    let shown = format!(
        "{:?}",
        NatsOptions {
            auth: NatsAuth::Nkey(Arc::clone(&key)),
            ..NatsOptions::new("nats://127.0.0.1:4222")
        }
    );
    assert!(shown.contains(&key.public().text()) && !shown.contains(seed.as_str()));
    let shown = format!("{:?}", NatsOptions::new("nats://me:s3cret@127.0.0.1:4222"));
    assert!(shown.contains("127.0.0.1:4222") && !shown.contains("s3cret"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_too_long_for_the_server_is_told_as_that() {
    let tokens = Tokens::new();
    let config = ServerConfig {
        authorization: tokens.authorization(),
        control_line_bytes_max: 4_096,
        ..ServerConfig::default()
    };
    let server = TestServer::start_with(config);
    let open = async |subjects: usize| {
        let subjects = (0..subjects).map(|n| format!("vak.events.one.session-{n}.>")).collect();
        let (token, key) = tokens.user(|claims| claims.permissions.publish.allow = subjects);
        let credentials = Credentials::from_parts(&token, &key.seed_text()).unwrap();
        let auth = NatsAuth::Jwt(Arc::new(credentials));
        NatsBus::open(NatsOptions { auth, ..options(&server) }).await
    };
    open(40).await.unwrap();
    for subjects in [100, 1_000] {
        let refused = open(subjects).await.unwrap_err();
        assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::TooLarge, Outcome::NotDone));
        let said = refused.to_string();
        assert!(said.contains("too long for this server: set its max_control_line"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_signed_for_a_server_that_gives_nothing_to_sign() {
    // A signature over an empty text could be used by whoever sees it, for ever.
    let server = TestServer::start();
    let auth = NatsAuth::Nkey(user());
    let refused = NatsBus::open(NatsOptions { auth, ..options(&server) }).await.unwrap_err();
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Denied, Outcome::NotDone));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inbox_prefix_that_is_no_subject_is_refused() {
    for prefix in ["", "_INBOX.>", "_INBOX.*", "a b", "a..b", "_INBOX."] {
        let mut options = NatsOptions::new("nats://127.0.0.1:4222");
        options.inbox_prefix = prefix.to_owned();
        let refused = NatsBus::open(options).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{prefix}");
    }
}
