//! Several instances, and none.

use std::{future::pending, sync::Arc, time::Duration};

use bus_core::Buckets;
use bus_nats::{callout::CalloutLimits, server::ServerConfig};
use bus_subjects::Role;
use tokio::sync::oneshot;

use crate::{
    admits::VIOLATION,
    raw::{Raw, Shown},
    world::{World, beside},
};

#[tokio::test]
async fn of_two_who_show_one_ticket_at_one_moment_to_two_instances_one_comes_in() {
    let world = World::start();
    let stores: [Arc<dyn Buckets>; 2] =
        [Arc::new(world.store().await), Arc::new(world.store().await)];
    let [one, other] = stores.map(|store| world.instance_with(store, CalloutLimits::default()));
    let (one, other) = (one.await, other.await);
    beside(
        &one,
        beside(&other, async {
            for _ in 0..10 {
                let ticket = world.ticket(&[Role::Observer]);
                let login = || Raw::login(world.url(), Shown::Ticket(&ticket));
                let (a, b, c, d) = tokio::join!(login(), login(), login(), login());
                let let_in = [a, b, c, d].iter().filter(|login| login.is_ok()).count();
                assert_eq!(let_in, 1);
            }
        }),
    )
    .await;
    let (one, other) = (one.stats(), other.stats());
    assert_eq!((one.admitted + other.admitted, one.refused + other.refused), (10, 30));
    assert!(one.asked > 0 && other.asked > 0, "{one:?} {other:?}");
}

#[tokio::test]
async fn one_of_two_instances_dies_and_logins_go_on() {
    let world = World::start();
    let (dying, other) = (world.instance().await, world.instance().await);
    let identity = world.member("a1", &[Role::Worker]);
    let (kill, killed) = oneshot::channel::<()>();
    let dies = async {
        let dying = dying;
        tokio::select! {
            _over = dying.run(pending()) => {}
            _now = killed => {}
        }
        let asked = dying.stats().asked;
        drop(dying);
        asked
    };
    let logins = async {
        for _ in 0..20 {
            Raw::login(world.url(), Shown::Key(identity.key())).await.unwrap();
        }
        kill.send(()).unwrap();
        // What the dead one was asked last may be refused.
        while Raw::login(world.url(), Shown::Key(identity.key())).await.is_err() {}
        for _ in 0..20 {
            Raw::login(world.url(), Shown::Key(identity.key())).await.unwrap();
        }
    };
    let both = beside(&other, async { tokio::join!(dies, logins).0 });
    assert!(both.await > 0, "the dead one was asked while it lived");
    assert!(other.stats().admitted >= 20);
}

#[tokio::test]
async fn an_instance_that_ends_answers_what_it_was_asked() {
    let world = World::start();
    let (ending, other) = (world.instance().await, world.instance().await);
    let identity = world.member("a1", &[Role::Worker]);
    let (end, ended) = oneshot::channel::<()>();
    let ends = async {
        ending.run(async { drop(ended.await) }).await.unwrap();
    };
    let logins = async {
        let login = || Raw::login(world.url(), Shown::Key(identity.key()));
        for _ in 0..10 {
            login().await.unwrap();
        }
        end.send(()).unwrap();
        for _ in 0..30 {
            login().await.unwrap();
        }
    };
    beside(&other, async { tokio::join!(ends, logins) }).await;
    let (one, other) = (ending.stats(), other.stats());
    assert_eq!((one.admitted + other.admitted, one.refused + other.refused), (40, 0));
}

#[tokio::test]
async fn no_instance_no_entry_and_the_connected_stay() {
    let login_within = Duration::from_secs(1);
    let world = World::start_with(ServerConfig { login_within, ..ServerConfig::default() });
    let callout = world.instance().await;
    let identity = world.member("a1", &[Role::Worker]);
    let login = || Raw::login(world.url(), Shown::Key(identity.key()));
    let mut connected = beside(&callout, login()).await.unwrap();
    drop(callout);
    assert_eq!(login().await.err().as_deref(), Some(VIOLATION));
    assert!(connected.is_let_in().await);
    let callout = world.instance().await;
    assert!(beside(&callout, login()).await.is_ok());
}
