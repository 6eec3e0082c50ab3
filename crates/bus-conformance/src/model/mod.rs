//! Random operations on an engine, held against a plain model of the rules.

mod bucket;
mod operation;
mod player;
mod queue;
mod random;
mod stored;
mod test;

pub use test::{ModelFailure, ModelTest};
