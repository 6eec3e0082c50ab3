//! How much of each fault: once in a test run, many times in a long one.

/// The size of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    is_long: bool,
}

impl Scale {
    /// The one that `VAKBUS_FAULTS` asks for.
    pub(crate) fn of_environment() -> Self {
        Self { is_long: std::env::var("VAKBUS_FAULTS").is_ok_and(|value| value == "long") }
    }

    /// What fits into a test run, or what a long one has time for.
    pub(crate) fn pick<T>(self, short: T, long: T) -> T {
        if self.is_long { long } else { short }
    }
}
