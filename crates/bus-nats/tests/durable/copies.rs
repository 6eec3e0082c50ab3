//! Copies: what too few servers refuse, and a stream that is there and does not answer.

use async_nats::jetstream::{self, consumer::pull, stream::Config};
use bus_core::{Blobs, Buckets, Bus as _, Error, ErrorKind, Outcome, Put, Retention};
use bus_nats::{NatsBus, NatsOptions, Profile};
use bus_subjects::{BucketKey, BucketName};
use bus_testserver::TestServer;
use bytes::Bytes;
use futures_util::TryStreamExt as _;

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_is_never_made_in_fewer_copies() {
    let server = TestServer::start();
    let bus = open(&server, Profile::Replicated).await;
    is_refused(&bus.put(bucket(), key(), Put::new("value")).await.unwrap_err());
    assert_eq!(streams(&server).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_is_never_stored_in_fewer_copies() {
    let server = TestServer::start();
    let bus = open(&server, Profile::Replicated).await;
    is_refused(&bus.put_blob(bucket(), key(), Bytes::from("body").into()).await.unwrap_err());
    assert_eq!(streams(&server).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_of_a_bucket_that_does_not_answer_is_not_taken_for_none() {
    let server = TestServer::start();
    let bus = open(&server, Profile::Synced).await;
    make_silent(&server, "VKB_FILES", "vakblob.FILES.>").await;
    let error = bus.get_blob(bucket(), key()).await.map(|blob| blob.is_some()).unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unavailable, Outcome::NotDone));
    let error = bus.list_blobs(bucket()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let error = bus.delete_blob(bucket(), key()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_that_takes_no_reader_is_not_taken_for_an_empty_one() {
    let server = TestServer::start();
    let bus = open(&server, Profile::Synced).await;
    let spec = crate::spec(Retention::WorkQueue);
    let stream = spec.name.clone();
    bus.declare(spec).await.unwrap();
    make_crowded(&server, "VAK_BOARD", "vakq.>").await;
    let error = bus.lag(stream).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotDone, "{error}");
}

async fn open(server: &TestServer, profile: Profile) -> NatsBus {
    NatsBus::open(NatsOptions { profile, ..NatsOptions::new(server.url()) }).await.unwrap()
}

/// Too few servers are no mistake of the caller.
fn is_refused(error: &Error) {
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unavailable, Outcome::NotDone));
    assert!(error.to_string().contains("replicas > 1 not supported"), "{error}");
}

/// Makes a stream for which nobody answers direct gets, as while it has no leader.
async fn make_silent(server: &TestServer, name: &str, subjects: &str) {
    let config = Config {
        name: name.to_owned(),
        subjects: vec![subjects.to_owned()],
        allow_direct: false,
        ..Config::default()
    };
    raw(server).await.create_stream(config).await.unwrap();
}

/// Makes a stream that has as many consumers as it takes.
async fn make_crowded(server: &TestServer, name: &str, subjects: &str) {
    let config = Config {
        name: name.to_owned(),
        subjects: vec![subjects.to_owned()],
        max_consumers: 1,
        allow_direct: true,
        ..Config::default()
    };
    let stream = raw(server).await.create_stream(config).await.unwrap();
    let only = pull::Config { durable_name: Some("only".to_owned()), ..pull::Config::default() };
    stream.create_consumer(only).await.unwrap();
}

async fn raw(server: &TestServer) -> jetstream::Context {
    jetstream::new(async_nats::connect(server.url()).await.unwrap())
}

async fn streams(server: &TestServer) -> Vec<String> {
    raw(server).await.stream_names().try_collect().await.unwrap()
}

fn bucket() -> BucketName {
    BucketName::parse("FILES").unwrap()
}

fn key() -> BucketKey {
    BucketKey::parse("a").unwrap()
}
