#![doc = include_str!("../README.md")]

mod crew;
mod entropy;
mod flaky;
mod handlers;
mod stage;

pub use crew::{Counts, slow, word, words, work};
pub use entropy::Tap;
pub use flaky::{Call, Fault, Flaky, Op};
pub use handlers::{Doing, Ran, Scripted, Told};
pub use stage::{Stage, task};
