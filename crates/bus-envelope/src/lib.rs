#![doc = include_str!("../README.md")]

mod chain;
mod chain_set;
mod cloud_event;
mod draft;
mod envelope;
mod error;
mod hash;
mod headers;
mod rules;
#[cfg(test)]
mod samples;
mod timestamp;
mod trace;
mod tracestate;
pub mod tree;
mod uri;
mod verify;
pub mod wire;

pub use chain::{ChainHead, ChainScope};
pub use chain_set::{ChainLimits, ChainSet, ChainTotals};
pub use cloud_event::{AttributeValue, CloudEvent, EventData};
pub use draft::{Draft, Stamp};
pub use envelope::{Lineage, MessageEnvelope, Seal, SealRef, Signature};
pub use error::EnvelopeError;
pub use hash::{EventHash, HashError};
pub use headers::{HeaderError, Headers};
pub use rules::is_json_content_type;
pub use timestamp::{TimeError, Timestamp};
pub use trace::{TraceContext, TraceError};
pub use tracestate::TraceState;
pub use uri::{is_uri, is_uri_reference};
pub use verify::{ChainSummary, ChainVerdict, ChainVerifier, TailVerdict};
pub use wire::WireForm;
