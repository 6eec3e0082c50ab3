#![doc = include_str!("../README.md")]

mod gateway;
mod guard;
mod health;
mod metrics;
mod queues;
mod sources;

pub use gateway::{Gateway, GatewayError};
pub use queues::{QueueReading, Standing};
pub use sources::{
    ApprovalsReading, AuditReading, Build, ChoreCounts, Counts, HookReading, LettersReading,
    Sources,
};
