//! The leases of one consumer: by token, by deadline, and by message where somebody asks.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bus_core::{OrderKey, Priority};
use bus_envelope::Timestamp;
use foldhash::fast::RandomState;

use super::{waiting::Waiting, window::Window};

/// What members hold.
///
/// One consumer has one lease duration and time does not go back, so the leases that were not
/// extended end in the order of their tokens, which needs no other order beside it.
#[derive(Debug)]
pub(crate) struct Leases {
    /// Those that were not extended, by token.
    fresh: Window<Lease>,
    extended: BTreeMap<u64, Lease>,
    /// The deadlines of `extended`, each with its token.
    deadlines: BTreeSet<(Timestamp, u64)>,
    /// Tokens by position. Only whoever discards asks, so it is made when somebody does, and goes
    /// when no lease is left.
    tokens: Option<HashMap<u64, u64, RandomState>>,
}

/// A message that a member holds.
///
/// It spells its [`Waiting`] out, so that no field in its middle says whether there is a lease:
/// one would be copied around that field in odd pieces, at several times the cost.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) seq: u64,
    /// When it ends.
    pub(crate) deadline: Timestamp,
    /// When the message became ready before it was handed out.
    pub(crate) since: Timestamp,
    pub(crate) key: Option<OrderKey>,
    /// The number of the attempt that runs.
    pub(crate) attempt: u32,
    pub(crate) level: Priority,
}

impl Lease {
    /// What is known about the message when the lease is over.
    pub(crate) fn into_waiting(self) -> Waiting {
        let Self { attempt, level, since, key, .. } = self;
        Waiting { attempt, level, since, handed_back: false, key }
    }
}

impl Default for Leases {
    fn default() -> Self {
        // No lease has the token 0.
        Self::after(0)
    }
}

impl Leases {
    /// None yet; the first one gets the token behind `token`.
    pub(crate) const fn after(token: u64) -> Self {
        Self {
            fresh: Window::starting_at(token + 1),
            extended: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            tokens: None,
        }
    }

    /// Adds a lease that was there before, under its token, which is not among those to come.
    pub(crate) fn restore(&mut self, token: u64, lease: Lease) {
        self.deadlines.insert((lease.deadline, token));
        self.extended.insert(token, lease);
    }

    /// The lease of a token.
    pub(crate) fn get(&self, token: u64) -> Option<&Lease> {
        self.fresh.get(token).or_else(|| self.extended.get(&token))
    }

    /// The leases that were not extended, from a token on.
    pub(crate) fn fresh_from(&self, token: u64) -> impl Iterator<Item = (u64, &Lease)> {
        self.fresh.from(token)
    }

    /// The other leases, from a token on.
    pub(crate) fn extended_from(&self, token: u64) -> impl Iterator<Item = (u64, &Lease)> {
        self.extended.range(token..).map(|(&token, lease)| (token, lease))
    }

    /// The token of the newest lease ever, or before it.
    pub(crate) fn last_token(&self) -> u64 {
        self.fresh.next().saturating_sub(1)
    }

    /// How many there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.fresh.len() + self.extended.len()
    }

    /// Adds a lease that ends after all that were not extended, and returns its token.
    #[inline]
    pub(crate) fn grant(&mut self, lease: Lease) -> u64 {
        let seq = lease.seq;
        let token = self.fresh.push(lease);
        if let Some(tokens) = &mut self.tokens {
            tokens.insert(seq, token);
        }
        token
    }

    /// Takes a lease out that does not end before `now` or then.
    #[inline]
    pub(crate) fn take(&mut self, token: u64, now: Timestamp) -> Option<Lease> {
        let lease = match self.fresh.take_if(token, |lease| lease.deadline > now) {
            Some(lease) => lease,
            None => self.take_extended(token, now)?,
        };
        self.forget(lease.seq);
        Some(lease)
    }

    /// Lets a lease that does not end before `now` or then end at `deadline`; false when there is
    /// none.
    pub(crate) fn extend(&mut self, token: u64, deadline: Timestamp, now: Timestamp) -> bool {
        let fresh = self.fresh.take_if(token, |lease| lease.deadline > now);
        let Some(lease) = fresh.or_else(|| self.take_extended(token, now)) else { return false };
        self.extended.insert(token, Lease { deadline, ..lease });
        self.deadlines.insert((deadline, token));
        true
    }

    /// Takes the first lease out that ends before `now` or then.
    #[inline]
    pub(crate) fn take_ended(&mut self, now: Timestamp) -> Option<Lease> {
        let fresh = self.fresh.first().map(|(token, lease)| (lease.deadline, token));
        let next = match self.deadlines.first() {
            None => fresh?,
            Some(&extended) => fresh.map_or(extended, |fresh| fresh.min(extended)),
        };
        let (deadline, token) = next;
        if deadline > now {
            return None;
        }
        let lease = match self.fresh.take(token) {
            Some(lease) => lease,
            None => {
                self.deadlines.remove(&next);
                self.extended.remove(&token)?
            }
        };
        self.forget(lease.seq);
        Some(lease)
    }

    /// When the first lease ends.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        let fresh = self.fresh.first().map(|(_, lease)| lease.deadline);
        let extended = self.deadlines.first().map(|&(deadline, _)| deadline);
        fresh.into_iter().chain(extended).min()
    }

    /// Takes the lease of the message at `seq` out, whoever holds it. Takes time linear in the
    /// leases when it is the first to ask since there was none.
    pub(crate) fn take_message(&mut self, seq: u64) -> Option<Lease> {
        let (fresh, extended) = (&self.fresh, &self.extended);
        let tokens = self.tokens.get_or_insert_with(|| {
            let extended = extended.iter().map(|(&token, lease)| (token, lease));
            fresh.from(0).chain(extended).map(|(token, lease)| (lease.seq, token)).collect()
        });
        let token = *tokens.get(&seq)?;
        let lease = match self.fresh.take(token) {
            Some(lease) => lease,
            None => self.take_extended(token, Timestamp::MIN)?,
        };
        self.forget(seq);
        Some(lease)
    }

    /// The oldest message that somebody holds. Takes time linear in the leases.
    pub(crate) fn oldest(&self) -> Option<u64> {
        let fresh = self.fresh.from(0).map(|(_, lease)| lease.seq);
        fresh.chain(self.extended.values().map(|lease| lease.seq)).min()
    }

    fn take_extended(&mut self, token: u64, now: Timestamp) -> Option<Lease> {
        let deadline = self.extended.get(&token)?.deadline;
        if deadline <= now {
            return None;
        }
        self.deadlines.remove(&(deadline, token));
        self.extended.remove(&token)
    }

    #[inline]
    fn forget(&mut self, seq: u64) {
        if let Some(tokens) = &mut self.tokens {
            tokens.remove(&seq);
            if tokens.is_empty() {
                self.tokens = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(s: u64) -> Timestamp {
        Timestamp::from_unix_ns(0).plus(Duration::from_secs(s))
    }

    fn lease(seq: u64, deadline: u64) -> Lease {
        let (deadline, level) = (at(deadline), Priority::NORMAL);
        Lease { seq, deadline, since: at(0), key: None, attempt: 1, level }
    }

    fn leases(of: std::ops::Range<u64>) -> Leases {
        let mut leases = Leases::default();
        of.for_each(|seq| assert_eq!(leases.grant(lease(seq, seq)), seq));
        leases
    }

    #[test]
    fn leases_end_in_the_order_of_their_deadlines() {
        let mut leases = leases(1..5);
        assert!(leases.extend(1, at(3), at(0)) && leases.extend(2, at(9), at(0)));
        assert_eq!(leases.next_deadline(), Some(at(3)));
        let ended: Vec<_> = std::iter::from_fn(|| leases.take_ended(at(8))).collect();
        assert_eq!(ended.iter().map(|lease| lease.seq).collect::<Vec<_>>(), [1, 3, 4]);
        assert_eq!((leases.next_deadline(), leases.len()), (Some(at(9)), 1));
    }

    #[test]
    fn a_lease_that_ended_is_neither_taken_nor_extended() {
        let mut leases = leases(1..3);
        assert!(leases.extend(2, at(5), at(0)));
        for (token, end) in [(1, at(1)), (2, at(5))] {
            assert!(leases.take(token, end).is_none());
            assert!(!leases.extend(token, at(9), end));
        }
        assert_eq!(leases.len(), 2, "it is there until it is taken back");
    }

    #[test]
    fn a_token_fits_once() {
        let mut leases = leases(1..3);
        assert!(leases.extend(2, at(5), at(0)));
        for token in [1, 2] {
            assert_eq!(leases.take(token, at(0)).map(|lease| lease.seq), Some(token));
            assert!(leases.take(token, at(0)).is_none());
        }
        assert_eq!((leases.len(), leases.next_deadline()), (0, None));
    }

    #[test]
    fn a_message_is_found_whoever_holds_it() {
        let mut leases = leases(1..4);
        assert!(leases.extend(2, at(9), at(0)));
        assert_eq!(leases.take_message(2).map(|lease| lease.seq), Some(2));
        let token = leases.grant(lease(7, 8));
        assert!(leases.take(1, at(0)).is_some());
        assert!(leases.take_message(1).is_none());
        assert_eq!(leases.take_message(7).map(|lease| lease.seq), Some(7));
        assert!(leases.take(token, at(0)).is_none());
        assert_eq!((leases.len(), leases.oldest()), (1, Some(3)));
    }

    #[test]
    fn tokens_by_message_go_with_the_last_lease() {
        let mut leases = leases(1..3);
        assert!(leases.take_message(1).is_some() && leases.tokens.is_some());
        assert!(leases.take_ended(at(2)).is_some());
        assert!(leases.tokens.is_none());
    }
}
