#![doc = include_str!("../README.md")]

mod api;
mod append;
mod blob;
mod bucket;
mod bus;
mod codec;
mod connection;
mod live;
mod options;
mod profile;
mod queue;
mod read;
pub mod server;
mod streams;

pub use blob::BlobAges;
pub use bus::NatsBus;
pub use connection::ConnectionState;
pub use options::{NatsAuth, NatsOptions, NatsTls};
pub use profile::Profile;
