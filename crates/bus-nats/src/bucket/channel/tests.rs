//! What the reply subject of a delivered message says, and which silence is none.

use bus_core::Put;
use bus_subjects::{BucketKey, BucketName, Filter};
use bus_testserver::TestServer;

use super::*;
use crate::{bucket::Buckets, connection::Connection, options::NatsOptions};

/// A consumer of a bucket with two values.
async fn open() -> (TestServer, Channel) {
    open_with(2).await
}

async fn open_with(count: usize) -> (TestServer, Channel) {
    let server = TestServer::start();
    let connection = Connection::open(NatsOptions::new(server.url())).await.unwrap();
    let api = Api::new(connection);
    let bucket = BucketName::parse("B").unwrap();
    let buckets = Buckets::new(api.clone(), 1);
    for number in 0..count {
        let key = BucketKey::parse(&format!("k{number}")).unwrap();
        buckets.put(bucket.clone(), key, Put::new("v")).await.unwrap();
    }
    let place = Place::new(&bucket, 1);
    let subjects = place.subjects(&Filter::all());
    let (channel, pending) = Channel::open(&api, &place, &subjects, 0).await.unwrap();
    assert_eq!(pending, count as u64);
    (server, channel)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_message_lost_is_noticed_though_nothing_follows_it() {
    let (_server, mut channel) = open().await;
    assert!(matches!(channel.next().await, Told::Stored(_)));
    let lost = channel.messages.next().await.unwrap();
    assert!(lost.status.is_none(), "a stored message");
    assert!(matches!(channel.next().await, Told::Broken));
}

#[tokio::test(flavor = "multi_thread")]
async fn more_is_asked_for_before_all_has_come() {
    let (_server, mut channel) = open_with(BATCH * 2).await;
    for _ in 0..BATCH * 2 {
        assert!(matches!(channel.next().await, Told::Stored(_)));
        assert!((BATCH / 2..=BATCH).contains(&channel.asked), "{}", channel.asked);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_consumer_says_so_now() {
    let (_server, mut channel) = open().await;
    for _ in 0..2 {
        assert!(matches!(channel.next().await, Told::Stored(_)));
    }
    assert!(matches!(channel.next().await, Told::Quiet { is_now: true }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_of_life_after_too_long_a_silence_is_not_trusted() {
    let (_server, mut channel) = open().await;
    for _ in 0..2 {
        assert!(matches!(channel.next().await, Told::Stored(_)));
    }
    // As after a process that stood still: the next sign of life may have been sent long ago.
    channel.heard = Instant::now().checked_sub(SILENCE * 2).unwrap();
    assert!(matches!(channel.next().await, Told::Broken));
}

#[test]
fn a_position_is_read_from_a_reply_subject() {
    let position = Position::parse("$JS.ACK.KV_B.w1.1.7.3.1800000000000000001.5").unwrap();
    assert_eq!((position.seq, position.delivered, position.pending), (7, 3, 5));
    assert_eq!(position.time.unix_ns(), 1_800_000_000_000_000_001);
}

#[test]
fn a_position_is_read_when_the_server_names_domain_and_account() {
    for reply in ["$JS.ACK._.HASH.KV_B.w1.1.7.3.18.5.rnd", "$JS.ACK.leaf.HASH.KV_B.w1.1.7.3.18.5"] {
        let position = Position::parse(reply).unwrap();
        assert_eq!((position.seq, position.delivered, position.pending), (7, 3, 5), "{reply}");
    }
}

#[test]
fn no_position_is_read_from_anything_else() {
    for reply in ["", "_INBOX.a", "$JS.ACK.", "$JS.ACK.KV_B.w1.1.7.3", "$JS.ACK.a.b.1.x.3.4.5"] {
        assert!(Position::parse(reply).is_none(), "{reply}");
    }
}
