//! Who heard a frame, and who of them has the least room.

/// Who heard a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// How many subscriptions.
    pub by: usize,
    /// The smallest capacity of those that want every frame; [`u64::MAX`] when none does.
    pub capacity_min: u64,
}

/// The most or the least of some numbers, and how many of them it is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Extreme {
    pub(super) value: u64,
    count: usize,
}

impl Heard {
    /// Nobody heard it.
    pub const NOBODY: Self = Self { by: 0, capacity_min: u64::MAX };

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let capacity_min = self.capacity_min.min(other.capacity_min);
        Self { by: self.by + other.by, capacity_min }
    }
}

impl Extreme {
    pub(super) fn add(&mut self, value: u64, beats: impl FnOnce(u64, u64) -> bool) {
        if self.count == 0 || beats(value, self.value) {
            *self = Self { value, count: 0 };
        }
        self.count += usize::from(value == self.value);
    }

    /// Says whether nothing is left of this value, so that another one must be found.
    pub(super) fn remove(&mut self, value: u64) -> bool {
        self.count -= usize::from(value == self.value);
        self.count == 0
    }
}
