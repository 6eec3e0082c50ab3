//! A stream as its server gives it away: in chunks, each answered once it is written, to the end
//! that says that it is one.

use std::{fs::File, time::Duration};

use async_nats::Message;
use bus_core::{Error, ErrorKind, Result};
use bytes::Bytes;
use futures_util::StreamExt;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::{fs, io::AsyncWriteExt};

use super::{
    BACKUP, CHUNK_BYTES, ask,
    frames::{Frames, Unpacked},
    manifest::{Entry, Object, hex, number},
    patience,
};
use crate::connection::{Connection, Mark};

/// A stream that is being taken.
pub(super) struct Take<'a> {
    pub(super) connection: &'a Connection,
    pub(super) stream: &'a str,
    /// Its size when it was last heard of.
    pub(super) bytes: u64,
}

/// What the server says first.
#[derive(Deserialize)]
struct Begun {
    config: Object,
    state: Object,
}

/// What it says afterwards.
#[derive(Deserialize)]
struct Info {
    state: After,
}

#[derive(Deserialize)]
struct After {
    lost: Option<Lost>,
}

/// What the server found damaged since it was started, and threw away.
#[derive(Deserialize)]
struct Lost {
    #[serde(default)]
    msgs: Option<Vec<u64>>,
}

/// What a message of the server says.
enum Part {
    Chunk(Bytes, Option<String>),
    End,
}

impl Take<'_> {
    /// Writes the stream into `file`, which is safe when this returns, and says what it holds.
    /// `so_far` hears of each chunk how many bytes there are now.
    ///
    /// Never more than one chunk is held here; the server sends no more than 8 MiB ahead. Cancel
    /// safe: the server stops when nobody listens.
    ///
    /// # Errors
    /// `Corrupt` (the server finds damage), `Denied`, `NotFound`, `Full` and `Unavailable` (the
    /// disk, the server), `Timeout`.
    pub(super) async fn write(
        &self,
        file: File,
        mut so_far: impl FnMut(u64) + Send,
    ) -> Result<Entry> {
        let connection = self.connection;
        let (mark, inbox) = (connection.violation_mark(), connection.new_inbox());
        let mut chunks = connection.subscribe(BACKUP, inbox.clone()).await?;
        let question = json!({
            "deliver_subject": inbox,
            "no_consumers": false,
            // Every message is held to its checksum first.
            "jsck": true,
            "chunk_size": CHUNK_BYTES,
        });
        let subject = connection.api_subject(&format!("STREAM.SNAPSHOT.{}", self.stream));
        let begun: Begun =
            ask(connection, BACKUP, (&subject, &question), patience(self.bytes)).await?;
        let mut file = fs::File::from_std(file);
        let (mut hasher, mut frames) = (Sha256::new(), Frames::default());
        let (mut bytes, mut flows) = (0, false);
        // What the server refuses is told of the last of these.
        let mut answered = subject;
        loop {
            let next = chunks.next();
            let part = match self.next((mark, &answered, &inbox), next, flows).await? {
                Part::End => break,
                Part::Chunk(part, None) => part,
                Part::Chunk(part, Some(reply)) => {
                    (flows, answered) = (true, reply);
                    part
                }
            };
            hasher.update(&part);
            frames.read(&part);
            let written = file.write_all(&part).await;
            written.map_err(|error| super::unwritten(self.stream, error))?;
            bytes += part.len() as u64;
            so_far(bytes);
            if flows {
                let reply = answered.clone();
                connection.publish(BACKUP, reply, None, None, Bytes::new()).await?;
            }
        }
        let synced = file.sync_all().await;
        synced.map_err(|error| super::unwritten(self.stream, error))?;
        self.check_whole(frames, &begun)?;
        self.check_lost(&begun).await?;
        Ok(Entry {
            stream: self.stream.to_owned(),
            bytes,
            sha256: hex(hasher.finalize()),
            config: begun.config,
            state: begun.state,
        })
    }

    /// What comes next; `flows` says that the server has asked for answers.
    async fn next(
        &self,
        (mark, answered, inbox): (Mark, &str, &str),
        next: impl Future<Output = Option<Message>>,
        flows: bool,
    ) -> Result<Part> {
        let places = (answered, inbox);
        let waiting = (mark, CHUNK_WITHIN);
        let heard = self.connection.answer_within(BACKUP, waiting, places, next).await;
        let Some(message) = heard.map_err(|error| error.at(self.stream))? else {
            let why = "the connection ended before the stream did";
            return Err(Error::new(ErrorKind::Unavailable, BACKUP, why).at(self.stream));
        };
        let status = message.status.map(|status| status.as_u16());
        match status {
            None if !message.payload.is_empty() => {
                let reply = message.reply.map(|reply| reply.to_string());
                Ok(Part::Chunk(message.payload, reply))
            }
            Some(204) => Ok(Part::End),
            // The server says so of a stream that fits into its first chunk.
            None if !flows => Ok(Part::End),
            _ => Err(self.broken_off(status, message.description.unwrap_or_default())),
        }
    }

    /// Refuses what is less than the stream holds.
    fn check_whole(&self, frames: Frames, begun: &Begun) -> Result<()> {
        let refuse = |why: String| Error::new(ErrorKind::Corrupt, BACKUP, why).at(self.stream);
        let unpacked = frames.end().map_err(|why| refuse(why.to_owned()))?;
        let Unpacked::Bytes(given) = unpacked else { return Ok(()) };
        let (held, messages) = (number(&begun.state, "bytes"), number(&begun.state, "messages"));
        // Blocks that the server has packed as well say nothing of their size.
        let is_plain = begun.config.get("compression").is_none_or(|packing| packing == "none");
        let least = held.saturating_sub(messages.saturating_mul(RECORD_BYTES));
        if is_plain && given < least {
            return Err(refuse(format!(
                "the server gives {given} of the {held} bytes that it holds: what is damaged on \
                 its disk it leaves out"
            )));
        }
        Ok(())
    }

    /// A server that meets damage on its disk throws away what is behind it, gives away the rest
    /// and says that this is all; only here it tells.
    async fn check_lost(&self, begun: &Begun) -> Result<()> {
        if number(&begun.state, "num_deleted") > DETAILS_MAX {
            return Ok(());
        }
        let subject = self.connection.api_subject(&format!("STREAM.INFO.{}", self.stream));
        // Without the details of what is gone it does not say what it lost either.
        let asked = (subject.as_str(), &json!({ "deleted_details": true }));
        let info: Info = ask(self.connection, BACKUP, asked, CHUNK_WITHIN).await?;
        let lost = info.state.lost.and_then(|lost| lost.msgs).unwrap_or_default().len();
        if lost == 0 {
            return Ok(());
        }
        let why = format!(
            "{lost} of its messages were damaged on the server's disk, and the server threw them \
             away"
        );
        Err(Error::new(ErrorKind::Corrupt, BACKUP, why).at(self.stream))
    }

    fn broken_off(&self, status: Option<u16>, said: impl std::fmt::Display) -> Error {
        let (kind, why) = match status {
            // The check of the messages, or the disk under them.
            Some(500) => (ErrorKind::Corrupt, format!("the server cannot read it: {said}")),
            Some(408) => {
                let why = "the server gave up: it heard no answer to its chunks (408)";
                (ErrorKind::Timeout, why.to_owned())
            }
            Some(status) => {
                (ErrorKind::Unavailable, format!("the server broke off: {status} {said}"))
            }
            None => {
                let why = "the server broke off without saying that this is the end";
                (ErrorKind::Corrupt, why.to_owned())
            }
        };
        Error::new(kind, BACKUP, why).at(self.stream)
    }
}

/// What the server counts for each message beside its subject, headers and content, and may give
/// away in fewer bytes: so much may be missing. The trial misses nothing.
const RECORD_BYTES: u64 = 30;

/// The answer names each message that is gone: more of them fit into none.
const DETAILS_MAX: u64 = 50_000;

/// How long the server may take between two chunks; it gives up itself after 5 s without an answer.
const CHUNK_WITHIN: Duration = Duration::from_secs(30);
