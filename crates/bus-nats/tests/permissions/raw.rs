//! A client as an attacker writes it: straight on the wire, nothing checked, nothing held back.

use std::{
    collections::HashSet,
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

use bus_crypto::SigningKey;
use data_encoding::BASE64URL_NOPAD;
use serde_json::{Value, json};

/// One connection. Whatever the server says is read when something is waited for.
pub(crate) struct Raw {
    lines: BufReader<TcpStream>,
    inbox: String,
    subscriptions: u64,
    questions: u64,
    heard: Vec<Heard>,
    refused: HashSet<String>,
    pongs: u64,
}

/// A message that was delivered.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    pub(crate) subscription: u64,
    pub(crate) subject: String,
    pub(crate) reply: Option<String>,
    pub(crate) headers: String,
    pub(crate) body: String,
}

impl Raw {
    /// Connects with a token; answers come to `_INBOX.<agent>.…`.
    pub(crate) fn connect(
        url: &str,
        key: &SigningKey,
        token: &str,
        agent: &str,
    ) -> io::Result<Self> {
        let stream = TcpStream::connect(url.split_once("://").unwrap().1)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        let mut raw = Self {
            lines: BufReader::new(stream),
            inbox: format!("_INBOX.{agent}.raw"),
            subscriptions: 0,
            questions: 0,
            heard: Vec::new(),
            refused: HashSet::new(),
            pongs: 0,
        };
        let greeting = raw.line()?;
        let greeting: Value = serde_json::from_str(greeting.strip_prefix("INFO ").unwrap())?;
        let signature = key.sign(greeting["nonce"].as_str().unwrap().as_bytes());
        let hello = json!({
            "verbose": false, "pedantic": false, "headers": true, "no_responders": true,
            "protocol": 1, "lang": "raw", "version": "0", "jwt": token,
            "nkey": key.public().text(), "sig": BASE64URL_NOPAD.encode(&signature),
        });
        raw.send(format!("CONNECT {hello}\r\n").as_bytes())?;
        raw.try_fence()?;
        Ok(raw)
    }

    /// A subject of its own inbox that nobody used before.
    pub(crate) fn new_inbox(&mut self) -> String {
        self.questions += 1;
        format!("{}.{}", self.inbox, self.questions)
    }

    pub(crate) fn subscribe(&mut self, filter: &str) -> u64 {
        self.subscriptions += 1;
        let number = self.subscriptions;
        self.send(format!("SUB {filter} {number}\r\n").as_bytes()).unwrap();
        number
    }

    pub(crate) fn publish(&mut self, subject: &str, reply: &str, body: &str) {
        let length = body.len();
        self.send(format!("PUB {subject} {reply} {length}\r\n{body}\r\n").as_bytes()).unwrap();
    }

    /// As [`publish`](Self::publish), with headers of the form `Name: value\r\n`.
    pub(crate) fn publish_with(&mut self, subject: &str, reply: &str, headers: &str, body: &str) {
        let headers = format!("NATS/1.0\r\n{headers}\r\n");
        let (head, all) = (headers.len(), headers.len() + body.len());
        let text = format!("HPUB {subject} {reply} {head} {all}\r\n{headers}{body}\r\n");
        self.send(text.as_bytes()).unwrap();
    }

    /// Waits until the server has taken all that was sent. Gives out which subjects it refused.
    pub(crate) fn fence(&mut self) -> HashSet<String> {
        self.try_fence().unwrap();
        std::mem::take(&mut self.refused)
    }

    fn try_fence(&mut self) -> io::Result<()> {
        let pongs = self.pongs;
        self.send(b"PING\r\n")?;
        while self.pongs == pongs {
            self.read()?;
        }
        Ok(())
    }

    pub(crate) fn may_publish(&mut self, subject: &str, reply: &str) -> bool {
        self.fence();
        self.publish(subject, reply, "");
        self.fence().is_empty()
    }

    pub(crate) fn may_subscribe(&mut self, filter: &str) -> bool {
        self.fence();
        self.subscribe(filter);
        self.fence().is_empty()
    }

    /// What was delivered until now.
    pub(crate) fn heard(&mut self) -> Vec<Heard> {
        std::mem::take(&mut self.heard)
    }

    /// Asks and waits for the first answer; the subject that was refused when it was.
    pub(crate) fn ask(&mut self, subject: &str, body: &str) -> Result<Heard, String> {
        self.ask_with(subject, "", body)
    }

    pub(crate) fn ask_with(
        &mut self,
        subject: &str,
        headers: &str,
        body: &str,
    ) -> Result<Heard, String> {
        let inbox = self.new_inbox();
        let number = self.subscribe(&inbox);
        match headers {
            "" => self.publish(subject, &inbox, body),
            _ => self.publish_with(subject, &inbox, headers, body),
        }
        self.wait(number, subject)
    }

    /// Waits for a message to `subscription`; ends when `subject` turns out to be refused.
    pub(crate) fn wait(&mut self, subscription: u64, subject: &str) -> Result<Heard, String> {
        loop {
            let found = self.heard.iter().position(|heard| heard.subscription == subscription);
            if let Some(at) = found {
                return Ok(self.heard.remove(at));
            }
            if self.refused.contains(subject) {
                return Err(subject.to_owned());
            }
            self.read().unwrap_or_else(|error| panic!("no answer on {subject}: {error}"));
        }
    }

    /// How long the server may say nothing.
    pub(crate) fn patience(&mut self, limit: Duration) {
        self.lines.get_ref().set_read_timeout(Some(limit)).unwrap();
    }

    /// Asks and waits for the first answer; an error when none comes in time.
    pub(crate) fn try_ask(&mut self, subject: &str, body: &str) -> io::Result<Heard> {
        let inbox = self.new_inbox();
        let number = self.subscribe(&inbox);
        self.publish(subject, &inbox, body);
        loop {
            if let Some(at) = self.heard.iter().position(|heard| heard.subscription == number) {
                return Ok(self.heard.remove(at));
            }
            self.read()?;
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.lines.get_mut().write_all(bytes)
    }

    /// Reads one thing that the server says.
    fn read(&mut self) -> io::Result<()> {
        let line = self.line()?;
        let words: Vec<_> = line.split(' ').collect();
        match words[0] {
            "PONG" => self.pongs += 1,
            "PING" => self.send(b"PONG\r\n")?,
            "MSG" => self.message(&words, 4)?,
            "HMSG" => self.message(&words, 5)?,
            "-ERR" => {
                let refused = line.split('"').nth(1);
                let refused = refused.ok_or_else(|| io::Error::other(line.clone()))?;
                self.refused.insert(refused.to_owned());
            }
            _ => {}
        }
        Ok(())
    }

    /// `without_reply`: how many words the line has when no reply subject stands in it.
    fn message(&mut self, words: &[&str], without_reply: usize) -> io::Result<()> {
        let all: usize = words[words.len() - 1].parse().unwrap();
        let head = if words[0] == "HMSG" { words[words.len() - 2].parse().unwrap() } else { 0 };
        let mut bytes = vec![0; all + 2];
        self.lines.read_exact(&mut bytes)?;
        self.heard.push(Heard {
            subscription: words[2].parse().unwrap(),
            subject: words[1].to_owned(),
            reply: (words.len() > without_reply).then(|| words[3].to_owned()),
            headers: String::from_utf8_lossy(&bytes[..head]).into_owned(),
            body: String::from_utf8_lossy(&bytes[head..all]).into_owned(),
        });
        Ok(())
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.lines.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}

impl Heard {
    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// Whether the server says that nobody listens where it was asked.
    pub(crate) fn is_from_nobody(&self) -> bool {
        self.headers.starts_with("NATS/1.0 503")
    }

    /// The server's own number for why it said no.
    pub(crate) fn err_code(&self) -> Option<u64> {
        self.json()["error"]["err_code"].as_u64()
    }
}
