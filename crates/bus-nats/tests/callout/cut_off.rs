//! Who was admitted stays no longer than its right.

use std::{sync::Arc, time::Duration};

use bus_mem::InMemoryBus;
use bus_nats::callout::CalloutLimits;
use bus_subjects::Role;
use tokio::time::Instant;

use crate::{
    admits::VIOLATION,
    raw::{Raw, Shown},
    world::{World, beside, w1},
};

#[tokio::test]
async fn a_revoked_agent_admitted_by_callout_is_cut_off() {
    let world = World::start();
    let callout = world.instance().await.kicking(world.servers().await);
    let (bad, good) = (world.member("bad", &[Role::Worker]), world.member("good", &[Role::Worker]));
    beside(&callout, async {
        let mut revoked = Raw::login(world.url(), Shown::Key(bad.key())).await.unwrap();
        let mut other = Raw::login(world.url(), Shown::Key(good.key())).await.unwrap();
        let begun = Instant::now();
        world.admission.revoke(&w1(), *bad.key().public());
        revoked.end().await;
        // Within a millisecond, mostly.
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        let again = Raw::login(world.url(), Shown::Key(bad.key())).await.err();
        assert_eq!(again.as_deref(), Some(VIOLATION));
        assert!(other.is_let_in().await);
    })
    .await;
}

#[tokio::test]
async fn a_bearer_is_cut_off_with_the_trust_in_its_workspace() {
    let world = World::start();
    let callout = world.instance().await.kicking(world.servers().await);
    let ticket = world.ticket(&[Role::Observer]);
    beside(&callout, async {
        let mut bearer = Raw::login(world.url(), Shown::Ticket(&ticket)).await.unwrap();
        world.admission.distrust(&w1());
        bearer.end().await;
    })
    .await;
}

#[tokio::test]
async fn a_service_that_cuts_nobody_off_says_whom_to() {
    let world = World::start();
    let callout = world.instance().await;
    let identity = world.member("a1", &[Role::Worker]);
    beside(&callout, async {
        let mut raw = Raw::login(world.url(), Shown::Key(identity.key())).await.unwrap();
        assert!(callout.ended().is_empty());
        world.admission.revoke(&w1(), *identity.key().public());
        let ended = callout.ended();
        assert_eq!(ended.len(), 1);
        assert_eq!(ended[0].entrant.agent().as_str(), "a1");
        assert!(raw.is_let_in().await);
    })
    .await;
}

#[tokio::test]
async fn an_admitted_user_never_outlives_its_certificate() {
    let world = World::start();
    let callout = world.instance().await;
    let valid_for = Some(Duration::from_secs(3));
    let identity = world.member_for("a1", &[Role::Worker], valid_for);
    let end = identity.certificate().expires.unwrap();
    beside(&callout, async {
        let mut raw = Raw::login(world.url(), Shown::Key(identity.key())).await.unwrap();
        let said = raw.end().await;
        assert!(said.contains("User Authentication Expired"), "{said}");
        let after = world.admission.clock().now();
        assert!(after.since(end) < Duration::from_secs(2), "{after:?} {end:?}");
        let again = Raw::login(world.url(), Shown::Key(identity.key())).await.err();
        assert_eq!(again.as_deref(), Some(VIOLATION));
    })
    .await;
}

#[tokio::test]
async fn the_oldest_of_a_key_goes_for_one_more_than_it_may_have() {
    let world = World::start();
    let limits = CalloutLimits { admitted_each_max: 1, ..CalloutLimits::default() };
    let callout = world.instance_with(Arc::new(InMemoryBus::new()), limits).await;
    let callout = callout.kicking(world.servers().await);
    let identity = world.member("a1", &[Role::Worker]);
    beside(&callout, async {
        let mut first = Raw::login(world.url(), Shown::Key(identity.key())).await.unwrap();
        let mut second = Raw::login(world.url(), Shown::Key(identity.key())).await.unwrap();
        first.end().await;
        assert!(second.is_let_in().await);
    })
    .await;
}

#[tokio::test]
async fn a_ticket_that_finds_no_room_is_good_another_time() {
    let world = World::start();
    let tickets = Arc::new(InMemoryBus::new());
    let ticket = world.ticket(&[Role::Observer]);
    let full = CalloutLimits { admitted_max: 0, ..CalloutLimits::default() };
    for (limits, comes_in) in [(full, false), (CalloutLimits::default(), true)] {
        let callout = world.instance_with(tickets.clone(), limits).await;
        let mut came_in = None;
        let login = async {
            let login = Raw::login(world.url(), Shown::Ticket(&ticket)).await;
            came_in = Some(login.is_ok());
        };
        callout.run(login).await.unwrap();
        assert_eq!(came_in, Some(comes_in));
    }
}
