//! The door as a scraper, a probe and a page in a browser find it: over TCP, byte by byte.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail like the tests"
)]

mod answers;
mod client;
mod contract;
mod hostile;
mod impersonation;
mod page;
mod peers;
mod reader;
mod strangers;
mod world;
