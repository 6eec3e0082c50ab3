#![doc = include_str!("../README.md")]

mod api;
mod body;
mod door;
mod gateway;
mod guard;
mod health;
mod metrics;
mod openapi;
mod peers;
mod queues;
mod rate;
mod refused;
mod secret;
mod sources;

pub use api::Api;
pub use door::tls::Tls;
pub use gateway::{Gateway, GatewayError};
pub use queues::{QueueReading, Standing};
pub use rate::{Limits, Rate};
pub use secret::DoorSecret;
pub use sources::{
    ApprovalsReading, AuditReading, Build, ChoreCounts, Counts, HookReading, LettersReading,
    Sources,
};
