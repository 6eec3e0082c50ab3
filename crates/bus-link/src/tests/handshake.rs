//! Who is let in, and who is not.

use std::{sync::Arc, time::Duration};

use bus_core::{Bus as _, Error, ErrorKind, Frame, Identity, Issue, Result, Retention, StreamSpec};
use bus_crypto::{NkeyKind, SigningKey, SystemEntropy};
use bus_subjects::{ConsumerName, Filter, Role};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::{
    common::People,
    support::{Site, coders, event, settle_down, subject},
};
use crate::{
    LinkLimits, LinkState,
    server::is_same_user,
    wire::{Challenge, HELLO_BYTES_MAX, Message, Response, Versions, Welcome, read_message},
};

async fn challenge(stream: &mut DuplexStream) -> Challenge {
    let bytes = read_message(stream, HELLO_BYTES_MAX).await.unwrap().unwrap();
    Challenge::decode(&bytes).unwrap()
}

async fn answer(stream: &mut DuplexStream, response: &[u8]) -> Result<()> {
    let length = u32::try_from(response.len()).unwrap().to_le_bytes();
    stream.write_all(&length).await.unwrap();
    stream.write_all(response).await.unwrap();
    let welcome = read_message(stream, 1 << 20).await.unwrap().unwrap();
    match Message::<Welcome>::decode(welcome).unwrap().words {
        Welcome::In(_) => Ok(()),
        Welcome::Refused(fault) => Err(fault.into_error("connect")),
    }
}

fn signed(challenge: &Challenge, identity: &Identity) -> Response {
    let versions = Versions::OURS;
    Response {
        versions,
        signature: identity.key().sign(&challenge.to_sign(versions)),
        token: identity.certificate().token().to_owned(),
    }
}

fn refused(outcome: Result<impl Sized>, kind: ErrorKind) -> Error {
    let Err(error) = outcome else { panic!("expected {kind:?}, was let in") };
    assert_eq!(error.kind(), kind, "{error}");
    error
}

#[tokio::test(start_paused = true)]
async fn a_signed_challenge_is_let_in() {
    let site = Site::open();
    let mut stream = site.pipe();
    let challenge = challenge(&mut stream).await;
    answer(&mut stream, &signed(&challenge, &site.identity("a1")).encode()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_one_challenge_is_none_to_another() {
    let site = Site::open();
    let identity = site.identity("a1");
    let (mut first, mut second) = (site.pipe(), site.pipe());
    let recorded = signed(&challenge(&mut first).await, &identity).encode();
    answer(&mut first, &recorded).await.unwrap();
    let _other = challenge(&mut second).await;
    refused(answer(&mut second, &recorded).await, ErrorKind::Denied);
}

#[tokio::test(start_paused = true)]
async fn a_certificate_without_its_key_is_refused() {
    let site = Site::open();
    let mut stream = site.pipe();
    let challenge = challenge(&mut stream).await;
    let mut response = signed(&challenge, &site.identity("thief"));
    response.token = site.identity("owner").certificate().token().to_owned();
    refused(answer(&mut stream, &response.encode()).await, ErrorKind::Denied);
}

#[tokio::test(start_paused = true)]
async fn another_version_is_told_both_ranges() {
    let site = Site::open();
    let mut stream = site.pipe();
    let challenge = challenge(&mut stream).await;
    let mut response = signed(&challenge, &site.identity("a1"));
    response.versions = Versions { first: 7, last: 9 };
    let error = refused(answer(&mut stream, &response.encode()).await, ErrorKind::Unsupported);
    assert!(error.to_string().contains("1 to 1") && error.to_string().contains("7 to 9"));
}

#[tokio::test(start_paused = true)]
async fn versions_that_were_changed_on_the_way_are_noticed() {
    let site = Site::open();
    let mut stream = site.pipe();
    let challenge = challenge(&mut stream).await;
    let mut response = signed(&challenge, &site.identity("a1"));
    response.versions = Versions { first: 1, last: 2 };
    refused(answer(&mut stream, &response.encode()).await, ErrorKind::Denied);
}

#[tokio::test(start_paused = true)]
async fn another_account_vouches_for_nobody() {
    let site = Site::open();
    let stranger = People::new(Arc::clone(site.admission.clock()));
    let identity = stranger.identity("a1", vec![Role::Operator]);
    refused(site.try_client(identity).await, ErrorKind::Denied);
}

#[tokio::test(start_paused = true)]
async fn an_expired_certificate_is_refused() {
    let site = Site::open();
    let valid_for = Some(Duration::from_secs(60));
    let identity = site.people.identity_for("a1", vec![Role::Worker], valid_for);
    tokio::time::advance(Duration::from_secs(61)).await;
    refused(site.try_client(identity).await, ErrorKind::Denied);
}

#[tokio::test(start_paused = true)]
async fn a_right_ends_with_its_certificate() {
    let site = Site::open();
    let valid_for = Some(Duration::from_secs(60));
    let identity = site.people.identity_for("a1", vec![Role::Worker], valid_for);
    let bus = site.try_client(identity).await.unwrap();
    let mut states = bus.states();
    assert_eq!(states.now(), LinkState::Up);
    assert_eq!(states.next().await, LinkState::Refused);
    refused(bus.publish(event("e1")).await, ErrorKind::Denied);
}

#[tokio::test(start_paused = true)]
async fn a_revoked_key_loses_its_connection_and_others_do_not() {
    let site = Site::open();
    let identity = site.identity("bad");
    let nkey = identity.certificate().nkey;
    let (bad, good) = (site.try_client(identity).await.unwrap(), site.client("good").await);
    let mut states = bad.states();
    assert_eq!(states.now(), LinkState::Up);
    site.admission.revoke(&site.people.workspace, nkey);
    assert_eq!(states.next().await, LinkState::Refused);
    refused(bad.publish(event("e1")).await, ErrorKind::Denied);
    good.publish(event("e2")).await.unwrap();
    assert_eq!(good.states().now(), LinkState::Up);
}

#[tokio::test(start_paused = true)]
async fn a_member_of_a_revoked_client_ends_with_the_reason() {
    let site = Site::open();
    let identity = site.identity("bad");
    let nkey = identity.certificate().nkey;
    let bus = site.try_client(identity).await.unwrap();
    super::support::declare(&bus).await;
    let mut member = bus.consume(coders()).await.unwrap();
    site.admission.revoke(&site.people.workspace, nkey);
    refused(member.next().await.unwrap(), ErrorKind::Denied);
    assert!(member.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_workspace_that_is_trusted_no_more_loses_its_connections() {
    let site = Site::open();
    let bus = site.client("a1").await;
    let mut states = bus.states();
    assert_eq!(states.now(), LinkState::Up);
    site.admission.distrust(&site.people.workspace);
    assert_eq!(states.next().await, LinkState::Refused);
}

#[tokio::test(start_paused = true)]
async fn the_policy_is_that_of_the_certificates_roles() {
    let site = Site::with(People::admission, LinkLimits::default());
    let observer = site.people.identity("o1", vec![Role::Observer]);
    let bus = site.try_client(observer).await.unwrap();
    refused(bus.publish(event("e1")).await, ErrorKind::Denied);
    let appended = bus.append(super::support::task("t1"), bus_core::Expect::Any).await;
    refused(appended, ErrorKind::Denied);
}

#[tokio::test(start_paused = true)]
async fn the_policy_is_bound_to_the_session_and_the_queue_of_the_certificate() {
    let site = Site::with(People::admission, LinkLimits::default());
    let filters = vec![Filter::parse("vak.work.w1.>").unwrap()];
    let stream = StreamSpec::new(coders().stream, filters, Retention::WorkQueue);
    site.engine.declare(stream).await.unwrap();
    let (agent, now) = ("a1".parse().unwrap(), site.admission.clock().now());
    let mut issue = Issue::new(site.people.workspace.clone(), agent, vec![Role::Worker], now);
    issue.session = Some("s1".parse().unwrap());
    issue.role_name = Some("coder".parse().unwrap());
    let bus = site.try_client(site.people.issued(&issue)).await.unwrap();
    let _member = bus.consume(coders()).await.unwrap();
    let mut judges = coders();
    judges.filter = Filter::parse("vak.work.w1.judge.task").unwrap();
    judges.name = ConsumerName::parse("judge").unwrap();
    refused(bus.consume(judges).await, ErrorKind::Denied);
    bus.publish(event("e1")).await.unwrap();
    let other = Frame { subject: subject("vak.events.w1.s2.tokens"), ..event("e2") };
    refused(bus.publish(other).await, ErrorKind::Denied);
}

#[tokio::test(start_paused = true)]
async fn a_half_open_handshake_ends_in_time() {
    let site = Site::open();
    let mut stream = site.pipe();
    let _challenge = challenge(&mut stream).await;
    let started = tokio::time::Instant::now();
    assert_eq!(stream.read(&mut [0; 16]).await.unwrap(), 0, "the server hangs up");
    assert_eq!(started.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn one_client_too_many_is_told_so() {
    let limits = LinkLimits { connections_max: 2, ..LinkLimits::default() };
    let site = Site::with(People::open_admission, limits);
    let (_one, _two) = (site.client("a1").await, site.client("a2").await);
    refused(site.try_client(site.identity("a3")).await, ErrorKind::Full);
}

#[tokio::test(start_paused = true)]
async fn a_place_that_became_free_is_taken_again() {
    let limits = LinkLimits { connections_max: 1, ..LinkLimits::default() };
    let site = Site::with(People::open_admission, limits);
    drop(site.client("a1").await);
    settle_down().await;
    let _next = site.client("a2").await;
}

#[test]
fn nobody_but_the_same_user_is_served() {
    assert!(is_same_user(1000, 1000));
    assert!(!is_same_user(1001, 1000));
    assert!(!is_same_user(0, 1000), "who may do everything is another user all the same");
}

#[tokio::test(start_paused = true)]
async fn a_bearer_of_no_user_key_is_refused() {
    let site = Site::open();
    let mut stream = site.pipe();
    let challenge = challenge(&mut stream).await;
    let mut response = signed(&challenge, &site.identity("a1"));
    let other = SigningKey::generate(NkeyKind::User, &SystemEntropy::new()).unwrap();
    response.signature = other.sign(&challenge.to_sign(Versions::OURS));
    refused(answer(&mut stream, &response.encode()).await, ErrorKind::Denied);
}
