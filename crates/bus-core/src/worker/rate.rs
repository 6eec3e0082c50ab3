//! How many tasks of one key may begin in a time: token buckets, with the time passed in.

use std::{
    collections::{BTreeSet, HashMap},
    num::{NonZeroU32, NonZeroUsize},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bus_envelope::Timestamp;

use super::Worker;
use crate::{Delivery, Error, ErrorKind, Opened, Result};

/// The permits of one [`RateLimit`]; clones share them.
///
/// A limit holds for the workers whose specifications hold clones of one limiter, which are those
/// of one process; workers with limiters of their own have a limit each.
#[derive(Debug, Clone)]
pub struct RateLimiter(Arc<Mutex<Buckets>>);

/// How many tasks of one key may begin in a time.
///
/// In no span of time do more begin than `burst`, and `permits` for each `per` of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// What counts together.
    pub key: RateKey,
    /// How many may begin in each `per`.
    pub permits: NonZeroU32,
    /// The time for `permits`; more than zero, at most a day.
    pub per: Duration,
    /// How many may begin at once after a pause; at least 1.
    pub burst: NonZeroU32,
    /// How many keys are known at once. The one that is idle longest goes first; while none is
    /// idle a new key waits until one is.
    pub keys_max: NonZeroUsize,
}

/// Which tasks count together towards a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RateKey {
    /// Those of one order key; a task without one counts towards its sender.
    #[default]
    OrderKeyOrSender,
    /// Those of one sender.
    Sender,
    /// All of the queue.
    Queue,
}

/// What a limiter answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permit {
    /// It may begin now; the permit is used up.
    Now,
    /// It may not begin yet. Asked again after this time it gets its permit, unless another task
    /// of its key took it meanwhile.
    After(Duration),
}

impl RateLimit {
    /// The longest `per`: a day.
    pub const PER_MAX: Duration = Duration::from_secs(24 * 3600);

    /// `permits` in each `per`, one at a time, by order key or else by sender, for 10,000 keys.
    #[must_use]
    pub const fn new(permits: NonZeroU32, per: Duration) -> Self {
        const KEYS_MAX: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();
        let key = RateKey::OrderKeyOrSender;
        Self { key, permits, per, burst: NonZeroU32::MIN, keys_max: KEYS_MAX }
    }
}

impl RateLimiter {
    /// A limiter whose buckets are all full.
    ///
    /// # Errors
    /// `Invalid` when `limit.per` is zero or longer than [`RateLimit::PER_MAX`].
    pub fn new(limit: RateLimit) -> Result<Self> {
        if limit.per.is_zero() || limit.per > RateLimit::PER_MAX {
            let per = limit.per;
            let detail = format!("per is {per:?}: expected more than zero and at most a day");
            return Err(Error::new(ErrorKind::Invalid, "rate limit", detail));
        }
        Ok(Self(Arc::new(Mutex::new(Buckets::new(limit)))))
    }

    /// Asks for a permit for one task of `key` at the time `now`.
    #[must_use]
    pub fn ask(&self, key: &str, now: Timestamp) -> Permit {
        self.buckets(|buckets| buckets.ask(key, now))
    }

    fn buckets<T>(&self, use_them: impl FnOnce(&mut Buckets) -> T) -> T {
        use_them(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Worker {
    /// How long a task that may not begin yet has to rest.
    pub(super) fn over_limit(&self, delivery: &Delivery, opened: &Opened) -> Option<Duration> {
        let limiter = self.spec.rate.as_ref()?;
        let (now, sender) = (self.endpoint.clock().now(), opened.envelope.lineage.agent.as_str());
        let order = delivery.frame.placement.as_ref().and_then(|placement| placement.key.as_ref());
        // No key of one kind is written like one of another: an agent's name has no dots.
        let key = match (limiter.buckets(|buckets| buckets.limit.key), order) {
            (RateKey::Queue, _) => String::new(),
            (RateKey::OrderKeyOrSender, Some(order)) => format!("key.{order}"),
            (RateKey::OrderKeyOrSender, None) | (RateKey::Sender, _) => sender.to_owned(),
        };
        match limiter.ask(&key, now) {
            Permit::Now => None,
            Permit::After(rest) => Some(rest),
        }
    }
}

/// The state of a limiter: a bucket for each key that is not full.
#[derive(Debug)]
struct Buckets {
    limit: RateLimit,
    /// How long one permit takes to come back, in nanoseconds, rounded up.
    interval_ns: i128,
    keys: HashMap<Arc<str>, Bucket>,
    /// The keys by the time at which their bucket is full again: then they are idle.
    by_time: BTreeSet<(i128, Arc<str>)>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// When it is full again.
    full_at: i128,
    /// When the last of those that were told to wait may come.
    promised: i128,
}

impl Buckets {
    fn new(limit: RateLimit) -> Self {
        let per = i128::try_from(limit.per.as_nanos()).unwrap_or(i128::MAX);
        let permits = i128::from(limit.permits.get());
        let interval_ns = (per + permits - 1) / permits;
        Self { limit, interval_ns, keys: HashMap::new(), by_time: BTreeSet::new() }
    }

    fn ask(&mut self, key: &str, now: Timestamp) -> Permit {
        let now = now.unix_ns();
        let known = self.keys.get_key_value(key).map(|(key, bucket)| (Arc::clone(key), *bucket));
        let (key, bucket) = match known {
            Some(known) => known,
            None => match self.make_room(now) {
                Some(idle_at) => return Permit::After(between(now, idle_at)),
                None => (key.into(), Bucket { full_at: i128::MIN, promised: i128::MIN }),
            },
        };
        // A bucket that is full but for n permits is full again after n intervals.
        let missing_max = self.interval_ns * i128::from(self.limit.burst.get() - 1);
        let free_at = bucket.full_at.saturating_sub(missing_max);
        if free_at <= now {
            let full_at = bucket.full_at.max(now) + self.interval_ns;
            self.set(key, bucket, Bucket { full_at, ..bucket });
            return Permit::Now;
        }
        // Everybody who waits gets a time of his own, so that each comes back once and not all of
        // them for every permit.
        let promised = free_at.max(bucket.promised.saturating_add(self.interval_ns));
        self.set(key, bucket, Bucket { promised, ..bucket });
        Permit::After(between(now, promised))
    }

    /// Forgets the key that is idle longest when there is no room for one more. When none is idle:
    /// the time at which the first one will be.
    fn make_room(&mut self, now: i128) -> Option<i128> {
        if self.keys.len() < self.limit.keys_max.get() {
            return None;
        }
        let idle_at = self.by_time.first().map_or(i128::MIN, |(full_at, _)| *full_at);
        if idle_at > now {
            return Some(idle_at);
        }
        if let Some((_, idle)) = self.by_time.pop_first() {
            self.keys.remove(&idle);
        }
        None
    }

    fn set(&mut self, key: Arc<str>, before: Bucket, after: Bucket) {
        if before.full_at != after.full_at {
            self.by_time.remove(&(before.full_at, Arc::clone(&key)));
            self.by_time.insert((after.full_at, Arc::clone(&key)));
        }
        self.keys.insert(key, after);
    }
}

fn between(now: i128, then: i128) -> Duration {
    Duration::from_nanos(u64::try_from(then - now).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
