//! Where a durable message stands among those that wait: when, how urgent, and after whom.

use std::{sync::Arc, time::Duration};

use bus_envelope::Timestamp;

use crate::{Error, ErrorKind, Result, frame::check_visible};

/// How consumers hand out one message. The default: at once, as urgent as others, after nobody.
///
/// The engine acts on it, receivers do not: it is no part of the sealed envelope.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Placement {
    /// Not handed out before this time of the engine's clock (`a_scheduled_task_waits_its_time`).
    pub not_before: Option<Timestamp>,
    /// Which lane it waits in (`an_urgent_task_overtakes`).
    pub priority: Priority,
    /// Messages of one key are handed out one at a time and in the order they were appended, also
    /// to parallel members: the next one waits until the one before it has left
    /// (`tasks_of_one_key_run_one_after_the_other`). One that rests before a retry holds the
    /// others of its key, whatever their priority. One with a `not_before` takes its turn when
    /// that time comes: before those that were appended after it and were not handed out yet.
    pub key: Option<OrderKey>,
}

/// How urgent a message is: 0 to 9, by default 4, as in JMS.
///
/// A lane ages: a message stands before all that became ready up to [`Priority::HEAD_START`]
/// earlier for each level they are less urgent, and behind those that wait longer. So an urgent
/// task overtakes, and no task starves (`a_patient_task_is_not_starved`).
///
/// A message became ready when it was stored, or when its `not_before`, its rest or its lost lease
/// ended after that; one that waits for its key is ready. Of those that became ready at the same
/// time in one lane, the one that failed before comes last. What was handed back without a rest
/// is first in line whatever its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u8);

/// What orders messages: 1 to 128 bytes of visible ASCII.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderKey(Arc<str>);

impl Priority {
    /// The least urgent: 0.
    pub const LOWEST: Self = Self(0);
    /// The default: 4.
    pub const NORMAL: Self = Self(4);
    /// The most urgent: 9.
    pub const HIGHEST: Self = Self(9);
    /// What one level is worth in waiting: ten minutes.
    pub const HEAD_START: Duration = Duration::from_secs(600);

    /// Checks `level`.
    ///
    /// # Errors
    /// `Invalid` above 9.
    pub fn new(level: u8) -> Result<Self> {
        if level <= Self::HIGHEST.0 {
            return Ok(Self(level));
        }
        let why = format!("{level} is no priority: expected 0 (least urgent) to 9 (most urgent)");
        Err(Error::new(ErrorKind::Invalid, "priority", why))
    }

    /// The level, 0 to 9.
    #[must_use]
    pub const fn level(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::NORMAL
    }
}

impl OrderKey {
    /// The longest key, in bytes.
    pub const BYTES_MAX: usize = 128;

    /// Checks `text`.
    ///
    /// # Errors
    /// `Invalid` with the reason.
    pub fn parse(text: &str) -> Result<Self> {
        check_visible("order key", text, Self::BYTES_MAX)?;
        Ok(Self(text.into()))
    }

    /// The text of the key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for OrderKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_key_is_up_to_128_bytes_of_visible_ascii() {
        assert_eq!(OrderKey::parse(&"k".repeat(128)).unwrap().as_str().len(), 128);
        for bad in ["", "a b", "é", "a\r\nb", &"k".repeat(129)] {
            assert_eq!(OrderKey::parse(bad).unwrap_err().kind(), ErrorKind::Invalid, "{bad:?}");
        }
    }

    #[test]
    fn a_priority_is_one_of_ten() {
        assert_eq!(Priority::new(9).unwrap(), Priority::HIGHEST);
        assert_eq!(Priority::new(10).unwrap_err().kind(), ErrorKind::Invalid);
    }
}
