//! Batches: all or nothing, by the server's atomic publish.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bus_core::{Error, ErrorKind, Expect, Frame, Receipt, Result, Seq, StreamSpec};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use super::{Append, Encoded, line::has_bounded_subjects, of_frame};
use crate::{
    api::{ApiFailure, PubAck, Refusal},
    codec::{kept_subject, set},
};

impl Append {
    /// Stores `frames` in their order, all or none.
    ///
    /// # Errors
    /// As `Bus::append_all`.
    pub(crate) async fn append_all(
        self: &Arc<Self>,
        mut frames: Vec<Frame>,
    ) -> Result<Vec<Receipt>> {
        self.api.connection().check_open(OP)?;
        let spec = self.check_batch(&frames).await?;
        if frames.len() == 1
            && let Some(frame) = frames.pop()
        {
            return Ok(vec![self.append(frame, Expect::Any).await?]);
        }
        let encoded: Result<Vec<_>> = frames.iter().map(Encoded::new).collect();
        let sent = match self.find_full(&spec, &frames).await? {
            Some(full) => Err(full),
            None => self.send(OP, encoded?).await,
        };
        let failure = match sent {
            Ok(ack) => return self.receipts(OP, &ack, frames.len()),
            Err(failure) => failure,
        };
        // What was stored before needs no room, so the server may name another reason first.
        if matches!(failure.err_code(), Some(HOLDS_KNOWN_IDS | FULL | FULL_SUBJECT)) {
            let known = self.probe_all(&spec, &frames).await?;
            if known.len() == frames.len() {
                return known.iter().map(|ack| self.receipt(OP, ack)).collect();
            }
            if !known.is_empty() {
                let (some, all) = (known.len(), frames.len());
                let why = format!("{some} of {all} frames were stored before");
                return Err(Error::new(ErrorKind::Conflict, OP, why).at(&spec.name));
            }
        }
        if failure.err_code() == Some(INCOMPLETE) {
            // Where the server refuses one of the subjects, asking is refused as well.
            self.probe_all(&spec, &frames).await?;
            let why = "the batch did not arrive as a whole: none of it is stored";
            return Err(Error::new(ErrorKind::Unavailable, OP, why).at(&spec.name));
        }
        Err(self.refused(OP, &spec.name, named_of(failure, &frames)))
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

    /// Sends a batch, in one round trip. What went wrong with any but the last message shows as an
    /// incomplete batch; what was sent of one without its last is dropped by the server.
    pub(super) async fn send(
        &self,
        op: &'static str,
        encoded: Vec<Encoded<'_>>,
    ) -> Result<PubAck, ApiFailure> {
        let _open = self.batches.acquire().await.map_err(|_| {
            ApiFailure::from(Error::new(ErrorKind::Closed, op, "the bus is closed"))
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
                return self.api.publish(op, &subject, headers, body).await;
            }
            let connection = self.api.connection();
            connection.publish(op, &*subject, None, Some(headers), body).await?;
        }
        Err(Error::new(ErrorKind::Invalid, op, "a batch holds at least one frame").into())
    }

    /// Says so when a bounded subject has no room for its frames of a batch; those of other clients
    /// that come in between are the server's to refuse, which may then answer nothing.
    async fn find_full(&self, spec: &StreamSpec, frames: &[Frame]) -> Result<Option<ApiFailure>> {
        if !has_bounded_subjects(spec) {
            return Ok(None);
        }
        let mut counts = HashMap::<String, u64>::new();
        for frame in frames {
            let subject = kept_subject(&frame.subject, frame.placement.as_deref());
            *counts.entry(subject.into_owned()).or_default() += 1;
        }
        counts.retain(|_, count| *count > 1);
        if let Some(subject) = counts.keys().next().filter(|_| !self.api.keeps_itself()) {
            let why = "several frames of a subject with a bound, where it may not be asked how \
                       much room there is";
            return Err(Error::new(ErrorKind::Unsupported, OP, why).at(subject));
        }
        let verb = &format!("STREAM.INFO.{}", spec.name);
        let asking = counts.into_iter().map(|(subject, count)| async move {
            let wanted = Wanted { subjects_filter: &subject };
            let held = self.api.call::<Held>(OP, verb, &wanted).await;
            let held = held.map_err(|failure| self.refused(OP, &spec.name, failure))?;
            let held = held.state.subjects.and_then(|held| held.get(&subject).copied());
            let is_full = held.unwrap_or(0) + count > spec.messages_per_subject_max.get();
            Ok::<_, Error>(is_full.then_some(subject))
        });
        let asking = stream::iter(asking.collect::<Vec<_>>()).buffered(PROBES_AT_ONCE);
        let full: Vec<_> = asking.try_collect().await?;
        Ok(full.into_iter().flatten().next().map(|subject| {
            let description = format!("{subject} has no room for its frames of the batch");
            ApiFailure::Refused(Refusal { code: 400, err_code: FULL, description })
        }))
    }

    /// Those of `frames` that were stored within the window.
    async fn probe_all(&self, spec: &StreamSpec, frames: &[Frame]) -> Result<Vec<PubAck>> {
        let probes = frames.iter().map(|frame| async move {
            let subject = kept_subject(&frame.subject, frame.placement.as_deref());
            let known = self.probe(OP, &subject, frame.id.as_str()).await;
            known.map_err(|error| of_frame(error, frame))
        });
        let probes = stream::iter(probes.collect::<Vec<_>>()).buffered(PROBES_AT_ONCE);
        let known: Result<Vec<_>> = probes.try_collect().await;
        let known = known.map_err(|error| self.streams.missed(&spec.name, error))?;
        Ok(known.into_iter().flatten().collect())
    }

    /// The positions of a batch end with that of its last message.
    pub(super) fn receipts(
        &self,
        op: &'static str,
        ack: &PubAck,
        count: usize,
    ) -> Result<Vec<Receipt>> {
        let last = self.receipt(op, ack)?;
        let count = count as u64;
        if ack.count != count || ack.seq < count {
            let why = format!("the server stored {} of {count} messages", ack.count);
            return Err(Error::new(ErrorKind::Corrupt, op, why).at(&ack.stream).unknown());
        }
        let first = ack.seq - count + 1;
        Ok((first..=ack.seq).map(|seq| Receipt { seq: Seq(seq), ..last.clone() }).collect())
    }
}

/// A failure that names where one of `frames` is kept, told with the subject of that frame.
fn named_of(failure: ApiFailure, frames: &[Frame]) -> ApiFailure {
    let ApiFailure::Bus(error) = failure else { return failure };
    let is_kept_there = |frame: &&Frame| {
        let kept = kept_subject(&frame.subject, frame.placement.as_deref());
        error.subject() == Some(&*kept)
    };
    let found = frames.iter().find(is_kept_there);
    ApiFailure::Bus(match found {
        Some(frame) => of_frame(error, frame),
        None => error,
    })
}

/// Of which subjects a stream is to tell how much it holds.
#[derive(Serialize)]
struct Wanted<'a> {
    subjects_filter: &'a str,
}

#[derive(Deserialize)]
struct Held {
    state: HeldState,
}

#[derive(Deserialize)]
struct HeldState {
    #[serde(default)]
    subjects: Option<HashMap<String, u64>>,
}

const OP: &str = "append all";

const BATCH_ID: &str = "Nats-Batch-Id";
const BATCH_AT: &str = "Nats-Batch-Sequence";
const BATCH_COMMIT: &str = "Nats-Batch-Commit";
/// The server takes ids of 64 characters.
const ID_CHARS_MAX: usize = 40;
pub(super) const PROBES_AT_ONCE: usize = 256;

const FULL: u32 = 10_077;
const FULL_SUBJECT: u32 = 10_047;
/// Also of a batch that the server did not open, because it has too many.
const INCOMPLETE: u32 = 10_176;
pub(super) const HOLDS_KNOWN_IDS: u32 = 10_201;
