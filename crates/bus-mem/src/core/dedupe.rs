//! The memory for frame ids: which were stored within the window, and where.
//!
//! It keeps no texts: a million of them would cost more memory than all else about them, and one
//! cache miss each when they go. It keeps 128 bits of a keyed hash. Two ids of one stream have the
//! same by chance with less than 2^-64, and whoever wants that must break `SipHash`. The key comes
//! from outside, because a broker that outlives its process must know its ids again.

use std::{
    collections::VecDeque,
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

use bus_core::FrameId;
use bus_envelope::Timestamp;
use siphasher::sip128::SipHasher13;

use super::idtable::{IdTable, Mark, Remembered};

/// Ids that were stored not longer than a window ago.
///
/// Bounded twice: by the window, and by a number of ids. At that bound the oldest id is forgotten
/// before its window ends, because refusing new work to remember old work would be worse.
#[derive(Debug)]
pub(crate) struct Dedupe {
    window_ns: u64,
    ids_max: usize,
    key: DigestKey,
    /// The time that `Known::age` counts from: that of the first id.
    origin: Timestamp,
    /// In the order they were stored.
    ids: VecDeque<Known>,
    /// How many were forgotten, cut to 32 bits: the number of the first one in `ids`.
    forgotten: u32,
    /// Finds the number of an id.
    table: IdTable,
}

#[derive(Debug)]
struct Known {
    digest: Digest,
    seq: u64,
    /// Nanoseconds from the origin to when it was stored.
    age_ns: u64,
}

/// What stands for the text of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digest(pub(crate) [u64; 2]);

/// The key of `SipHash`, without which nobody finds collisions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct DigestKey(pub(crate) [u8; 16]);

impl Dedupe {
    /// Ids remembered at least, however few messages the stream may hold.
    pub(crate) const IDS_MIN: u64 = 65_536;

    /// Ids remembered at most, however many messages the stream may hold.
    pub(crate) const IDS_MAX: u64 = 1 << 31;

    /// A memory of `window` for a stream of at most `messages_max` messages.
    pub(crate) fn new(window: Duration, messages_max: u64, key: DigestKey) -> Self {
        let ids_max = Self::ids_max(messages_max);
        Self {
            window_ns: u64::try_from(window.as_nanos()).unwrap_or(u64::MAX),
            ids_max: usize::try_from(ids_max).unwrap_or(usize::MAX),
            key,
            origin: Timestamp::MAX,
            ids: VecDeque::new(),
            forgotten: 0,
            table: IdTable::default(),
        }
    }

    /// How many ids a stream of at most `messages_max` messages remembers at most.
    pub(crate) fn ids_max(messages_max: u64) -> u64 {
        messages_max.clamp(Self::IDS_MIN, Self::IDS_MAX)
    }

    pub(crate) const fn key(&self) -> DigestKey {
        self.key
    }

    /// The ids from position `seq` on that are remembered, in order: each with its position and
    /// when it was stored.
    pub(crate) fn ids_from(&self, seq: u64) -> impl Iterator<Item = (Digest, u64, Timestamp)> {
        let skip = self.ids.partition_point(|known| known.seq < seq);
        self.ids.range(skip..).map(|known| {
            let stored = self.origin.plus(Duration::from_nanos(known.age_ns));
            (known.digest, known.seq, stored)
        })
    }

    /// Where `id` was stored within the window, or what to remember it by.
    pub(crate) fn find(&mut self, id: &FrameId, now: Timestamp) -> Result<u64, Digest> {
        let age_ns = self.age_ns(now);
        self.expire(age_ns);
        let digest = self.key.digest(id);
        let number = self.table.find(digest.mark(), |number| self.is_of(number, digest));
        // Not all whose window ended are forgotten at once: see `expire`.
        let known = number.and_then(|number| self.known(number));
        known.filter(|known| !self.is_over(known, age_ns)).map(|known| known.seq).ok_or(digest)
    }

    /// Remembers that an id was stored at `seq` now; `digest` is what `find` answered for it now.
    pub(crate) fn remember(&mut self, digest: Digest, seq: u64, now: Timestamp) {
        if self.window_ns == 0 {
            return;
        }
        if self.ids.is_empty() {
            self.origin = now;
        }
        while self.ids.len() >= self.ids_max {
            self.forget_oldest();
        }
        let (ids, forgotten, remembered) = (&self.ids, self.forgotten, self.remembered());
        let number = forgotten.wrapping_add(remembered.count);
        // Its window may have ended without it being forgotten: then the new one takes its place.
        self.table.insert(digest.mark(), number, remembered, |number| {
            known(ids, forgotten, number).is_some_and(|known| known.digest == digest)
        });
        let age_ns = self.age_ns(now);
        self.ids.push_back(Known { digest, seq, age_ns });
    }

    /// Forgets ids whose window ended, a few at a time: more than any call adds, and never so many
    /// that one call after a long rest stops everybody else.
    fn expire(&mut self, age_ns: u64) {
        for _ in 0..FORGOTTEN_A_CALL {
            if !self.ids.front().is_some_and(|known| self.is_over(known, age_ns)) {
                return;
            }
            self.forget_oldest();
        }
    }

    const fn is_over(&self, known: &Known, age_ns: u64) -> bool {
        known.age_ns.saturating_add(self.window_ns) <= age_ns
    }

    fn is_of(&self, number: u32, digest: Digest) -> bool {
        self.known(number).is_some_and(|known| known.digest == digest)
    }

    fn remembered(&self) -> Remembered {
        Remembered { first: self.forgotten, count: self.ids.len() as u32 }
    }

    fn known(&self, number: u32) -> Option<&Known> {
        known(&self.ids, self.forgotten, number)
    }

    /// Five centuries fit; whoever keeps a bus for longer has ids forgotten late.
    fn age_ns(&self, now: Timestamp) -> u64 {
        u64::try_from(now.unix_ns() - self.origin.unix_ns()).unwrap_or(0)
    }

    fn forget_oldest(&mut self) {
        let Some(Known { digest, .. }) = self.ids.pop_front() else { return };
        let number = self.forgotten;
        self.forgotten = number.wrapping_add(1);
        self.table.forget(digest.mark(), number);
        if self.ids.is_empty() {
            // A queue that rests keeps no room for its busiest hour.
            self.ids = VecDeque::new();
            self.table.clear();
        }
    }
}

impl DigestKey {
    /// One that nobody can guess.
    pub(crate) fn random() -> Self {
        // Two hashes under a key that the system made are as random as that key.
        let state = RandomState::new();
        let halves = u128::from(state.hash_one(0)) << 64 | u128::from(state.hash_one(1));
        Self(halves.to_le_bytes())
    }

    /// What stands for `id`.
    #[inline]
    pub(crate) fn digest(self, id: &FrameId) -> Digest {
        let hash = SipHasher13::new_with_key(&self.0).hash(id.as_str().as_bytes());
        Digest([hash.h1, hash.h2])
    }
}

impl std::fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DigestKey")
    }
}

impl Digest {
    const fn mark(self) -> Mark {
        Mark::of(self.0[0])
    }
}

fn known(ids: &VecDeque<Known>, forgotten: u32, number: u32) -> Option<&Known> {
    ids.get(number.wrapping_sub(forgotten) as usize)
}

/// Ids that one call forgets at most.
const FORGOTTEN_A_CALL: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u64) -> FrameId {
        FrameId::parse(&format!("id-{n}")).unwrap()
    }

    fn store(dedupe: &mut Dedupe, n: u64, seq: u64, now: Timestamp) {
        let digest = dedupe.find(&id(n), now).unwrap_err();
        dedupe.remember(digest, seq, now);
    }

    fn entries(dedupe: &Dedupe) -> usize {
        dedupe.table.len(dedupe.remembered())
    }

    #[test]
    fn at_the_bound_the_oldest_id_is_forgotten_first() {
        let now = Timestamp::from_unix_ns(0);
        let mut dedupe = Dedupe::new(Duration::from_secs(600), 1, DigestKey::random());
        (0..=Dedupe::IDS_MIN).for_each(|n| store(&mut dedupe, n, n + 1, now));
        assert!(dedupe.find(&id(0), now).is_err());
        assert_eq!(dedupe.find(&id(1), now), Ok(2));
        assert_eq!(dedupe.find(&id(Dedupe::IDS_MIN), now), Ok(Dedupe::IDS_MIN + 1));
        assert_eq!(dedupe.ids.len() as u64, Dedupe::IDS_MIN);
        assert_eq!(entries(&dedupe) as u64, Dedupe::IDS_MIN);
    }

    #[test]
    fn an_id_is_forgotten_when_its_window_ends() {
        let start = Timestamp::from_unix_ns(0);
        let mut dedupe = Dedupe::new(Duration::from_secs(10), 1, DigestKey::random());
        store(&mut dedupe, 1, 1, start);
        assert_eq!(dedupe.find(&id(1), start.plus(Duration::from_millis(9_999))), Ok(1));
        assert!(dedupe.find(&id(1), start.plus(Duration::from_secs(10))).is_err());
        assert!(dedupe.ids.is_empty() && entries(&dedupe) == 0);
    }

    #[test]
    fn an_id_whose_window_ended_is_unknown_before_it_is_forgotten() {
        let (start, second) = (Timestamp::from_unix_ns(0), Duration::from_secs(1));
        let mut dedupe = Dedupe::new(second, 1, DigestKey::random());
        let ids = 4 * FORGOTTEN_A_CALL as u64;
        (0..ids).for_each(|n| store(&mut dedupe, n, n + 1, start));
        let (last, later) = (ids - 1, start.plus(second));
        store(&mut dedupe, last, 1_000, later);
        assert!(dedupe.ids.len() > 1, "one call forgets a few");
        for n in 0..last {
            assert!(dedupe.find(&id(n), later).is_err());
        }
        assert_eq!(dedupe.find(&id(last), later), Ok(1_000), "the new one outlives the old one");
        assert_eq!((dedupe.ids.len(), entries(&dedupe)), (1, 1));
    }

    #[test]
    fn ids_of_one_mark_are_told_apart() {
        let now = Timestamp::from_unix_ns(0);
        let mut dedupe = Dedupe::new(Duration::from_secs(10), 1, DigestKey::random());
        let digests: Vec<_> = (0..4).map(|n| Digest([7 << 32, n])).collect();
        (0..3).for_each(|n| dedupe.remember(digests[n], n as u64 + 1, now));
        let found = |digest: &Digest| {
            let number = dedupe.table.find(digest.mark(), |n| dedupe.is_of(n, *digest))?;
            dedupe.known(number).map(|known| known.seq)
        };
        let seqs: Vec<_> = digests.iter().map(found).collect();
        assert_eq!(seqs, [Some(1), Some(2), Some(3), None]);
    }

    #[test]
    fn ids_that_run_over_their_place_are_found_and_forgotten() {
        let (start, window) = (Timestamp::from_unix_ns(0), Duration::from_secs(10));
        let mut dedupe = Dedupe::new(window, 1, DigestKey::random());
        let digests: Vec<_> = (0..40).map(|n| Digest([7 << 32, n])).collect();
        for (digest, seq) in digests.iter().zip(1..) {
            dedupe.remember(*digest, seq, start);
        }
        let number = |dedupe: &Dedupe, digest: Digest| {
            dedupe.table.find(digest.mark(), |n| dedupe.is_of(n, digest))
        };
        let numbers: Vec<_> = digests.iter().map(|digest| number(&dedupe, *digest)).collect();
        assert_eq!(numbers, (0..40).map(Some).collect::<Vec<_>>());
        // One whose window ended is remembered anew where it stood.
        dedupe.remember(digests[39], 99, start.plus(window));
        assert_eq!(number(&dedupe, digests[39]), Some(40));
        (0..40).for_each(|_| dedupe.forget_oldest());
        assert_eq!((dedupe.ids.len(), entries(&dedupe)), (1, 1));
        assert_eq!(number(&dedupe, digests[39]), Some(40));
    }

    #[test]
    fn numbers_that_wrap_around_find_the_same_ids() {
        let (start, window) = (Timestamp::from_unix_ns(0), Duration::from_secs(10));
        let mut dedupe = Dedupe::new(window, 1, DigestKey::random());
        dedupe.forgotten = u32::MAX - 1;
        (0..4).for_each(|n| store(&mut dedupe, n, n + 1, start));
        (0..4).for_each(|n| assert_eq!(dedupe.find(&id(n), start), Ok(n + 1)));
        assert!(dedupe.find(&id(3), start.plus(window)).is_err());
        assert_eq!((dedupe.forgotten, entries(&dedupe)), (2, 0));
    }
}
