//! What one run of the simulation is made of; together with the seed it decides everything.

use super::Fault;

/// The size of a run, and the fault planted in its broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Agents altogether: producers, workers and operators; 10 to 1,000,000.
    pub agents: usize,
    /// Events until agents stop to make trouble and the queues are worked off.
    pub steps: u64,
    /// What the broker does wrong; `None`: it is the real one.
    pub fault: Option<Fault>,
}

impl Options {
    /// The fewest agents with which every kind of them is there.
    pub const AGENTS_MIN: usize = 10;
    /// The most.
    pub const AGENTS_MAX: usize = 1_000_000;

    /// The words that give exactly these options to `cargo xtask sim`.
    #[must_use]
    pub fn to_words(&self) -> String {
        let Self { agents, steps, fault } = self;
        let mut words = format!("--agents {agents} --steps {steps}");
        if let Some(fault) = fault {
            words.push_str(" --sabotage ");
            words.push_str(fault.name());
        }
        words
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { agents: 2_000, steps: 100_000, fault: None }
    }
}
