//! What came of one run.

use super::{Options, Violation, ledger::End, world::World};

/// The outcome of one seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The options.
    pub options: Options,
    /// What was broken; `None`: all promises were kept.
    pub violation: Option<Violation>,
    /// The digest of everything that happened, in order.
    pub digest: u64,
    /// The last things that happened, oldest first.
    pub last_lines: Vec<String>,
    /// How often what happened: names and numbers.
    pub figures: Vec<(&'static str, u64)>,
}

/// Runs the world of `seed` to its end, or to the first broken promise.
#[must_use]
pub fn simulate(seed: u64, options: Options) -> Report {
    let mut world = match World::new(seed, options) {
        Ok(world) => world,
        Err(violation) => return Report::empty(seed, options, violation),
    };
    let violation = world.run().err();
    let (ledger, tally) = (&world.server.ledger, world.tally);
    let (counts, ends) = (ledger.counts, ledger.ends());
    let ended = |end| ends.get(&end).copied().unwrap_or_default();
    let figures = vec![
        ("steps", world.steps),
        ("virtual_seconds", world.now / 1_000_000_000),
        ("acknowledged", world.acknowledged.len() as u64),
        ("stored", counts.stored),
        ("done", ended(End::Done)),
        ("dead_lettered", ended(End::Buried)),
        ("discarded", ended(End::Discarded)),
        ("left", ledger.stored_now()),
        ("claims", counts.claims),
        ("redeliveries", counts.redeliveries),
        ("known_again", counts.known),
        ("late_verdicts", counts.late),
        ("lost_races", counts.lost_races),
        ("live_events", world.live.published),
        ("live_heard", world.live.heard),
        ("live_missed", world.live.missed),
        ("crashes", tally.crashes),
        ("clock_jumps", tally.jumps),
        ("lost_messages", tally.lost),
        ("copied_messages", tally.copies),
        ("repeated_calls", tally.repeats),
    ];
    let digest = world.trace.digest();
    Report { seed, options, violation, digest, last_lines: world.trace.into_last(), figures }
}

impl Report {
    /// Whether all promises were kept.
    #[must_use]
    pub const fn is_good(&self) -> bool {
        self.violation.is_none()
    }

    /// One of the figures; 0 when there is none of this name.
    #[must_use]
    pub fn figure(&self, name: &str) -> u64 {
        let figure = self.figures.iter().find(|(known, _)| *known == name);
        figure.map_or(0, |&(_, number)| number)
    }

    /// The command that replays this run exactly.
    #[must_use]
    pub fn replay_command(&self) -> String {
        format!("cargo xtask sim --seeds 1 --seed {} {}", self.seed, self.options.to_words())
    }

    fn empty(seed: u64, options: Options, violation: Violation) -> Self {
        let (last_lines, figures) = (Vec::new(), Vec::new());
        Self { seed, options, violation: Some(violation), digest: 0, last_lines, figures }
    }
}
