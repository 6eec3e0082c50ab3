//! Streams, appends and reads on a real server.
#![cfg(test)]

use std::num::NonZeroU64;

use bus_core::{
    Bus as _, ErrorKind, Expect, Frame, FrameId, OrderKey, Placement, Priority, Retention, Seq,
    StreamSpec,
};
use bus_nats::{NatsBus, NatsOptions, Profile};
use bus_subjects::{Filter, StreamName, Subject};
use bus_testserver::TestServer;
use futures_util::{StreamExt, stream};

mod copies;
mod denied;
mod together;

/// A server with one stream over `work.>`.
struct Bench {
    server: TestServer,
    bus: NatsBus,
    stream: StreamName,
}

impl Bench {
    async fn new(retention: Retention) -> Self {
        let server = TestServer::start();
        let bus = NatsBus::open(NatsOptions::new(server.url())).await.unwrap();
        bus.declare(spec(retention)).await.unwrap();
        Self { server, bus, stream: name("WORK") }
    }

    async fn stored(&self, filter: &str) -> Vec<(u64, String)> {
        let filter = Filter::parse(filter).unwrap();
        let mut replay = self.bus.replay(self.stream.clone(), filter, Seq(0)).await.unwrap();
        let mut got = Vec::new();
        while let Some(stored) = replay.next().await {
            let stored = stored.unwrap();
            got.push((stored.seq.0, stored.frame.id.to_string()));
        }
        got
    }
}

fn name(text: &str) -> StreamName {
    StreamName::parse(text).unwrap()
}

fn spec(retention: Retention) -> StreamSpec {
    StreamSpec::new(name("WORK"), vec![Filter::parse("work.>").unwrap()], retention)
}

fn frame(subject: &str, id: &str) -> Frame {
    Frame::new(Subject::parse(subject).unwrap(), FrameId::parse(id).unwrap(), id.to_owned())
}

fn keyed(subject: &str, id: &str, key: &str) -> Frame {
    let key = Some(OrderKey::parse(key).unwrap());
    frame(subject, id).placed(Placement { key, ..Placement::default() })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_exists_otherwise_is_refused_with_every_difference() {
    let bench = Bench::new(Retention::WorkQueue).await;
    bench.bus.declare(spec(Retention::WorkQueue)).await.unwrap();
    let bound = NonZeroU64::new(7).unwrap();
    let other = StreamSpec { messages_max: bound, ..spec(Retention::AppendOnly) };
    let error = bench.bus.declare(other).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    for part in ["retention", "max_msgs", "deny_delete", "deny_purge", "metadata"] {
        assert!(error.detail().contains(part), "{part}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fewer_copies_than_the_profile_has_are_refused() {
    let bench = Bench::new(Retention::Kept).await;
    let profile = Profile::Replicated;
    let options = NatsOptions { profile, ..NatsOptions::new(bench.server.url()) };
    let three = NatsBus::open(options).await.unwrap();
    let error = three.declare(spec(Retention::Kept)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.detail().contains("num_replicas is 1, expected 3"), "{error}");
    let filters = vec![Filter::parse("other.>").unwrap()];
    let other = StreamSpec::new(name("OTHER"), filters, Retention::Kept);
    let error = three.declare(other).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.detail().contains("3 copies"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_over_the_engines_own_subjects_is_refused() {
    let bench = Bench::new(Retention::WorkQueue).await;
    for filter in ["vakp.>", "vakq.a", "vakqr.>", "$KV.x.>", "_INBOX_a.>", "*.x", ">"] {
        let filters = vec![Filter::parse(filter).unwrap()];
        let other = StreamSpec::new(name("OTHER"), filters, Retention::Kept);
        let error = bench.bus.declare(other).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{filter}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_to_a_subject_of_the_server_is_sent_to_nobody() {
    let bench = Bench::new(Retention::WorkQueue).await;
    let error =
        bench.bus.append(frame("$JS.API.STREAM.DELETE.WORK", "x"), Expect::Any).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(bench.stored(">").await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_with_the_head_it_was_made_for_is_a_duplicate() {
    let bench = Bench::new(Retention::AppendOnly).await;
    let first = bench.bus.append(frame("work.a", "r1"), Expect::LastOfSubject(Seq(0))).await;
    assert_eq!(first.unwrap().seq, Seq(1));
    let again = bench.bus.append(frame("work.a", "r1"), Expect::LastOfSubject(Seq(0))).await;
    let again = again.unwrap();
    assert_eq!((again.seq, again.duplicate), (Seq(1), true));
    for head in [0, 2, u64::MAX] {
        let stale = bench.bus.append(frame("work.a", "r2"), Expect::LastOfSubject(Seq(head)));
        assert_eq!(stale.await.unwrap_err().kind(), ErrorKind::Conflict, "{head}");
    }
    assert_eq!(bench.stored(">").await, [(1, "r1".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expectation_of_a_placed_frame_is_unsupported() {
    let bench = Bench::new(Retention::WorkQueue).await;
    let placed = keyed("work.a", "p", "k");
    let error = bench.bus.append(placed, Expect::LastOfSubject(Seq(0))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_of_a_subject_may_be_a_placed_one_of_very_many() {
    let bench = Bench::new(Retention::WorkQueue).await;
    bench.bus.append(frame("work.a", "plain"), Expect::Any).await.unwrap();
    // More subjects of the server's than one of its answers lists.
    let batches = (0..3).map(|round| {
        (0..500).map(move |n| keyed("work.a", &format!("{round}-{n}"), &format!("{round}-{n}")))
    });
    for batch in batches {
        bench.bus.append_all(batch.collect()).await.unwrap();
    }
    let last = bench.bus.last(Subject::parse("work.a").unwrap()).await.unwrap().unwrap();
    assert_eq!((last.seq, last.frame.id.as_str()), (Seq(1501), "2-499"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_merges_plain_and_placed_messages_in_order() {
    let bench = Bench::new(Retention::WorkQueue).await;
    let urgent = Placement { priority: Priority::HIGHEST, ..Placement::default() };
    let mut expected = Vec::new();
    for n in 1..=700_u64 {
        let id = format!("m{n}");
        let one = match n % 3 {
            0 => frame("work.a.x", &id),
            1 => frame("work.a.x", &id).placed(urgent.clone()),
            _ => keyed("work.a.x", &id, "k"),
        };
        bench.bus.append(one, Expect::Any).await.unwrap();
        expected.push((n, id));
    }
    for filter in [">", "work.>", "work.a.x", "*.a.x", "*.*.x", "*.>"] {
        assert_eq!(bench.stored(filter).await, expected, "{filter}");
    }
    assert_eq!(bench.stored("work.b").await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_sent_again_is_known_as_a_whole_and_refused_in_part() {
    let bench = Bench::new(Retention::AppendOnly).await;
    let batch = |ids: &[&str]| ids.iter().map(|id| frame("work.a", id)).collect::<Vec<_>>();
    for is_known in [false, true] {
        let receipts = bench.bus.append_all(batch(&["a", "b", "c"])).await.unwrap();
        let got: Vec<_> = receipts.iter().map(|one| (one.seq.0, one.duplicate)).collect();
        assert_eq!(got, [(1, is_known), (2, is_known), (3, is_known)]);
    }
    let error = bench.bus.append_all(batch(&["d", "b"])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(bench.stored(">").await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_appends_in_flight_are_all_stored() {
    let bench = Bench::new(Retention::WorkQueue).await;
    let appends = (0..2_000).map(|n| {
        let bus = &bench.bus;
        async move { bus.append(frame("work.a", &n.to_string()), Expect::Any).await.unwrap().seq.0 }
    });
    let mut seqs: Vec<_> = stream::iter(appends).buffer_unordered(256).collect().await;
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=2_000).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_outlives_a_killed_server() {
    let mut bench = Bench::new(Retention::AppendOnly).await;
    bench.bus.append(frame("work.a", "r1"), Expect::Any).await.unwrap();
    bench.server.kill();
    bench.server.restart().unwrap();
    let bus = NatsBus::open(NatsOptions::new(bench.server.url())).await.unwrap();
    let again = bus.append(frame("work.a", "r1"), Expect::Any).await.unwrap();
    assert_eq!((again.seq, again.duplicate), (Seq(1), true));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_only_stream_is_guarded_by_the_server_as_well() {
    let bench = Bench::new(Retention::AppendOnly).await;
    bench.bus.append(frame("work.a", "r1"), Expect::Any).await.unwrap();
    let client = async_nats::connect(bench.server.url()).await.unwrap();
    let asked = client.request("$JS.API.STREAM.MSG.DELETE.WORK", r#"{"seq":1}"#.into()).await;
    let answer = String::from_utf8(asked.unwrap().payload.to_vec()).unwrap();
    assert!(answer.contains("error"), "{answer}");
    let error = bench.bus.discard(bench.stream.clone(), Seq(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert_eq!(bench.stored(">").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_discard_says_whether_there_was_one() {
    let bench = Bench::new(Retention::Kept).await;
    bench.bus.append(frame("work.a", "m1"), Expect::Any).await.unwrap();
    for (seq, expected) in [(0, false), (2, false), (u64::MAX, false), (1, true), (1, false)] {
        let discarded = bench.bus.discard(bench.stream.clone(), Seq(seq)).await.unwrap();
        assert_eq!(discarded, expected, "{seq}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_a_subject_has_room_for_in_part_is_never_stored_in_part() {
    let bound = NonZeroU64::new(2).unwrap();
    let server = TestServer::start();
    let bus = NatsBus::open(NatsOptions::new(server.url())).await.unwrap();
    // The server alone stores a part of about one such batch in six.
    for n in 0..40 {
        let (held, subject) = (name(&format!("W{n}")), format!("w{n}.full"));
        let filters = vec![Filter::parse(&format!("w{n}.>")).unwrap()];
        let spec = StreamSpec::new(held.clone(), filters, Retention::Kept);
        bus.declare(StreamSpec { messages_per_subject_max: bound, ..spec }).await.unwrap();
        bus.append(frame(&subject, "first"), Expect::Any).await.unwrap();
        let batch =
            vec![frame(&format!("w{n}.x"), "a"), frame(&subject, "b"), frame(&subject, "c")];
        let error = bus.append_all(batch).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Full, "{error}");
        assert_eq!(bus.read(held, Seq(2)).await.unwrap(), None);
    }
}
