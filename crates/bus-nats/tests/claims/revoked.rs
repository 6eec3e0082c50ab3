//! Who was revoked: out at once where it is connected, and soon where its server was away.

use std::time::Duration;

use bus_core::{Bus, ConsumerSpec, ErrorKind, Expect, Frame, FrameId, Retention, StreamSpec};
use bus_crypto::PublicKey;
use bus_nats::{NatsBus, claims::ServerClaims};
use bus_testserver::TestServer;
use tokio::time::{Instant, timeout};

use crate::company::{Company, cut_off, denied, jwt, log_in};

async fn with_account(company: &Company) -> (TestServer, ServerClaims) {
    let server = company.server();
    let servers = company.servers(server.url()).await;
    assert!(servers.push(&company.token(0, &[]), &company.claims).await.unwrap().is_everywhere());
    (server, servers)
}

#[tokio::test]
async fn a_revoked_agent_is_cut_off_while_connected() {
    let company = Company::new();
    let (server, servers) = with_account(&company).await;
    let (user, other) = (company.user(|_| {}), company.user(|_| {}));
    let key = *user.key().public();
    let bus = log_in(server.url(), jwt(user)).await.unwrap();
    let stays = log_in(server.url(), jwt(other)).await.unwrap();
    let revoked = Instant::now();
    let _taken = servers.push(&company.token(1, &[key]), &company.claims).await.unwrap();
    cut_off(&bus).await;
    assert!(revoked.elapsed() < Duration::from_secs(2), "{:?}", revoked.elapsed());
    denied(&bus).await;
    assert_eq!(stays.states().borrow().epoch(), Some(1));
}

#[tokio::test]
async fn the_open_pull_of_a_revoked_agent_takes_no_task() {
    let company = Company::new();
    let (server, servers) = with_account(&company).await;
    let (user, other) = (company.user(|_| {}), company.user(|_| {}));
    let key = *user.key().public();
    let gone = log_in(server.url(), jwt(user)).await.unwrap();
    let stays = log_in(server.url(), jwt(other)).await.unwrap();
    declare(&stays).await;
    let mut pulls = gone.consume(queue()).await.unwrap();
    let waiting = timeout(Duration::from_secs(30), pulls.next());
    let revoking = async {
        revoke_and_work(&company, &servers, key, (&gone, &stays)).await;
        denied(&gone).await;
    };
    let (waited, ()) = tokio::join!(waiting, revoking);
    assert!(!matches!(waited.unwrap(), Some(Ok(_))), "a revoked agent took a task");
}

/// Revokes who waits for a task, and has another one take it.
async fn revoke_and_work(
    company: &Company,
    servers: &ServerClaims,
    key: PublicKey,
    (gone, stays): (&NatsBus, &NatsBus),
) {
    let _taken = servers.push(&company.token(1, &[key]), &company.claims).await.unwrap();
    cut_off(gone).await;
    let mut taken = stays.consume(queue()).await.unwrap();
    let task =
        Frame::new("vak.work.w1.coder.task".parse().unwrap(), FrameId::parse("t1").unwrap(), "x");
    stays.append(task, Expect::Any).await.unwrap();
    let delivery = timeout(Duration::from_secs(10), taken.next()).await.unwrap();
    let delivery = delivery.unwrap().unwrap();
    assert_eq!(delivery.attempt, 1);
}

async fn declare(bus: &NatsBus) {
    let filters = vec!["vak.work.w1.>".parse().unwrap()];
    let stream = StreamSpec::new("VAK_WORK_w1".parse().unwrap(), filters, Retention::WorkQueue);
    bus.declare(stream).await.unwrap();
}

fn queue() -> ConsumerSpec {
    ConsumerSpec {
        stream: "VAK_WORK_w1".parse().unwrap(),
        name: "worker_coder".parse().unwrap(),
        filter: "vak.work.w1.coder.task".parse().unwrap(),
        lease: Duration::from_secs(30),
    }
}

#[tokio::test]
async fn a_server_that_was_away_refuses_it_within_ten_seconds_of_its_return() {
    let company = Company::new();
    let mut cluster = company.cluster().await;
    let urls = cluster.urls();
    let servers = company.servers(&urls[0]).await;
    assert!(servers.push(&company.token(0, &[]), &company.claims).await.unwrap().is_everywhere());
    let user = company.user(|_| {});
    let auth = jwt(user);
    let key = match &auth {
        bus_nats::NatsAuth::Jwt(user) => *user.key().public(),
        _ => unreachable!(),
    };
    cluster.kill(2);
    let _taken = servers.push(&company.token(1, &[key]), &company.claims).await.unwrap();
    cluster.restart(2).unwrap();
    let back = Instant::now();
    let refused = loop {
        match log_in(&urls[2], auth.clone()).await {
            Err(error) => break error,
            Ok(_) => assert!(back.elapsed() < Duration::from_secs(12), "it is still let in"),
        }
    };
    assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");
}
