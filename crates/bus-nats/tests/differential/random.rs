//! Numbers that only look random: the same ones for the same seed on every machine.

/// A generator of the `SplitMix64` kind: small, and good enough to choose operations.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number from 0 to `bound`, without it.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// True so many times in a thousand.
    pub(crate) const fn chance(&mut self, times: u64) -> bool {
        self.below(1000) < times
    }
}
