#![doc = include_str!("../README.md")]

mod gateway;
mod guard;
mod health;
mod metrics;
mod queues;
mod sources;

pub use gateway::{Gateway, GatewayError};
pub use queues::{QueueReading, Standing};
pub use sources::{Build, Counts, Sources};
