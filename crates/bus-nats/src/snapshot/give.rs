//! A stream given back to a server: its chunks, the server's word that it took them, and whether
//! it is what it was.

use std::{fs::File, time::Duration};

use bus_core::{Error, ErrorKind, Result};
use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::{fs, io::AsyncReadExt};

use super::{
    CHUNK_BYTES, RESTORE, ask,
    manifest::{Entry, Object, hex, number},
    patience, refused, unread,
};
use crate::{api::Refusal, connection::Connection};

/// A stream that is being given back.
pub(super) struct Give<'a> {
    pub(super) connection: &'a Connection,
    pub(super) entry: &'a Entry,
    /// How the server is to keep it.
    pub(super) config: Object,
}

/// Where the chunks go.
#[derive(Deserialize)]
struct Begun {
    deliver_subject: String,
}

/// What the server has now.
#[derive(Deserialize)]
struct Made {
    config: Object,
    state: Object,
}

/// What the server says when it has all.
#[derive(Deserialize)]
struct Said {
    error: Option<Refusal>,
}

impl Give<'_> {
    /// Gives the stream in `file`, and compares what the server has then; it has the stream when
    /// this returns. `so_far` hears how many bytes were given.
    ///
    /// Never more than one chunk is held here. Cancel safe: what is not whole the server forgets
    /// after 5 s.
    ///
    /// # Errors
    /// `Conflict` (the stream is there, or its subjects are another's), `Corrupt` (the file, or
    /// what the server made of it), `Denied`, `Full`, `Unavailable`, `Timeout`.
    pub(super) async fn read(&self, file: File, mut so_far: impl FnMut(u64) + Send) -> Result<()> {
        let Entry { stream, state, .. } = self.entry;
        let subject = self.connection.api_subject(&format!("STREAM.RESTORE.{stream}"));
        let question = json!({ "config": self.config, "state": state });
        let begun: Begun =
            ask(self.connection, RESTORE, (&subject, &question), FIRST_WITHIN).await?;
        let mut file = fs::File::from_std(file);
        let (mut hasher, mut bytes) = (Sha256::new(), 0);
        let chunk_bytes = CHUNK_BYTES.min(self.connection.payload_max() / 2).max(1);
        loop {
            let chunk = next_chunk(&mut file, chunk_bytes).await;
            let chunk = chunk.map_err(|error| unread(stream, error))?;
            if chunk.is_empty() {
                break;
            }
            hasher.update(&chunk);
            bytes += chunk.len() as u64;
            let answer = self.send(&begun.deliver_subject, chunk, CHUNK_WITHIN).await?;
            if !answer.is_empty() {
                return Err(self.gave_up(&answer));
            }
            so_far(bytes);
        }
        if (bytes, hex(hasher.finalize())) != (self.entry.bytes, self.entry.sha256.clone()) {
            // It has not heard of an end, and makes nothing of it.
            let why = "the file is not what was backed up: the server was not told to use it";
            return Err(Error::new(ErrorKind::Corrupt, RESTORE, why).at(stream));
        }
        let answer = self.send(&begun.deliver_subject, Bytes::new(), patience(bytes)).await;
        self.check(&answer.map_err(Error::unknown)?)
    }

    async fn send(&self, to: &str, chunk: Bytes, wait: Duration) -> Result<Bytes> {
        let sent = (to, None, chunk);
        let answer = self.connection.request_within(RESTORE, sent, wait).await;
        let answer = answer.map_err(|error| match error.kind() {
            ErrorKind::NoRecipient => {
                let why = "the server takes no more of it: it gave up, or it is another server now";
                Error::new(ErrorKind::Unavailable, RESTORE, why).at(&self.entry.stream)
            }
            _ => error.at(&self.entry.stream),
        })?;
        Ok(answer.payload)
    }

    fn gave_up(&self, answer: &[u8]) -> Error {
        match serde_json::from_slice(answer) {
            Ok(Said { error: Some(refusal) }) => refused(RESTORE, refusal, &self.entry.stream),
            _ => {
                let said = String::from_utf8_lossy(answer);
                let why = format!("the server gives up: {}", said.trim().escape_debug());
                Error::new(ErrorKind::Unavailable, RESTORE, why).at(&self.entry.stream)
            }
        }
    }

    /// Holds what the server made of it to what it was.
    fn check(&self, answer: &[u8]) -> Result<()> {
        if let Ok(Said { error: Some(_) }) = serde_json::from_slice(answer) {
            return Err(self.gave_up(answer));
        }
        let stream = &self.entry.stream;
        let made: Made = serde_json::from_slice(answer).map_err(|error| {
            let why = "the server's last word on it cannot be read";
            Error::new(ErrorKind::Corrupt, RESTORE, why).because(error).at(stream).unknown()
        })?;
        let mut differences = config_differences(&self.config, &made.config);
        differences.extend(state_differences(&self.config, &self.entry.state, &made.state));
        if differences.is_empty() {
            return Ok(());
        }
        let why = format!("the server has it now, and otherwise: {}", differences.join("; "));
        Err(Error::new(ErrorKind::Corrupt, RESTORE, why).at(stream).unknown())
    }
}

/// Up to `bytes_max` bytes of a file; none at its end.
async fn next_chunk(file: &mut fs::File, bytes_max: usize) -> std::io::Result<Bytes> {
    let mut chunk = BytesMut::with_capacity(bytes_max);
    while chunk.len() < bytes_max {
        let room = bytes_max - chunk.len();
        let mut limited = (&mut *file).take(room as u64);
        if limited.read_buf(&mut chunk).await? == 0 {
            break;
        }
    }
    Ok(chunk.freeze())
}

/// In what two configurations differ; the server's own notes are its own.
fn config_differences(wanted: &Object, actual: &Object) -> Vec<String> {
    let mut differences = Vec::new();
    let names = wanted.keys().chain(actual.keys().filter(|name| !wanted.contains_key(*name)));
    for name in names {
        let (wanted, actual) = (plain(wanted.get(name)), plain(actual.get(name)));
        if wanted != actual {
            differences.push(format!("{name} is {actual}, was {wanted}"));
        }
    }
    differences
}

/// A setting without the server's notes; one that says nothing is null.
fn plain(value: Option<&Value>) -> Value {
    match value {
        Some(Value::Bool(false)) => Value::Null,
        Some(Value::Number(number)) if number.as_u64() == Some(0) => Value::Null,
        Some(Value::Object(held)) => {
            let own = held.iter().filter(|(name, _)| !name.starts_with("_nats."));
            let own: Object = own.map(|(name, value)| (name.clone(), value.clone())).collect();
            if own.is_empty() { Value::Null } else { Value::Object(own) }
        }
        value => value.cloned().unwrap_or_default(),
    }
}

/// In what two states differ. Of messages that end by themselves there may be fewer now, and the
/// marks of their ends come on top.
fn state_differences(config: &Object, wanted: &Object, actual: &Object) -> Vec<String> {
    let ages = number(config, "max_age") > 0
        || config.get("allow_msg_ttl").is_some_and(|allowed| *allowed == Value::Bool(true));
    let is_empty = number(wanted, "messages") == 0;
    let mut differences = Vec::new();
    for name in COMPARED {
        let (wanted, actual) = (number(wanted, name), number(actual, name));
        let is_so = match name {
            "consumer_count" => wanted == actual,
            "last_seq" if ages => actual >= wanted,
            // Where the first one will be is said in two ways.
            "first_seq" if is_empty => true,
            _ if ages => true,
            _ => wanted == actual,
        };
        if !is_so {
            differences.push(format!("{name} is {actual}, was {wanted}"));
        }
    }
    differences
}

const COMPARED: [&str; 6] =
    ["messages", "bytes", "first_seq", "last_seq", "num_deleted", "consumer_count"];

/// How long the server may take to say where the chunks go.
const FIRST_WITHIN: Duration = Duration::from_secs(10);

/// How long it may take to take one.
const CHUNK_WITHIN: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;
