//! A client straight on the wire: it shows what it is told to show, and hears how that ends.

use std::{collections::HashSet, time::Duration};

use bus_crypto::SigningKey;
use data_encoding::BASE64URL_NOPAD;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    time::timeout,
};

/// One connection that was let in.
pub(crate) struct Raw {
    stream: BufReader<TcpStream>,
}

/// What a client shows.
#[derive(Clone, Copy)]
pub(crate) enum Shown<'a> {
    /// A key and a signature over what the server gives to sign.
    Key(&'a SigningKey),
    /// A signature over something else.
    Forged(&'a SigningKey),
    Ticket(&'a str),
    Nothing,
}

impl Shown<'_> {
    /// The client's first word, when the server gives `nonce` to sign.
    pub(crate) fn hello(self, nonce: &str) -> Value {
        let mut hello = json!({
            "verbose": false, "pedantic": false, "headers": true, "no_responders": true,
            "protocol": 1, "lang": "raw", "version": "0",
        });
        let mut sign = |key: &SigningKey, signed: &[u8]| {
            hello["nkey"] = json!(key.public().text());
            hello["sig"] = json!(BASE64URL_NOPAD.encode(&key.sign(signed)));
        };
        match self {
            Self::Key(key) => sign(key, nonce.as_bytes()),
            Self::Forged(key) => sign(key, b"another"),
            Self::Ticket(text) => hello["auth_token"] = json!(text),
            Self::Nothing => {}
        }
        hello
    }
}

impl Raw {
    /// Connects; what the server says when it does not let the client in.
    pub(crate) async fn login(url: &str, shown: Shown<'_>) -> Result<Self, String> {
        let address = url.split_once("://").unwrap().1;
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let mut raw = Self { stream: BufReader::new(stream) };
        let greeting = raw.line().await?;
        let greeting: Value =
            serde_json::from_str(greeting.strip_prefix("INFO ").unwrap()).unwrap();
        let nonce = greeting["nonce"].as_str().unwrap_or_default().to_owned();
        raw.send(&format!("CONNECT {}\r\n", shown.hello(&nonce))).await;
        raw.until_pong().await?;
        Ok(raw)
    }

    /// Sends `commands`, and tells the subjects that the server refuses.
    pub(crate) async fn refused(&mut self, commands: &[String]) -> HashSet<String> {
        self.send(&commands.concat()).await;
        self.until_pong().await.unwrap()
    }

    /// Whether the connection is alive.
    pub(crate) async fn is_let_in(&mut self) -> bool {
        self.until_pong().await.is_ok()
    }

    /// What the server says when it ends the connection.
    pub(crate) async fn end(&mut self) -> String {
        loop {
            match self.line().await {
                Ok(line) if line == "PING" => self.send("PONG\r\n").await,
                Ok(line) if line.starts_with("-ERR") => return line,
                Ok(_) => {}
                Err(over) => return over,
            }
        }
    }

    /// Waits until the server has taken all that was sent.
    async fn until_pong(&mut self) -> Result<HashSet<String>, String> {
        self.send("PING\r\n").await;
        let mut refused = HashSet::new();
        loop {
            let line = self.line().await?;
            match line.split(' ').next().unwrap_or_default() {
                "PONG" => return Ok(refused),
                "PING" => self.send("PONG\r\n").await,
                "-ERR" => match line.split('"').nth(1) {
                    Some(subject) => drop(refused.insert(subject.to_owned())),
                    None => return Err(line),
                },
                _ => {}
            }
        }
    }

    async fn send(&mut self, text: &str) {
        // Whoever was cut off is told so when it reads.
        let _gone = self.stream.get_mut().write_all(text.as_bytes()).await;
    }

    async fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        let reading = timeout(PATIENCE, self.stream.read_line(&mut line));
        match reading.await.expect("the server says something") {
            Ok(0) => Err("the server hung up".to_owned()),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(20);
