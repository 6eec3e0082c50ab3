//! Connections: places for them, their limits, and TLS.

pub(crate) mod connection;
mod patient;
pub(crate) mod places;
pub(crate) mod tls;
