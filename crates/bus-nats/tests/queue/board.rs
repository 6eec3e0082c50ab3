//! What stands on the board: the frame as well, nothing after it is done, and no word that is
//! believed beyond its subject.

use std::{
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_nats::Client;
use bus_core::{Bus as _, ErrorKind, Placement, Priority, Verdict};
use bus_crypto::{
    NkeyKind, SigningKey, SystemEntropy,
    jwt::{Permissions, SubjectPermission},
};
use bus_nats::{
    NatsAuth, NatsBus, NatsOptions,
    server::{Authorization, NkeyUser, ServerConfig},
};
use bus_testserver::TestServer;
use serde_json::{Value, json};

use crate::{append, bus, declare, keyed, member, next, stored, stream, task, what};

pub(crate) async fn raw(server: &TestServer) -> Client {
    async_nats::connect(server.url()).await.unwrap()
}

async fn ask(client: &Client, subject: impl Into<String>, body: &str) -> Value {
    let answer = client.request(subject.into(), body.to_owned().into()).await.unwrap();
    serde_json::from_slice(&answer.payload).unwrap_or_default()
}

/// The subjects of the board that match.
pub(crate) async fn on_board(client: &Client, filter: &str) -> Vec<String> {
    let body = json!({ "subjects_filter": filter }).to_string();
    let info = ask(client, "$JS.API.STREAM.INFO.VAK_BOARD", &body).await;
    let subjects = info["state"]["subjects"].as_object();
    subjects.map(|subjects| subjects.keys().cloned().collect()).unwrap_or_default()
}

/// What a record holds.
async fn record(client: &Client, subject: &str) -> Value {
    ask(client, format!("$JS.API.DIRECT.GET.VAK_BOARD.{subject}"), "").await
}

async fn within<T>(time: Duration, what: impl Future<Output = T>) -> T {
    tokio::time::timeout(time, what).await.expect("in time")
}

const SOON: Duration = Duration::from_secs(20);
pub(crate) const STATES: &str = "vakq.WORK.coder.*.*.*.state";
pub(crate) const FRAMES: &str = "vakq.WORK.coder.frame.*.*";

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_reads_no_task_by_its_position_and_no_board_whole() {
    let keys = [(); 2].map(|()| SigningKey::generate(NkeyKind::User, &SystemEntropy::new()));
    let [user, reader] = keys.map(|key| Arc::new(key.unwrap()));
    let deny = [
        "DIRECT.GET.WORK",
        "DIRECT.GET.VAK_BOARD",
        "STREAM.MSG.GET.>",
        "STREAM.PURGE.>",
        "CONSUMER.DELETE.>",
        "CONSUMER.CREATE.*",
        "CONSUMER.CREATE.*.*",
        "CONSUMER.DURABLE.>",
    ];
    let deny = deny.iter().map(|verb| format!("$JS.API.{verb}")).collect();
    let publish = SubjectPermission { allow: Vec::new(), deny };
    let permissions = Some(Permissions { publish, ..Permissions::default() });
    let users = [(&user, permissions), (&reader, None)];
    let users = users.map(|(key, permissions)| NkeyUser { key: *key.public(), permissions });
    let authorization = Authorization::Nkeys(users.into());
    let config = ServerConfig { authorization, ..ServerConfig::default() };
    let server = TestServer::start_with(config);
    let open = async |key| {
        let auth = NatsAuth::Nkey(key);
        NatsBus::open(NatsOptions { auth, ..NatsOptions::new(server.url()) }).await.unwrap()
    };
    let (bus, reader) = (open(user).await, open(reader).await);
    declare(&bus).await;
    let mut member = member(&bus).await;
    let urgent = Placement { priority: Priority::HIGHEST, ..Placement::default() };
    for frame in
        [task("plain"), task("urgent").placed(urgent), keyed("a-1", "a"), keyed("a-2", "a")]
    {
        append(&bus, frame).await;
    }
    let failed = Verdict::Retry { after: Duration::ZERO };
    let released = Verdict::Release { after: Duration::ZERO };
    for verdict in [failed, released, Verdict::Ack] {
        for _ in 0..4 {
            let one = next(&mut member).await;
            one.extend().await.unwrap();
            if what(&one).0.starts_with("a-") && verdict != Verdict::Ack {
                // The other one of its key would wait behind it.
                one.settle(Verdict::Ack).await.unwrap();
            } else {
                one.settle(verdict.clone()).await.unwrap();
            }
            if stored(&reader).await.is_empty() {
                return;
            }
        }
    }
    panic!("tasks are left: {:?}", stored(&reader).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_done_leaves_nothing_on_the_board() {
    let server = TestServer::start();
    let bus = bus(&server).await;
    declare(&bus).await;
    let mut member = member(&bus).await;
    for n in 0..4 {
        append(&bus, keyed(&format!("a-{n}"), "a")).await;
    }
    for _ in 0..4 {
        let failed = next(&mut member).await;
        failed.settle(Verdict::Retry { after: Duration::ZERO }).await.unwrap();
        next(&mut member).await.settle(Verdict::Ack).await.unwrap();
    }
    let client = raw(&server).await;
    // Nobody waits for the removal, and what is removed is seen for a second.
    within(SOON, async {
        while !on_board(&client, STATES).await.is_empty()
            || !on_board(&client, FRAMES).await.is_empty()
        {}
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_without_its_frame_is_given_back_to_the_server() {
    let server = TestServer::start();
    let bus = bus(&server).await;
    declare(&bus).await;
    let mut member = member(&bus).await;
    append(&bus, task("t0")).await;
    let rest = Verdict::Retry { after: Duration::from_millis(500) };
    next(&mut member).await.settle(rest).await.unwrap();
    let client = raw(&server).await;
    let frames = on_board(&client, FRAMES).await;
    assert_eq!(frames.len(), 1, "{frames:?}");
    ask(&client, frames[0].clone(), "").await;
    let again = next(&mut member).await;
    assert_eq!(what(&again).0, "t0");
    assert!(again.attempt > 1);
    again.settle(Verdict::Ack).await.unwrap();
    assert_eq!(stored(&bus).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_done_when_its_engine_died_is_finished_by_another_and_done_by_nobody() {
    let server = TestServer::start();
    let (dying, other) = (bus(&server).await, bus(&server).await);
    declare(&dying).await;
    append(&dying, keyed("a-1", "a")).await;
    let mut first = member(&dying).await;
    let _held = next(&mut first).await;
    let client = raw(&server).await;
    let states = on_board(&client, STATES).await;
    let mut state = record(&client, &states[0]).await;
    // As it stands between the two steps of a verdict, a minute ago.
    let since = state["since"].as_i64().unwrap() - 60_000_000_000;
    state["since"] = since.into();
    state["done"] = true.into();
    state.as_object_mut().unwrap().remove("held");
    ask(&client, states[0].clone(), &state.to_string()).await;
    let mut second = member(&other).await;
    append(&other, task("t0")).await;
    let task = next(&mut second).await;
    assert_eq!(what(&task).0, "t0");
    task.settle(Verdict::Ack).await.unwrap();
    within(SOON, async {
        while !stored(&other).await.is_empty() {
            let nothing = tokio::time::timeout(Duration::from_millis(50), second.next()).await;
            assert!(nothing.is_err(), "it was handed out");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_discarded_task_is_taken_from_whoever_holds_it() {
    let server = TestServer::start();
    let (working, steering) = (bus(&server).await, bus(&server).await);
    declare(&working).await;
    let mut member = member(&working).await;
    append(&working, task("plain")).await;
    append(&working, keyed("keyed", "a")).await;
    let verdicts = [Verdict::Retry { after: Duration::ZERO }, Verdict::Ack];
    let mut held = [next(&mut member).await, next(&mut member).await];
    held.sort_by_key(|one| std::cmp::Reverse(what(one).0));
    for (one, verdict) in held.into_iter().zip(verdicts) {
        assert!(steering.discard(stream(), one.seq).await.unwrap());
        let lost = one.settle(verdict).await.unwrap_err();
        assert_eq!(lost.kind(), ErrorKind::LeaseLost, "{lost}");
    }
    let none = tokio::time::timeout(Duration::from_secs(4), member.next()).await;
    assert!(none.is_err(), "it came back");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_died_while_it_fetched_holds_the_others_up_for_its_time_only() {
    let server = TestServer::start();
    let bus = bus(&server).await;
    declare(&bus).await;
    let mut member = member(&bus).await;
    append(&bus, keyed("a-1", "a")).await;
    next(&mut member).await.settle(Verdict::Ack).await.unwrap();
    let client = raw(&server).await;
    let fetch = on_board(&client, "vakq.WORK.coder.*._.fetch").await;
    let (of_dead, wait) = (fetch[0].clone(), Duration::from_secs(2));
    let seq = append(&bus, task("clock")).await;
    let now = bus.read(stream(), seq).await.unwrap().unwrap().time;
    next(&mut member).await.settle(Verdict::Ack).await.unwrap();
    let until = now.plus(wait).unix_ns();
    let body = format!(r#"{{"v":1,"by":"dead","until":{until}}}"#);
    ask(&client, of_dead, &body).await;
    let seq = append(&bus, keyed("a-2", "a")).await;
    let begun = bus.read(stream(), seq).await.unwrap().unwrap().time;
    let task = next(&mut member).await;
    assert_eq!(what(&task).0, "a-2");
    let seq = append(&bus, crate::task("later")).await;
    let took = bus.read(stream(), seq).await.unwrap().unwrap().time.since(begun);
    assert!(took > wait / 2, "nobody was waited for: {took:?}");
    task.settle(Verdict::Ack).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_consumer_leaves_nothing_on_the_board() {
    let server = TestServer::start();
    let bus = bus(&server).await;
    declare(&bus).await;
    let mut member = member(&bus).await;
    append(&bus, keyed("a-1", "a")).await;
    append(&bus, task("t0")).await;
    for _ in 0..2 {
        let rest = Verdict::Retry { after: Duration::from_secs(600) };
        next(&mut member).await.settle(rest).await.unwrap();
    }
    let client = raw(&server).await;
    let frames = on_board(&client, FRAMES).await;
    assert_eq!(frames.len(), 2, "{frames:?}");
    assert!(bus.remove_consumer(stream(), "coder".parse().unwrap()).await.unwrap());
    within(SOON, async { while !on_board(&client, "vakq.>").await.is_empty() {} }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_one_key_are_done_in_their_order_by_however_many_engines() {
    let server = TestServer::start();
    let sender = bus(&server).await;
    declare(&sender).await;
    let engines = [bus(&server).await, bus(&server).await, bus(&server).await];
    let books = Mutex::new([const { Vec::new() }; KEYS]);
    let work = async |bus: &NatsBus| {
        let mut member = member(bus).await;
        while books.lock().unwrap().iter().map(Vec::len).sum::<usize>() < 2 * KEYS * EACH {
            let waited = tokio::time::timeout(Duration::from_millis(300), member.next()).await;
            let Ok(task) = waited else { continue };
            let task = task.unwrap().unwrap();
            let (id, attempt) = what(&task);
            assert_eq!(attempt, 1, "{id}");
            let (key, nth) = id.split_once('-').unwrap();
            let (key, nth): (usize, usize) = (key.parse().unwrap(), nth.parse().unwrap());
            let note = |word| books.lock().unwrap()[key].push((nth, word));
            note("begun");
            // Another one of the key would come now, if it could.
            tokio::task::yield_now().await;
            note("ended");
            task.settle(Verdict::Ack).await.unwrap();
        }
    };
    let send = async {
        for nth in 0..EACH {
            for key in 0..KEYS {
                append(&sender, keyed(&format!("{key}-{nth}"), &format!("k{key}"))).await;
            }
        }
    };
    let [one, two, three] = &engines;
    within(SOON * 3, async { tokio::join!(send, work(one), work(two), work(three)) }).await;
    let in_order: Vec<_> = (0..EACH).flat_map(|nth| [(nth, "begun"), (nth, "ended")]).collect();
    for book in books.into_inner().unwrap() {
        assert_eq!(book, in_order);
    }
    assert_eq!(stored(&sender).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_nobody_can_read_is_taken_over() {
    let server = TestServer::start();
    let bus = bus(&server).await;
    declare(&bus).await;
    let mut member = member(&bus).await;
    append(&bus, keyed("a-1", "a")).await;
    next(&mut member).await.settle(Verdict::Ack).await.unwrap();
    let client = raw(&server).await;
    let turns = on_board(&client, "vakq.WORK.coder.*.*.turn").await;
    ask(&client, turns[0].clone(), "of nobody").await;
    append(&bus, keyed("a-2", "a")).await;
    let task = next(&mut member).await;
    assert_eq!(what(&task), ("a-2".to_owned(), 1));
    task.settle(Verdict::Ack).await.unwrap();
}

const KEYS: usize = 4;
const EACH: usize = 25;
