#![doc = include_str!("../README.md")]

mod entropy;
mod flaky;
mod handlers;
mod stage;

pub use entropy::Tap;
pub use flaky::{Call, Fault, Flaky, Op};
pub use handlers::{Doing, Scripted, Told};
pub use stage::{Stage, task, word};
