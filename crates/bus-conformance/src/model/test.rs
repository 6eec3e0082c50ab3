//! Runs the model test: one seed or many, and cuts a failing list of operations down.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::{operation::Operation, player::Player};
use crate::{
    Harness,
    check::{CaseResult, Failure},
    context::Context,
    trial::runtime,
};

/// Random operations on an engine, each answer held against a plain model of the rules.
///
/// Appends, batches, claims, verdicts, discards, pauses, removals, bucket writes and watches come
/// in an order that depends on the seed alone. Under [`Harness::virtual_time`] time passes as
/// well: leases run out, tasks come due, values end; under real time nothing that waits is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelTest {
    seed: u64,
    steps: usize,
}

/// An engine and the model do not agree.
#[derive(Debug, Clone)]
pub struct ModelFailure {
    /// The seed that led here.
    pub seed: u64,
    /// What was expected and what came.
    pub reason: String,
    /// The fewest operations found that lead to a failure; the last one fails.
    pub operations: Vec<String>,
}

impl ModelTest {
    /// The variable that names the one seed to run.
    pub const SEED_VARIABLE: &'static str = "VAKBUS_MODEL_SEED";

    /// The test of `seed` with `steps` operations.
    #[must_use]
    pub const fn new(seed: u64, steps: usize) -> Self {
        Self { seed, steps }
    }

    /// The tests of the seeds 1 to `count`, or the one of the seed in
    /// [`SEED_VARIABLE`](Self::SEED_VARIABLE) when that is set.
    #[must_use]
    pub fn seeds(count: u64, steps: usize) -> Vec<Self> {
        match std::env::var(Self::SEED_VARIABLE).ok().and_then(|seed| seed.parse().ok()) {
            Some(seed) => vec![Self::new(seed, steps)],
            None => (1..=count).map(|seed| Self::new(seed, steps)).collect(),
        }
    }

    /// The seed.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Runs the operations on a fresh harness from `make`, on this thread.
    ///
    /// # Errors
    /// The first disagreement, after cutting the operations down to few that still fail.
    pub fn run<H: Harness>(&self, make: impl Fn() -> H) -> Result<(), ModelFailure> {
        let play = |operations: &[Operation]| play(Arc::new(make()), operations);
        let time = make().virtual_time();
        let operations = Operation::list(self.seed, self.steps, time);
        let Err((failed_at, reason)) = play(&operations) else { return Ok(()) };
        let mut few = operations;
        few.truncate(failed_at + 1);
        let (few, reason) = cut_down(few, reason, &play);
        let operations = few.iter().map(|operation| format!("{operation:?}")).collect();
        Err(ModelFailure { seed: self.seed, reason, operations })
    }
}

impl fmt::Display for ModelFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, reason, operations } = self;
        writeln!(f, "seed {seed}: {reason}")?;
        for operation in operations {
            writeln!(f, "  {operation}")?;
        }
        write!(f, "run again with {}={seed}", ModelTest::SEED_VARIABLE)
    }
}

impl std::error::Error for ModelFailure {}

/// The number of the operation that failed, and why.
type Played = Result<(), (usize, String)>;

/// Leaves out parts, large ones first, as long as what is left still fails.
fn cut_down(
    mut few: Vec<Operation>,
    mut reason: String,
    play: &impl Fn(&[Operation]) -> Played,
) -> (Vec<Operation>, String) {
    let (mut size, mut runs) = (few.len() / 2, 0);
    while size > 0 {
        let mut at = 0;
        while at < few.len() && runs < RUNS_MAX {
            runs += 1;
            let end = (at + size).min(few.len());
            let left: Vec<_> = few.iter().take(at).chain(few.iter().skip(end)).cloned().collect();
            match play(&left) {
                Err((failed_at, why)) => {
                    few = left;
                    few.truncate(failed_at + 1);
                    reason = why;
                }
                Ok(()) => at = end,
            }
        }
        size /= 2;
    }
    (few, reason)
}

fn play(harness: Arc<dyn Harness>, operations: &[Operation]) -> Played {
    let at_start = |failure: Failure| (0, failure.into_reason());
    let time = harness.virtual_time();
    let runtime = runtime(harness.as_ref()).map_err(at_start)?;
    let played = runtime.block_on(async {
        let number = FIRST_NUMBER + RUNS.fetch_add(1, Ordering::Relaxed);
        let context = Context::open(harness, number).await.map_err(at_start)?;
        let mut player = Player::new(&context, time).await.map_err(at_start)?;
        for (at, operation) in operations.iter().enumerate() {
            let played: CaseResult = player.play(operation).await;
            played.map_err(|failure| (at, failure.into_reason()))?;
        }
        let finished = player.finish().await;
        finished.map_err(|failure| (operations.len(), failure.into_reason()))
    });
    runtime.shutdown_background();
    played
}

/// How often a failing list is tried again.
const RUNS_MAX: usize = 400;
/// Keeps the names of runs apart from those of cases on one server.
const FIRST_NUMBER: usize = 1_000_000;
static RUNS: AtomicUsize = AtomicUsize::new(0);
