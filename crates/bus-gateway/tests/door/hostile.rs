//! Case C19 at the routes that change something, and clients that are slow, large or many.

use std::time::Duration;

use bus_gateway::{Gateway, Limits, Rate};
use serde_json::json;

use crate::{
    client::{Client, DOOR, Peers, SECRET, limited, message},
    world::Open,
};

const PUBLISH: &str = "/api/v1/bus/publish";

/// A whole request to publish, but for what `change` does to its head.
async fn posed(peers: &Peers, change: impl Fn(&str) -> String) -> (u16, String) {
    let [chief, worker] = [peers.instance("chief").await, peers.instance("worker").await];
    let _events = peers.listen(&worker).await;
    let body = message(&chief.id, json!({ "instance_id": worker.id }), "x").to_string();
    let (secret, length) = (&chief.secret, body.len());
    let head = format!(
        "POST {PUBLISH} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {DOOR}\r\n{SECRET}: \
         {secret}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n",
        peers.open.address
    );
    let mut client = peers.client().await;
    client.send(format!("{}\r\n{body}", change(&head)).as_bytes()).await;
    let reply = client.reply().await;
    if reply.status != 202 {
        assert!(client.is_closed().await, "who does not get in has no connection: {reply:?}");
    }
    assert!(!reply.head.contains("access-control"), "{}", reply.head);
    (reply.status, reply.body)
}

/// The same with one line of the head in place of that which begins so.
async fn with(peers: &Peers, begins: &str, line: &str) -> u16 {
    let change = |head: &str| {
        let changed = |old: &str| match old.starts_with(begins) && !old.is_empty() {
            true => line.to_owned(),
            false => format!("{old}\r\n"),
        };
        head.trim_end().split("\r\n").map(changed).collect()
    };
    posed(peers, change).await.0
}

async fn all_pages_are_refused(peers: &Peers) {
    let port = peers.open.address.port();
    assert_eq!(posed(peers, str::to_owned).await.0, 202, "the honest one works");
    let before = peers.journal();
    for host in [
        "Host: evil.example\r\n".to_owned(),
        format!("Host: evil.example:{port}\r\n"),
        format!("Host: 127.0.0.1.evil.example:{port}\r\n"),
        String::new(),
    ] {
        assert_eq!(with(peers, "Host", &host).await, 403, "{host}");
    }
    for origin in ["https://evil.example", "null", "http://evil.example"] {
        let more = |head: &str| format!("{head}Origin: {origin}\r\n");
        assert_eq!(posed(peers, more).await, (403, String::new()), "{origin}");
    }
    let site = |head: &str| format!("{head}Sec-Fetch-Site: cross-site\r\n");
    assert_eq!(posed(peers, site).await.0, 403);
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=x"] {
        let line = format!("Content-Type: {kind}\r\n");
        assert_eq!(with(peers, "Content-Type", &line).await, 415, "{kind}");
    }
    assert_eq!(with(peers, "Content-Type", "").await, 415);
    for bearer in ["", "Authorization: Bearer x\r\n", "Authorization: Basic eDp5\r\n"] {
        assert_eq!(with(peers, "Authorization", bearer).await, 401, "{bearer}");
    }
    let twice = |head: &str| format!("{head}Authorization: Bearer {DOOR}\r\n");
    assert_eq!(posed(peers, twice).await.0, 401, "one of the two is not meant");
    let preflight = format!(
        "OPTIONS {PUBLISH} HTTP/1.1\r\nHost: localhost:{port}\r\nOrigin: https://evil.example\r\n\
         Access-Control-Request-Method: POST\r\n\r\n"
    );
    let answer = peers.open.send(&preflight).await;
    assert_eq!((answer.status, answer.body.as_str()), (403, ""));
    assert!(!answer.head.contains("access-control"), "{}", answer.head);
    assert_eq!(peers.journal(), before, "nothing is recorded of what was refused");
}

#[tokio::test]
async fn no_page_publishes_through_the_door() {
    all_pages_are_refused(&Peers::open().await).await;
}

#[tokio::test]
async fn no_page_publishes_over_the_other_protocol() {
    all_pages_are_refused(&Peers::at("[::1]:0", Limits::default()).await).await;
}

#[tokio::test]
async fn an_honest_client_publishes_by_both_names() {
    let peers = Peers::open().await;
    let port = peers.open.address.port();
    for host in [format!("localhost:{port}"), format!("127.0.0.1:{port}")] {
        let line = format!("Host: {host}\r\n");
        assert_eq!(with(&peers, "Host", &line).await, 202, "{host}");
    }
}

#[tokio::test]
async fn without_the_secret_of_the_door_no_route_of_it_answers() {
    let peers = Peers::open().await;
    let worker = peers.instance("worker").await;
    let path = format!("/api/v1/bus/instances/{}", worker.id);
    for line in [
        "GET /api/v1/bus/instances".to_owned(),
        "POST /api/v1/bus/instances".to_owned(),
        format!("DELETE {path}"),
        format!("POST {path}/heartbeat"),
        format!("POST {PUBLISH}"),
        format!("GET /api/v1/bus/subscribe/{}", worker.id),
    ] {
        let own = [(SECRET, worker.secret.as_str())];
        let reply = peers.client().await.ask_plainly(&line, &own, None).await;
        assert_eq!((reply.status, reply.code().as_str()), (401, "unauthenticated"), "{line}");
        assert!(reply.head.contains("www-authenticate: bearer"), "{line}");
    }
}

/// A request with a body that was promised, of which nothing has come.
fn promised(peers: &Peers, length: &str) -> String {
    format!(
        "POST {PUBLISH} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {DOOR}\r\nContent-Type: \
         application/json\r\n{length}\r\n\r\n",
        peers.open.address
    )
}

#[tokio::test]
async fn a_body_of_400_mb_is_refused_before_it_comes() {
    let peers = Peers::open().await;
    let mut client = peers.client().await;
    client.send(promised(&peers, "Content-Length: 400000000").as_bytes()).await;
    let reply = client.reply().await;
    assert_eq!((reply.status, reply.code().as_str()), (413, "too-large"));
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn a_body_that_does_not_end_is_refused_where_it_is_too_long() {
    let peers = Peers::open().await;
    let mut client = peers.client().await;
    client.send(promised(&peers, "Transfer-Encoding: chunked").as_bytes()).await;
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    for _ in 0..5 {
        client.send(chunk.as_bytes()).await;
    }
    let reply = client.reply().await;
    assert_eq!((reply.status, reply.code().as_str()), (413, "too-large"));
}

#[tokio::test]
async fn who_says_two_lengths_is_refused() {
    let peers = Peers::open().await;
    for length in [
        "Content-Length: 2\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 2",
        "Content-Length: 2\r\nContent-Length: 3",
        "Content-Length: -1",
    ] {
        let mut client = peers.client().await;
        client.send(promised(&peers, length).as_bytes()).await;
        client.send(b"{}").await;
        assert_eq!(client.reply().await.status, 400, "{length}");
    }
}

#[tokio::test]
async fn a_body_that_comes_too_slowly_is_408() {
    let peers = Peers::open().await;
    let mut client = peers.client().await;
    client.send(promised(&peers, "Content-Length: 2").as_bytes()).await;
    client.send(b"{").await;
    tokio::time::pause();
    let reply = client.reply().await;
    assert_eq!((reply.status, reply.code().as_str()), (408, "too-slow"));
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_no_message() {
    let peers = Peers::open().await;
    let mut client = peers.client().await;
    client.send(promised(&peers, "Transfer-Encoding: chunked").as_bytes()).await;
    client.send(b"zz\r\n").await;
    assert_eq!(client.reply().await.status, 400);
}

#[tokio::test]
async fn heads_that_come_too_slowly_keep_nobody_out() {
    let peers = Peers::open().await;
    let mut slow = Vec::new();
    for _ in 0..Gateway::CONNECTIONS_MAX {
        let mut client = peers.client().await;
        client.send(b"GET /healthz HTTP/1.1\r\nX-Slow: ").await;
        slow.push(client);
    }
    tokio::time::pause();
    assert_eq!(peers.open.get("/healthz").await.status, 200);
    assert!(slow[0].is_closed().await);
}

/// Keeps a connection busy until it is closed, over and over.
async fn keeps_asking(open: &Open) {
    loop {
        let mut client = Client::connect(open.address).await;
        while !client.get("/api/v1/bus/instances").await.head.contains("connection: close") {}
    }
}

#[tokio::test]
async fn connections_that_are_kept_and_busy_keep_no_probe_out() {
    let peers = Peers::open().await;
    let busy = (0..Gateway::CONNECTIONS_MAX).map(|_| keeps_asking(&peers.open));
    let probe = async {
        for _ in 0..3 {
            assert_eq!(limited(peers.open.get("/healthz")).await.status, 200);
        }
    };
    tokio::select! {
        biased;
        _never = futures_util::future::join_all(busy) => {}
        () = probe => {}
    }
}

#[tokio::test]
async fn who_listens_takes_no_place_from_who_asks() {
    let peers = Peers::open().await;
    let worker = peers.instance("worker").await;
    let mut listening = Vec::new();
    // Each instance has a few subscriptions.
    for _ in 0..Gateway::CONNECTIONS_MAX + 8 {
        let other = peers.instance("worker").await;
        listening.push(peers.listen(&other).await);
    }
    let chief = peers.instance("chief").await;
    let mut events = peers.listen(&worker).await;
    let to = json!({ "instance_id": worker.id });
    assert_eq!(limited(peers.client().await.publish(&chief, to, "x")).await.status, 202);
    assert!(events.next().await.is_some());
}

#[tokio::test]
async fn a_listener_that_takes_nothing_is_let_go_and_the_others_are_not_slowed() {
    let peers = Peers::open().await;
    let (chief, worker) = (peers.instance("chief").await, peers.instance("worker").await);
    let wedged = peers.listen(&worker).await;
    let mut healthy = peers.listen(&worker).await;
    let (mut client, to) = (peers.client().await, json!({ "instance_id": worker.id }));
    let long = "x".repeat(200 * 1024);
    for _ in 0..100 {
        assert_eq!(client.publish(&chief, to.clone(), &long).await.status, 202);
        assert_eq!(healthy.next().await.unwrap().name, "", "it misses nothing");
    }
    let subscriptions = async || peers.bus.registry().live().await.unwrap()[1].subscriptions;
    tokio::time::pause();
    // The healthy one is sent a sign of life, again and again, until the other one is let go, which
    // on a slow machine it may have been before.
    while subscriptions().await == 2 {
        healthy.any().await.unwrap();
    }
    assert_eq!(subscriptions().await, 1);
    drop(wedged);
}

#[tokio::test]
async fn a_listener_that_closes_its_end_is_no_subscriber_any_more() {
    let peers = Peers::open().await;
    let (chief, worker) = (peers.instance("chief").await, peers.instance("worker").await);
    drop(peers.listen(&worker).await);
    let (mut client, to) = (peers.client().await, json!({ "instance_id": worker.id }));
    let mut answers = Vec::new();
    while answers.last() != Some(&409) {
        answers.push(client.publish(&chief, to.clone(), "x").await.status);
        assert!(answers.len() < 100_000, "it is still there");
    }
}

fn limits(instance: u32, bearer: u32, strangers: u32) -> Limits {
    let one_each = Duration::from_secs(3600);
    let rate = |burst: u32| Rate { one_each, burst: burst.try_into().unwrap() };
    Limits { instance: rate(instance), bearer: rate(bearer), strangers: rate(strangers) }
}

#[tokio::test]
async fn an_instance_that_asks_too_often_is_told_when_to_come_again_and_others_are_not() {
    let peers = Peers::at("127.0.0.1:0", limits(2, 100, 1)).await;
    let (chief, worker) = (peers.instance("chief").await, peers.instance("worker").await);
    let (mut client, to) = (peers.client().await, json!({ "definition_id": "nobody" }));
    for _ in 0..2 {
        assert_eq!(client.publish(&chief, to.clone(), "x").await.status, 404);
    }
    let reply = client.publish(&chief, to.clone(), "x").await;
    assert_eq!((reply.status, reply.code().as_str()), (429, "too-often"));
    let again = reply.head.lines().find_map(|line| line.strip_prefix("retry-after: ")).unwrap();
    assert!((1..=3600).contains(&again.parse().unwrap()), "{again}");
    // Its body was not read: what follows on that connection would be taken for a request.
    assert!(reply.head.contains("connection: close"), "{}", reply.head);
    assert_eq!(peers.client().await.publish(&worker, to, "x").await.status, 404);
}

#[tokio::test]
async fn secrets_that_are_made_up_dodge_no_limit() {
    let peers = Peers::at("127.0.0.1:0", limits(100, 4, 1)).await;
    let mut answers = Vec::new();
    for made_up in ["a", "b", "c", "d", "e", "f"] {
        let (body, secret) = (r#"{"definition_id":"x"}"#, [(SECRET, made_up)]);
        let path = match made_up {
            "a" | "b" => "/api/v1/bus/instances",
            _ => "/api/v1/bus/instances/x~1/heartbeat",
        };
        answers.push(peers.client().await.post(path, &secret, body).await.status);
    }
    assert_eq!(answers[..2], [201, 201]);
    assert_eq!(answers[4..], [429, 429], "{answers:?}");
}

#[tokio::test]
async fn who_guesses_at_the_secret_is_slowed_and_takes_nothing_from_who_has_it() {
    let peers = Peers::at("127.0.0.1:0", limits(9, 9, 3)).await;
    let mut answers = Vec::new();
    for _ in 0..5 {
        let guess = [("Authorization", "Bearer guess")];
        let line = "GET /api/v1/bus/instances";
        answers.push(peers.client().await.ask_plainly(line, &guess, None).await.status);
    }
    assert_eq!(answers, [401, 401, 401, 429, 429]);
    assert_eq!(peers.client().await.get("/api/v1/bus/instances").await.status, 200);
}
