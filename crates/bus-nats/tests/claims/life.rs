//! Certificates that end, and those that are made anew.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bus_core::{Bus, Expect, FeedItem, Frame, FrameId, Overflow, Retention, StreamSpec};
use bus_nats::{NatsAuth, Renewal};
use bus_testserver::TestServer;

use crate::company::{Company, cut_off, denied, jwt, log_in, now, user_of};

async fn with_account(company: &Company) -> TestServer {
    let server = company.server();
    let servers = company.servers(server.url()).await;
    assert!(servers.push(&company.token(0, &[]), &company.claims).await.unwrap().is_everywhere());
    server
}

#[tokio::test]
async fn a_certificate_that_expires_ends_the_open_connection() {
    let company = Company::new();
    let server = with_account(&company).await;
    let ends = now() + 2;
    let bus = log_in(server.url(), jwt(company.user(|claims| claims.expires_unix_s = Some(ends))));
    let bus = bus.await.unwrap();
    denied(&bus).await;
    assert!((ends..ends + 5).contains(&now()));
}

#[tokio::test]
async fn a_silent_subscription_of_an_expired_agent_hears_nothing_more() {
    let company = Company::new();
    let server = with_account(&company).await;
    let ends = now() + 2;
    let user = company.user(|claims| claims.expires_unix_s = Some(ends));
    let (silent, other) =
        (log_in(server.url(), jwt(user)), log_in(server.url(), jwt(company.user(|_| {}))));
    let (silent, other) = (silent.await.unwrap(), other.await.unwrap());
    let filter = "vak.events.w1.s1.log".parse().unwrap();
    let mut heard = silent
        .subscribe(filter, Overflow::DropOldest { capacity: 8.try_into().unwrap() })
        .await
        .unwrap();
    denied(&silent).await;
    let event =
        Frame::new("vak.events.w1.s1.log".parse().unwrap(), FrameId::parse("e1").unwrap(), "x");
    other.publish(event).await.unwrap();
    let within = Duration::from_secs(10);
    while let Some(item) = tokio::time::timeout(within, heard.next()).await.unwrap() {
        assert!(!matches!(item, FeedItem::Frame(_)), "{item:?}");
    }
}

#[tokio::test]
async fn a_renewed_certificate_goes_on_without_a_loss() {
    let company = Company::new();
    let server = with_account(&company).await;
    let made = Arc::new(AtomicUsize::new(0));
    let (count, account) = (Arc::clone(&made), company.account);
    let renewal = Renewal::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(user_of(&account, |claims| claims.expires_unix_s = Some(now() + 2)))
    });
    let bus = log_in(server.url(), NatsAuth::Renewed(renewal)).await.unwrap();
    let filters = vec!["vak.work.w1.>".parse().unwrap()];
    let stream = StreamSpec::new("VAK_WORK_w1".parse().unwrap(), filters, Retention::WorkQueue);
    bus.declare(stream).await.unwrap();
    let mut stored = 0;
    while made.load(Ordering::Relaxed) < 4 {
        let id = FrameId::parse(&format!("t{stored}")).unwrap();
        let task = Frame::new("vak.work.w1.coder.task".parse().unwrap(), id, "x");
        // The same again where the connection ended in between: an id is stored once.
        while bus.append(task.clone(), Expect::Any).await.is_err() {
            tokio::task::yield_now().await;
        }
        stored += 1;
    }
    let last = bus.append(
        Frame::new("vak.work.w1.coder.task".parse().unwrap(), FrameId::parse("last").unwrap(), "x"),
        Expect::Any,
    );
    assert_eq!(last.await.unwrap().seq.0, stored + 1);
}

#[tokio::test]
async fn a_login_that_cannot_be_renewed_ends() {
    let company = Company::new();
    let server = with_account(&company).await;
    let made = AtomicUsize::new(0);
    let account = company.account;
    let renewal = Renewal::new(move || match made.fetch_add(1, Ordering::Relaxed) {
        0 => Ok(user_of(&account, |claims| claims.expires_unix_s = Some(now() + 2))),
        _ => Err(bus_core::Error::new(bus_core::ErrorKind::Denied, "log in", "it is revoked")),
    });
    let bus = log_in(server.url(), NatsAuth::Renewed(renewal)).await.unwrap();
    cut_off(&bus).await;
    denied(&bus).await;
}
