//! What is counted and gone before it is told is not waited for.

use async_nats::HeaderMap;
use bus_testserver::TestServer;

use super::*;
use crate::{connection::Connection, options::NatsOptions, profile::Profile, queue::make};

const OP: &str = "test";
const SUBJECT: &str = "vakq.WORK.coder.1.a";

/// A board, of which one record is followed.
async fn one_record() -> (TestServer, Api, Wanted) {
    let server = TestServer::start();
    let api = Api::new(Connection::open(NatsOptions::new(server.url())).await.unwrap());
    make::declare(&api, Profile::default(), OP).await.unwrap();
    let stored = api.publish(OP, SUBJECT, HeaderMap::new(), Bytes::from_static(b"x")).await;
    assert!(stored.is_ok());
    (server, api, Wanted { filter: "vakq.WORK.>".to_owned(), is_bare: false })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_went_after_it_was_counted_is_not_waited_for() {
    let (_server, api, wanted) = one_record().await;
    let (mut follower, left) = Follower::open(&api, OP, &wanted).await.unwrap();
    assert_eq!(left, 1);
    let purged = api.call::<Value>(OP, &format!("STREAM.PURGE.{BOARD}"), &json!({})).await;
    assert!(purged.is_ok());
    let begun = Instant::now();
    let records = follower.read(OP, left).await.unwrap();
    assert!(records.is_empty());
    assert!(begun.elapsed() < UNANSWERED * 3, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_stored_after_all_was_read_is_told() {
    let (_server, api, wanted) = one_record().await;
    let (mut follower, left) = Follower::open(&api, OP, &wanted).await.unwrap();
    assert_eq!(follower.read(OP, left).await.unwrap().len(), 1);
    let body = Bytes::from_static(b"y");
    assert!(api.publish(OP, SUBJECT, HeaderMap::new(), body.clone()).await.is_ok());
    loop {
        follower.go_on(OP).await.unwrap();
        match follower.next().await {
            Told::Record(record) => return assert_eq!(record.body, body),
            Told::Nothing => {}
            Told::Lost => panic!("nothing was lost"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_reads_all_leaves_no_consumer_behind() {
    let (_server, api, wanted) = one_record().await;
    assert_eq!(Follower::all(&api, OP, &wanted).await.unwrap().len(), 1);
    api.connection().fence(OP).await.unwrap();
    let mut names = json!(null);
    for _ in 0..100 {
        let verb = format!("CONSUMER.NAMES.{BOARD}");
        let listed = api.call::<Value>(OP, &verb, &json!({})).await.ok().unwrap();
        names = listed["consumers"].clone();
        if names == json!([]) {
            return;
        }
    }
    panic!("still there: {names}");
}
