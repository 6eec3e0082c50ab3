//! The least client there is: one connection, one request at a time, straight on the wire.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

use bus_crypto::SigningKey;
use data_encoding::BASE64URL_NOPAD;
use serde_json::Value;

/// A connection of its own.
pub(crate) struct Wire {
    lines: BufReader<TcpStream>,
    requests: u32,
}

impl Wire {
    /// Connects and introduces itself.
    pub(crate) fn to(url: &str) -> io::Result<Self> {
        Self::connect(url, |_| String::new())
    }

    /// Connects as the user that has this key.
    pub(crate) fn to_as(url: &str, user: &SigningKey) -> io::Result<Self> {
        Self::connect(url, |nonce| {
            let (key, signature) = (user.public().text(), user.sign(nonce.as_bytes()));
            format!(r#","nkey":"{key}","sig":"{}""#, BASE64URL_NOPAD.encode(&signature))
        })
    }

    /// Connects as the user of this token, which has this key.
    pub(crate) fn to_with(url: &str, token: &str, user: &SigningKey) -> io::Result<Self> {
        Self::connect(url, |nonce| {
            let signature = BASE64URL_NOPAD.encode(&user.sign(nonce.as_bytes()));
            format!(r#","jwt":"{token}","sig":"{signature}""#)
        })
    }

    fn connect(url: &str, login: impl FnOnce(&str) -> String) -> io::Result<Self> {
        let address = url.split_once("://").expect("a URL").1;
        let stream = TcpStream::connect(address)?;
        let mut wire = Self { lines: BufReader::new(stream), requests: 0 };
        wire.patience(Duration::from_secs(20));
        let greeting = wire.line()?;
        let greeting: Value = serde_json::from_str(greeting.strip_prefix("INFO ").unwrap())?;
        let login = login(greeting["nonce"].as_str().unwrap_or_default());
        let hello = r#""verbose":false,"headers":true,"no_responders":true"#;
        wire.send(&format!("CONNECT {{{hello}{login}}}\r\n"))?;
        Ok(wire)
    }

    /// How long an answer may take.
    pub(crate) fn patience(&mut self, limit: Duration) {
        self.lines.get_ref().set_read_timeout(Some(limit)).expect("a socket takes a limit");
    }

    /// Asks and returns the body of the answer.
    pub(crate) fn request(&mut self, subject: &str, body: &str) -> io::Result<String> {
        self.ask(subject, body)?;
        self.line()
    }

    /// Asks and returns where an answer to the answer goes.
    pub(crate) fn reply_of(&mut self, subject: &str, body: &str) -> io::Result<String> {
        let head = self.ask(subject, body)?;
        self.line()?;
        let reply = head.split(' ').nth(3).expect("a subject, a number, a reply and a length");
        Ok(reply.to_owned())
    }

    /// Asks and returns the head of the answer, behind which its body stands.
    fn ask(&mut self, subject: &str, body: &str) -> io::Result<String> {
        self.requests += 1;
        let (inbox, sid) = (format!("_INBOX.wire.{}", self.requests), self.requests);
        let length = body.len();
        let text = format!("SUB {inbox} {sid}\r\nPUB {subject} {inbox} {length}\r\n{body}\r\n");
        self.send(&text)?;
        loop {
            let line = self.line()?;
            assert!(!line.starts_with("-ERR"), "{line}");
            if line.starts_with("MSG ") {
                return Ok(line);
            }
        }
    }

    /// What the server says against a publication; `None` when it says nothing.
    pub(crate) fn refusal(&mut self, subject: &str) -> io::Result<Option<String>> {
        self.send(&format!("PUB {subject} 0\r\n\r\nPING\r\n"))?;
        let mut refusal = None;
        loop {
            match self.line()? {
                line if line == "PONG" => return Ok(refusal),
                line if line.starts_with("-ERR") => refusal = Some(line),
                _ => {}
            }
        }
    }

    /// A round trip.
    pub(crate) fn ping(&mut self) -> io::Result<()> {
        self.send("PING\r\n")?;
        self.pong()
    }

    /// Waits for the answer to a ping.
    pub(crate) fn pong(&mut self) -> io::Result<()> {
        while self.line()? != "PONG" {}
        Ok(())
    }

    /// Reads until the server closes the connection.
    pub(crate) fn until_closed(&mut self) {
        let mut rest = Vec::new();
        match self.lines.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}"),
        }
    }

    fn send(&mut self, text: &str) -> io::Result<()> {
        self.lines.get_mut().write_all(text.as_bytes())
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.lines.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}
