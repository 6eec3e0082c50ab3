//! What a watch takes for remembered, by how long ago it knew everything.

use bus_subjects::BucketName;
use bus_testserver::TestServer;

use super::*;
use crate::{bucket::Buckets, connection::Connection, options::NatsOptions};

const HOURS: Duration = Duration::from_secs(2 * 3_600);

/// A watch of a bucket with two values, and what the server says of the bucket two hours later.
async fn two_hours_later() -> (TestServer, Follower, Info) {
    let server = TestServer::start();
    let connection = Connection::open(NatsOptions::new(server.url())).await.unwrap();
    let api = Api::new(connection);
    let bucket = BucketName::parse("B").unwrap();
    let buckets = Buckets::new(api.clone(), 1);
    for name in ["a", "b"] {
        let key = bus_subjects::BucketKey::parse(name).unwrap();
        buckets.put(bucket.clone(), key, bus_core::Put::new("v")).await.unwrap();
    }
    let place = Place::new(&bucket, 1);
    let mut info = place.info(&api, OP).await.unwrap().unwrap();
    info.ts = info.time().map(|now| now.plus(HOURS).to_string());
    let keys = Filter::all();
    let follower = Follower::open(api, place, &keys, Revision::START).await.unwrap();
    (server, follower, info)
}

fn reached(info: &Info, back: u64, at: Option<Duration>) -> Reached {
    Reached {
        revision: info.state.last_seq - back,
        at: at.and_then(|ago| info.time().map(|now| before(now, ago))),
        life: Some(info.created.clone()),
    }
}

fn before(now: Timestamp, ago: Duration) -> Timestamp {
    Timestamp::from_unix_ns(now.unix_ns() - i128::try_from(ago.as_nanos()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_behind_is_remembered_for_as_long_as_marks_stay() {
    let (_server, mut follower, info) = two_hours_later().await;
    let minutes = |minutes: u64| Some(Duration::from_secs(60 * minutes));
    for (back, at, expected) in [
        (0, None, true),
        (0, minutes(90), true),
        (1, None, false),
        (1, minutes(90), false),
        (1, minutes(40), true),
        (2, minutes(40), false),
    ] {
        follower.reached = reached(&info, back, at);
        let is_remembered = follower.is_remembered(&info).await.unwrap();
        assert_eq!(is_remembered, expected, "{back} back, whole {at:?} ago");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_remembered_of_another_life_of_the_bucket() {
    let (_server, mut follower, info) = two_hours_later().await;
    follower.reached = reached(&info, 0, Some(Duration::ZERO));
    follower.reached.life = Some("2020-01-01T00:00:00Z".to_owned());
    assert!(!follower.is_remembered(&info).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_of_life_that_lay_unread_does_not_say_that_everything_is_told() {
    let (_server, mut follower, info) = two_hours_later().await;
    let long_ago = before(info.time().unwrap(), HOURS * 2);
    follower.reached.at = Some(long_ago);
    follower.take(Told::Quiet { is_now: false }).unwrap();
    assert_eq!(follower.reached.at, Some(long_ago));
    follower.take(Told::Quiet { is_now: true }).unwrap();
    assert_ne!(follower.reached.at, Some(long_ago));
}
