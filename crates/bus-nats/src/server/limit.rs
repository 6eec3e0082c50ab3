//! A span of real time that runs out: how long a process of the machine is waited for.

use std::time::{Duration, Instant};

/// Counts down from now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    start: Instant,
    span: Duration,
}

impl Limit {
    #[expect(
        clippy::disallowed_methods,
        reason = "another process's pace is no time of the bus, and nothing stops its clock"
    )]
    pub(super) fn new(span: Duration) -> Self {
        Self { start: Instant::now(), span }
    }

    /// What is left of it.
    pub(super) fn left(&self) -> Duration {
        self.span.saturating_sub(self.gone())
    }

    /// How long it has been counting.
    pub(super) fn gone(&self) -> Duration {
        self.start.elapsed()
    }

    pub(super) fn is_over(&self) -> bool {
        self.left().is_zero()
    }
}
