//! The server is not there for a time while clients publish and watch.

use std::{net::TcpListener, num::NonZeroUsize, time::Duration};

use bus_conformance::wait_out;
use bus_core::{
    BucketMirror, Buckets, Bus, ErrorKind, Expect, ExpectRevision, FeedItem, Outcome, Overflow,
    Revision,
};
use bus_subjects::Filter;
use tokio::time::{Instant, timeout_at};

use crate::{
    scale::Scale,
    stage::{
        KEYS, SOON, Stage, bucket, connected, disconnected, follow, frame, kept, key, put, stored,
        until_taken,
    },
};

pub(crate) async fn a_server_that_is_away_refuses_at_once_and_is_found_again(
    scale: Scale,
) -> String {
    let mut stage = Stage::new().await;
    stage.bus.declare(kept()).await.unwrap();
    let (rounds, away) = scale.pick((1, Duration::from_secs(2)), (3, Duration::from_secs(60)));
    let (mut refused, mut longest) = (0_u64, Duration::ZERO);
    for round in 0..rounds {
        stage.server.kill();
        disconnected(&stage.bus).await;
        let end = Instant::now() + away;
        while Instant::now() < end {
            let (id, begun) = (format!("r{round}-{refused}"), Instant::now());
            let error = stage.bus.append(frame("work.a", &id), Expect::Any).await.unwrap_err();
            assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unavailable, Outcome::NotDone));
            let error = stage.bus.get(bucket(), key("k0")).await.unwrap_err();
            assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unavailable, Outcome::NotDone));
            longest = longest.max(begun.elapsed());
            refused += 2;
            wait_out(Duration::from_millis(20)).await;
        }
        stage.server.restart().unwrap();
        let begun = Instant::now();
        connected(&stage.bus).await;
        let found = begun.elapsed();
        assert!(found < Duration::from_secs(8), "found after {found:?}");
        let id = format!("after-{round}");
        until_taken(&stage.bus, || stage.bus.append(frame("work.a", &id), Expect::Any)).await;
    }
    assert!(longest < Duration::from_millis(500), "a refusal took {longest:?}");
    assert_eq!(stored(&stage.bus).await.len() as u64, rounds, "what was refused was not stored");
    let (away, longest) = (away.as_secs(), longest.as_micros());
    format!("{rounds} times {away} s away; {refused} calls refused, the slowest in {longest} µs")
}

/// Somebody listens where the server was and counts who knocks.
pub(crate) async fn clients_of_a_lost_server_do_not_come_back_all_at_once(scale: Scale) -> String {
    let mut stage = Stage::new().await;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(stage.another().await);
    }
    let place = stage.server.url().trim_start_matches("nats://").to_owned();
    stage.server.kill();
    let listener = TcpListener::bind(&place).unwrap();
    listener.set_nonblocking(true).unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let (span, mut knocks) = (scale.pick(Duration::from_secs(5), Duration::from_secs(40)), vec![]);
    let begun = Instant::now();
    while let Ok(knock) = timeout_at(begun + span, listener.accept()).await {
        // It is sent away at once, as by a server that is not ready.
        drop(knock.unwrap());
        knocks.push(begun.elapsed());
    }
    drop(listener);
    // With waits that double from 8 ms to 4 s, nobody knocks more than some ten times at first
    // and once in two seconds then.
    let most = CLIENTS * (12 + span.as_secs() / 2);
    assert!(knocks.len() as u64 <= most, "{} knocks in {span:?}, at most {most}", knocks.len());
    assert!(knocks.len() as u64 > CLIENTS * 4, "they gave up: {knocks:?}");
    let late: Vec<_> = knocks.iter().filter(|at| **at > Duration::from_secs(1)).collect();
    let together = most_within(&late, Duration::from_millis(20));
    assert!(together < CLIENTS as usize / 2, "{together} of {CLIENTS} came at once: {late:?}");
    stage.server.restart().unwrap();
    for client in &clients {
        connected(client).await;
    }
    let (seconds, knocks) = (span.as_secs(), knocks.len());
    format!("{CLIENTS} clients knocked {knocks} times in {seconds} s; all found the server again")
}

/// The most of `times`, which are in order, that lie within one `span`.
fn most_within(times: &[&Duration], span: Duration) -> usize {
    let from = |at: usize| {
        let end = *times[at] + span;
        times[at..].iter().take_while(|time| ***time < end).count()
    };
    (0..times.len()).map(from).max().unwrap_or(0)
}

/// C23: one watch is read, one is not; the server is killed, keys change, both end with the
/// bucket, and no consumers are left behind.
pub(crate) async fn a_watch_goes_on_after_every_restart(scale: Scale) -> String {
    let mut stage = Stage::new().await;
    for n in 0..KEYS {
        put(&stage.bus, &format!("k{n}"), "0").await;
    }
    let watcher = stage.another().await;
    let open = || watcher.watch(bucket(), Filter::all(), Revision::START);
    let (mut read, mut unread) = (open().await.unwrap(), open().await.unwrap());
    let (mut followed, mut late) = (BucketMirror::new(), BucketMirror::new());
    follow(&stage.bus, &mut read, &mut followed).await;
    let rounds = scale.pick(3, 50);
    for round in 1..=rounds {
        stage.kill_and_restart();
        connected(&stage.bus).await;
        for n in 0..7 {
            let name = key(&format!("k{}", (round * 7 + n) % KEYS));
            let bus = &stage.bus;
            if n < 5 {
                let value = || bus_core::Put::new(round.to_string());
                until_taken(bus, || bus.put(bucket(), name.clone(), value())).await;
            } else {
                until_taken(bus, || bus.delete(bucket(), name.clone(), ExpectRevision::Any)).await;
            }
        }
        follow(&stage.bus, &mut read, &mut followed).await;
        if round % 3 == 0 {
            follow(&stage.bus, &mut unread, &mut late).await;
        }
    }
    follow(&stage.bus, &mut unread, &mut late).await;
    let consumers = consumers_left(&stage, 2).await;
    format!("{rounds} kills; both watches equal the bucket, {consumers} consumers at the end")
}

/// A subscription made once hears what is published after every outage.
pub(crate) async fn a_subscription_hears_again_after_every_restart(scale: Scale) -> String {
    let mut stage = Stage::new().await;
    let listener = stage.another().await;
    let capacity = NonZeroUsize::new(64).unwrap();
    let filter = Filter::parse("vak.events.w1.s1.tokens").unwrap();
    let mut heard = listener.subscribe(filter, Overflow::DropOldest { capacity }).await.unwrap();
    let rounds = scale.pick(3, 50);
    for round in 0..rounds {
        stage.kill_and_restart();
        connected(&listener).await;
        connected(&stage.bus).await;
        let id = format!("round-{round}");
        let begun = Instant::now();
        // Found again is not heard again: until then frames are nobody's.
        loop {
            let publish = || stage.bus.publish(frame("vak.events.w1.s1.tokens", &id));
            until_taken(&stage.bus, publish).await;
            let next = timeout_at(Instant::now() + Duration::from_millis(100), heard.next()).await;
            match next.map(|item| item.expect("the subscription ended")) {
                Ok(FeedItem::Frame(frame)) if frame.id.as_str() == id => break,
                // One of an earlier round, a loss that is told, or nothing yet.
                _ => assert!(begun.elapsed() < SOON, "the subscription is silent"),
            }
        }
    }
    format!("{rounds} kills; one subscription heard what came after each")
}

/// Waits until the bucket has at most `most` consumers: lost ones go after ten seconds unheard.
async fn consumers_left(stage: &Stage, most: u64) -> u64 {
    let (stranger, begun) = (stage.stranger().await, Instant::now());
    loop {
        let asked = stranger.request("$JS.API.STREAM.INFO.KV_STATE", "".into()).await.unwrap();
        let info: serde_json::Value = serde_json::from_slice(&asked.payload).unwrap();
        let count = info["state"]["consumer_count"].as_u64().unwrap();
        if count <= most {
            return count;
        }
        assert!(begun.elapsed() < SOON, "{count} consumers are left, at most {most}");
        wait_out(Duration::from_millis(200)).await;
    }
}

const CLIENTS: u64 = 12;
