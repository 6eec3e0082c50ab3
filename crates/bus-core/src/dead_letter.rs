//! What is kept of a task that was given up: enough to understand it and to send it again.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bus_envelope::{Headers, Timestamp};
use bus_subjects::{StreamName, Subject};
use serde::{Deserialize, Serialize};

use crate::{
    Delivery, Error, ErrorKind, Frame, FrameId, OrderKey, Placement, Priority, Result, Seq,
};

/// The record of a task that was given up, as its dead letter's payload (JSON).
///
/// It holds the whole original frame, so that redriving it needs nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadLetterEvent {
    /// The id of the original envelope, or of its frame when it could not be read.
    pub envelope_id: String,
    /// Where the original was sent.
    pub subject: String,
    /// The stream that kept it.
    pub stream: String,
    /// Its position there.
    pub seq: u64,
    /// How many attempts were made, those that ended without a verdict included.
    pub attempts: u32,
    /// Why it was given up; at most 4,096 bytes.
    pub failure_reason: String,
    /// When, in canonical form.
    pub failed_at: String,
    /// The worker that made the last attempt, if one is known.
    pub worker_id: Option<String>,
    /// The original frame.
    pub original: OriginalFrame,
}

/// The frame of a dead letter's original.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OriginalFrame {
    /// Its id.
    pub id: String,
    /// Its headers in order.
    pub headers: Vec<(String, String)>,
    /// Its body, base64 with padding.
    pub body_base64: String,
    /// How it was handed out, where that was not as usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<OriginalPlacement>,
}

/// How a dead letter's original was handed out, and is again when it is redriven: at once, so a
/// time that it had to wait for is not kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OriginalPlacement {
    /// How urgent it was, 0 to 9.
    pub priority: u8,
    /// Its order key, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl DeadLetterEvent {
    /// The CloudEvents type of a dead letter.
    pub const EVENT_TYPE: &'static str = "vak.dlq.failed";

    /// The longest reason kept, in bytes.
    pub const REASON_BYTES_MAX: usize = 4096;

    /// The record as JSON.
    ///
    /// # Errors
    /// `Invalid` when a header cannot be written as JSON; it cannot happen with checked headers.
    pub fn to_json(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|error| {
            Error::new(ErrorKind::Invalid, "dead letter", "cannot be written as JSON")
                .because(error)
        })
    }

    /// Reads a record.
    ///
    /// # Errors
    /// `Corrupt` when it is not a dead letter's JSON.
    pub fn from_json(json: &[u8]) -> Result<Self> {
        serde_json::from_slice(json).map_err(|error| {
            Error::new(ErrorKind::Corrupt, "dead letter", "is not a dead letter's JSON")
                .because(error)
        })
    }

    /// The id of the dead letter's frame: one per stored message, so that a second copy of the
    /// same dead letter is a duplicate.
    #[must_use]
    pub fn frame_id(stream: &StreamName, delivery: &Delivery) -> String {
        Self::id_at(stream, delivery.stored, delivery.seq)
    }

    /// As [`DeadLetterEvent::frame_id`], of the message at `seq` that was stored at `stored`.
    pub(crate) fn id_at(stream: &StreamName, stored: Timestamp, seq: Seq) -> String {
        let stream: String = stream.as_str().chars().take(64).collect();
        format!("{stream}@{}:{}", stored.unix_ns(), seq.0)
    }
}

impl OriginalFrame {
    /// What a dead letter keeps of `frame`: everything but its subject, which stands beside it.
    #[must_use]
    pub fn of(frame: &Frame) -> Self {
        Self {
            id: frame.id.to_string(),
            headers: frame.headers.iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect(),
            body_base64: STANDARD.encode(&frame.body),
            placement: OriginalPlacement::of(frame),
        }
    }

    /// The frame itself, as it was sent to `subject`.
    ///
    /// # Errors
    /// `Corrupt` when something in it cannot be part of a frame.
    pub fn to_frame(&self, subject: Subject) -> Result<Frame> {
        let corrupt = |what: &'static str| Error::new(ErrorKind::Corrupt, "dead letter", what);
        let mut headers = Headers::new();
        for (name, value) in &self.headers {
            let added = headers.add(name, value);
            added.map_err(|error| corrupt("the original has a bad header").because(error))?;
        }
        let body = STANDARD.decode(&self.body_base64);
        let body = body.map_err(|error| corrupt("the original's body is no base64").because(error));
        let id = FrameId::parse(&self.id);
        let id = id.map_err(|error| corrupt("the original's id is no frame id").because(error))?;
        let placement = self.placement.as_ref().map_or(Ok(Placement::default()), |kept| {
            let key = kept.key.as_deref().map(OrderKey::parse).transpose()?;
            Ok(Placement { not_before: None, priority: Priority::new(kept.priority)?, key })
        });
        let placement = placement
            .map_err(|error: Error| corrupt("the original's placement is none").because(error))?;
        let frame = Frame { headers, ..Frame::new(subject, id, body?) };
        Ok(frame.placed(placement))
    }

    /// Refuses a frame that would not fit into a dead letter as a whole: what cannot be given up
    /// must not be sent.
    pub(crate) fn check_fits(frame: &Frame) -> Result<()> {
        // Base64 makes four of three; a letter of a header needs two in JSON at most, a header
        // itself quotes and commas; the rest is the reason, escaped, and the letter's own headers.
        const REST_BYTES: usize = 32 * 1024;
        let (body, headers) = (frame.body.len(), &frame.headers);
        let bytes = body.div_ceil(3) * 4 + 2 * headers.bytes() + 8 * headers.len() + REST_BYTES;
        let bytes_max = Frame::BYTES_MAX;
        if bytes <= bytes_max {
            return Ok(());
        }
        let detail = format!(
            "a dead letter of this message could have {bytes} bytes: at most {bytes_max} are allowed"
        );
        Err(Error::new(ErrorKind::TooLarge, "send", detail).at(&frame.subject))
    }
}

impl OriginalPlacement {
    fn of(frame: &Frame) -> Option<Self> {
        let placement = frame.placement.as_deref()?;
        let (priority, key) = (placement.priority, placement.key.as_ref());
        let is_usual = priority == Priority::default() && key.is_none();
        let key = key.map(|key| key.as_str().to_owned());
        (!is_usual).then(|| Self { priority: priority.level(), key })
    }
}

/// Cuts `reason` to the most a dead letter keeps, at a character's border.
pub(crate) fn cut_reason(reason: &str) -> String {
    if reason.len() <= DeadLetterEvent::REASON_BYTES_MAX {
        return reason.to_owned();
    }
    let mut end = DeadLetterEvent::REASON_BYTES_MAX;
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    reason.get(..end).unwrap_or_default().to_owned()
}
