//! Which URLs are taken, and what becomes of a POST.

use std::{
    io::{Read, Write},
    net::TcpListener,
    thread,
};

use super::*;

/// A server that takes one connection, answers `answer`, and gives back what it was asked.
fn server(answer: &'static str) -> (HttpUrl, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook?x=1", listener.local_addr().unwrap());
    let heard = thread::spawn(move || {
        let (mut stream, _peer) = listener.accept().unwrap();
        let mut asked = Vec::new();
        let mut piece = [0; 4096];
        while !asked.ends_with(b"{}") {
            let count = stream.read(&mut piece).unwrap();
            asked.extend_from_slice(&piece[..count]);
        }
        stream.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(asked).unwrap()
    });
    (HttpUrl::parse(&url).unwrap(), heard)
}

async fn post(url: &HttpUrl) -> Result<(), Failed> {
    let headers = [("x-login", "secret")];
    url.post("application/json", &headers, Bytes::from_static(b"{}"), LIMIT).await
}

const LIMIT: Duration = Duration::from_secs(10);

#[test]
fn urls_are_taken_apart() {
    for (text, host, port, target, shown) in [
        ("https://example.com", "example.com", 443, "/", "https://example.com/"),
        (
            "https://example.com:8443/a/b?c=d",
            "example.com",
            8443,
            "/a/b?c=d",
            "https://example.com:8443/…",
        ),
        ("https://example.com?c", "example.com", 443, "/?c", "https://example.com/…"),
        ("HTTP://localhost/x", "localhost", 80, "/x", "http://localhost/…"),
        ("http://127.0.0.1:9/", "127.0.0.1", 9, "/", "http://127.0.0.1:9/"),
        ("https://otel_hub:9/", "otel_hub", 9, "/", "https://otel_hub:9/"),
        ("http://[::1]:9", "[::1]", 9, "/", "http://[::1]:9/"),
        ("https://[2001:db8::1]/", "[2001:db8::1]", 443, "/", "https://[2001:db8::1]/"),
    ] {
        let url = HttpUrl::parse(text).unwrap();
        assert_eq!((&*url.host, url.port, &*url.target), (host, port, target), "{text}");
        assert_eq!(url.to_string(), shown);
    }
}

#[test]
fn what_is_no_url_is_refused_without_being_told() {
    for text in [
        "https://",
        "https:///x",
        "https://a b/",
        "https://a/b#c",
        "https://a:0/",
        "https://a:65536/",
        "https://a:x/",
        "https://[::1/",
        "https://[::1]x/",
        "https://user:canary@host/",
        "http://example.com/",
        "http://10.0.0.1/",
        "ftp://host/",
        "https://ho\u{441}t/",
    ] {
        let refused = HttpUrl::parse(text).unwrap_err();
        assert!(!refused.contains("canary"), "{refused}");
    }
}

#[test]
fn plain_http_is_for_this_machine_alone() {
    let refused = HttpUrl::parse("http://hub.example/x").unwrap_err();
    assert!(refused.contains("https"), "{refused}");
}

#[tokio::test]
async fn a_post_says_what_it_is_and_carries_its_body() {
    let (url, heard) = server("HTTP/1.1 204 No Content\r\n\r\n");
    post(&url).await.unwrap();
    let heard = heard.join().unwrap().to_ascii_lowercase();
    assert!(heard.starts_with("post /hook?x=1 http/1.1\r\n"), "{heard}");
    let host = format!("host: {}:{}\r\n", url.host, url.port);
    for line in [&*host, "content-type: application/json\r\n", "content-length: 2\r\n"] {
        assert!(heard.contains(line), "{line} in {heard}");
    }
    assert!(heard.contains("x-login: secret\r\n") && heard.ends_with("\r\n\r\n{}"), "{heard}");
}

#[tokio::test]
async fn a_refusal_is_no_success() {
    let (url, heard) = server("HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n");
    assert!(matches!(post(&url).await, Err(Failed::Status(500))));
    heard.join().unwrap();
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (url, heard) = server("HTTP/1.1 302 Found\r\nlocation: https://elsewhere/\r\n\r\n");
    assert!(matches!(post(&url).await, Err(Failed::Status(302))));
    heard.join().unwrap();
}

#[tokio::test]
async fn what_is_no_http_is_told() {
    let (url, heard) = server("hello\r\n\r\n");
    assert!(matches!(post(&url).await, Err(Failed::Broken(_))));
    heard.join().unwrap();
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = HttpUrl::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let limit = Duration::from_millis(50);
    let posted = url.post("text/plain", &[], Bytes::new(), limit).await;
    assert!(matches!(posted, Err(Failed::TooLate(_))));
}

#[tokio::test]
async fn a_closed_port_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = HttpUrl::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    drop(listener);
    assert!(matches!(post(&url).await, Err(Failed::Broken(_))));
}

#[tokio::test]
async fn a_header_that_is_none_is_refused_before_it_is_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = HttpUrl::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let posted = url.post("text/plain", &[("x", "a\nb")], Bytes::new(), LIMIT).await;
    assert!(matches!(posted, Err(Failed::Broken(why)) if !why.contains('\n')));
}
