//! Who leads a stream is killed or frozen: how long it takes until somebody else acknowledges.

use std::time::Duration;

use bus_core::{Bus, Clock, Expect, SystemClock};
use bus_envelope::Timestamp;
use bus_nats::{NatsBus, NatsOptions, Profile};
use bus_testserver::TestCluster;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout_at},
};

use crate::{
    cluster::{PATIENCE, all_are_there, append_some, at, leader, ready, stage},
    scale::Scale,
    stage::{ANSWER_WAIT, may_be_tried_again},
};

/// The servers' own time cannot be made shorter here; what the client adds to it can.
pub(crate) async fn acknowledgements_return_half_a_second_after_the_election(
    scale: Scale,
) -> String {
    let (mut cluster, bus) = stage().await;
    let mut number = append_some(&bus, 0, 20).await;
    let (mut longest, mut added) = (Duration::ZERO, Duration::ZERO);
    let kills = scale.pick(1, 10);
    for _ in 0..kills {
        let leader = leader(&cluster);
        let witnesses = beside(&cluster, leader).await;
        let (killed_at, begun) = (SystemClock::new().now(), Instant::now());
        cluster.kill(leader);
        let (taken, first) = until_acknowledged(&witnesses, number).await;
        number = taken;
        let without = first - begun;
        let elected = led_since(&cluster, leader);
        longest = longest.max(without);
        added = added.max(without.saturating_sub(elected.since(killed_at)));
        cluster.restart(leader).unwrap();
        ready(&cluster);
    }
    all_are_there(&bus, number).await;
    // On a machine that does other things as well, a single run proves little.
    let bound = scale.pick(Duration::from_secs(2), Duration::from_millis(500));
    assert!(added <= bound, "{added:?} after the election");
    format!(
        "{kills} kills; at most {longest:.1?} without an acknowledgement, of which {added:.1?} \
         after the election"
    )
}

pub(crate) async fn a_frozen_leader_is_replaced_for_clients_of_others_and_its_own(
    scale: Scale,
) -> String {
    let (mut cluster, bus) = stage().await;
    let mut number = append_some(&bus, 0, 20).await;
    let (mut of_others, mut of_its_own) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..scale.pick(1, 5) {
        let leader = leader(&cluster);
        let (others, own) = (beside(&cluster, leader).await, at_server(&cluster, leader).await);
        cluster.freeze(leader);
        let begun = Instant::now();
        let (taken, first) = until_acknowledged(&others, number).await;
        number = taken;
        of_others = of_others.max(first - begun);
        // It finds out by the answers to its pings, and goes to another server.
        number = append_some(&own, number, 1).await;
        of_its_own = of_its_own.max(begun.elapsed());
        number = append_some(&bus, number, 20).await;
        cluster.thaw(leader);
        ready(&cluster);
    }
    all_are_there(&bus, number).await;
    assert!(of_others < Duration::from_secs(20), "{of_others:?}");
    assert!(of_its_own < Duration::from_secs(30), "{of_its_own:?}");
    format!(
        "{number} acknowledged, 0 lost, 0 twice; without for at most {of_others:.1?}, and \
         {of_its_own:.1?} for a client of the frozen one"
    )
}

/// Clients of another server than this one, which wait for answers only for a moment.
async fn beside(cluster: &TestCluster, place: usize) -> Vec<NatsBus> {
    let mut clients = Vec::new();
    for _ in 0..WITNESSES {
        clients.push(open(cluster, (place + 1) % TestCluster::SERVERS, A_MOMENT).await);
    }
    clients
}

pub(crate) async fn at_server(cluster: &TestCluster, place: usize) -> NatsBus {
    open(cluster, place, ANSWER_WAIT).await
}

async fn open(cluster: &TestCluster, place: usize, answer_wait: Duration) -> NatsBus {
    let profile = Profile::Replicated;
    let options = NatsOptions { answer_wait, profile, ..NatsOptions::new(&cluster.urls()[place]) };
    NatsBus::open(options).await.unwrap()
}

/// Begins an append every now and then, with one client after the other, whatever became of those
/// before, until one is taken. Returns how many there are then, all of them taken, and when the
/// first was.
///
/// One client would not do: what it sent to the dead leader it waits for, and what comes behind
/// that in the same stream goes after it.
async fn until_acknowledged(witnesses: &[NatsBus], from: u64) -> (u64, Instant) {
    let (mut asking, mut number) = (JoinSet::new(), from);
    let end = Instant::now() + PATIENCE;
    let first = 'asked: loop {
        for witness in witnesses {
            let (witness, own) = (witness.clone(), number);
            asking.spawn(async move { witness.append(at(own), Expect::Any).await });
            number += 1;
            let next = Instant::now() + EVERY;
            while let Ok(Some(ended)) = timeout_at(next, asking.join_next()).await {
                match ended.unwrap() {
                    Ok(_) => break 'asked Instant::now(),
                    Err(error) => may_be_tried_again(&error),
                }
            }
        }
        assert!(Instant::now() < end, "nothing was taken for {PATIENCE:?}");
    };
    while asking.join_next().await.is_some() {}
    // What was refused is repeated under its id.
    let last = witnesses.last().unwrap();
    (append_some(last, from, number - from).await, first)
}

/// Since when the stream is led by who leads it now, by that server's clock.
fn led_since(cluster: &TestCluster, killed: usize) -> Timestamp {
    let place = (killed + 1) % TestCluster::SERVERS;
    let ask = || cluster.ask(place, "$JS.API.STREAM.INFO.WORK", "");
    let answer = tokio::task::block_in_place(ask).unwrap();
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let since = answer["cluster"]["leader_since"].as_str();
    Timestamp::parse_rfc3339(since.unwrap_or_else(|| panic!("{answer}"))).unwrap()
}

const WITNESSES: usize = 10;
const EVERY: Duration = Duration::from_millis(50);
const A_MOMENT: Duration = Duration::from_millis(500);
