#![doc = include_str!("../README.md")]

mod destination;
mod pairs;
mod queue;
mod resource;
mod span;

pub use pairs::{Pair, PairsError, pairs};
pub use queue::{Batch, Batches, SPANS_PER_BATCH, SPANS_WAITING_MAX, Spans, spans};
pub use resource::Resource;
pub use span::System;

#[cfg(test)]
mod tests;
