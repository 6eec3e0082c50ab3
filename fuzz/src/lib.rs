#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod bodies;
pub mod canary;
pub mod corpus;
pub mod golden;
pub mod laws;
pub mod mutate;
pub mod replay;
pub mod seeds;
pub mod target;

pub use target::{CANARY, TARGETS, Target};
