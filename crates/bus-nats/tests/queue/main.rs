//! Work queues on a real server: what the suite does not ask of every engine.
#![cfg(test)]

use std::{collections::BTreeSet, num::NonZeroUsize, sync::Arc, time::Duration};

use bus_core::{
    Bus as _, ConsumerSpec, Deliveries, Delivery, ErrorKind, Expect, Frame, FrameId, OrderKey,
    Placement, Priority, Retention, Seq, StreamSpec, Verdict, settle_all,
};
use bus_crypto::{
    NkeyKind, SigningKey, SystemEntropy,
    jwt::{Permissions, SubjectPermission},
};
use bus_envelope::Timestamp;
use bus_nats::{
    NatsAuth, NatsBus, NatsOptions,
    server::{Authorization, NkeyUser, ServerConfig},
};
use bus_subjects::{ConsumerName, Filter, StreamName, Subject};
use bus_testserver::TestServer;
use futures_util::StreamExt as _;

mod board;
mod frozen;

async fn bus(server: &TestServer) -> NatsBus {
    NatsBus::open(NatsOptions::new(server.url())).await.unwrap()
}

fn stream() -> StreamName {
    StreamName::parse("WORK").unwrap()
}

async fn declare(bus: &NatsBus) {
    let filters = vec![Filter::parse("work.>").unwrap()];
    bus.declare(StreamSpec::new(stream(), filters, Retention::WorkQueue)).await.unwrap();
}

async fn member(bus: &NatsBus) -> Deliveries {
    let spec = ConsumerSpec {
        stream: stream(),
        name: ConsumerName::parse("coder").unwrap(),
        filter: Filter::parse("work.coder").unwrap(),
        lease: Duration::from_secs(3),
    };
    bus.consume(spec).await.unwrap()
}

fn task(id: &str) -> Frame {
    let subject = Subject::parse("work.coder").unwrap();
    Frame::new(subject, FrameId::parse(id).unwrap(), id.to_owned())
}

/// The next delivery, which must come within a time that only a fault exceeds.
async fn next(member: &mut Deliveries) -> Delivery {
    let next = tokio::time::timeout(Duration::from_secs(20), member.next());
    next.await.expect("a task comes in time").expect("the bus is open").unwrap()
}

fn what(task: &Delivery) -> (String, u32) {
    (task.frame.id.to_string(), task.attempt)
}

async fn append(bus: &NatsBus, frame: Frame) -> Seq {
    bus.append(frame, Expect::Any).await.unwrap().seq
}

/// What the stream still holds.
async fn stored(bus: &NatsBus) -> Vec<String> {
    let mut replay = bus.replay(stream(), Filter::all(), Seq(0)).await.unwrap();
    let mut got = Vec::new();
    while let Some(stored) = replay.next().await {
        got.push(stored.unwrap().frame.id.to_string());
    }
    got
}

fn keyed(id: &str, key: &str) -> Frame {
    let key = Some(OrderKey::parse(key).unwrap());
    task(id).placed(Placement { key, ..Placement::default() })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_placed_task_is_never_left_lying() {
    let server = TestServer::start();
    let bus = bus(&server).await;
    declare(&bus).await;
    let mut member = member(&bus).await;
    // The server tells of a message before it is stored: each round is a chance to miss it.
    for round in 0..200 {
        append(&bus, keyed(&format!("a-{round}"), "a")).await;
        let task = next(&mut member).await;
        assert_eq!(what(&task), (format!("a-{round}"), 1));
        task.settle(Verdict::Ack).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn engines_on_one_consumer_hand_out_each_task_once_whatever_fails() {
    let server = TestServer::start();
    let (first, second) = (bus(&server).await, bus(&server).await);
    declare(&first).await;
    for n in 0..120 {
        let frame = match n % 3 {
            0 => keyed(&format!("t{n}"), &format!("key{}", n % 5)),
            _ => task(&format!("t{n}")),
        };
        append(&first, frame).await;
    }
    let work = async |bus: NatsBus| {
        let mut member = member(&bus).await;
        let mut done = Vec::new();
        while let Ok(task) = tokio::time::timeout(Duration::from_secs(2), member.next()).await {
            let task = task.unwrap().unwrap();
            let (id, attempt) = what(&task);
            if attempt == 1 && id.ends_with('7') {
                task.settle(Verdict::Retry { after: Duration::from_millis(30) }).await.unwrap();
                continue;
            }
            task.settle(Verdict::Ack).await.unwrap();
            done.push(id);
        }
        done
    };
    let (mine, theirs) = tokio::join!(work(first.clone()), work(second));
    let all: Vec<_> = mine.iter().chain(&theirs).cloned().collect();
    let distinct: BTreeSet<_> = all.iter().collect();
    assert_eq!((all.len(), distinct.len()), (120, 120), "{mine:?} {theirs:?}");
    assert_eq!(stored(&first).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tasks_of_an_engine_that_died_come_back_as_failed_attempts() {
    let server = TestServer::start();
    let living = bus(&server).await;
    declare(&living).await;
    for n in 0..3 {
        append(&living, task(&format!("t{n}"))).await;
    }
    let runtime = std::thread::spawn({
        let url = server.url().to_string();
        move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async {
                let dying = NatsBus::open(NatsOptions::new(url)).await.unwrap();
                let mut member = member(&dying).await;
                for n in 0..2 {
                    assert_eq!(what(&next(&mut member).await), (format!("t{n}"), 1));
                }
            });
            // Everything of it ends at once, and says nothing to the server.
            runtime.shutdown_background();
        }
    });
    runtime.join().unwrap();
    let mut member = member(&living).await;
    let mut got = Vec::new();
    for _ in 0..3 {
        let task = next(&mut member).await;
        got.push(what(&task));
        task.settle(Verdict::Ack).await.unwrap();
    }
    got.sort();
    let expected = [("t0", 2), ("t1", 2), ("t2", 1)].map(|(id, n)| (id.to_owned(), n));
    assert_eq!(got, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_somebody_else_deletes_ends_its_members_with_a_word() {
    let server = TestServer::start();
    let bus = bus(&server).await;
    declare(&bus).await;
    let raw = async_nats::connect(server.url()).await.unwrap();
    for subject in ["$JS.API.CONSUMER.DELETE.WORK.coder", "$JS.API.STREAM.DELETE.WORK"] {
        let mut member = member(&bus).await;
        let (ended, _) = tokio::join!(member.next(), async {
            raw.request(subject, Vec::new().into()).await.unwrap()
        });
        let error = ended.expect("a word of it").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{subject}: {error}");
        assert!(member.next().await.is_none(), "{subject}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_tasks_are_claimed_and_settled_together() {
    let server = TestServer::start();
    let bus = bus(&server).await;
    declare(&bus).await;
    let frames = (0..100).map(|n| task(&format!("t{n}"))).collect();
    bus.append_all(frames).await.unwrap();
    let mut member = member(&bus).await;
    let mut got = Vec::new();
    while got.len() < 100 {
        let batch = member.next_many(NonZeroUsize::new(40).unwrap()).await.unwrap().unwrap();
        assert!(batch.len() <= 40);
        got.extend(batch.iter().map(|task| what(task).0));
        let verdicts = batch.into_iter().map(|task| (task, Verdict::Ack)).collect();
        for settled in settle_all(verdicts).await {
            settled.unwrap();
        }
    }
    let expected: Vec<_> = (0..100).map(|n| format!("t{n}")).collect();
    assert_eq!(got, expected);
    assert_eq!(stored(&bus).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_bus_hands_back_what_came_for_its_members() {
    let server = TestServer::start();
    let (leaving, staying) = (bus(&server).await, bus(&server).await);
    declare(&staying).await;
    let mut member_leaving = member(&leaving).await;
    // It asks the server for a task, and nobody waits for that any more.
    let waited = tokio::time::timeout(Duration::from_millis(200), member_leaving.next()).await;
    assert!(waited.is_err(), "there was nothing yet");
    append(&staying, task("t0")).await;
    leaving.close().await.unwrap();
    assert!(member_leaving.next().await.is_none());
    let mut member_staying = member(&staying).await;
    assert_eq!(what(&next(&mut member_staying).await), ("t0".to_owned(), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_scheduled_tasks_hide_no_urgent_one() {
    let server = TestServer::start();
    let bus = bus(&server).await;
    declare(&bus).await;
    let seq = append(&bus, task("clock")).await;
    let now = bus.read(stream(), seq).await.unwrap().unwrap().time;
    let later = |n: u64| Placement {
        not_before: Some(Timestamp::from_unix_ns(
            now.unix_ns() + 3_600_000_000_000 + i128::from(n),
        )),
        ..Placement::default()
    };
    let frames = (0..1000).map(|n| task(&format!("later{n}")).placed(later(n))).collect();
    bus.append_all(frames).await.unwrap();
    let urgent = Placement { priority: Priority::HIGHEST, ..Placement::default() };
    append(&bus, task("urgent").placed(urgent)).await;
    let mut member = member(&bus).await;
    for expected in ["urgent", "clock"] {
        let task = next(&mut member).await;
        assert_eq!(what(&task).0, expected);
        task.settle(Verdict::Ack).await.unwrap();
    }
    let lag = bus.lag(stream()).await.unwrap();
    assert_eq!((lag.pending, lag.in_flight), (1000, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_stranger_put_into_the_stream_is_left_there_and_holds_up_nothing() {
    let server = TestServer::start();
    let bus = bus(&server).await;
    declare(&bus).await;
    let raw = async_nats::connect(server.url()).await.unwrap();
    for subject in ["work.coder", "vakp.4._.work.coder", "vakp.x.y.work.coder"] {
        let stored = raw.request(subject, "not a frame".into()).await.unwrap();
        assert!(String::from_utf8_lossy(&stored.payload).contains("WORK"), "{stored:?}");
    }
    append(&bus, task("t0")).await;
    let mut member = member(&bus).await;
    let task = next(&mut member).await;
    assert_eq!(what(&task), ("t0".to_owned(), 1));
    task.settle(Verdict::Ack).await.unwrap();
    let lag = bus.lag(stream()).await.unwrap();
    assert_eq!(lag.pending + lag.in_flight, 3, "nothing of it was thrown away: {lag:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_may_not_pull_is_told_so() {
    let user = Arc::new(SigningKey::generate(NkeyKind::User, &SystemEntropy::new()).unwrap());
    let deny = vec!["$JS.API.CONSUMER.MSG.NEXT.WORK.coder".to_owned()];
    let publish = SubjectPermission { allow: Vec::new(), deny };
    let permissions = Some(Permissions { publish, ..Permissions::default() });
    let authorization = Authorization::Nkeys(vec![NkeyUser { key: *user.public(), permissions }]);
    let config = ServerConfig { authorization, ..ServerConfig::default() };
    let server = TestServer::start_with(config);
    let auth = NatsAuth::Nkey(user);
    let bus = NatsBus::open(NatsOptions { auth, ..NatsOptions::new(server.url()) }).await.unwrap();
    declare(&bus).await;
    let mut member = member(&bus).await;
    let told = tokio::time::timeout(Duration::from_secs(10), member.next()).await;
    let error = told.expect("a word of it").unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_record_on_the_board_acknowledges_nothing_else() {
    let server = TestServer::start();
    let bus = bus(&server).await;
    declare(&bus).await;
    append(&bus, keyed("a-1", "a")).await;
    let mut member = member(&bus).await;
    let held = next(&mut member).await;
    let raw = async_nats::connect(server.url()).await.unwrap();
    let mut heard = raw.subscribe("secret.>").await.unwrap();
    let board = async_nats::jetstream::new(raw.clone()).get_stream("VAK_BOARD").await.unwrap();
    let record =
        board.get_last_raw_message_by_subject("vakq.WORK.coder.*.*.*.state").await.unwrap();
    let text = String::from_utf8(record.payload.to_vec()).unwrap();
    let mut forged: serde_json::Value = serde_json::from_str(&text).unwrap();
    let origin = forged["origin"].as_str().unwrap().replacen("$JS.ACK.", "secret.", 1);
    forged["origin"] = origin.into();
    forged.as_object_mut().unwrap().remove("held");
    raw.request(record.subject, forged.to_string().into()).await.unwrap();
    // Its own lease was overwritten, and what stands there now is nobody's.
    let lost = held.settle(Verdict::Retry { after: Duration::ZERO }).await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::LeaseLost);
    append(&bus, task("t0")).await;
    let other = next(&mut member).await;
    assert_eq!(what(&other).0, "t0");
    other.settle(Verdict::Ack).await.unwrap();
    bus.close().await.unwrap();
    raw.flush().await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(200), heard.next()).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_from_another_engine_holds_what_stands_on_the_board_and_close_still_ends() {
    let server = TestServer::start();
    let (working, steering) = (bus(&server).await, bus(&server).await);
    declare(&working).await;
    let mut member = member(&working).await;
    append(&working, keyed("a-1", "a")).await;
    let rest = Verdict::Retry { after: Duration::from_millis(400) };
    next(&mut member).await.settle(rest).await.unwrap();
    let clock = append(&steering, Frame { subject: "work.other".parse().unwrap(), ..task("now") });
    let now = steering.read(stream(), clock.await).await.unwrap().unwrap().time;
    let until = Some(now.plus(Duration::from_secs(3600)));
    let name = ConsumerName::parse("coder").unwrap();
    steering.pause(stream(), name, until).await.unwrap();
    let waited = tokio::time::timeout(Duration::from_secs(1), member.next()).await;
    assert!(waited.is_err(), "it came due in the pause");
    let closed = tokio::time::timeout(Duration::from_secs(10), working.close()).await;
    closed.expect("the clerk goes").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_of_placed_tasks_from_an_earlier_making_is_replaced() {
    let server = TestServer::start();
    let bus = bus(&server).await;
    declare(&bus).await;
    let raw = async_nats::connect(server.url()).await.unwrap();
    let left_behind = r#"{"stream_name":"WORK","config":{"name":"coder+p","durable_name":"coder+p",
        "ack_policy":"explicit","filter_subject":"vakp.*.*.work.coder","max_ack_pending":1,
        "max_waiting":16384,
        "metadata":{"vak.made":"earlier"}},"action":"create"}"#;
    let made =
        raw.request("$JS.API.CONSUMER.CREATE.WORK.coder+p", left_behind.into()).await.unwrap();
    assert!(!String::from_utf8_lossy(&made.payload).contains("\"error\""), "{made:?}");
    for n in 0..3 {
        append(&bus, keyed(&format!("t{n}"), &format!("key{n}"))).await;
    }
    let mut member = member(&bus).await;
    for n in 0..3 {
        let task = next(&mut member).await;
        assert_eq!(what(&task), (format!("t{n}"), 1));
        task.settle(Verdict::Ack).await.unwrap();
    }
}
