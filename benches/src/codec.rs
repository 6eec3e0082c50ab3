//! The wire forms beside bare postcard and bare `serde_json`: encode into a kept buffer, decode.

use std::hint::black_box;

use anyhow::{Context, Result, ensure};
use bus_envelope::{MessageEnvelope, WireForm, wire};
use bytes::Bytes;

use crate::case::{Case, Figures, compare};
use crate::event::Sender;
use crate::{raw_json, raw_postcard};

pub(crate) const CASES: &[Case] = &[
    Case { name: "compact-1k", goal: Some(1.5), measure: compact },
    Case { name: "compact-owned-1k", goal: None, measure: compact_owned },
    Case { name: "json-1k", goal: Some(1.2), measure: json },
    Case { name: "json-known-1k", goal: None, measure: json_known },
    Case { name: "binary-1k", goal: Some(3.0), measure: binary },
];

const BYTES: usize = 1024;

/// A sealed and signed envelope beside postcard of the same fields: into a kept buffer, and read
/// where it lies. Ours holds every field against its rule.
fn compact() -> Result<Figures> {
    let envelope = Sender::new()?.sealed(BYTES)?;
    let raw_fields = raw_postcard::Raw::of(&envelope).context("sealed and signed")?;
    let (mut raw_buffer, mut buffer) = (vec![0; 4096], Vec::with_capacity(4096));
    compare(
        || {
            let encoded = postcard::to_slice(black_box(&raw_fields), &mut raw_buffer)?;
            let decoded: raw_postcard::Raw<'_> = postcard::from_bytes(black_box(encoded))?;
            black_box(&decoded);
            Ok(())
        },
        || {
            buffer.clear();
            wire::compact::encode_into(black_box(&envelope), &mut buffer);
            black_box(&wire::compact::view(black_box(&buffer))?);
            Ok(())
        },
    )
}

/// The same with a buffer of its own and an envelope that owns what it says, beside postcard that
/// still borrows.
fn compact_owned() -> Result<Figures> {
    let envelope = Sender::new()?.sealed(BYTES)?;
    let raw_fields = raw_postcard::Raw::of(&envelope).context("sealed and signed")?;
    compare(
        || {
            let encoded = postcard::to_extend(black_box(&raw_fields), Vec::with_capacity(2048))?;
            let decoded: raw_postcard::Raw<'_> = postcard::from_bytes(black_box(&encoded))?;
            black_box(&decoded);
            Ok(())
        },
        || compact_round(&envelope),
    )
}

fn compact_round(envelope: &MessageEnvelope) -> Result<MessageEnvelope> {
    let encoded = Bytes::from(wire::compact::encode(black_box(envelope)));
    Ok(wire::compact::decode_shared(black_box(&encoded))?)
}

/// A plain and signed envelope whose payload is JSON, beside `serde_json` with a raw value.
///
/// Both get the payload as bytes: a raw value exists only once `serde_json` has read it.
fn json() -> Result<Figures> {
    let envelope = Sender::new()?.signed(BYTES)?;
    let text = wire::json::encode(&envelope);
    let members: raw_json::Raw<'_> = serde_json::from_slice(&text)?;
    ensure!(serde_json::to_vec(&members)? == text, "bare serde_json writes other bytes");
    let mut raw_buffer = Vec::with_capacity(4096);
    compare(
        || {
            raw_buffer.clear();
            let data = serde_json::from_slice(black_box(&envelope.payload))?;
            serde_json::to_writer(&mut raw_buffer, black_box(&members.with_data(data)))?;
            let decoded: raw_json::Raw<'_> = serde_json::from_slice(black_box(&raw_buffer))?;
            black_box(&decoded);
            Ok(())
        },
        || json_round(&envelope),
    )
}

/// The same beside `serde_json` that was told before that the payload is JSON.
fn json_known() -> Result<Figures> {
    let envelope = Sender::new()?.signed(BYTES)?;
    let text = wire::json::encode(&envelope);
    let members: raw_json::Raw<'_> = serde_json::from_slice(&text)?;
    let mut raw_buffer = Vec::with_capacity(4096);
    compare(
        || {
            raw_buffer.clear();
            serde_json::to_writer(&mut raw_buffer, black_box(&members))?;
            let decoded: raw_json::Raw<'_> = serde_json::from_slice(black_box(&raw_buffer))?;
            black_box(&decoded);
            Ok(())
        },
        || json_round(&envelope),
    )
}

fn json_round(envelope: &MessageEnvelope) -> Result<MessageEnvelope> {
    let encoded = wire::json::encode(black_box(envelope));
    Ok(wire::json::decode(black_box(&encoded))?)
}

/// The binary form beside our own compact form.
fn binary() -> Result<Figures> {
    let envelope = Sender::new()?.sealed(BYTES)?;
    compare(
        || compact_round(&envelope),
        || {
            let (headers, body) = wire::encode(WireForm::Binary, black_box(&envelope));
            Ok(wire::decode(black_box(&headers), black_box(&body))?)
        },
    )
}
