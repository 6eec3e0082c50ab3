#![doc = include_str!("../README.md")]

mod api;
mod append;
mod blob;
mod bucket;
mod bus;
pub mod callout;
pub mod claims;
mod codec;
mod connection;
mod live;
mod options;
pub mod permissions;
mod profile;
mod queue;
mod read;
pub mod server;
mod snapshot;
mod streams;

pub use blob::BlobAges;
pub use bus::{Inspection, NatsBus};
pub use connection::ConnectionState;
pub use options::{NatsAuth, NatsOptions, NatsTls, Renewal};
pub use profile::Profile;
pub use snapshot::{Backup, BackupStep, Restored, try_backup, verify_backup};
pub use streams::{StreamFacts, StreamStanding};
