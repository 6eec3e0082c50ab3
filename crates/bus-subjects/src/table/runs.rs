//! A filter cut at its wildcards into runs of literal levels.

use super::levels::{hash, mix};

/// Some literal levels of a filter and what follows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// The hash over the levels of the run; [`RUN_EMPTY`] without any.
    pub(super) hash: u64,
    /// How many levels it has.
    pub(super) levels: usize,
    /// What follows.
    pub(super) ending: Ending,
}

/// What follows a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// `*`, and then another run.
    Star,
    /// Nothing.
    End,
    /// `>`.
    Tail,
}

/// The runs of a filter; only the last one ends in something else than a star.
pub(super) fn runs(filter: &str, seed: u64) -> Vec<Run> {
    let mut runs = Vec::new();
    let (mut state, mut levels) = (RUN_EMPTY, 0);
    for level in filter.split('.') {
        let ending = match level {
            "*" => Ending::Star,
            ">" => Ending::Tail,
            _ => {
                state = extend(state, hash(seed, level.as_bytes()));
                levels += 1;
                continue;
            }
        };
        runs.push(Run { hash: state, levels, ending });
        if ending == Ending::Tail {
            return runs;
        }
        (state, levels) = (RUN_EMPTY, 0);
    }
    runs.push(Run { hash: state, levels, ending: Ending::End });
    runs
}

/// The hash of a run that is longer by one level.
pub(super) fn extend(run: u64, level: u64) -> u64 {
    mix(run.rotate_left(23) ^ level, MIX_RUN)
}

/// The hash of the run without levels.
pub(super) const RUN_EMPTY: u64 = 0x2545_f491_4f6c_dd1d;

const MIX_RUN: u64 = 0xa076_1d64_78bd_642f;
