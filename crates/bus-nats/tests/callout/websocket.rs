//! A server's door for browsers: tickets and views come in, no agent's key.

use std::{net::TcpListener, time::Duration};

use bus_nats::server::{ServerConfig, WebSocketDoor};
use bus_subjects::Role;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::{
    raw::Shown,
    world::{World, beside},
};

/// A client in frames: what the server says to its first word, `PONG` or an error.
async fn login(address: &str, shown: Shown<'_>) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let upgrade = format!(
        "GET / HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    );
    stream.write_all(upgrade.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    let greeting = frame(&mut stream).await.unwrap();
    let greeting: Value = serde_json::from_str(greeting.strip_prefix("INFO ").unwrap()).unwrap();
    let hello = shown.hello(greeting["nonce"].as_str().unwrap_or_default());
    let text = format!("CONNECT {hello}\r\nPING\r\n");
    // A client masks its frames; a mask of zeros changes nothing.
    let length = u16::try_from(text.len()).unwrap().to_be_bytes();
    let begin = [&[0x82, 0x80 | 126], length.as_slice(), &[0; 4]].concat();
    stream.write_all(&[&begin, text.as_bytes()].concat()).await.unwrap();
    let mut said = String::new();
    loop {
        match frame(&mut stream).await {
            Some(more) => said.push_str(&more),
            None => return said,
        }
        let word = said.lines().find(|line| line.starts_with("PONG") || line.starts_with("-ERR"));
        if let Some(word) = word {
            return word.to_owned();
        }
    }
}

/// The text of the next frame; none when the server hangs up.
async fn frame(stream: &mut TcpStream) -> Option<String> {
    let reading = async {
        let _kind = stream.read_u8().await.ok()?;
        let length = match stream.read_u8().await.ok()? {
            126 => usize::from(stream.read_u16().await.ok()?),
            127 => usize::try_from(stream.read_u64().await.ok()?).unwrap(),
            short => usize::from(short),
        };
        let mut text = vec![0; length];
        stream.read_exact(&mut text).await.ok()?;
        Some(String::from_utf8_lossy(&text).into_owned())
    };
    timeout(Duration::from_secs(20), reading).await.expect("the server says something")
}

#[tokio::test]
async fn a_websocket_takes_no_agent_key() {
    // Free a moment ago; whoever took it since makes the start fail, not the test wrong.
    let listen = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let websocket = Some(WebSocketDoor { listen, tls: None, origins: Vec::new() });
    let world = World::start_with(ServerConfig { websocket, ..ServerConfig::default() });
    let callout = world.instance().await;
    let (worker, view) = (world.member("a1", &[Role::Worker]), world.member("v1", &[Role::View]));
    let ticket = world.ticket(&[Role::Observer]);
    let address = listen.to_string();
    beside(&callout, async {
        let refused = login(&address, Shown::Key(worker.key())).await;
        assert!(refused.contains("Authorization Violation"), "{refused}");
        assert_eq!(login(&address, Shown::Ticket(&ticket)).await, "PONG");
        assert_eq!(login(&address, Shown::Key(view.key())).await, "PONG");
    })
    .await;
}
