//! How an envelope stands on a line of a log: as its canonical JSON, or as that in base64 where it
//! has line breaks of its own.

use bus_envelope::{EnvelopeError, MessageEnvelope, wire::json};
use data_encoding::BASE64;
use serde::{Deserialize, Serialize};

use crate::base64;

/// The line of an envelope, without its line feed.
///
/// A payload that is not sealed is JSON as its sender wrote it, with line breaks if it had some.
/// Such an envelope stands in a text of its own: nobody can keep a session from being exported by
/// how it writes.
pub(crate) fn line_of(envelope: &MessageEnvelope) -> Vec<u8> {
    let json = json::encode(envelope);
    if !json.contains(&b'\n') {
        return json;
    }
    // One text: there is nothing that JSON cannot hold.
    serde_json::to_vec(&Line { json_base64: BASE64.encode(&json) }).unwrap_or_default()
}

/// Why a line is no envelope.
#[derive(Debug)]
pub(crate) enum NoEntry {
    /// The envelope breaks its form.
    Envelope(EnvelopeError),
    /// The same envelope is written otherwise.
    NotCanonical,
}

/// Reads what [`line_of`] wrote, and nothing else.
pub(crate) fn envelope_of(line: &[u8]) -> Result<MessageEnvelope, NoEntry> {
    let plain = json::decode(line);
    let Err(error) = plain else { return plain.map_err(NoEntry::Envelope) };
    // An envelope has other members, so a line is one or the other.
    let Ok(wrapped) = serde_json::from_slice::<Line>(line) else {
        return Err(NoEntry::Envelope(error));
    };
    let Some(inner) = base64::decode(&wrapped.json_base64) else {
        return Err(NoEntry::Envelope(error));
    };
    let envelope = json::decode(&inner).map_err(NoEntry::Envelope)?;
    // What fits on a line has to stand there as it is.
    if line_of(&envelope) == line { Ok(envelope) } else { Err(NoEntry::NotCanonical) }
}

impl std::fmt::Display for NoEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Envelope(error) => error.fmt(f),
            Self::NotCanonical => f.write_str("an exporter writes the same envelope otherwise"),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    json_base64: String,
}
