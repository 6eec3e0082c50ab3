#![doc = include_str!("../README.md")]

mod client;
mod control;
mod limits;
mod options;
mod outgoing;
mod server;
#[doc(hidden)]
pub mod strangers;
mod task;
mod wire;

pub use bus_core::Admission;
pub use client::{Dial, LinkBus, LinkState, LinkStates, LinkStream};
pub use control::{BACKUP, Control, control_subject};
pub use limits::LinkLimits;
pub use options::LinkOptions;
pub use server::LinkServer;

#[cfg(test)]
extern crate self as bus_link;

#[cfg(test)]
mod tests;
