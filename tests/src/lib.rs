#![doc = include_str!("../README.md")]

mod crew;
mod entropy;
mod flaky;
mod handlers;
mod load;
mod memory;
pub mod sim;
mod stage;

pub use crew::{Counts, slow, word, words, work};
pub use entropy::Tap;
pub use flaky::{Call, Fault, Flaky, Op};
pub use handlers::{Doing, Ran, Scripted, Told};
pub use load::{Load, LoadReport};
pub use memory::Memory;
pub use stage::{Stage, task};

/// The code of the project's front page, so that it compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct FrontPage;
