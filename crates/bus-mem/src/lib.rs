#![doc = include_str!("../README.md")]

mod bus;
pub mod core;
mod deliveries;
mod durable;
mod limits;
mod live;
mod replay;
mod stats;
mod subscription;
mod timekeeper;
mod waiters;

pub use bus::InMemoryBus;
pub use limits::Limits;
pub use stats::LiveStats;
