#![doc = include_str!("../README.md")]

mod aftermath;
mod blobs;
mod buckets;
mod bus;
mod channel;
mod commands;
mod connections;
pub mod core;
mod deliveries;
mod durable;
mod feed;
pub mod journal;
mod keepers;
mod limits;
mod live;
mod patience;
mod publish;
mod replay;
mod routes;
mod safety;
mod seats;
mod state;
mod stats;
mod subscription;
mod timekeeper;
mod waiters;
mod watch;

pub use bus::{InMemoryBus, PictureCursor};
pub use limits::Limits;
pub use stats::LiveStats;
