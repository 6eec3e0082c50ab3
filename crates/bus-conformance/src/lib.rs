#![doc = include_str!("../README.md")]

mod case;
mod cases;
mod check;
mod context;
mod declared;
mod harness;
mod mirror;
mod model;
mod report;
mod steps;
mod suite;
mod trial;

pub use harness::{Harness, advance, wait_out};
pub use model::{ModelFailure, ModelTest};
pub use report::{CaseOutcome, CaseReport};
pub use suite::{Suite, case_names, run};
