//! How often a client may ask: counted by what it asks with, and never by where it comes from.
//!
//! On the loopback all clients have one address. What tells them apart is the secret of the
//! instance that they speak for; what they ask with the bearer secret alone is counted together,
//! and so is what they ask without it, so that a stranger who guesses takes nothing from them.

use std::{collections::HashMap, hash::RandomState, num::NonZeroU32, time::Duration};

use std::hash::BuildHasher as _;
use tokio::time::Instant;

/// How many requests over a long time, and how many at once after a rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// One in each such time, over a long time.
    pub one_each: Duration,
    /// How many at once, after nothing was asked for a while.
    pub burst: NonZeroU32,
}

/// How often clients may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// One instance that has shown its secret: what it publishes, its heartbeats, its
    /// subscriptions. Default: 40,000 a second, 40,000 at once.
    pub instance: Rate,
    /// All that is asked with the bearer secret alone, such as registering. Default: 2,000 a
    /// second, 12,000 at once.
    pub bearer: Rate,
    /// All that is asked without it where it is needed. Default: 20 a second, 50 at once.
    pub strangers: Rate,
}

impl Rate {
    /// So many a second, and at once.
    #[must_use]
    pub fn per_second(count: NonZeroU32, burst: NonZeroU32) -> Self {
        Self { one_each: Duration::from_secs(1) / count.get(), burst }
    }
}

impl Default for Limits {
    fn default() -> Self {
        let rate = |per_second, burst| {
            let number = |n| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
            Rate::per_second(number(per_second), number(burst))
        };
        Self {
            instance: rate(40_000, 40_000),
            bearer: rate(2_000, 12_000),
            strangers: rate(20, 50),
        }
    }
}

/// What one client has asked, as the moment at which all of it is forgotten.
#[derive(Debug, Clone, Copy, Default)]
struct Meter(Option<Instant>);

impl Meter {
    /// Counts one more; or says after how long there is room for it.
    fn take(&mut self, rate: Rate, now: Instant) -> Result<(), Duration> {
        let next = self.0.map_or(now, |at| at.max(now)) + rate.one_each;
        match (next - now).checked_sub(rate.one_each * rate.burst.get()) {
            Some(early) if !early.is_zero() => Err(early),
            _ => {
                self.0 = Some(next);
                Ok(())
            }
        }
    }

    fn is_over(self, now: Instant) -> bool {
        self.0.is_none_or(|at| at <= now)
    }
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Client<'a> {
    /// Who has this secret of an instance.
    Instance(&'a [u8]),
    /// Who has the bearer secret.
    Bearer,
    /// Who has not.
    Stranger,
}

/// What all clients have asked lately.
#[derive(Debug)]
pub(crate) struct Meters {
    limits: Limits,
    /// Of instances, by a keyed hash of their secret: the secret itself is not kept.
    instances: HashMap<u64, Meter>,
    keyed: RandomState,
    bearer: Meter,
    strangers: Meter,
}

impl Meters {
    /// How many instances are told apart at a time, as many as a registry has; more are counted
    /// with what is asked with the bearer secret alone.
    pub(crate) const INSTANCES_MAX: usize = 65_536;

    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            instances: HashMap::new(),
            keyed: RandomState::new(),
            bearer: Meter::default(),
            strangers: Meter::default(),
        }
    }

    /// Counts one more request of `client`; or says after how long it may ask again.
    pub(crate) fn take(&mut self, client: Client<'_>, now: Instant) -> Result<(), Duration> {
        let limits = self.limits;
        match client {
            Client::Bearer => self.bearer.take(limits.bearer, now),
            Client::Stranger => self.strangers.take(limits.strangers, now),
            Client::Instance(secret) => {
                match self.instances.get_mut(&self.keyed.hash_one(secret)) {
                    Some(meter) => meter.take(limits.instance, now),
                    // Anybody can make one up.
                    None => self.bearer.take(limits.bearer, now),
                }
            }
        }
    }

    /// Tells an instance apart, whose secret was found to be one.
    pub(crate) fn learn(&mut self, secret: &[u8], now: Instant) {
        let key = self.keyed.hash_one(secret);
        if self.instances.len() >= Self::INSTANCES_MAX && !self.instances.contains_key(&key) {
            // Who has asked nothing lately is as good as new, and known again by its next success.
            self.instances.retain(|_, meter| !meter.is_over(now));
            if self.instances.len() >= Self::INSTANCES_MAX {
                return;
            }
        }
        self.instances.entry(key).or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(per_second: u32, burst: u32) -> Rate {
        Rate::per_second(per_second.try_into().unwrap(), burst.try_into().unwrap())
    }

    fn meters() -> Meters {
        let (instance, bearer, strangers) = (rate(10, 2), rate(10, 3), rate(1, 1));
        Meters::new(Limits { instance, bearer, strangers })
    }

    #[test]
    fn a_burst_is_taken_and_the_next_one_is_told_when() {
        let (mut meters, now) = (meters(), Instant::now());
        meters.learn(b"a", now);
        let mut ask = |at| meters.take(Client::Instance(b"a"), at);
        assert_eq!((ask(now), ask(now)), (Ok(()), Ok(())));
        let early = ask(now).unwrap_err();
        assert_eq!(early, Duration::from_millis(100));
        // What was refused is not counted.
        assert_eq!((ask(now + early), ask(now + early)), (Ok(()), Err(early)));
    }

    #[test]
    fn who_asks_at_the_rate_is_never_refused() {
        let (mut meters, began) = (meters(), Instant::now());
        meters.learn(b"a", began);
        for tenth in 0..1_000 {
            let at = began + Duration::from_millis(100) * tenth;
            assert_eq!(meters.take(Client::Instance(b"a"), at), Ok(()));
        }
    }

    #[test]
    fn one_client_takes_nothing_from_another() {
        let (mut meters, now) = (meters(), Instant::now());
        meters.learn(b"a", now);
        meters.learn(b"b", now);
        while meters.take(Client::Stranger, now).is_ok() {}
        while meters.take(Client::Instance(b"a"), now).is_ok() {}
        assert_eq!(meters.take(Client::Instance(b"b"), now), Ok(()));
        assert_eq!(meters.take(Client::Bearer, now), Ok(()));
    }

    #[test]
    fn secrets_that_are_made_up_are_counted_together() {
        let (mut meters, now) = (meters(), Instant::now());
        for made_up in [b"a", b"b", b"c"] {
            assert_eq!(meters.take(Client::Instance(made_up), now), Ok(()));
        }
        assert!(meters.take(Client::Instance(b"d"), now).is_err());
        assert!(meters.instances.is_empty(), "nothing is kept of them");
    }

    #[test]
    fn however_many_instances_ask_memory_has_a_bound() {
        let (mut meters, now) = (meters(), Instant::now());
        for n in 0..=Meters::INSTANCES_MAX {
            let secret = n.to_le_bytes();
            meters.learn(&secret, now);
            let _refused = meters.take(Client::Instance(&secret), now);
        }
        assert_eq!(meters.instances.len(), Meters::INSTANCES_MAX);
        meters.learn(b"new", now + Duration::from_secs(1));
        assert_eq!(meters.instances.len(), 1, "who asks no more is forgotten");
    }
}
