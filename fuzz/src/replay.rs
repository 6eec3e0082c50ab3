//! Runs a body over inputs on a stable compiler and catches what breaks.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::mutate::Mutator;
use crate::{Target, corpus};

/// What a replay ran over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Inputs run.
    pub executions: u64,
    /// Inputs that the reader took.
    pub accepted: u64,
    /// Inputs that the reader refused.
    pub refused: u64,
}

/// An input on which a body panicked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crash {
    /// Where the input came from: a kept file, a seed, or a round of the mutator.
    pub origin: String,
    /// What the panic said.
    pub message: String,
    /// The input.
    pub input: Vec<u8>,
}

/// The starting inputs of a target: kept ones first, then the seeds.
///
/// # Errors
/// When the kept ones cannot be read.
pub fn inputs(target: &Target) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut inputs = corpus::kept(target.name)?;
    let seeds = (target.seeds)();
    inputs
        .extend((1..).zip(seeds).map(|(number, seed): (u32, _)| (format!("seed {number}"), seed)));
    Ok(inputs)
}

/// Runs every input as it is.
///
/// # Errors
/// The first [`Crash`].
pub fn walk(target: &Target, inputs: &[(String, Vec<u8>)]) -> Result<Tally, Box<Crash>> {
    let mut tally = Tally::default();
    for (origin, input) in inputs {
        run(target, &mut tally, || origin.clone(), input)?;
    }
    Ok(tally)
}

/// Runs changed inputs for as long as `goes_on` says, given how many were run.
///
/// # Errors
/// The first [`Crash`].
pub fn mutate(
    target: &Target,
    inputs: &[(String, Vec<u8>)],
    seed: u64,
    goes_on: impl Fn(u64) -> bool,
) -> Result<Tally, Box<Crash>> {
    let mut tally = Tally::default();
    let inputs: Vec<Vec<u8>> = inputs.iter().map(|(_, input)| input.clone()).collect();
    let mut mutator = Mutator::new(seed);
    while goes_on(tally.executions) {
        let input = mutator.input(&inputs);
        let round = tally.executions;
        run(target, &mut tally, || format!("round {round} of seed {seed}"), &input)?;
    }
    Ok(tally)
}

fn run(
    target: &Target,
    tally: &mut Tally,
    origin: impl FnOnce() -> String,
    input: &[u8],
) -> Result<(), Box<Crash>> {
    tally.executions += 1;
    match catch_unwind(AssertUnwindSafe(|| (target.body)(input))) {
        Ok(true) => tally.accepted += 1,
        Ok(false) => tally.refused += 1,
        Err(panic) => {
            let message = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("a panic without a text");
            let (message, input) = (message.to_owned(), input.to_vec());
            return Err(Box::new(Crash { origin: origin(), message, input }));
        }
    }
    Ok(())
}
