//! The compact form: a version byte, the attributes in postcard, the payload behind its length.
//!
//! ```text
//! 01 | postcard(attributes) | payload length, u32 big-endian | payload
//! ```

use bytes::Bytes;

use crate::{EnvelopeError, EventHash, MessageEnvelope, Seal, SealRef, Signature};
use fields::Fields;
use primitive::Reader;

pub use view::EnvelopeView;

mod fields;
mod primitive;
#[cfg(test)]
mod tests;
mod view;

/// The `content-type` of this form.
pub const CONTENT_TYPE: &str = "application/vnd.vakbus.envelope";

/// The version of this form, its first byte.
pub const VERSION: u8 = 1;

/// Writes `envelope` as one run of bytes.
#[must_use]
pub fn encode(envelope: &MessageEnvelope) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + envelope.payload.len());
    encode_into(envelope, &mut bytes);
    bytes
}

/// Appends to `bytes` what [`encode`] writes: a buffer that is kept costs no allocation.
pub fn encode_into(envelope: &MessageEnvelope, bytes: &mut Vec<u8>) {
    let seal = envelope.seal.as_ref().map(Seal::by_ref);
    put_head(envelope, seal, envelope.signature.as_ref(), envelope.payload.len(), bytes);
    bytes.extend_from_slice(&envelope.payload);
}

/// Seals a plain envelope into `bytes`: appends what [`encode`] writes of the sealed and unsigned
/// one, and answers with its leaf.
///
/// `cipher` gets the additional data and the payload, which it encrypts where it stands in
/// `bytes`, and gives the tag. The envelope stays as it is; its own `seal` and `signature` count
/// for nothing.
///
/// # Errors
/// That of `cipher`; `bytes` is then as it was before.
pub fn seal_into<E>(
    envelope: &MessageEnvelope,
    seal: SealRef<'_>,
    bytes: &mut Vec<u8>,
    cipher: impl FnOnce(&[u8], &mut [u8]) -> Result<[u8; TAG_BYTES], E>,
) -> Result<EventHash, E> {
    let (before, time) = (bytes.len(), envelope.time.canonical());
    let sealed_bytes = envelope.payload.len() + TAG_BYTES;
    bytes.reserve(2 * HEAD_BYTES + sealed_bytes);
    // The hash takes longest, and what is copied next does not wait for it.
    let bound_hash = envelope.bound(Some(seal), &time, bytes).finish();
    put_head(envelope, Some(seal), None, sealed_bytes, bytes);
    let start = bytes.len();
    bytes.extend_from_slice(&envelope.payload);
    let tag_start = bytes.len();
    // The additional data stands where the tag will be, and behind it.
    envelope.put_aad(&bound_hash, bytes);
    let (message, aad) = bytes.split_at_mut(tag_start);
    let tag = cipher(aad, message.get_mut(start..).unwrap_or_default());
    bytes.truncate(tag_start);
    match tag {
        Ok(tag) => bytes.extend_from_slice(&tag),
        Err(error) => {
            bytes.truncate(before);
            return Err(error);
        }
    }
    let payload_hash = EventHash::of(bytes.get(start..).unwrap_or_default());
    Ok(envelope.leaf(&time, &payload_hash, bytes))
}

/// Reads an envelope from exactly its bytes.
///
/// # Errors
/// An [`EnvelopeError`] that names the field and the reason;
/// [`NotCanonical`](EnvelopeError::NotCanonical) when [`encode`] would write the same envelope as
/// other bytes.
pub fn decode(bytes: &[u8]) -> Result<MessageEnvelope, EnvelopeError> {
    let (fields, is_canonical, payload) = split(bytes)?;
    let trace = fields.check(is_canonical)?;
    fields.to_envelope(trace, Bytes::copy_from_slice(payload))
}

/// Like [`decode`], with a payload that shares `bytes`.
///
/// # Errors
/// As [`decode`].
pub fn decode_shared(bytes: &Bytes) -> Result<MessageEnvelope, EnvelopeError> {
    let (fields, is_canonical, payload) = split(bytes)?;
    let trace = fields.check(is_canonical)?;
    fields.to_envelope(trace, bytes.slice_ref(payload))
}

/// Like [`decode`], with every text left where it lies: for a reader that looks at many envelopes
/// and keeps few.
///
/// ```
/// # use bus_envelope::{Draft, EnvelopeError, MessageEnvelope};
/// use bus_envelope::wire::compact;
///
/// # fn read(envelope: MessageEnvelope) -> Result<(), EnvelopeError> {
/// let bytes = compact::encode(&envelope);
/// let view = compact::view(&bytes)?;
/// assert_eq!(view.subject(), envelope.subject.as_str());
/// assert_eq!(view.to_envelope()?, envelope);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`decode`].
pub fn view(bytes: &[u8]) -> Result<EnvelopeView<'_>, EnvelopeError> {
    let (fields, is_canonical, payload) = split(bytes)?;
    EnvelopeView::new(fields, is_canonical, payload)
}

/// Appends all that stands before the payload.
fn put_head(
    envelope: &MessageEnvelope,
    seal: Option<SealRef<'_>>,
    signature: Option<&Signature>,
    payload_bytes: usize,
    bytes: &mut Vec<u8>,
) {
    bytes.push(VERSION);
    fields::put(bytes, envelope, seal, signature);
    // A payload over 4 GiB gets a length that does not fit it, which every decoder refuses.
    let length = u32::try_from(payload_bytes).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&length.to_be_bytes());
}

/// The attributes, whether every number in them is as short as it can be, and the payload.
fn split(bytes: &[u8]) -> Result<(Fields<'_>, bool, &[u8]), EnvelopeError> {
    let body = match bytes.split_first() {
        Some((&VERSION, body)) => body,
        Some((other, _)) => {
            let (field, found, expected) = ("compact form", other.to_string(), "1");
            return Err(EnvelopeError::Version { field, found, expected });
        }
        None => return Err(malformed("empty")),
    };
    let mut reader = Reader::new(body);
    let fields =
        Fields::read(&mut reader).ok_or_else(|| malformed("the attributes cannot be read"))?;
    let (length, payload) = reader
        .rest
        .split_first_chunk::<LENGTH_BYTES>()
        .ok_or_else(|| malformed("the length is cut off"))?;
    if usize::try_from(u32::from_be_bytes(*length)) != Ok(payload.len()) {
        return Err(malformed("the payload does not have the length that is written before it"));
    }
    Ok((fields, reader.is_canonical, payload))
}

fn malformed(reason: &str) -> EnvelopeError {
    EnvelopeError::Malformed { form: "compact", reason: reason.to_owned() }
}

const LENGTH_BYTES: usize = 4;

/// What every cipher of a seal appends.
const TAG_BYTES: usize = 16;

/// More than the attributes of most envelopes take.
const HEAD_BYTES: usize = 640;
