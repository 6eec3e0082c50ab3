//! The attributes as they stand in the bytes of the compact form, nothing checked but the grammar.
//!
//! Their order is the form: never change it, raise [`VERSION`](super::VERSION).

use super::primitive::{Reader, put_number, put_optional, put_signed, put_text};
use crate::{EventHash, MessageEnvelope, SealRef, Signature, rules};
use bus_subjects::SessionId;

/// Every attribute, borrowed from the bytes.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a> {
    pub(super) id: &'a str,
    pub(super) source: &'a str,
    pub(super) event_type: &'a str,
    pub(super) unix_ns: i128,
    pub(super) content_type: Option<&'a str>,
    pub(super) subject: &'a str,
    pub(super) trace_id: &'a [u8; 16],
    pub(super) span_id: &'a [u8; 8],
    pub(super) flags: u8,
    pub(super) tracestate: &'a str,
    pub(super) workspace: &'a str,
    pub(super) session: Option<&'a str>,
    pub(super) agent: &'a str,
    pub(super) incarnation: &'a [u8; 16],
    pub(super) seq: u64,
    pub(super) prev_hash: &'a [u8; 32],
    pub(super) cause: Option<&'a [u8; 32]>,
    pub(super) seal: Option<SealFields<'a>>,
    pub(super) signature: Option<SignatureFields<'a>>,
    pub(super) extensions: Pairs<'a>,
}

#[derive(Debug, Clone)]
pub(super) struct SealFields<'a> {
    pub(super) key_id: &'a str,
    pub(super) algorithm: &'a str,
    pub(super) nonce: &'a [u8; 12],
}

#[derive(Debug, Clone)]
pub(super) struct SignatureFields<'a> {
    pub(super) signer: &'a str,
    pub(super) bytes: &'a [u8; 64],
}

/// Names and values that were read once, to be read again where they lie.
#[derive(Debug, Clone)]
pub(super) struct Pairs<'a> {
    pub(super) count: usize,
    bytes: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Reads the attributes; `None` when the bytes do not have the grammar of the form.
    pub(super) fn read(reader: &mut Reader<'a>) -> Option<Self> {
        Some(Self {
            id: reader.text()?,
            source: reader.text()?,
            event_type: reader.text()?,
            unix_ns: reader.signed()?,
            content_type: reader.optional(Reader::text)?,
            subject: reader.text()?,
            trace_id: reader.array()?,
            span_id: reader.array()?,
            flags: reader.byte()?,
            tracestate: reader.text()?,
            workspace: reader.text()?,
            session: reader.optional(Reader::text)?,
            agent: reader.text()?,
            incarnation: reader.array()?,
            seq: reader.number()?,
            prev_hash: reader.array()?,
            cause: reader.optional(Reader::array)?,
            seal: reader.optional(|reader| {
                Some(SealFields {
                    key_id: reader.text()?,
                    algorithm: reader.text()?,
                    nonce: reader.array()?,
                })
            })?,
            signature: reader.optional(|reader| {
                Some(SignatureFields { signer: reader.text()?, bytes: reader.array()? })
            })?,
            extensions: Pairs::read(reader)?,
        })
    }
}

impl<'a> Pairs<'a> {
    /// Nothing is stored: the bytes claim a count of their own.
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        let count = usize::try_from(reader.number()?).ok()?;
        if count > rules::EXTENSIONS_MAX {
            return None;
        }
        let bytes = reader.rest;
        for _ in 0..count {
            reader.text()?;
            reader.text()?;
        }
        Some(Self { count, bytes })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let mut reader = Reader::new(self.bytes);
        // Read once already, so that no pair is left out here.
        (0..self.count).map_while(move |_| Some((reader.text()?, reader.text()?)))
    }
}

/// Appends the attributes of `envelope`, with `seal` and `signature` for its own.
pub(super) fn put(
    bytes: &mut Vec<u8>,
    envelope: &MessageEnvelope,
    seal: Option<SealRef<'_>>,
    signature: Option<&Signature>,
) {
    let (lineage, trace) = (&envelope.lineage, &envelope.trace);
    put_text(bytes, &envelope.id);
    put_text(bytes, &envelope.source);
    put_text(bytes, &envelope.event_type);
    put_signed(bytes, envelope.time.unix_ns());
    put_optional(bytes, envelope.content_type.as_deref(), put_text);
    put_text(bytes, envelope.subject.as_str());
    bytes.extend_from_slice(trace.trace_id());
    bytes.extend_from_slice(trace.span_id());
    bytes.push(trace.flags());
    put_text(bytes, trace.tracestate().as_str());
    put_text(bytes, lineage.workspace.as_str());
    put_optional(bytes, lineage.session.as_ref().map(SessionId::as_str), put_text);
    put_text(bytes, lineage.agent.as_str());
    bytes.extend_from_slice(lineage.incarnation.as_bytes());
    put_number(bytes, lineage.seq_num.into());
    bytes.extend_from_slice(lineage.prev_event_hash.as_bytes());
    put_optional(bytes, lineage.cause.as_ref().map(EventHash::as_bytes), |bytes, cause| {
        bytes.extend_from_slice(cause);
    });
    put_optional(bytes, seal, |bytes, seal| {
        put_text(bytes, seal.key_id);
        put_text(bytes, seal.algorithm);
        bytes.extend_from_slice(&seal.nonce);
    });
    put_optional(bytes, signature, |bytes, signature| {
        put_text(bytes, &signature.signer);
        bytes.extend_from_slice(&signature.bytes);
    });
    put_number(bytes, envelope.extensions.len() as u128);
    for (name, value) in &envelope.extensions {
        put_text(bytes, name);
        put_text(bytes, value);
    }
}
