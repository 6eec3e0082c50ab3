//! What an agent is and what it is doing.

use bus_mem::core::{Claim, Message};

use super::command::{Command, Lease, Plane};

/// One agent; what it knows is gone when it crashes.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) kind: Kind,
    /// Its process life, counted up with every crash.
    pub(super) life: u32,
    pub(super) state: State,
    /// The call whose answer it waits for; it makes one at a time.
    pub(super) pending: Option<(u64, Command)>,
    /// Calls it made so far.
    pub(super) calls: u64,
    /// Tasks it made so far.
    pub(super) made: u64,
    /// When the last thing it sent arrives: later ones come later.
    pub(super) to_broker: u64,
    /// Likewise for what is sent to it.
    pub(super) from_broker: u64,
}

/// What an agent is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Makes tasks.
    Producer,
    /// Does the tasks of a queue.
    Worker { queue: usize },
    /// Counts, pauses, discards.
    Operator,
}

/// What an agent is doing.
#[derive(Debug, Clone)]
pub(super) enum State {
    /// It crashed and is not back yet.
    Down,
    /// It waits for its next turn, or for the answer to a call that needs no memory.
    Idle,
    /// It works on a task.
    Working { job: Job, fate: Fate },
    /// It reads the head of the chain that its receipt will follow.
    Reading { job: Job },
    /// It stores its receipt.
    Recording { job: Job },
    /// It stores a dead letter.
    Burying { job: Job },
    /// It gives its verdict.
    Settling,
}

/// A task in somebody's hands.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) plane: Plane,
    pub(super) lease: Lease,
    pub(super) claim: Claim,
}

/// What will become of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Success,
    Failure,
    Hopeless,
    HandBack,
    Crash,
}

/// What an agent told itself to do later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    /// Comes back to life.
    Restart,
    /// Does its next thing.
    Turn,
    /// The answer to this call did not come.
    Timeout(u64),
    /// The work is done, one way or another.
    Finish,
    /// The lease is worth extending.
    Extend,
}

impl Agent {
    pub(super) const fn new(kind: Kind) -> Self {
        Self {
            kind,
            life: 0,
            state: State::Down,
            pending: None,
            calls: 0,
            made: 0,
            to_broker: 0,
            from_broker: 0,
        }
    }
}

impl Job {
    pub(super) fn message(&self) -> &Message {
        &self.claim.message
    }
}
