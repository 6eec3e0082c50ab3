//! What is sent: a draft, and where it shall stand among those that wait.

use std::time::Duration;

use bus_envelope::{Draft, Timestamp};

use crate::{OrderKey, Placement, Priority};

/// A draft with its place in the queue.
///
/// The place is for the engine that hands the message out: it is no part of what is sealed, and a
/// receiver does not see it. A plain [`Draft`] becomes one that is handed out as usual.
///
/// ```
/// use std::time::Duration;
///
/// use bus_core::{OrderKey, Outgoing, Priority};
/// use bus_envelope::Draft;
/// use bus_subjects::Subject;
///
/// let draft = Draft::new(Subject::parse("vak.work.acme.coder.task")?, "vak.task", "build it");
/// let outgoing = Outgoing::from(draft)
///     .after(Duration::from_secs(60))
///     .priority(Priority::HIGHEST)
///     .key(OrderKey::parse("repository-1")?);
/// assert_eq!(outgoing.placement.priority, Priority::HIGHEST);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// What is said.
    pub draft: Draft,
    /// Where it stands among those that wait. A `not_before` of its own counts only without
    /// `delay`.
    pub placement: Placement,
    /// How long it is held back from the moment it is stamped, by the endpoint's clock.
    pub delay: Option<Duration>,
}

impl Outgoing {
    /// Not handed out before so much time has passed since it was stamped; replaces
    /// [`at`](Self::at).
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        (self.delay, self.placement.not_before) = (Some(delay), None);
        self
    }

    /// Not handed out before this time of the engine's clock; replaces [`after`](Self::after).
    #[must_use]
    pub fn at(mut self, time: Timestamp) -> Self {
        (self.delay, self.placement.not_before) = (None, Some(time));
        self
    }

    /// How urgent it is.
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.placement.priority = priority;
        self
    }

    /// Handed out in order with others of this key, one at a time.
    #[must_use]
    pub fn key(mut self, key: OrderKey) -> Self {
        self.placement.key = Some(key);
        self
    }

    /// The placement of a message that is stamped at `now`.
    pub(super) fn placement_at(
        mut placement: Placement,
        delay: Option<Duration>,
        now: Timestamp,
    ) -> Placement {
        if let Some(delay) = delay {
            placement.not_before = Some(now.plus(delay));
        }
        placement
    }
}

impl From<Draft> for Outgoing {
    fn from(draft: Draft) -> Self {
        Self { draft, placement: Placement::default(), delay: None }
    }
}
