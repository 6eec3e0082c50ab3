//! Three servers that keep copies: one is killed or frozen, two are lost, and ids are repeated.

use std::time::Duration;

use bus_core::{Blobs, Buckets, Bus, ErrorKind, Expect, Frame, Outcome, Put, StreamSpec};
use bus_nats::{NatsBus, NatsOptions, Profile};
use bus_subjects::Filter;
use bus_testserver::TestCluster;
use tokio::time::Instant;

use crate::{
    scale::Scale,
    stage::{ANSWER_WAIT, bucket, frame, kept, key, may_be_tried_again, stored, stream},
};

pub(crate) async fn a_killed_leader_loses_nothing_acknowledged(scale: Scale) -> String {
    let (mut cluster, bus) = stage().await;
    let (mut number, mut longest) = (0, Duration::ZERO);
    let kills = scale.pick(1, 10);
    for _ in 0..kills {
        number = append_some(&bus, number, 50).await;
        let leader = leader(&cluster);
        cluster.kill(leader);
        let begun = Instant::now();
        number = append_some(&bus, number, 1).await;
        longest = longest.max(begun.elapsed());
        number = append_some(&bus, number, 50).await;
        cluster.restart(leader).unwrap();
        ready(&cluster);
    }
    all_are_there(&bus, number).await;
    // The servers elect another one within 4 to 9 seconds, and a call that was sent to the dead
    // one waits for its own end first.
    assert!(longest < Duration::from_secs(20), "{longest:?}");
    format!("{kills} kills; {number} acknowledged, 0 lost, 0 twice; at most {longest:.1?} without")
}

pub(crate) async fn a_frozen_follower_holds_up_nobody(scale: Scale) -> String {
    let (mut cluster, bus) = stage().await;
    let mut number = append_some(&bus, 0, 20).await;
    let leader = leader(&cluster);
    // Not the one that this client is connected to: it would wait for its own server.
    let away = (0..TestCluster::SERVERS).find(|place| *place != leader && *place != 0);
    let away = away.unwrap();
    cluster.freeze(away);
    let (end, mut longest) = (Instant::now() + scale.pick(SHORT, LONG), Duration::ZERO);
    while Instant::now() < end {
        let begun = Instant::now();
        bus.append(at(number), Expect::Any).await.unwrap();
        number += 1;
        longest = longest.max(begun.elapsed());
    }
    cluster.thaw(away);
    all_are_there(&bus, number).await;
    assert!(longest < ANSWER_WAIT, "{longest:?}");
    format!("{number} acknowledged with one frozen, each within {longest:.1?}; 0 lost")
}

pub(crate) async fn two_lost_servers_refuse_and_store_nothing_alone(scale: Scale) -> String {
    let (mut cluster, bus) = stage().await;
    let mut number = append_some(&bus, 0, 20).await;
    let rounds = scale.pick(1, 5);
    for _ in 0..rounds {
        for place in [1, 2] {
            cluster.kill(place);
        }
        let mut refused = 0;
        let end = Instant::now() + SHORT;
        while Instant::now() < end {
            let error = bus.append(at(number), Expect::Any).await.expect_err("one server alone");
            may_be_tried_again(&error);
            refused += 1;
        }
        assert!(refused > 0);
        for error in [
            bus.put(bucket(), key("new"), Put::new("value")).await.map(drop).unwrap_err(),
            bus.declare(another()).await.unwrap_err(),
            bus.put_blob(bucket(), key("new"), bytes::Bytes::from("body").into())
                .await
                .map(drop)
                .unwrap_err(),
        ] {
            may_be_tried_again(&error);
        }
        for place in [1, 2] {
            cluster.restart(place).unwrap();
        }
        ready(&cluster);
        number = append_some(&bus, number, 20).await;
    }
    all_are_there(&bus, number).await;
    format!("{rounds} times; {number} acknowledged, 0 lost, 0 twice, 0 while two were away")
}

/// A question that one copy refuses after it was stored in none ends the stream in all of them.
pub(crate) async fn a_repeat_that_is_refused_ends_no_stream(_scale: Scale) -> String {
    let (_cluster, bus) = stage().await;
    let first = bus.append(at(0), Expect::Any).await.unwrap();
    let second = Expect::LastOfSubject(first.seq);
    bus.append(at(1), second).await.unwrap();
    let stale = bus.append(at(2), second).await.unwrap_err();
    assert_eq!((stale.kind(), stale.outcome()), (ErrorKind::Conflict, Outcome::NotDone));
    // A repeat of what was stored is recognised, though its head is another one by now.
    assert!(bus.append(at(1), second).await.unwrap().duplicate);
    bus.append(at(2), Expect::Any).await.unwrap();
    all_are_there(&bus, 3).await;
    "a stale head and a repeat on three copies; the stream goes on".to_owned()
}

pub(crate) async fn stage() -> (TestCluster, NatsBus) {
    let cluster = tokio::task::block_in_place(TestCluster::start);
    let urls = cluster.urls();
    let options = NatsOptions {
        answer_wait: ANSWER_WAIT,
        profile: Profile::Replicated,
        ..NatsOptions::new(urls.first().unwrap())
    };
    // The first is the one that a client begins with; it learns of the others by itself.
    let bus = NatsBus::open(options).await.unwrap();
    bus.declare(kept()).await.unwrap();
    (cluster, bus)
}

pub(crate) fn ready(cluster: &TestCluster) {
    tokio::task::block_in_place(|| cluster.wait_ready());
}

pub(crate) fn leader(cluster: &TestCluster) -> usize {
    tokio::task::block_in_place(|| cluster.leader_of("WORK")).expect("the stream has a leader")
}

/// Appends so many more under their own ids, each as often as it takes.
pub(crate) async fn append_some(bus: &NatsBus, from: u64, count: u64) -> u64 {
    for number in from..from + count {
        let end = Instant::now() + PATIENCE;
        loop {
            match bus.append(at(number), Expect::Any).await {
                Ok(_) => break,
                Err(error) => may_be_tried_again(&error),
            }
            assert!(Instant::now() < end, "nothing was taken for {PATIENCE:?}");
            bus_conformance::wait_out(Duration::from_millis(20)).await;
        }
    }
    from + count
}

pub(crate) async fn all_are_there(bus: &NatsBus, count: u64) {
    let there = stored(bus).await;
    for number in 0..count {
        assert!(there.contains_key(&format!("m{number}")), "m{number} was acknowledged");
    }
    // What was refused by time may have been stored under the same id, and no other.
    assert!(there.len() as u64 <= count + 1, "{} for {count}", there.len());
}

pub(crate) fn another() -> StreamSpec {
    let filters = vec![Filter::parse("other.>").unwrap()];
    StreamSpec { name: stream("NEW"), filters, ..kept() }
}

pub(crate) fn at(number: u64) -> Frame {
    frame("work.a", &format!("m{number}"))
}

pub(crate) const SHORT: Duration = Duration::from_secs(4);
const LONG: Duration = Duration::from_secs(20);
/// An election takes seconds, and a killed server must come back before another one may go.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
