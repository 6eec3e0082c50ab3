//! Blobs on real servers: what is stored of them, and what becomes of it.
#![cfg(test)]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_nats::{Client, HeaderMap, jetstream};
use bus_core::{BlobBody, BlobInfo, Blobs, Error, ErrorKind, Result};
use bus_crypto::{
    NkeyKind, SigningKey, SystemEntropy,
    jwt::{Permissions, SubjectPermission},
};
use bus_nats::{
    BlobAges, NatsAuth, NatsBus, NatsOptions,
    server::{Authorization, NkeyUser, ServerConfig},
};
use bus_subjects::{BucketKey, BucketName};
use bus_testserver::TestServer;
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::Notify;

const PIECE: usize = BlobInfo::PIECE_BYTES;
const AT_ONCE: BlobAges = BlobAges { idle: Duration::ZERO, grace: Duration::ZERO };

/// A server, the engine under test, and the server's own view of what is stored.
struct Place {
    bus: NatsBus,
    raw: jetstream::Context,
    client: Client,
    server: TestServer,
}

impl Place {
    async fn open() -> Self {
        let server = TestServer::start();
        let bus = NatsBus::open(options(&server)).await.unwrap();
        let client = async_nats::connect(server.url()).await.unwrap();
        let raw = jetstream::new(client.clone());
        Self { bus, raw, client, server }
    }

    async fn put(&self, name: &str, body: impl Into<BlobBody>) -> Result<BlobInfo> {
        self.bus.put_blob(bucket(), key(name), body.into()).await
    }

    /// The content of a blob up to the first error.
    async fn read(&self, name: &str) -> (Vec<u8>, Option<ErrorKind>) {
        let blob = self.bus.get_blob(bucket(), key(name)).await.unwrap().unwrap();
        read(blob.body).await
    }

    /// How many messages the stream of the bucket keeps.
    async fn stored(&self) -> u64 {
        self.raw.get_stream("VKB_FILES").await.unwrap().get_info().await.unwrap().state.messages
    }

    /// The stored messages of one upload, and the manifest of `name`.
    async fn as_stored(&self, name: &str) -> (Vec<Bytes>, serde_json::Value) {
        let stream = self.raw.get_stream("VKB_FILES").await.unwrap();
        let subject = format!("vakblob.FILES.m.{name}");
        let manifest = stream.get_last_raw_message_by_subject(&subject).await.unwrap();
        let manifest: serde_json::Value = serde_json::from_slice(&manifest.payload).unwrap();
        let (from, to) = (manifest["pieces_at"].as_u64(), manifest["leaves_at"].as_u64());
        let mut messages = Vec::new();
        for seq in from.unwrap()..=to.unwrap() {
            messages.push(stream.get_raw_message(seq).await.unwrap().payload);
        }
        (messages, manifest)
    }

    /// Stores `messages` as another upload, to which `manifest` then leads.
    async fn forge(&self, name: &str, messages: Vec<Bytes>, mut manifest: serde_json::Value) {
        let upload = "0".repeat(32);
        let subject = format!("vakblob.FILES.p.{upload}");
        let mut at = Vec::new();
        for message in messages {
            let stored = self.raw.publish(subject.clone(), message).await.unwrap();
            at.push(stored.await.unwrap().sequence);
        }
        manifest["upload"] = upload.into();
        manifest["pieces_at"] = at[0].into();
        manifest["leaves_at"] = at[at.len() - 1].into();
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Rollup", "sub");
        let (subject, body) = (format!("vakblob.FILES.m.{name}"), manifest.to_string());
        self.raw.publish_with_headers(subject, headers, body.into()).await.unwrap().await.unwrap();
    }
}

/// Many servers start at once here: the first connection may take its time.
fn options(server: &TestServer) -> NatsOptions {
    NatsOptions { connect_wait: Duration::from_secs(30), ..NatsOptions::new(server.url()) }
}

fn bucket() -> BucketName {
    BucketName::parse("FILES").unwrap()
}

fn key(name: &str) -> BucketKey {
    BucketKey::parse(name).unwrap()
}

fn content(bytes: usize) -> Bytes {
    (0..bytes).map(|at| (at * 31 + (at >> 8) * 7 + (at >> 16)).to_le_bytes()[0]).collect()
}

async fn read(mut body: BlobBody) -> (Vec<u8>, Option<ErrorKind>) {
    let mut all = Vec::new();
    while let Some(part) = body.next().await {
        match part {
            Ok(part) => all.extend_from_slice(&part),
            Err(error) => return (all, Some(error.kind())),
        }
    }
    (all, None)
}

/// A body that tells when everything was taken, and then never ends.
fn endless(content: Bytes, taken: Arc<Notify>) -> BlobBody {
    BlobBody::new(stream::unfold(Some(content), move |content| {
        let taken = Arc::clone(&taken);
        async move {
            if let Some(content) = content {
                return Some((Ok(content), None));
            }
            taken.notify_one();
            std::future::pending().await
        }
    }))
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_mebibytes_come_back_as_they_were() {
    let place = Place::open().await;
    let content = content(16 << 20);
    place.put("b", content.clone()).await.unwrap();
    let (got, error) = place.read("b").await;
    assert_eq!(error, None);
    assert!(got == content, "the content differs");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_with_more_hashes_than_one_message_holds_is_read_whole() {
    let place = Place::open().await;
    let piece = content(PIECE);
    let pieces = 2_049;
    let parts = std::iter::repeat_n(piece.clone(), pieces).map(Ok);
    let info = place.put("b", BlobBody::new(stream::iter(parts))).await.unwrap();
    assert_eq!(info.bytes, (pieces * PIECE) as u64);
    let mut blob = place.bus.get_blob(bucket(), key("b")).await.unwrap().unwrap();
    for at in 0..pieces {
        assert!(blob.body.next().await.unwrap().unwrap() == piece, "piece {at} differs");
    }
    assert!(blob.body.next().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_breaks_off_leaves_nothing_behind() {
    let place = Place::open().await;
    let broken = Error::new(ErrorKind::NotFound, "read", "the source broke off");
    let parts = [Ok(content(3 * PIECE)), Err(broken)];
    let put = place.put("b", BlobBody::new(stream::iter(parts))).await;
    assert_eq!(put.unwrap_err().kind(), ErrorKind::NotFound, "the error of the body");
    assert!(place.bus.get_blob(bucket(), key("b")).await.unwrap().is_none());
    assert_eq!(place.stored().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_upload_is_invisible_and_swept_when_it_is_old_enough() {
    let place = Place::open().await;
    let taken = Arc::new(Notify::new());
    let body = endless(content(3 * PIECE), Arc::clone(&taken));
    tokio::select! {
        _ = place.put("b", body) => panic!("the body never ends"),
        () = taken.notified() => {}
    }
    assert!(place.bus.list_blobs(bucket()).await.unwrap().is_empty());
    assert_eq!(place.bus.sweep_blobs(&bucket(), BlobAges::default()).await.unwrap(), 0);
    assert!(place.stored().await > 0, "it may go on for all we know");
    assert_eq!(place.bus.sweep_blobs(&bucket(), AT_ONCE).await.unwrap(), 1);
    assert_eq!(place.stored().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_leaves_every_blob_as_it_is() {
    let place = Place::open().await;
    place.put("a/b.c", content(PIECE + 1)).await.unwrap();
    place.put("b", content(2 * PIECE)).await.unwrap();
    assert_eq!(place.bus.sweep_blobs(&bucket(), AT_ONCE).await.unwrap(), 0);
    assert_eq!(place.read("a/b.c").await, (content(PIECE + 1).to_vec(), None));
    assert_eq!(place.read("b").await, (content(2 * PIECE).to_vec(), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn pieces_of_a_replaced_blob_stay_for_the_grace_time_and_then_go() {
    let place = Place::open().await;
    let first = content(200 * PIECE);
    place.put("b", first.clone()).await.unwrap();
    let began = place.bus.get_blob(bucket(), key("b")).await.unwrap().unwrap();
    place.put("b", content(PIECE)).await.unwrap();
    let ages = BlobAges { idle: Duration::ZERO, ..BlobAges::default() };
    assert_eq!(place.bus.sweep_blobs(&bucket(), ages).await.unwrap(), 0);
    let (got, error) = read(began.body).await;
    assert_eq!(error, None);
    assert!(got == first, "the content differs");
    assert_eq!(place.bus.sweep_blobs(&bucket(), AT_ONCE).await.unwrap(), 1);
    assert_eq!(place.stored().await, 3, "a piece, its hash and the manifest");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_outlives_the_grace_time_of_a_replaced_blob_is_told() {
    let place = Place::open().await;
    let first = content(200 * PIECE);
    place.put("b", first.clone()).await.unwrap();
    let mut began = place.bus.get_blob(bucket(), key("b")).await.unwrap().unwrap().body;
    let part = began.next().await.unwrap().unwrap();
    place.put("b", content(PIECE)).await.unwrap();
    assert_eq!(place.bus.sweep_blobs(&bucket(), AT_ONCE).await.unwrap(), 1);
    let (got, error) = read(began).await;
    assert_eq!(error, Some(ErrorKind::Corrupt), "never a short blob without an error");
    let got = [part.to_vec(), got].concat();
    assert!(first.starts_with(&got), "what was yielded is of the first one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_goes_on_over_a_restart_of_the_server() {
    let mut place = Place::open().await;
    let content = content(200 * PIECE);
    place.put("b", content.clone()).await.unwrap();
    place.server.kill();
    place.server.restart().unwrap();
    let mut states = place.bus.states();
    states.wait_for(|state| state.epoch().is_some_and(|epoch| epoch > 1)).await.unwrap();
    let (got, error) = place.read("b").await;
    assert_eq!(error, None);
    assert!(got == content, "the content differs");
}

/// A server's configuration with a user that may publish to everything but `denied`.
fn config_without(user: &SigningKey, denied: &str) -> ServerConfig {
    let publish = SubjectPermission { allow: Vec::new(), deny: vec![denied.to_owned()] };
    let permissions = Some(Permissions { publish, ..Permissions::default() });
    let users = vec![NkeyUser { key: *user.public(), permissions }];
    ServerConfig { authorization: Authorization::Nkeys(users), ..ServerConfig::default() }
}

fn user() -> Arc<SigningKey> {
    Arc::new(SigningKey::generate(NkeyKind::User, &SystemEntropy::new()).unwrap())
}

/// A bus of a user that may publish to everything but `denied`.
async fn bus_without(user: Arc<SigningKey>, denied: &str) -> (NatsBus, TestServer) {
    let server = TestServer::start_with(config_without(&user, denied));
    let options = NatsOptions { auth: NatsAuth::Nkey(user), ..options(&server) };
    (NatsBus::open(options).await.unwrap(), server)
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "how long it took is what is tested")]
async fn an_upload_that_loses_its_right_half_way_is_denied() {
    let user = user();
    let (bus, mut server) = bus_without(Arc::clone(&user), "nothing").await;
    let (taken, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let begun = [0, 1, 2, 3, 4, 5].map(|_| content(PIECE));
    let gates = (Arc::clone(&taken), Arc::clone(&go_on));
    let body = stream::unfold((begun.into_iter(), gates), |(mut parts, gates)| async {
        if parts.len() == 3 {
            gates.0.notify_one();
            gates.1.notified().await;
        }
        parts.next().map(|part| (Ok(part), (parts, gates)))
    });
    let put = bus.put_blob(bucket(), key("b"), BlobBody::new(body));
    let taking_away = async {
        taken.notified().await;
        server.reload(config_without(&user, "vakblob.FILES.p.*")).unwrap();
        // Refused as well once the server knows, which the piece then hears in its turn.
        let denied = async {
            while bus.put_blob(bucket(), key("other"), content(1).into()).await.is_ok() {}
        };
        tokio::time::timeout(Duration::from_secs(10), denied).await.unwrap();
        go_on.notify_one();
    };
    let began = Instant::now();
    let (put, ()) = tokio::join!(put, taking_away);
    assert_eq!(put.unwrap_err().kind(), ErrorKind::Denied);
    assert!(began.elapsed() < Duration::from_secs(4), "it did not wait for an answer in vain");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_a_user_may_not_is_denied() {
    for denied in ["vakblob.FILES.p.*", "vakblob.FILES.m.b", "$JS.API.STREAM.CREATE.VKB_FILES"] {
        let (bus, _server) = bus_without(user(), denied).await;
        let put = bus.put_blob(bucket(), key("b"), content(3 * PIECE).into()).await;
        assert_eq!(put.unwrap_err().kind(), ErrorKind::Denied, "{denied}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_manifest_leaves_nothing_of_its_upload() {
    let (bus, _server) = bus_without(user(), "vakblob.FILES.m.b").await;
    bus.put_blob(bucket(), key("other"), content(1).into()).await.unwrap();
    let put = bus.put_blob(bucket(), key("b"), content(3 * PIECE).into()).await;
    assert_eq!(put.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(bus.sweep_blobs(&bucket(), AT_ONCE).await.unwrap(), 0, "nothing to sweep");
    assert_eq!(bus.list_blobs(bucket()).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_blob_is_swept() {
    let place = Place::open().await;
    place.put("b", content(5 * PIECE)).await.unwrap();
    assert!(place.bus.delete_blob(bucket(), key("b")).await.unwrap());
    assert_eq!(place.bus.sweep_blobs(&bucket(), AT_ONCE).await.unwrap(), 1);
    assert!(place.stored().await <= 1, "at most that it was deleted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_piece_is_corrupt_in_its_place() {
    let place = Place::open().await;
    place.put("b", content(3 * PIECE)).await.unwrap();
    let (mut messages, manifest) = place.as_stored("b").await;
    messages[1] = content(PIECE - 1).into_iter().chain([7]).collect();
    place.forge("b", messages, manifest).await;
    let (got, error) = place.read("b").await;
    assert_eq!((got.len(), error), (PIECE, Some(ErrorKind::Corrupt)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_piece_is_corrupt() {
    let place = Place::open().await;
    place.put("b", content(3 * PIECE)).await.unwrap();
    let (mut messages, manifest) = place.as_stored("b").await;
    messages.remove(1);
    place.forge("b", messages, manifest).await;
    let (got, error) = place.read("b").await;
    assert_eq!((got.len(), error), (PIECE, Some(ErrorKind::Corrupt)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_without_room_is_full_and_keeps_nothing_of_the_upload() {
    let place = Place::open().await;
    let config = jetstream::stream::Config {
        name: "VKB_FILES".to_owned(),
        subjects: vec!["vakblob.FILES.>".to_owned()],
        max_bytes: 4 * PIECE as i64,
        discard: jetstream::stream::DiscardPolicy::New,
        allow_direct: true,
        allow_rollup: true,
        ..Default::default()
    };
    place.raw.create_stream(config).await.unwrap();
    let put = place.put("b", content(40 * PIECE)).await;
    assert_eq!(put.unwrap_err().kind(), ErrorKind::Full);
    place.client.flush().await.unwrap();
    assert_eq!(place.stored().await, 0);
    place.put("b", content(PIECE)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_whose_stream_was_deleted_is_made_anew() {
    let place = Place::open().await;
    place.put("b", content(1)).await.unwrap();
    place.raw.delete_stream("VKB_FILES").await.unwrap();
    assert!(place.bus.get_blob(bucket(), key("b")).await.unwrap().is_none());
    let put = place.put("b", content(1)).await;
    assert_eq!(put.unwrap_err().kind(), ErrorKind::Unavailable);
    place.put("b", content(1)).await.unwrap();
    assert_eq!(place.read("b").await, (content(1).to_vec(), None));
}
