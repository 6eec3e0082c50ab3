//! Work queues on a real server: what the suite does not ask of every engine.
#![cfg(test)]

use std::time::{Duration, Instant};

use bus_core::{
    Bus as _, ConsumerSpec, Deliveries, Expect, Frame, FrameId, OrderKey, Placement, Retention,
    StreamSpec, Verdict,
};
use bus_nats::{NatsBus, NatsOptions};
use bus_subjects::{ConsumerName, Filter, StreamName, Subject};
use bus_testserver::TestServer;

async fn bus(server: &TestServer) -> NatsBus {
    NatsBus::open(NatsOptions::new(server.url())).await.unwrap()
}

fn stream() -> StreamName {
    StreamName::parse("WORK").unwrap()
}

async fn declare(bus: &NatsBus) {
    let filters = vec![Filter::parse("work.>").unwrap()];
    bus.declare(StreamSpec::new(stream(), filters, Retention::WorkQueue)).await.unwrap();
}

async fn member(bus: &NatsBus) -> Deliveries {
    let spec = ConsumerSpec {
        stream: stream(),
        name: ConsumerName::parse("coder").unwrap(),
        filter: Filter::parse("work.coder").unwrap(),
        lease: Duration::from_secs(3),
    };
    bus.consume(spec).await.unwrap()
}

fn task(id: &str) -> Frame {
    let subject = Subject::parse("work.coder").unwrap();
    Frame::new(subject, FrameId::parse(id).unwrap(), id.to_owned())
}

fn keyed(id: &str, key: &str) -> Frame {
    let key = Some(OrderKey::parse(key).unwrap());
    task(id).placed(Placement { key, ..Placement::default() })
}

#[tokio::test(flavor = "current_thread")]
async fn slow() {
    let server = TestServer::start();
    let bus = bus(&server).await;
    declare(&bus).await;
    let mut member = member(&bus).await;
    for round in 0..1000 {
        let t0 = Instant::now();
        bus.append(keyed(&format!("a-{round}"), "a"), Expect::Any).await.unwrap();
        let t1 = Instant::now();
        let d = member.next().await.unwrap().unwrap();
        let t2 = Instant::now();
        d.settle(Verdict::Ack).await.unwrap();
        let t3 = Instant::now();
        if t3 - t0 > Duration::from_millis(60) {
            println!("{round} append {:?} next {:?} settle {:?}", t1 - t0, t2 - t1, t3 - t2);
        }
    }
}
