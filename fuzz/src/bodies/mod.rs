//! One body for each reader of strangers' bytes.
//!
//! A body takes any bytes, panics when a law is broken, and says whether the reader took them.

pub mod binary;
pub mod bundle;
pub mod checkpoint;
pub mod cloud_event;
pub mod compact;
pub mod creds;
pub mod filter;
pub mod journal;
pub mod json;
pub mod jwt;
pub mod link;
pub mod nkey;
pub mod proof;
pub mod recording;
pub mod revocation;
pub mod subject;
pub mod tasks;
pub mod terminal;
pub mod ticket;
pub mod traceparent;
