//! Outages under a watch: it goes on where it was, tells every change once, and stays one consumer.

use std::time::Duration;

use bus_core::{BucketMirror, Buckets, ErrorKind, KeyState, Revision, Watch, WatchItem};
use bus_nats::ConnectionState;
use tokio::time::timeout;

use crate::common::{Place, bucket, held, key, see, see_change, see_current, value};

const KEYS: usize = 100;

/// A bucket of a hundred keys and a watch that has told them.
async fn watched() -> (Place, Watch, BucketMirror) {
    let place = Place::open().await;
    for n in 0..KEYS {
        place.put(&format!("k{n}"), "begin").await;
    }
    let mut watch = place.watch(Revision::START).await;
    let mut mirror = BucketMirror::new();
    while !mirror.is_current() {
        mirror.apply(see(&mut watch).await);
    }
    (place, watch, mirror)
}

/// Until the bus is connected again after an outage.
async fn reconnected(place: &Place, before: Option<u64>) {
    let mut states = place.bus.states();
    let back = states.wait_for(|state| state.epoch().is_some_and(|epoch| Some(epoch) > before));
    timeout(Duration::from_secs(20), back).await.expect("it connects again").unwrap();
}

fn epoch(place: &Place) -> Option<u64> {
    let states = place.bus.states();
    let state: ConnectionState = *states.borrow();
    state.epoch()
}

/// Changes five keys and deletes two, and returns what a watch must tell of it.
async fn change(place: &Place, round: usize) -> Vec<(String, KeyState)> {
    let mut expected = Vec::new();
    for n in 0..7 {
        let name = format!("k{}", (round * 7 + n) % KEYS);
        let text = format!("round {round}");
        if n < 5 {
            place.put(&name, &text).await;
            expected.push((name, value(&text)));
        } else {
            let was_there = place.value(&name).await.is_some();
            place.delete(&name).await;
            if was_there {
                expected.push((name, KeyState::Deleted));
            }
        }
    }
    expected
}

async fn equals_the_bucket(place: &Place, mirror: &BucketMirror) {
    for n in 0..KEYS {
        let name = format!("k{n}");
        assert_eq!(held(mirror).get(&name), place.value(&name).await.as_ref(), "{name}");
    }
}

/// The next changes, which must be these and nothing between them.
async fn tells(watch: &mut Watch, mirror: &mut BucketMirror, expected: &[(String, KeyState)]) {
    for expected in expected {
        let item = see(watch).await;
        mirror.apply(item.clone());
        let WatchItem::Changed(change) = item else { panic!("{item:?} for {expected:?}") };
        assert_eq!((change.key.as_str().to_owned(), change.state), *expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_restarts_lose_and_repeat_nothing_and_leave_one_consumer() {
    let (mut place, mut watch, mut mirror) = watched().await;
    for round in 0..50 {
        let before = epoch(&place);
        // Every other time somebody waits on the watch, and some changes wait to be taken.
        let is_polled = round % 2 == 0;
        let mut expected = if is_polled { Vec::new() } else { change(&place, round + 50).await };
        place.server.kill();
        if is_polled {
            let waited = timeout(Duration::from_millis(50), watch.next()).await;
            assert!(waited.is_err(), "round {round}: {waited:?} of a dead server");
        }
        place.server.restart().unwrap();
        reconnected(&place, before).await;
        expected.extend(change(&place, round).await);
        if is_polled {
            tells(&mut watch, &mut mirror, &expected).await;
        } else {
            // Of a key that changed twice the first change may be gone.
            while !expected.is_empty() {
                let item = see(&mut watch).await;
                mirror.apply(item.clone());
                let WatchItem::Changed(told) = item else { panic!("round {round}: {item:?}") };
                let told = (told.key.as_str().to_owned(), told.state);
                let at = expected.iter().position(|one| *one == told);
                expected.drain(..=at.unwrap_or_else(|| panic!("round {round}: {told:?} again")));
            }
        }
        equals_the_bucket(&place, &mirror).await;
    }
    assert_eq!(place.state().await.consumer_count, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_for_long_ends_no_watch() {
    let (mut place, mut watch, mut mirror) = watched().await;
    let before = epoch(&place);
    place.server.kill();
    let waited = timeout(Duration::from_secs(8), watch.next()).await;
    assert!(waited.is_err(), "{waited:?} of a dead server");
    let refused = place.bus.get(bucket(), key("k0")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "a view can tell that it is stale");
    place.server.restart().unwrap();
    reconnected(&place, before).await;
    let expected = change(&place, 3).await;
    tells(&mut watch, &mut mirror, &expected).await;
    equals_the_bucket(&place, &mirror).await;
    assert_eq!(place.state().await.consumer_count, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_ends_no_watch() {
    let (place, mut watch, mut mirror) = watched().await;
    place.server.freeze().unwrap();
    // Long enough that the consumer counts as lost.
    let waited = timeout(Duration::from_secs(4), watch.next()).await;
    place.server.thaw().unwrap();
    assert!(waited.is_err(), "{waited:?} of a frozen server");
    let expected = change(&place, 1).await;
    tells(&mut watch, &mut mirror, &expected).await;
    equals_the_bucket(&place, &mirror).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_somebody_else_deletes_is_made_anew() {
    let (place, mut watch, mut mirror) = watched().await;
    for round in 0..3 {
        let stream = place.raw.get_stream("KV_STATE").await.unwrap();
        let names = futures_util::TryStreamExt::try_collect(stream.consumer_names());
        let names: Vec<String> = names.await.unwrap();
        let [name] = names.as_slice() else { panic!("round {round}: {names:?}") };
        stream.delete_consumer(name).await.unwrap();
        let expected = change(&place, round).await;
        tells(&mut watch, &mut mirror, &expected).await;
        equals_the_bucket(&place, &mirror).await;
    }
    assert_eq!(place.state().await.consumer_count, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_had_nothing_to_tell_tells_no_old_revision_after_a_restart() {
    let mut place = Place::open().await;
    let mut last = Revision::START;
    for n in 0..5 {
        last = place.put("k", &n.to_string()).await.max(place.put(&format!("o{n}"), "v").await);
    }
    let mut watch = place.watch(last).await;
    assert_eq!(see_current(&mut watch).await, []);
    let before = epoch(&place);
    place.server.kill();
    place.server.restart().unwrap();
    reconnected(&place, before).await;
    place.put("k", "new").await;
    assert_eq!(see_change(&mut watch).await, ("k".to_owned(), value("new")));
}
