//! Batches: all or nothing, by the server's atomic publish.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bus_core::{Error, ErrorKind, Expect, Frame, Receipt, Result, Seq, StreamSpec};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::{Append, Encoded};
use crate::{
    api::{Api, ApiFailure, PubAck},
    codec::set,
};

impl Append {
    /// Stores `frames` in their order, all or none.
    ///
    /// # Errors
    /// As `Bus::append_all`.
    pub(crate) async fn append_all(&self, mut frames: Vec<Frame>) -> Result<Vec<Receipt>> {
        self.api.connection().check_open(OP)?;
        let spec = self.check_batch(&frames).await?;
        if frames.len() == 1
            && let Some(frame) = frames.pop()
        {
            return Ok(vec![self.append(frame, Expect::Any).await?]);
        }
        let encoded: Result<Vec<_>> = frames.iter().map(Encoded::new).collect();
        let failure = match self.send(encoded?).await {
            Ok(ack) => return self.receipts(&ack, frames.len()),
            Err(failure) => failure,
        };
        // What was stored before needs no room, so the server may name another reason first.
        if matches!(failure.err_code(), Some(HOLDS_KNOWN_IDS | FULL | FULL_SUBJECT)) {
            let known = self.probe_all(&frames).await?;
            if known.len() == frames.len() {
                return known.iter().map(|ack| self.receipt(OP, ack)).collect();
            }
            if !known.is_empty() {
                let (some, all) = (known.len(), frames.len());
                let why = format!("{some} of {all} frames were stored before");
                return Err(Error::new(ErrorKind::Conflict, OP, why).at(&spec.name));
            }
        }
        if matches!(failure.err_code(), Some(INCOMPLETE | TOO_MANY_OPEN | TOO_MANY_OPEN_IN_ALL)) {
            let why = "the batch did not arrive as a whole: none of it is stored";
            return Err(Error::new(ErrorKind::Unavailable, OP, why).at(&spec.name));
        }
        Err(self.refused(OP, &spec.name, failure))
    }

    /// The one stream of a batch that may be stored.
    async fn check_batch(&self, frames: &[Frame]) -> Result<Arc<StreamSpec>> {
        let invalid = |why: String| Error::new(ErrorKind::Invalid, OP, why);
        let Some(first) = frames.first() else {
            return Err(invalid("a batch holds at least one frame".to_owned()));
        };
        if frames.len() > Frame::BATCH_MAX {
            let (count, max) = (frames.len(), Frame::BATCH_MAX);
            return Err(invalid(format!("a batch of {count} frames: at most {max} are allowed")));
        }
        let spec = self.streams.of_subject(OP, &first.subject).await?;
        let mut ids = HashSet::with_capacity(frames.len());
        for frame in frames {
            frame.check_size(OP)?;
            let is_here = spec.filters.iter().any(|filter| filter.matches(&frame.subject));
            if !is_here {
                // Says so when nobody keeps it.
                self.streams.of_subject(OP, &frame.subject).await?;
                let why = format!("another stream than that of {} keeps it", first.subject);
                return Err(invalid(why).at(&frame.subject));
            }
            if !ids.insert(&frame.id) {
                return Err(invalid("an id is twice in the batch".to_owned()).at(&frame.subject));
            }
        }
        Ok(spec)
    }

    /// Opens a batch, sends what it holds, and closes it.
    async fn send(&self, encoded: Vec<Encoded>) -> Result<PubAck, ApiFailure> {
        let _open = self.batches.acquire().await.map_err(|_| {
            ApiFailure::from(Error::new(ErrorKind::Closed, OP, "the bus is closed"))
        })?;
        // Unique among all clients: an inbox of this connection, and a number.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let inbox = self.api.connection().new_inbox();
        let unique = NEXT.fetch_add(1, Ordering::Relaxed);
        let tail = inbox.rsplit('.').next().unwrap_or_default();
        let id = format!("{}-{unique}", tail.chars().take(ID_CHARS_MAX).collect::<String>());
        let count = encoded.len();
        for (at, frame) in encoded.into_iter().enumerate() {
            let Encoded { subject, mut headers, body } = frame;
            set(&mut headers, BATCH_ID, &id)?;
            set(&mut headers, BATCH_AT, &(at + 1).to_string())?;
            if at + 1 == count {
                set(&mut headers, BATCH_COMMIT, "1")?;
                return self.api.publish(OP, subject, headers, body).await;
            }
            let connection = self.api.connection();
            if at > 0 {
                connection.publish(OP, subject, None, Some(headers), body).await?;
                continue;
            }
            let opened = connection.request(OP, subject, Some(headers), body).await;
            let answer = opened.map_err(nothing_stored)?;
            if !answer.payload.is_empty() {
                Api::read_ack(OP, &answer)?;
            }
        }
        Err(Error::new(ErrorKind::Invalid, OP, "a batch holds at least one frame").into())
    }

    /// Those of `frames` that were stored within the window.
    async fn probe_all(&self, frames: &[Frame]) -> Result<Vec<PubAck>> {
        let probes = frames.iter().map(|frame| async move {
            let subject = frame.subject.as_str().to_owned();
            self.probe(OP, subject, frame.id.as_str()).await
        });
        let known: Vec<_> = stream::iter(probes.collect::<Vec<_>>())
            .buffered(PROBES_AT_ONCE)
            .try_collect()
            .await?;
        Ok(known.into_iter().flatten().collect())
    }

    /// The positions of a batch end with that of its last message.
    fn receipts(&self, ack: &PubAck, count: usize) -> Result<Vec<Receipt>> {
        let last = self.receipt(OP, ack)?;
        let count = count as u64;
        if ack.count != count || ack.seq < count {
            let why = format!("the server stored {} of {count} messages", ack.count);
            return Err(Error::new(ErrorKind::Corrupt, OP, why).at(&ack.stream).unknown());
        }
        let first = ack.seq - count + 1;
        Ok((first..=ack.seq).map(|seq| Receipt { seq: Seq(seq), ..last.clone() }).collect())
    }
}

/// A batch that was not closed stores nothing, whatever became of its first message.
fn nothing_stored(error: Error) -> ApiFailure {
    let kind = match error.kind() {
        ErrorKind::NoRecipient => ErrorKind::NotFound,
        kind => kind,
    };
    let why = format!("the batch could not be opened: {}", error.detail());
    Error::new(kind, OP, why).because(error).into()
}

const OP: &str = "append all";

const BATCH_ID: &str = "Nats-Batch-Id";
const BATCH_AT: &str = "Nats-Batch-Sequence";
const BATCH_COMMIT: &str = "Nats-Batch-Commit";
/// The server takes ids of 64 characters.
const ID_CHARS_MAX: usize = 40;
const PROBES_AT_ONCE: usize = 256;

const FULL: u32 = 10_077;
const FULL_SUBJECT: u32 = 10_047;
const INCOMPLETE: u32 = 10_176;
const HOLDS_KNOWN_IDS: u32 = 10_201;
const TOO_MANY_OPEN: u32 = 10_210;
const TOO_MANY_OPEN_IN_ALL: u32 = 10_211;
