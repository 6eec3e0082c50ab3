//! Case C19: a page talks to the door, by a name that leads to this machine or by a plain request.

use bus_gateway::{Gateway, GatewayError};
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use crate::world::{Open, Process, read};

/// Requests that no honest client of the door at port `P` sends, and how each is answered.
const FOREIGN: &[(&str, u16)] = &[
    ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403),
    ("GET /metrics HTTP/1.1\r\nHost: evil.example:P\r\n\r\n", 403),
    ("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1.evil.example:P\r\n\r\n", 403),
    ("GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 403),
    ("GET /healthz HTTP/1.1\r\n\r\n", 403),
    ("GET /healthz HTTP/1.0\r\n\r\n", 403),
    ("GET /metrics HTTP/1.1\r\nHost: localhost:P\r\nHost: localhost:P\r\n\r\n", 403),
    ("GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost:P\r\n\r\n", 403),
    ("GET /metrics HTTP/1.1\r\nHost: localhost:P\r\nOrigin: https://evil.example\r\n\r\n", 403),
    ("GET /metrics HTTP/1.1\r\nHost: localhost:P\r\nOrigin: null\r\n\r\n", 403),
    ("GET /metrics HTTP/1.1\r\nHost: localhost:P\r\nSec-Fetch-Site: cross-site\r\n\r\n", 403),
    ("GET /no/such/path HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403),
    (
        "POST /metrics HTTP/1.1\r\nHost: evil.example\r\nContent-Type: text/plain\r\n\
         Content-Length: 2\r\n\r\n{}",
        403,
    ),
    (
        "POST /metrics HTTP/1.1\r\nHost: localhost:P\r\nContent-Type: text/plain\r\n\
         Content-Length: 2\r\n\r\n{}",
        405,
    ),
    (
        "POST /readyz HTTP/1.1\r\nHost: localhost:P\r\nContent-Length: 3\r\n\
         Content-Type: application/x-www-form-urlencoded\r\n\r\na=b",
        405,
    ),
    ("PUT /metrics HTTP/1.1\r\nHost: 127.0.0.1:P\r\nContent-Length: 0\r\n\r\n", 405),
    (
        "OPTIONS /metrics HTTP/1.1\r\nHost: localhost:P\r\nOrigin: https://evil.example\r\n\
         Access-Control-Request-Method: GET\r\n\r\n",
        403,
    ),
    ("OPTIONS /metrics HTTP/1.1\r\nHost: localhost:P\r\n\r\n", 405),
    ("GET /metrics HTTP/1.1\r\nHost: [::1:P\r\n\r\n", 403),
];

async fn all_are_refused(open: &Open) {
    let port = open.address.port().to_string();
    for (request, status) in FOREIGN {
        let request = request.replace(":P\r", &format!(":{port}\r"));
        let answer = open.send(&request).await;
        assert_eq!(answer.status, *status, "{request}");
        assert_eq!(answer.body, "", "{request}");
        assert!(!answer.head.contains("access-control"), "{request}: {}", answer.head);
    }
}

#[tokio::test]
async fn a_foreign_host_is_refused_before_any_handler() {
    let open = Open::before(Process::new().await).await;
    all_are_refused(&open).await;
    assert_eq!(open.process.asked(), 0, "nothing behind the door was asked");
}

#[tokio::test]
async fn over_the_other_protocol_the_same_is_refused_and_answered() {
    let open = Open::at("[::1]:0", Process::new().await).await;
    all_are_refused(&open).await;
    assert_eq!(open.process.asked(), 0);
    assert_eq!(open.get("/metrics").await.status, 200);
}

#[tokio::test]
async fn an_honest_scrape_works_by_both_names() {
    let open = Open::before(Process::new().await).await;
    let port = open.address.port();
    for host in [format!("localhost:{port}"), format!("127.0.0.1:{port}")] {
        let answer = open.send(&format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n")).await;
        assert_eq!(answer.status, 200, "{host}");
        assert!(answer.body.ends_with("# EOF\n"), "{host}");
        assert!(!answer.head.contains("access-control"), "{}", answer.head);
    }
}

#[tokio::test]
async fn an_address_that_others_reach_is_not_listened_on() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let refused = Gateway::bind(address.parse().unwrap()).await.unwrap_err();
        assert!(matches!(refused, GatewayError::NotLoopback { .. }), "{address}: {refused}");
    }
}

#[tokio::test]
async fn a_taken_port_says_which() {
    let open = Open::before(Process::new().await).await;
    let refused = Gateway::bind(open.address).await.unwrap_err();
    assert!(refused.to_string().contains(&open.address.to_string()), "{refused}");
}

#[tokio::test]
async fn a_head_that_is_too_long_is_refused() {
    let open = Open::before(Process::new().await).await;
    let long = "x".repeat(Gateway::HEAD_BYTES_MAX);
    let host = open.address;
    let mut stream = TcpStream::connect(host).await.unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nX-Long: {long}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    assert_eq!(read(&mut stream).await.status, 431);
    assert_eq!(open.process.asked(), 0);
}

#[tokio::test]
async fn who_connects_and_says_nothing_keeps_no_place_for_ever() {
    let open = Open::before(Process::new().await).await;
    let mut silent = Vec::new();
    for _ in 0..Gateway::CONNECTIONS_MAX {
        silent.push(TcpStream::connect(open.address).await.unwrap());
    }
    // The clock is stopped only now: connecting is real.
    tokio::time::pause();
    assert_eq!(open.get("/healthz").await.status, 200);
}
