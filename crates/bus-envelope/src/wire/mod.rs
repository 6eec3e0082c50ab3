//! The wire forms of an envelope: binary (headers and body), JSON and compact.
//!
//! All three carry the same attributes and decode to equal envelopes with equal hashes. Decoding is
//! strict: what is missing, unknown in version, doubled, too long or left over is refused.

mod attributes;
pub mod binary;
pub mod compact;
mod form;
pub mod json;
mod percent;
#[cfg(test)]
mod tests;

pub(crate) use attributes::decimal;
pub use form::{WireForm, decode, encode};
pub use percent::{decode_value, encode_value};
