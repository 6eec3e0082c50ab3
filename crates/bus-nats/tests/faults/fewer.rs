//! Fewer than three servers: what is there is served by two, nothing by one, and nothing new is
//! made with fewer copies than it has to have.

use std::time::Duration;

use bus_core::{
    Blobs, Buckets, Bus, ConsumerSpec, Deliveries, Delivery, Error, Expect, Put, Retention,
    StreamSpec, Verdict,
};
use bus_nats::NatsBus;
use bus_subjects::{ConsumerName, Filter};
use bus_testserver::TestCluster;
use serde_json::Value;
use tokio::time::{Instant, timeout};

use crate::{
    cluster::{PATIENCE, SHORT, all_are_there, another, append_some, at, ready, stage},
    scale::Scale,
    stage::{bucket, connected, disconnected, frame, key, may_be_tried_again, stream},
};

pub(crate) async fn two_of_three_go_on_after_a_cold_start(scale: Scale) -> String {
    let (mut cluster, bus) = stage().await;
    let mut number = append_some(&bus, 0, 20).await;
    let mut longest = Duration::ZERO;
    let rounds = scale.pick(1, 5);
    for round in 0..rounds {
        kill_all(&mut cluster, &bus).await;
        let away = round % TestCluster::SERVERS;
        let begun = Instant::now();
        for place in (0..TestCluster::SERVERS).filter(|place| *place != away) {
            cluster.restart(place).unwrap();
        }
        connected(&bus).await;
        number = append_some(&bus, number, 1).await;
        longest = longest.max(begun.elapsed());
        number = append_some(&bus, number, 20).await;
        cluster.restart(away).unwrap();
        ready(&cluster);
    }
    all_are_there(&bus, number).await;
    format!(
        "{rounds} cold starts of two; {number} acknowledged, 0 lost, 0 twice; the first at most \
         {longest:.1?} after the start"
    )
}

pub(crate) async fn one_of_three_alone_takes_nothing(scale: Scale) -> String {
    let (mut cluster, bus) = stage().await;
    let mut number = append_some(&bus, 0, 20).await;
    let rounds = scale.pick(1, 3);
    let mut refused = 0;
    for alone in 0..rounds {
        kill_all(&mut cluster, &bus).await;
        cluster.restart(alone).unwrap();
        connected(&bus).await;
        let end = Instant::now() + SHORT;
        while Instant::now() < end {
            let error = bus.append(at(number), Expect::Any).await.expect_err("one server alone");
            may_be_tried_again(&error);
            refused += 1;
        }
        nothing_new_is_made(&bus).await;
        for place in (0..TestCluster::SERVERS).filter(|place| *place != alone) {
            cluster.restart(place).unwrap();
        }
        ready(&cluster);
        connected(&bus).await;
        number = append_some(&bus, number, 20).await;
    }
    all_are_there(&bus, number).await;
    format!("{rounds} times; {refused} appends refused; {number} acknowledged, 0 lost, 0 twice")
}

pub(crate) async fn a_stream_is_never_made_in_fewer_copies(_scale: Scale) -> String {
    let (mut cluster, bus) = stage().await;
    bus.declare(queue()).await.unwrap();
    bus.append(frame("queue.a", "t1"), Expect::Any).await.unwrap();
    let mut member = bus.consume(member()).await.unwrap();
    let task = take(&mut member).await;
    let removed = || cluster.ask(0, "$JS.API.STREAM.DELETE.VAK_BOARD", "");
    let removed = tokio::task::block_in_place(removed).unwrap();
    assert!(removed.contains("\"success\":true"), "{removed}");
    // Not the one that this client is connected to.
    cluster.kill(1);
    cluster.kill(2);
    // Its rest would stand on the board, which would have to be made.
    may_be_tried_again(&task.settle(rest()).await.expect_err("a board of one copy"));
    nothing_new_is_made(&bus).await;
    cluster.restart(1).unwrap();
    connected(&bus).await;
    append_some(&bus, 0, 1).await;
    // Two make it in three copies, of which the third comes later, or refuse to.
    let mut made = 0;
    for (_, done) in new_things(&bus).await {
        match done {
            Ok(()) => made += 1,
            Err(error) => may_be_tried_again(&error),
        }
    }
    cluster.restart(2).unwrap();
    ready(&cluster);
    for (what, done) in new_things(&bus).await {
        done.unwrap_or_else(|error| panic!("{what}: {error:?}"));
    }
    // Nothing happened to it.
    take(&mut member).await.settle(rest()).await.unwrap();
    take(&mut member).await.settle(Verdict::Ack).await.unwrap();
    let copies = copies(&cluster);
    assert!(copies.iter().all(|(_, copies)| *copies == 3), "{copies:?}");
    let count = copies.len();
    format!("with two away all refused, with one {made} of 3 made; {count} streams of three copies")
}

/// Each is refused, and may be tried again.
async fn nothing_new_is_made(bus: &NatsBus) {
    for (what, done) in new_things(bus).await {
        may_be_tried_again(&done.expect_err(what));
    }
}

/// What makes a stream where there was none.
async fn new_things(bus: &NatsBus) -> [(&'static str, Result<(), Error>); 3] {
    let body = bytes::Bytes::from("body");
    [
        ("a stream", bus.declare(another()).await),
        ("a bucket", bus.put(bucket(), key("new"), Put::new("value")).await.map(drop)),
        ("a blob", bus.put_blob(bucket(), key("new"), body.into()).await.map(drop)),
    ]
}

async fn kill_all(cluster: &mut TestCluster, bus: &NatsBus) {
    for place in 0..TestCluster::SERVERS {
        cluster.kill(place);
    }
    disconnected(bus).await;
}

/// Every stream with the number of its copies, but those of samples, which are kept in memory.
fn copies(cluster: &TestCluster) -> Vec<(String, u64)> {
    let ask = || cluster.ask(0, "$JS.API.STREAM.LIST", "");
    let answer: Value = serde_json::from_str(&tokio::task::block_in_place(ask).unwrap()).unwrap();
    let streams = answer["streams"].as_array().unwrap().iter();
    let copies = streams.map(|stream| {
        let config = &stream["config"];
        let name = config["name"].as_str().unwrap().to_owned();
        (name, config["num_replicas"].as_u64().unwrap())
    });
    copies.filter(|(name, _)| name != "VAK_LATEST").collect()
}

fn queue() -> StreamSpec {
    let filters = vec![Filter::parse("queue.>").unwrap()];
    StreamSpec::new(stream("QUEUE"), filters, Retention::WorkQueue)
}

fn rest() -> Verdict {
    Verdict::Retry { after: Duration::from_millis(10) }
}

async fn take(member: &mut Deliveries) -> Delivery {
    timeout(PATIENCE, member.next()).await.expect("a task comes").unwrap().unwrap()
}

fn member() -> ConsumerSpec {
    ConsumerSpec {
        stream: stream("QUEUE"),
        name: ConsumerName::parse("members").unwrap(),
        filter: Filter::parse("queue.a").unwrap(),
        lease: Duration::from_secs(10),
    }
}
