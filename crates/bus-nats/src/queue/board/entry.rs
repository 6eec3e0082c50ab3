//! One message on the board: where it stands, and what each verdict makes of that.

use std::time::Duration;

use bus_core::{OrderKey, Placement, Priority, Rank, Result};
use bus_envelope::Timestamp;

use self::wire::{read_entry, write_entry};

mod wire;

/// A message of one consumer that is on the board.
///
/// Each step makes a new entry; whoever takes the step stores it by compare-and-set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its position in the stream of the consumer.
    pub(crate) seq: u64,
    /// Where JetStream takes the acknowledgement of the delivery that brought it here.
    pub(crate) origin: String,
    pub(crate) level: Priority,
    pub(crate) key: Option<OrderKey>,
    /// The number of the attempt that comes next, or that runs.
    pub(crate) attempt: u32,
    /// It was handed out at least once: from then on it holds its key until it leaves.
    pub(crate) is_started: bool,
    pub(crate) standing: Standing,
}

/// What an entry does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It waits for a member, or rests as long as its time has not come.
    Waits {
        /// When it became ready, or will.
        since: Timestamp,
        /// It was handed back without a rest: it is first in line.
        is_front: bool,
    },
    /// A member has it.
    Held(Hold),
    /// Its member was told that it is done with it for good: nobody gets it again. The server may
    /// not know of it yet.
    Done {
        /// When that was decided.
        at: Timestamp,
    },
}

/// A lease on an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hold {
    /// Names this one claim among all.
    pub(crate) nonce: String,
    /// When the message became ready that is held.
    pub(crate) since: Timestamp,
    /// When the lease ends unless it is extended.
    pub(crate) until: Timestamp,
}

/// How an entry stands once its time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Due {
    /// When it is, or was, ready.
    pub(super) since: Timestamp,
    pub(super) is_front: bool,
    pub(super) attempt: u32,
}

impl Entry {
    /// A message that was not handed out yet, stored at a position and time.
    pub(crate) fn fresh(
        (seq, stored): (u64, Timestamp),
        origin: String,
        placement: Option<&Placement>,
    ) -> Self {
        let Placement { not_before, priority: level, key } = placement.cloned().unwrap_or_default();
        let since = not_before.map_or(stored, |not_before| not_before.max(stored));
        let standing = Standing::Waits { since, is_front: false };
        Self { seq, origin, level, key, attempt: 1, is_started: false, standing }
    }

    /// The same message when JetStream delivers it again, for the `attempt`th time: a member had
    /// it and told nobody what became of it. It waits from `now` on.
    pub(crate) fn delivered_again(self, attempt: u32, now: Timestamp) -> Self {
        let standing = Standing::Waits { since: now, is_front: false };
        Self { attempt: attempt.max(1), is_started: true, standing, ..self }
    }

    /// The same message when a member has it by JetStream and hands it back: it rests for
    /// `after`, or is first in line at once. Not counted.
    pub(crate) fn released(self, after: Duration, now: Timestamp) -> Self {
        let since = if after.is_zero() { self.ready_since() } else { now.plus(after) };
        let standing = Standing::Waits { since, is_front: after.is_zero() };
        Self { is_started: true, standing, ..self }
    }

    /// The same message when the attempt of the member that has it failed: it rests for `after`.
    pub(crate) fn failed(self, after: Duration, now: Timestamp) -> Self {
        let standing = Standing::Waits { since: now.plus(after), is_front: false };
        let attempt = self.attempt.saturating_add(1);
        Self { attempt, is_started: true, standing, ..self }
    }

    /// The same message in the hands of the claim `nonce`; `None` when it is not ready, or another
    /// claim holds it.
    pub(crate) fn claimed(&self, nonce: String, lease: Duration, now: Timestamp) -> Option<Self> {
        if self.done_at().is_some() {
            return None;
        }
        let Due { since, attempt, .. } = Some(self.due()).filter(|due| due.since <= now)?;
        let standing = Standing::Held(Hold { nonce, since, until: now.plus(lease) });
        Some(Self { attempt, is_started: true, standing, ..self.clone() })
    }

    /// The same message with its lease begun anew; `None` when that is over.
    pub(crate) fn extended(&self, lease: Duration, now: Timestamp) -> Option<Self> {
        let Standing::Held(hold) = &self.standing else { return None };
        if hold.until <= now {
            return None;
        }
        let standing = Standing::Held(Hold { until: now.plus(lease), ..hold.clone() });
        Some(Self { standing, ..self.clone() })
    }

    /// The same message when its member is done with it for good.
    pub(crate) fn done(self, now: Timestamp) -> Self {
        Self { standing: Standing::Done { at: now }, ..self }
    }

    /// When it was done with for good; `None` when it is still to be done.
    pub(crate) fn done_at(&self) -> Option<Timestamp> {
        match self.standing {
            Standing::Done { at } => Some(at),
            Standing::Waits { .. } | Standing::Held(_) => None,
        }
    }

    /// Whether it is in the hands of the claim that `other` is in the hands of.
    pub(crate) fn is_of_claim(&self, other: &Self) -> bool {
        match (&self.standing, &other.standing) {
            (Standing::Held(own), Standing::Held(other)) => own.nonce == other.nonce,
            _ => false,
        }
    }

    /// Whether a member holds it.
    pub(crate) fn is_held(&self, now: Timestamp) -> bool {
        matches!(&self.standing, Standing::Held(hold) if hold.until > now)
    }

    /// The state as it is stored.
    ///
    /// # Errors
    /// `Invalid` when it cannot be written.
    pub(crate) fn to_json(&self) -> Result<Vec<u8>> {
        write_entry(self)
    }

    /// Reads a stored state.
    ///
    /// # Errors
    /// `Corrupt` when it is none.
    pub(crate) fn from_json(json: &[u8]) -> Result<Self> {
        read_entry(json)
    }

    /// Its place once its time has come.
    pub(super) fn rank(&self) -> Rank {
        let Due { since, is_front, attempt } = self.due();
        Rank::new(self.seq, self.level, since).in_front(is_front).attempt(attempt)
    }

    /// How it stands once nothing but time has passed.
    pub(super) fn due(&self) -> Due {
        match &self.standing {
            &Standing::Waits { since, is_front } => Due { since, is_front, attempt: self.attempt },
            // Its lease ran out: that is a failed attempt.
            Standing::Held(hold) => {
                let attempt = self.attempt.saturating_add(1);
                Due { since: hold.until, is_front: false, attempt }
            }
            &Standing::Done { at } => Due { since: at, is_front: false, attempt: self.attempt },
        }
    }

    fn ready_since(&self) -> Timestamp {
        match &self.standing {
            Standing::Waits { since, .. } => *since,
            Standing::Held(hold) => hold.since,
            Standing::Done { at } => *at,
        }
    }
}

#[cfg(test)]
mod tests;
