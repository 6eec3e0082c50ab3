//! How streams stand, told to who looks after them.

use bus_core::{Bus as _, Retention, StreamSpec};
use bus_nats::{NatsBus, NatsOptions, StreamStanding};
use bus_subjects::Filter;
use bus_testserver::TestServer;

fn spec(name: &str, filter: &str) -> StreamSpec {
    StreamSpec::new(name.parse().unwrap(), vec![Filter::parse(filter).unwrap()], Retention::Kept)
}

#[tokio::test]
async fn a_stream_as_declared_one_that_was_changed_and_one_that_is_missing_are_told_apart() {
    let server = TestServer::start();
    let bus = NatsBus::open(NatsOptions::new(server.url())).await.unwrap();
    let all = [spec("SOUND", "a.>"), spec("CHANGED", "b.>"), spec("GONE", "c.>")];
    bus.declare(all[0].clone()).await.unwrap();
    bus.declare(all[1].clone()).await.unwrap();
    // As an operator of the server would.
    let client = async_nats::connect(server.url()).await.unwrap();
    let info = client.request("$JS.API.STREAM.INFO.CHANGED", "".into()).await.unwrap();
    let mut info: serde_json::Value = serde_json::from_slice(&info.payload).unwrap();
    info["config"]["duplicate_window"] = 60_000_000_000_u64.into();
    let config = info["config"].to_string();
    let told = client.request("$JS.API.STREAM.UPDATE.CHANGED", config.into()).await.unwrap();
    assert!(!String::from_utf8_lossy(&told.payload).contains("error"), "{told:?}");
    let seen = bus.inspect(&all).await.unwrap();
    let standings: Vec<_> = seen.streams.iter().map(|(_, standing)| standing).collect();
    let [StreamStanding::There(sound), StreamStanding::There(changed), StreamStanding::Missing] =
        standings[..]
    else {
        panic!("{standings:?}");
    };
    assert_eq!((sound.drift.len(), sound.copies, sound.has_leader), (0, 1, true));
    assert_eq!(changed.drift.len(), 1, "{changed:?}");
    assert!(changed.drift[0].starts_with("duplicate_window is 60000000000"), "{changed:?}");
}

#[tokio::test]
async fn a_server_tells_its_version_its_limit_and_its_time() {
    let server = TestServer::start();
    let bus = NatsBus::open(NatsOptions::new(server.url())).await.unwrap();
    let seen = bus.inspect(&[]).await.unwrap();
    assert!(seen.is_supported && seen.version.starts_with("2."), "{seen:?}");
    assert!(seen.payload_max >= 1 << 20, "{seen:?}");
    let (_, doubt) = seen.clock.expect("the server has told its time");
    assert!(doubt < std::time::Duration::from_secs(5), "{seen:?}");
}
