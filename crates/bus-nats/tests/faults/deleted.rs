//! Somebody else deletes what the engine works with.

use bus_core::{BucketMirror, Buckets, Bus, Error, ErrorKind, Expect, Outcome, Revision, Seq};
use bus_nats::NatsBus;
use bus_subjects::{Filter, Subject};

use crate::{
    scale::Scale,
    stage::{Stage, bucket, follow, frame, kept, put, stored, stream},
};

pub(crate) async fn a_deleted_stream_is_told_and_can_be_declared_again(scale: Scale) -> String {
    let stage = Stage::new().await;
    let (other, stranger) = (stage.another().await, stage.stranger().await);
    let rounds = scale.pick(2, 50);
    for round in 0..rounds {
        stage.bus.declare(kept()).await.unwrap();
        for (bus, id) in [(&stage.bus, "one"), (&other, "two")] {
            bus.append(frame("work.a", id), Expect::Any).await.unwrap();
        }
        ask(&stranger, "STREAM.DELETE.WORK").await;
        for bus in [&stage.bus, &other] {
            for (what, refused) in every_call(bus).await {
                let error = refused.expect_err(what);
                let told = (error.kind(), error.outcome());
                assert_eq!(told, (ErrorKind::NotFound, Outcome::NotDone), "{what} {round}");
            }
        }
    }
    stage.bus.declare(kept()).await.unwrap();
    other.append(frame("work.a", "one"), Expect::Any).await.unwrap();
    assert_eq!(stored(&stage.bus).await.len(), 1);
    format!("{rounds} streams deleted; every call of two clients said so")
}

async fn every_call(bus: &NatsBus) -> [(&'static str, Result<(), Error>); 6] {
    let work = || Subject::parse("work.a").unwrap();
    let batch = (0..3).map(|n| frame("work.a", &format!("b{n}"))).collect();
    [
        ("append", bus.append(frame("work.a", "new"), Expect::Any).await.map(drop)),
        ("append_all", bus.append_all(batch).await.map(drop)),
        ("last", bus.last(work()).await.map(drop)),
        ("read", bus.read(stream("WORK"), Seq(1)).await.map(drop)),
        ("discard", bus.discard(stream("WORK"), Seq(1)).await.map(drop)),
        ("replay", bus.replay(stream("WORK"), Filter::all(), Seq(0)).await.map(drop)),
    ]
}

pub(crate) async fn a_deleted_bucket_is_told_to_its_watch(scale: Scale) -> String {
    let stage = Stage::new().await;
    let stranger = stage.stranger().await;
    for n in 0..5 {
        put(&stage.bus, &format!("k{n}"), "before").await;
    }
    let mut watch = stage.bus.watch(bucket(), Filter::all(), Revision::START).await.unwrap();
    let mut mirror = BucketMirror::new();
    follow(&stage.bus, &mut watch, &mut mirror).await;
    let rounds = scale.pick(2, 20);
    for round in 0..rounds {
        ask(&stranger, "STREAM.DELETE.KV_STATE").await;
        follow(&stage.bus, &mut watch, &mut mirror).await;
        assert!(mirror.is_empty());
        put(&stage.bus, "k1", &format!("after {round}")).await;
        follow(&stage.bus, &mut watch, &mut mirror).await;
        assert_eq!(mirror.len(), 1);
    }
    format!("{rounds} buckets deleted; their watch was told and saw what came after")
}

pub(crate) async fn a_watch_whose_consumer_is_deleted_goes_on(scale: Scale) -> String {
    let stage = Stage::new().await;
    let stranger = stage.stranger().await;
    put(&stage.bus, "k0", "before").await;
    let mut watch = stage.bus.watch(bucket(), Filter::all(), Revision::START).await.unwrap();
    let mut mirror = BucketMirror::new();
    follow(&stage.bus, &mut watch, &mut mirror).await;
    let rounds = scale.pick(2, 30);
    for round in 0..rounds {
        let names = ask(&stranger, "CONSUMER.NAMES.KV_STATE").await;
        for name in names["consumers"].as_array().unwrap() {
            let name = name.as_str().unwrap();
            ask(&stranger, &format!("CONSUMER.DELETE.KV_STATE.{name}")).await;
        }
        put(&stage.bus, "k0", &format!("after {round}")).await;
        follow(&stage.bus, &mut watch, &mut mirror).await;
    }
    format!("{rounds} consumers deleted; the watch missed nothing")
}

/// Calls the server's own interface, as an operator does.
async fn ask(stranger: &async_nats::Client, verb: &str) -> serde_json::Value {
    let asked = stranger.request(format!("$JS.API.{verb}"), "".into()).await.unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&asked.payload).unwrap();
    assert!(answer.get("error").is_none(), "{verb}: {answer}");
    answer
}
