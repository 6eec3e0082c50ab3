//! Appends that wait at the same time, on a server that syncs every write.

use std::{num::NonZeroU64, sync::Arc, time::Duration};

use bus_core::{
    Bus as _, Error, ErrorKind, Expect, Outcome, Receipt, Result, Retention, StreamSpec,
};
use bus_crypto::{
    NkeyKind, SigningKey, SystemEntropy,
    jwt::{Permissions, SubjectPermission},
};
use bus_nats::{
    NatsAuth, NatsBus, NatsOptions, Profile,
    server::{Authorization, NkeyUser, ServerConfig},
};
use bus_testserver::TestServer;
use futures_util::{FutureExt as _, future::join_all};

use crate::{Bench, frame, keyed, name, spec};

async fn synced(server: &TestServer, auth: NatsAuth) -> NatsBus {
    let options = NatsOptions { auth, profile: Profile::Synced, ..NatsOptions::new(server.url()) };
    NatsBus::open(options).await.unwrap()
}

async fn bench(spec: StreamSpec) -> Bench {
    let server = TestServer::start();
    let bus = synced(&server, NatsAuth::None).await;
    bus.declare(spec).await.unwrap();
    Bench { server, bus, stream: name("WORK") }
}

/// Appends all of these at once: subject and id.
async fn append_at_once(bus: &NatsBus, frames: &[(&str, String)]) -> Vec<Result<Receipt>> {
    join_all(frames.iter().map(|(subject, id)| bus.append(frame(subject, id), Expect::Any))).await
}

fn numbered(count: usize) -> Vec<(&'static str, String)> {
    (0..count).map(|n| ("work.a", n.to_string())).collect()
}

/// How many batches the messages of a stream came in, and how many messages those were.
async fn batches(bench: &Bench, messages: usize) -> (usize, usize) {
    let client = async_nats::connect(bench.server.url()).await.unwrap();
    let stream = async_nats::jetstream::new(client).get_stream("WORK").await.unwrap();
    let mut ids = Vec::new();
    for seq in 1..=messages {
        let message = stream.get_raw_message(seq as u64).await.unwrap();
        ids.extend(message.headers.get("Nats-Batch-Id").map(ToString::to_string));
    }
    let batched = ids.len();
    ids.sort_unstable();
    ids.dedup();
    (ids.len(), batched)
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_that_wait_are_packed_and_each_gets_its_own_position() {
    let bench = bench(spec(Retention::WorkQueue)).await;
    let frames = numbered(500);
    let receipts = append_at_once(&bench.bus, &frames).await;
    let mut got: Vec<_> = receipts
        .into_iter()
        .zip(frames)
        .map(|(receipt, (_, id))| (receipt.unwrap().seq.0, id))
        .collect();
    got.sort_unstable();
    assert_eq!(bench.stored(">").await, got);
    let (count, batched) = batches(&bench, 500).await;
    assert!(batched > 400 && count < 20, "{batched} messages in {count} batches");
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_one_after_the_other_wait_for_nobody() {
    let bench = bench(spec(Retention::WorkQueue)).await;
    for (subject, id) in numbered(20) {
        bench.bus.append(frame(subject, &id), Expect::Any).await.unwrap();
    }
    assert_eq!(batches(&bench, 20).await, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_each_caller_awaits_in_turn_is_stored_in_its_order() {
    let bench = bench(spec(Retention::WorkQueue)).await;
    let callers = (0..60).map(|who| {
        let bus = bench.bus.clone();
        async move {
            for n in 0..20 {
                let one = frame("work.a", &format!("{who}-{n}"));
                bus.append(one, Expect::Any).await.unwrap();
            }
        }
    });
    join_all(callers).await;
    let mut next = vec![0; 60];
    for (_, id) in bench.stored(">").await {
        let (who, n) = id.split_once('-').unwrap();
        let next = &mut next[who.parse::<usize>().unwrap()];
        assert_eq!(n.parse(), Ok(*next), "{id}");
        *next += 1;
    }
    assert_eq!(next, [20; 60]);
}

#[tokio::test(flavor = "multi_thread")]
async fn known_ids_in_company_are_duplicates_and_the_others_are_stored() {
    let bench = bench(spec(Retention::WorkQueue)).await;
    for id in ["30", "31", "150", "199"] {
        bench.bus.append(frame("work.a", id), Expect::Any).await.unwrap();
    }
    let receipts = append_at_once(&bench.bus, &numbered(200)).await;
    let known: Vec<_> = receipts
        .iter()
        .enumerate()
        .filter_map(|(n, receipt)| receipt.as_ref().unwrap().duplicate.then_some(n))
        .collect();
    assert_eq!(known, [30, 31, 150, 199]);
    assert_eq!(receipts[150].as_ref().unwrap().seq.0, 3);
    assert_eq!(bench.stored(">").await.len(), 200);
    let again = append_at_once(&bench.bus, &numbered(200)).await;
    for (first, again) in receipts.into_iter().zip(again) {
        let again = again.unwrap();
        assert_eq!((again.seq, again.duplicate), (first.unwrap().seq, true));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_id_from_many_callers_is_stored_once() {
    let bench = bench(spec(Retention::WorkQueue)).await;
    let frames: Vec<_> = (0..120).map(|n| ("work.a", (n / 3).to_string())).collect();
    let receipts = append_at_once(&bench.bus, &frames).await;
    let receipts: Vec<_> = receipts.into_iter().map(Result::unwrap).collect();
    for copies in receipts.chunks(3) {
        assert!(copies.iter().all(|copy| copy.seq == copies[0].seq), "{copies:?}");
        assert_eq!(copies.iter().filter(|copy| !copy.duplicate).count(), 1, "{copies:?}");
    }
    assert_eq!(bench.stored(">").await.len(), 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_stream_refuses_only_what_it_has_no_room_for() {
    let bound = NonZeroU64::new(100).unwrap();
    let bench = bench(StreamSpec { messages_max: bound, ..spec(Retention::WorkQueue) }).await;
    let receipts = append_at_once(&bench.bus, &numbered(150)).await;
    let refused: Vec<_> = receipts.into_iter().filter_map(Result::err).collect();
    assert_eq!(refused.len(), 50);
    assert!(refused.iter().all(|error| error.kind() == ErrorKind::Full), "{refused:?}");
    assert_eq!(bench.stored(">").await.len(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_subject_refuses_nobody_elses_frames() {
    let bound = NonZeroU64::new(2).unwrap();
    let spec = StreamSpec { messages_per_subject_max: bound, ..spec(Retention::WorkQueue) };
    let bench = bench(spec).await;
    let subject = |n: usize| match n % 3 {
        0 => "work.full".to_owned(),
        _ => format!("work.{n}"),
    };
    let subjects: Vec<_> = (0..120).map(subject).collect();
    let frames: Vec<_> =
        subjects.iter().enumerate().map(|(n, subject)| (subject.as_str(), n.to_string())).collect();
    let receipts = append_at_once(&bench.bus, &frames).await;
    let stored_of_full = receipts.iter().step_by(3).filter(|one| one.is_ok()).count();
    assert_eq!(stored_of_full, 2);
    for (n, receipt) in receipts.into_iter().enumerate() {
        match receipt {
            Ok(_) => {}
            Err(error) => assert_eq!((n % 3, error.kind()), (0, ErrorKind::Full), "{error}"),
        }
    }
    assert_eq!(bench.stored(">").await.len(), 82);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_subject_is_denied_and_the_others_are_stored() {
    let user = Arc::new(SigningKey::generate(NkeyKind::User, &SystemEntropy::new()).unwrap());
    let publish = SubjectPermission { allow: Vec::new(), deny: vec!["work.b".to_owned()] };
    let permissions = Some(Permissions { publish, ..Permissions::default() });
    let users = vec![NkeyUser { key: *user.public(), permissions }];
    let authorization = Authorization::Nkeys(users);
    let server = TestServer::start_with(ServerConfig { authorization, ..ServerConfig::default() });
    let bus = synced(&server, NatsAuth::Nkey(user)).await;
    bus.declare(spec(Retention::WorkQueue)).await.unwrap();
    let subject = |n: usize| if n % 20 == 19 { "work.b" } else { "work.a" };
    let frames: Vec<_> = (0..100).map(|n| (subject(n), n.to_string())).collect();
    let appended = append_at_once(&bus, &frames);
    // Not the time that an answer may take, which is 5 s.
    let receipts = tokio::time::timeout(Duration::from_secs(3), appended).await.unwrap();
    for ((subject, _), receipt) in frames.iter().zip(receipts) {
        let denied = receipt.err().map(|error| error.kind());
        assert_eq!(denied, (*subject == "work.b").then_some(ErrorKind::Denied), "{subject}");
    }
    let batch = vec![frame("work.a", "x"), frame("work.b", "y"), frame("work.a", "z")];
    let error = bus.append_all(batch).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Denied, Outcome::NotDone), "{error}");
}

// On one thread nothing is answered before this waits.
#[tokio::test]
async fn who_gives_up_takes_nobody_along() {
    let bench = bench(spec(Retention::WorkQueue)).await;
    let mut waiting = Vec::new();
    for (subject, id) in numbered(300) {
        let mut append = bench.bus.append(frame(subject, &id), Expect::Any);
        assert!((&mut append).now_or_never().is_none());
        waiting.push(append);
    }
    // These go alone, or are among the first who wait: nobody else is sent before they end.
    let first: Vec<_> = waiting.drain(..20).collect();
    let mut kept = Vec::new();
    for (n, append) in (20..).zip(waiting) {
        if n % 2 == 0 {
            kept.push((append, n.to_string()));
        }
    }
    drop(first);
    let mut expected = Vec::new();
    for (append, id) in kept {
        expected.push((append.await.unwrap().seq.0, id));
    }
    expected.sort_unstable();
    let stored = bench.stored(">").await;
    let dropped = stored.len() - expected.len();
    assert!(expected.iter().all(|one| stored.contains(one)));
    assert!(dropped <= 20, "{dropped} of those that gave up before their turn were sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn placed_and_plain_frames_share_a_batch() {
    let bench = bench(spec(Retention::WorkQueue)).await;
    let appends = (0..200).map(|n| {
        let id = n.to_string();
        let one = if n % 2 == 0 { frame("work.a", &id) } else { keyed("work.a", &id, "k") };
        bench.bus.append(one, Expect::Any)
    });
    for receipt in join_all(appends).await {
        receipt.unwrap();
    }
    assert_eq!(bench.stored("work.a").await.len(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_unknown_for_all_and_the_same_ids_are_safe() {
    let mut bench = bench(spec(Retention::AppendOnly)).await;
    let frames = numbered(600);
    let killing = async {
        // Some are stored, most are under way or wait.
        while bench.bus.last(frame("work.a", "x").subject).await.unwrap().is_none() {}
        bench.server.kill();
    };
    let (first, ()) = tokio::join!(append_at_once(&bench.bus, &frames), killing);
    let is_lost = |error: &Error| {
        error.outcome() == Outcome::Unknown || { error.kind() == ErrorKind::Unavailable }
    };
    assert!(first.iter().all(|one| one.as_ref().map_or_else(is_lost, |_| true)), "{first:?}");
    bench.server.restart().unwrap();
    let again = synced(&bench.server, NatsAuth::None).await;
    let second = append_at_once(&again, &frames).await;
    let mut ids = Vec::new();
    for ((first, second), (_, id)) in first.into_iter().zip(second).zip(frames) {
        let second = second.unwrap();
        if let Ok(first) = first {
            assert_eq!((second.seq, second.duplicate), (first.seq, true));
        }
        ids.push((second.seq.0, id));
    }
    ids.sort_unstable();
    bench.bus = again;
    assert_eq!(bench.stored(">").await, ids);
}
