//! A program that comes to the peer routes: it keeps its connection, and reads events.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bus_gateway::{Api, DoorSecret, Limits};
use bus_peers::PeerBus;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    time::timeout,
};

use crate::world::{Open, Process};

/// A door to a peer bus, with the folder of its journal.
pub(crate) struct Peers {
    pub(crate) open: Open,
    pub(crate) bus: Arc<PeerBus>,
    logs: TempDir,
}

/// A registered instance.
#[derive(Debug, Clone)]
pub(crate) struct Instance {
    pub(crate) id: String,
    pub(crate) secret: String,
}

/// A connection that is kept.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    address: SocketAddr,
}

/// An answer that was read to its end, and no further.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// An event of a subscription.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) data: String,
}

/// A connection that listens.
pub(crate) struct Events {
    stream: BufReader<TcpStream>,
    left: usize,
}

impl Peers {
    pub(crate) async fn open() -> Self {
        Self::at("127.0.0.1:0", Limits::default()).await
    }

    pub(crate) async fn at(address: &str, limits: Limits) -> Self {
        let logs = tempfile::tempdir().unwrap();
        let bus = Arc::new(PeerBus::new(logs.path()));
        let secret = DoorSecret::parse(DOOR).unwrap();
        let api = Api::new(secret, Arc::clone(&bus)).with_limits(limits);
        let open = Open::with(address, Process::new().await, Some(api)).await;
        Self { open, bus, logs }
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.open.address).await
    }

    /// One that is registered by `definition`.
    pub(crate) async fn instance(&self, definition: &str) -> Instance {
        let body = json!({ "definition_id": definition }).to_string();
        let reply = self.client().await.post("/api/v1/bus/instances", &[], &body).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        let told = reply.json();
        let text = |name: &str| told[name].as_str().unwrap().to_owned();
        Instance { id: text("instance_id"), secret: text("secret") }
    }

    /// Listens for `instance`; the head of the answer was read.
    pub(crate) async fn listen(&self, instance: &Instance) -> Events {
        self.listen_again(instance, "").await
    }

    /// The same with more headers.
    pub(crate) async fn listen_again(&self, instance: &Instance, more: &str) -> Events {
        let mut stream = BufReader::new(TcpStream::connect(self.open.address).await.unwrap());
        let request = self.listening(instance, more);
        stream.get_mut().write_all(request.as_bytes()).await.unwrap();
        let (status, head) = head(&mut stream).await;
        assert_eq!(status, 200, "{head}");
        assert!(head.contains("content-type: text/event-stream"), "{head}");
        Events { stream, left: 0 }
    }

    /// The request of one that listens.
    pub(crate) fn listening(&self, instance: &Instance, more: &str) -> String {
        format!(
            "GET /api/v1/bus/subscribe/{} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {DOOR}\r\n\
             Vakbus-Instance-Secret: {}\r\n{more}\r\n",
            instance.id, self.open.address, instance.secret
        )
    }

    /// What stands in the journal.
    pub(crate) fn journal(&self) -> String {
        let mut all = String::new();
        let Ok(files) = self.logs.path().join("bus").read_dir() else { return all };
        for file in files {
            all.push_str(&std::fs::read_to_string(file.unwrap().path()).unwrap());
        }
        all
    }
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self { stream: BufReader::new(TcpStream::connect(address).await.unwrap()), address }
    }

    /// Asks with the secret of the door.
    pub(crate) async fn ask(
        &mut self,
        line: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Reply {
        let bearer = format!("Bearer {DOOR}");
        let mut all = vec![("Authorization", bearer.as_str())];
        all.extend(headers);
        if body.is_some() {
            all.push(("Content-Type", "application/json"));
        }
        self.ask_plainly(line, &all, body).await
    }

    /// Asks with nothing but what is given.
    pub(crate) async fn ask_plainly(
        &mut self,
        line: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Reply {
        let mut request = format!("{line} HTTP/1.1\r\nHost: {}\r\n", self.address);
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = body {
            request.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        } else {
            request.push_str("\r\n");
        }
        self.send(request.as_bytes()).await;
        self.reply().await
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).await.unwrap();
    }

    pub(crate) async fn reply(&mut self) -> Reply {
        let (status, head) = head(&mut self.stream).await;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        self.stream.read_exact(&mut body).await.unwrap();
        Reply { status, head, body: String::from_utf8(body).unwrap() }
    }

    pub(crate) async fn get(&mut self, path: &str) -> Reply {
        self.ask(&format!("GET {path}"), &[], None).await
    }

    pub(crate) async fn post(&mut self, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        self.ask(&format!("POST {path}"), headers, Some(body)).await
    }

    /// Publishes as `from`.
    pub(crate) async fn publish(&mut self, from: &Instance, to: Value, text: &str) -> Reply {
        let body = message(&from.id, to, text).to_string();
        self.post("/api/v1/bus/publish", &[(SECRET, &from.secret)], &body).await
    }

    pub(crate) async fn deregister(&mut self, id: &str, secret: &str) -> Reply {
        self.ask(&format!("DELETE /api/v1/bus/instances/{id}"), &[(SECRET, secret)], None).await
    }

    /// Whether the other end has closed the connection.
    pub(crate) async fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0]).await, Ok(0) | Err(_))
    }
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}

impl Events {
    /// The next event; none at the end of the stream. Comments are passed over.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            let event = self.any().await?;
            if event != Event::default() {
                return Some(event);
            }
        }
    }

    /// The next event or comment, which is an empty one.
    pub(crate) async fn any(&mut self) -> Option<Event> {
        let mut event = Event::default();
        loop {
            let line = self.line().await?;
            match line.split_once(": ") {
                Some(("event", name)) => event.name = name.to_owned(),
                Some(("id", id)) => event.id = id.to_owned(),
                Some(("data", data)) => event.data.push_str(data),
                _ if line.is_empty() => return Some(event),
                _ => {}
            }
        }
    }

    /// A line of the body, which comes in chunks.
    async fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        loop {
            if self.left == 0 {
                let mut size = String::new();
                let read = limited(self.stream.read_line(&mut size)).await;
                if !matches!(read, Ok(1..)) {
                    return None;
                }
                self.left = usize::from_str_radix(size.trim(), 16).unwrap();
                if self.left == 0 {
                    return None;
                }
            }
            let byte = limited(self.stream.read_u8()).await.ok()?;
            self.left -= 1;
            if self.left == 0 {
                let mut end = [0; 2];
                limited(self.stream.read_exact(&mut end)).await.unwrap();
            }
            if byte == b'\n' {
                return Some(String::from_utf8(line).unwrap());
            }
            line.push(byte);
        }
    }
}

/// The body of a message in the name of `from`.
pub(crate) fn message(from: &str, to: Value, text: &str) -> Value {
    json!({
        "from": { "kind": "assistant_instance", "instance_id": from },
        "to": to,
        "payload": { "type": "chat_text", "text": text },
    })
}

/// The head of an answer: its status and its lines in lower case.
pub(crate) async fn head(stream: &mut BufReader<impl AsyncRead + Unpin>) -> (u16, String) {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let read = limited(stream.read_line(&mut head)).await.unwrap();
        assert_ne!(read, 0, "the connection ended: {head:?}");
    }
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase())
}

/// What must come, however busy the machine is.
pub(crate) async fn limited<T>(work: impl Future<Output = T>) -> T {
    timeout(LIMIT, work).await.expect("it took too long")
}

/// The header of an instance's secret.
pub(crate) const SECRET: &str = "Vakbus-Instance-Secret";

/// The secret of the door.
pub(crate) const DOOR: &str = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG";

const LIMIT: Duration = Duration::from_secs(60);
