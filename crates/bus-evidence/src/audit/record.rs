//! The lines of the audit log.

use bus_core::Stored;
use bus_envelope::{EventHash, MessageEnvelope, wire};
use bus_subjects::{Shown, Subject};
use data_encoding::BASE64;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{AuditMark, AuditStream};
use crate::Checkpoint;

/// A record of a stream as a line of the audit log.
///
/// The envelope stands there in canonical JSON, its payload as it is stored, so the line shows what
/// was signed, and nothing that is secret; in base64 where it has line breaks. What is no envelope
/// stands there byte for byte.
#[derive(Debug, Clone)]
pub struct AuditRecord {
    stream: AuditStream,
    mark: AuditMark,
    subject: Subject,
    line: Vec<u8>,
    envelope: Option<MessageEnvelope>,
}

impl AuditRecord {
    /// The line for what is stored in `stream`.
    #[must_use]
    pub fn new(stream: AuditStream, stored: &Stored) -> Self {
        let frame = &stored.frame;
        let seq = stored.seq.0;
        let read = wire::decode(&frame.headers, &frame.body)
            .map_err(|error| Shown(&error.to_string()).to_string())
            .and_then(|envelope| json_of(&envelope).map(|json| (envelope, json)));
        let (hash, line, envelope) = match read {
            Ok((envelope, json)) => {
                let leaf = envelope.compute_hash();
                let line = line(&Wire {
                    seq,
                    stored: stored.time.to_string(),
                    stream: stream_name(stream),
                    said: said(leaf.to_string(), &json),
                });
                (leaf, line, Some(envelope))
            }
            Err(reason) => {
                let body_hash = EventHash::of(&frame.body);
                let line = line(&Wire {
                    seq,
                    stored: stored.time.to_string(),
                    stream: stream_name(stream),
                    said: Said::Unreadable {
                        unreadable: reason,
                        subject: frame.subject.as_str(),
                        headers: frame.headers.iter().collect(),
                        body_base64: BASE64.encode(&frame.body),
                        body_hash: body_hash.to_string(),
                    },
                });
                (body_hash, line, None)
            }
        };
        let subject = frame.subject.clone();
        Self { stream, mark: AuditMark { seq, hash }, subject, line, envelope }
    }

    /// The stream that it is of.
    #[must_use]
    pub const fn stream(&self) -> AuditStream {
        self.stream
    }

    /// Its position, and what tells it from another one there.
    #[must_use]
    pub const fn mark(&self) -> AuditMark {
        self.mark
    }

    /// The leaf hash of its envelope; of what is no envelope the hash of its body.
    #[must_use]
    pub const fn hash(&self) -> EventHash {
        self.mark.hash
    }

    /// The subject that it is stored under.
    #[must_use]
    pub const fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Its line, without the line feed.
    #[must_use]
    pub fn line(&self) -> &[u8] {
        &self.line
    }

    /// Its envelope; none when it is none.
    #[must_use]
    pub const fn envelope(&self) -> Option<&MessageEnvelope> {
        self.envelope.as_ref()
    }
}

/// Reads back what a line of the log is of; none for a line of another form.
pub(super) fn mark_in(line: &[u8]) -> Option<AuditMark> {
    let read: WireMark = serde_json::from_slice(line).ok()?;
    let hash = read.leaf.or(read.body_hash)?;
    Some(AuditMark { seq: read.seq, hash: EventHash::parse(&hash).ok()? })
}

/// The line of a checkpoint.
pub(super) fn checkpoint_line(checkpoint: &Checkpoint) -> Vec<u8> {
    let (origin, size, note) = (checkpoint.origin(), checkpoint.size(), checkpoint.text());
    // Texts and a number only: there is nothing that JSON cannot hold.
    serde_json::to_vec(&WireCheckpoint { origin, size, note }).unwrap_or_default()
}

/// The envelope in canonical JSON.
fn json_of(envelope: &MessageEnvelope) -> Result<Box<RawValue>, String> {
    let json =
        String::from_utf8(wire::json::encode(envelope)).map_err(|error| error.to_string())?;
    RawValue::from_string(json).map_err(|error| error.to_string())
}

/// An envelope on a line. A payload that is not sealed may have line breaks in its JSON.
fn said(leaf: String, json: &RawValue) -> Said<'_> {
    if json.get().contains('\n') {
        return Said::Escaped { leaf, json_base64: BASE64.encode(json.get().as_bytes()) };
    }
    Said::Envelope { leaf, envelope: json }
}

fn line(wire: &Wire<'_>) -> Vec<u8> {
    // Texts, a number and what was read as JSON: there is nothing that JSON cannot hold.
    serde_json::to_vec(wire).unwrap_or_default()
}

const fn stream_name(stream: AuditStream) -> &'static str {
    match stream {
        AuditStream::Receipts => "VAK_RECEIPTS",
        AuditStream::Approvals => "VAK_APPROVALS",
    }
}

#[derive(Serialize)]
struct Wire<'a> {
    seq: u64,
    stored: String,
    stream: &'static str,
    #[serde(flatten)]
    said: Said<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Said<'a> {
    Envelope {
        leaf: String,
        envelope: &'a RawValue,
    },
    Escaped {
        leaf: String,
        json_base64: String,
    },
    Unreadable {
        unreadable: String,
        subject: &'a str,
        headers: Vec<(&'a str, &'a str)>,
        body_base64: String,
        body_hash: String,
    },
}

#[derive(Deserialize)]
struct WireMark {
    seq: u64,
    leaf: Option<String>,
    body_hash: Option<String>,
}

#[derive(Serialize)]
struct WireCheckpoint<'a> {
    origin: &'a str,
    size: u64,
    note: &'a str,
}
