//! Subscriptions at one server of three, and publishers at the others.

use std::time::Duration;

use bus_core::{Bus, FeedItem, Overflow, Subscription};
use bus_nats::NatsBus;
use bus_subjects::Filter;
use bus_testserver::TestCluster;
use tokio::time::{Instant, timeout};

use crate::{
    election::at_server,
    scale::Scale,
    stage::{ANSWER_WAIT, SOON, frame},
};

pub(crate) async fn a_subscription_is_in_force_at_every_server_also_while_one_is_frozen(
    scale: Scale,
) -> String {
    let mut cluster = tokio::task::block_in_place(TestCluster::start);
    let mut clients = Vec::new();
    for place in 0..TestCluster::SERVERS {
        clients.push(at_server(&cluster, place).await);
    }
    let rounds = scale.pick(60, 2_000);
    let mut longest = Duration::ZERO;
    for round in 0..rounds {
        let (own, other) = (round % 3, (round + 1 + round / 3 % 2) % 3);
        longest = longest.max(hears(&clients[own], &clients[other], round).await);
    }
    // Who subscribes where one of the others does not answer waits for it once.
    cluster.freeze(2);
    let begun = Instant::now();
    for round in rounds..rounds + 30 {
        hears(&clients[round % 2], &clients[(round + 1) % 2], round).await;
    }
    let frozen = begun.elapsed();
    cluster.thaw(2);
    assert!(frozen < Duration::from_secs(15), "{frozen:?}");
    format!(
        "{rounds} subscriptions heard at once what another server took, each made within \
         {longest:.1?}; 30 with one server frozen in {frozen:.1?}"
    )
}

/// How long it takes to subscribe; what is published elsewhere right after it is heard.
async fn hears(own: &NatsBus, other: &NatsBus, round: usize) -> Duration {
    let subject = format!("vak.events.w1.s{round}.tokens");
    let begun = Instant::now();
    let mut heard = listen(own, &subject).await;
    let took = begun.elapsed();
    assert!(took < ANSWER_WAIT + ANSWER_WAIT, "{took:?}");
    other.publish(frame(&subject, "at-once")).await.unwrap();
    let item = timeout(SOON, heard.next()).await;
    let item = item.unwrap_or_else(|_| panic!("{subject} was not heard"));
    assert!(matches!(item, Some(FeedItem::Frame(_))), "{item:?}");
    took
}

async fn listen(bus: &NatsBus, filter: &str) -> Subscription {
    let overflow = Overflow::DropOldest { capacity: 4.try_into().unwrap() };
    bus.subscribe(Filter::parse(filter).unwrap(), overflow).await.unwrap()
}
