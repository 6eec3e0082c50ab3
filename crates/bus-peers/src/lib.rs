#![doc = include_str!("../README.md")]
#![cfg_attr(
    test,
    expect(clippy::duplicate_mod, reason = "both forms of a bus keep the same promises")
)]

mod core;
mod envelope;
mod error;
mod inbox;
mod journal;
mod peer_bus;
mod posted;
mod record;
mod registry;
mod secret;
mod shared;
#[cfg(test)]
mod tests;

pub use envelope::{
    BusEdge, BusEnvelope, BusPayload, CallerIdentity, CallerKind, ChannelOrigin, DeliveryState,
    Recipient,
};
pub use error::BusError;
pub use inbox::{Inbox, InboxItem};
pub use journal::JournalSync;
pub use peer_bus::{PeerBus, PeerOptions, SharedBus};
pub use posted::Posted;
pub use record::{InboxMiss, JournalRecord};
pub use registry::{
    InstanceMeta, InstanceRegistry, Limits, LiveInstance, PeerTarget,
    machine::{Command, Done, Effects, MINTS_MAX, Registry},
};
pub use secret::{InstanceSecret, SecretHash};
pub use shared::Serving;
