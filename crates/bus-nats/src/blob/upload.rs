//! The way in: pieces are sent without waiting for each, and all of them are stored before the
//! manifest.

use std::time::Duration;

use async_nats::{HeaderMap, Message, StatusCode, Subscriber};
use bus_core::{BlobBody, BlobInfo, BlobPieces, Error, ErrorKind, Result};
use bus_crypto::{Entropy, SystemEntropy};
use bus_envelope::EventHash;
use bus_subjects::BucketKey;
use bytes::{Bytes, BytesMut};
use data_encoding::HEXLOWER;
use futures_util::{FutureExt, StreamExt};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::{
    PUT,
    layout::{Layout, Manifest},
    stream_is_gone,
};
use crate::{
    api::{Api, PubAck, new_stream_pauses},
    connection::Mark,
};

/// One upload: a subject of its own, and the acknowledgements that are awaited.
pub(super) struct Upload<'a> {
    api: &'a Api,
    layout: &'a Layout,
    id: String,
    subject: String,
    inbox: String,
    /// What `acks` hears.
    answers: String,
    acks: Subscriber,
    /// Since when refusals are of this upload.
    mark: Mark,
    sent: u64,
    acked: u64,
    /// Where the last acknowledged message lies.
    last_at: u64,
    /// Where the first message lies.
    pieces_at: u64,
    /// Which message is the first part of the leaf hashes, and where it lies.
    leaves_from: Option<u64>,
    leaves_at: u64,
}

/// What is purged.
#[derive(Serialize)]
pub(super) struct Purge {
    pub(super) filter: String,
}

/// What a purge did.
#[derive(Deserialize)]
pub(super) struct Purged {
    #[serde(default)]
    pub(super) purged: u64,
}

impl<'a> Upload<'a> {
    pub(super) async fn begin(api: &'a Api, layout: &'a Layout) -> Result<Self> {
        let mut id = [0; 16];
        SystemEntropy::new().fill(&mut id).map_err(|error| {
            Error::new(ErrorKind::Unavailable, PUT, "no name for the upload").because(error)
        })?;
        let id = HEXLOWER.encode(&id);
        let (inbox, mark) = (api.connection().new_inbox(), api.connection().violation_mark());
        let answers = format!("{inbox}.*");
        let acks = api.connection().subscribe(PUT, answers.clone()).await?;
        Ok(Self {
            api,
            layout,
            subject: layout.pieces(&id),
            id,
            inbox,
            answers,
            acks,
            mark,
            sent: 0,
            acked: 0,
            last_at: 0,
            pieces_at: 0,
            leaves_from: None,
            leaves_at: 0,
        })
    }

    /// Stores the pieces of `body` and their leaf hashes, and returns the manifest that makes them
    /// a blob.
    pub(super) async fn take(&mut self, key: BucketKey, body: BlobBody) -> Result<Manifest> {
        let mut pieces = BlobPieces::new(body);
        let mut leaves: Vec<EventHash> = Vec::new();
        while let Some(piece) = next_piece(&mut pieces).await? {
            leaves.push(piece.leaf);
            self.send(piece.bytes).await?;
        }
        self.leaves_from = Some(self.sent);
        for part in leaves.chunks(LEAVES_A_PART) {
            let mut body = BytesMut::with_capacity(part.len() * LEAF_BYTES);
            part.iter().for_each(|leaf| body.extend_from_slice(leaf.as_bytes()));
            self.send(body.freeze()).await?;
        }
        while self.acked < self.sent {
            self.wait_for_ack().await?;
        }
        Ok(Manifest {
            info: pieces.info(key),
            upload: self.id.clone(),
            pieces_at: self.pieces_at,
            leaves_at: self.leaves_at,
        })
    }

    /// Frees what was stored. When that does not get through, the sweep does it.
    pub(super) async fn give_up(mut self) {
        if self.sent == 0 || !self.api.keeps_itself() {
            return;
        }
        // A piece that is under way now would be stored behind the purge.
        while self.acked < self.sent {
            match self.next_answer().await {
                Ok(Some(_)) => self.acked += 1,
                Ok(None) | Err(_) => break,
            }
        }
        if let Err(error) = purge(PUT, self.api, self.layout, &self.subject).await {
            tracing::debug!(%error, upload = self.id, "an aborted upload is left to the sweep");
        }
    }

    async fn send(&mut self, body: Bytes) -> Result<()> {
        if self.sent == 0 {
            // The first one is awaited: when nothing can be stored, this answer says why.
            let headers = HeaderMap::new();
            let ack = self.send_first(headers, body).await?;
            self.sent = 1;
            return self.note(ack);
        }
        while self.sent - self.acked >= WINDOW {
            self.wait_for_ack().await?;
        }
        let reply = format!("{}.{}", self.inbox, self.sent);
        let connection = self.api.connection();
        let sent = connection.publish(PUT, self.subject.clone(), Some(reply), None, body).await;
        sent.map_err(not_done)?;
        self.sent += 1;
        while let Some(Some(ack)) = self.acks.next().now_or_never() {
            self.note_answer(&ack)?;
        }
        Ok(())
    }

    /// A stream that was made at this moment is there before anybody leads it.
    async fn send_first(&self, headers: HeaderMap, body: Bytes) -> Result<PubAck> {
        let mut pauses = new_stream_pauses();
        loop {
            let (headers, body) = (headers.clone(), body.clone());
            let stored = self.api.publish(PUT, self.subject.clone(), headers, body).await;
            let error = match stored {
                Ok(ack) => return Ok(ack),
                Err(failure) => failure.into_error(PUT, &self.subject),
            };
            match pauses.next() {
                Some(pause) if error.kind() == ErrorKind::NotFound => {
                    tokio::time::sleep(pause).await;
                }
                _ => return Err(not_done(error)),
            }
        }
    }

    async fn wait_for_ack(&mut self) -> Result<()> {
        match self.next_answer().await.map_err(not_done)? {
            Some(answer) => self.note_answer(&answer),
            None => Err(Error::new(ErrorKind::Unavailable, PUT, "the connection ended")),
        }
    }

    async fn next_answer(&mut self) -> Result<Option<Message>> {
        let places = (self.subject.as_str(), self.answers.as_str());
        let connection = self.api.connection();
        connection.answer_on(PUT, self.mark, places, self.acks.next()).await
    }

    fn note_answer(&mut self, answer: &Message) -> Result<()> {
        let expected = self.acked.to_string();
        if answer.subject.rsplit('.').next() != Some(expected.as_str()) {
            let why = format!("the server skipped piece {expected}");
            return Err(Error::new(ErrorKind::Unavailable, PUT, why));
        }
        if answer.status == Some(StatusCode::NO_RESPONDERS) {
            let why = "the stream of the bucket went away";
            return Err(Error::new(ErrorKind::Unavailable, PUT, why));
        }
        match Api::read_ack(PUT, answer) {
            Ok(ack) => self.note(ack),
            Err(failure) => {
                self.acked += 1;
                Err(not_done(failure.into_error(PUT, &self.subject)))
            }
        }
    }

    /// Readers take pieces in the order in which they lie: another one than that in which they
    /// were sent would be a blob that nobody can read.
    fn note(&mut self, ack: PubAck) -> Result<()> {
        if ack.seq <= self.last_at {
            let why = format!("piece {} was stored before the one ahead of it", self.acked);
            return Err(Error::new(ErrorKind::Unavailable, PUT, why));
        }
        if self.acked == 0 {
            self.pieces_at = ack.seq;
        }
        // The acknowledgement of the first part can only come after it was sent.
        if self.leaves_from == Some(self.acked) {
            self.leaves_at = ack.seq;
        }
        self.last_at = ack.seq;
        self.acked += 1;
        Ok(())
    }
}

/// Removes every message under `subject` and tells how many there were.
pub(super) async fn purge(
    op: &'static str,
    api: &Api,
    layout: &Layout,
    subject: &str,
) -> Result<u64> {
    let verb = format!("STREAM.PURGE.{}", layout.stream());
    let purge = Purge { filter: subject.to_owned() };
    let purged = api.call::<Purged>(op, &verb, &purge).await;
    Ok(purged.map_err(|failure| failure.into_error(op, subject))?.purged)
}

async fn next_piece(pieces: &mut BlobPieces) -> Result<Option<bus_core::BlobPiece>> {
    match timeout(STALL_MAX, pieces.next()).await {
        Ok(piece) => piece.transpose(),
        Err(_) => {
            let why = format!("its body brought nothing for {STALL_MAX:?}");
            Err(Error::new(ErrorKind::Timeout, PUT, why))
        }
    }
}

/// Whatever became of a piece: without its manifest there is no blob.
fn not_done(error: Error) -> Error {
    let error = stream_is_gone(PUT, error);
    let detail = error.detail().to_owned();
    Error::new(error.kind(), PUT, detail).because(error)
}

/// How many messages are sent ahead of their acknowledgements.
const WINDOW: u64 = 128;
const LEAF_BYTES: usize = 32;
/// How many leaf hashes one message holds: as many bytes as a piece.
pub(super) const LEAVES_A_PART: usize = BlobInfo::PIECE_BYTES / LEAF_BYTES;
/// How long a body may bring nothing. It is shorter than the time after which the sweep takes an
/// upload for dead, so that no manifest can name pieces that are gone.
pub(super) const STALL_MAX: Duration = Duration::from_secs(1_800);
