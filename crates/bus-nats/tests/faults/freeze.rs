//! The server's clock is stopped (`SIGSTOP`): its connections stay open and nothing answers.

use std::{pin::Pin, time::Duration};

use bus_conformance::wait_out;
use bus_core::{Buckets, Bus, Error, Expect, ExpectRevision, Outcome, Put, Seq};
use bus_nats::NatsBus;
use bus_subjects::{Filter, Subject};
use futures_util::future::join_all;
use tokio::time::Instant;

use crate::{
    scale::Scale,
    stage::{
        ANSWER_WAIT, MARGIN, Stage, bucket, connected, frame, kept, key, may_be_tried_again, put,
        put_blob, stored, stream, until_taken,
    },
};

pub(crate) async fn a_frozen_server_ends_every_call_in_time_and_the_same_ids_are_safe(
    scale: Scale,
) -> String {
    let stage = Stage::new().await;
    stage.bus.declare(kept()).await.unwrap();
    stage.bus.append(frame("work.a", "first"), Expect::Any).await.unwrap();
    put(&stage.bus, "there", "before").await;
    put_blob(&stage.bus, "blob", 1000).await.unwrap();
    let (rounds, frozen) = scale.pick((1, Duration::ZERO), (10, Duration::from_secs(20)));
    let mut ended = 0;
    for round in 0..rounds {
        stage.server.freeze().unwrap();
        let begun = Instant::now();
        ended += every_call_ends(&stage.bus, round).await;
        // The longer it stands, the more a client and the server give each other up.
        wait_out(frozen.saturating_sub(begun.elapsed())).await;
        stage.server.thaw().unwrap();
        connected(&stage.bus).await;
        all_are_done_once(&stage.bus, round).await;
    }
    let there = stored(&stage.bus).await;
    assert_eq!(there.len() as u64, 1 + rounds * (SINGLES + BATCH));
    format!("{rounds} freezes; {ended} calls ended in time; {} messages, 0 twice", there.len())
}

/// Every call that waits for the server ends with an error, not later than it may.
async fn every_call_ends(bus: &NatsBus, round: u64) -> usize {
    let writes = singles(round).map(|id| {
        let append = bus.append(frame("work.a", &id), Expect::Any);
        ends("append", true, async move { append.await.map(drop) })
    });
    let revision = ExpectRevision::Any;
    let others = [
        // A batch stores nothing before its last frame is sent.
        ends("append_all", false, async { bus.append_all(batch(round)).await.map(drop) }),
        ends("put", true, async { bus.put(bucket(), key("new"), value(round)).await.map(drop) }),
        ends("delete", false, bus.delete(bucket(), key("there"), revision)),
        ends("get", false, async { bus.get(bucket(), key("there")).await.map(drop) }),
        ends("put_blob", false, put_blob(bus, "blob", 500_000)),
        ends("declare", true, bus.declare(kept())),
        ends("last", false, async { bus.last(Subject::parse("work.a").unwrap()).await.map(drop) }),
        ends("read", false, async { bus.read(stream("WORK"), Seq(1)).await.map(drop) }),
        ends("discard", true, async { bus.discard(stream("WORK"), Seq(99_999)).await.map(drop) }),
        ends("replay", false, async {
            // What a replay cannot read it says in its place.
            let mut replay = bus.replay(stream("WORK"), Filter::all(), Seq(0)).await?;
            replay.next().await.expect("a replay that read nothing ended without a word").map(drop)
        }),
        ends("watch", false, async {
            bus.watch(bucket(), Filter::all(), bus_core::Revision::START).await.map(drop)
        }),
    ];
    let calls = writes.chain(others);
    join_all(calls).await.len()
}

type Call<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A call that ends with an error in time. `is_sent`: it was under way, so that nobody knows what
/// became of it.
fn ends<'a>(
    what: &'static str,
    is_sent: bool,
    call: impl Future<Output = Result<(), Error>> + Send + 'a,
) -> Call<'a> {
    Box::pin(async move {
        let begun = Instant::now();
        let error = call.await.expect_err(what);
        let took = begun.elapsed();
        may_be_tried_again(&error);
        assert!(took < ANSWER_WAIT + MARGIN, "{what} took {took:?}: {error:?}");
        let is_told = !is_sent || error.outcome() == Outcome::Unknown;
        assert!(is_told, "{what} may have been done: {error:?}");
    })
}

/// The same calls under the same ids, now that they are answered.
async fn all_are_done_once(bus: &NatsBus, round: u64) {
    for id in singles(round) {
        until_taken(bus, || bus.append(frame("work.a", &id), Expect::Any)).await;
    }
    until_taken(bus, || bus.append_all(batch(round))).await;
    until_taken(bus, || bus.put(bucket(), key("new"), value(round))).await;
    let (held, _) = until_taken(bus, || bus.get(bucket(), key("new"))).await;
    assert_eq!(held.unwrap().value, value(round).value);
    until_taken(bus, || put_blob(bus, "blob", 1000)).await;
}

fn singles(round: u64) -> impl Iterator<Item = String> {
    (0..SINGLES).map(move |n| format!("r{round}-{n}"))
}

fn batch(round: u64) -> Vec<bus_core::Frame> {
    (0..BATCH).map(|n| frame("work.b", &format!("b{round}-{n}"))).collect()
}

fn value(round: u64) -> Put {
    Put::new(format!("round {round}"))
}

const SINGLES: u64 = 50;
const BATCH: u64 = 20;
