//! Whether and when a server that died is started again.

use std::time::Duration;

/// How a server that dies is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartPolicy {
    /// How long a server must have run to count as healthy: its death starts a new count.
    /// Default 30 s.
    pub healthy_after: Duration,
    /// How many deaths in a row are taken before giving up. Default 6.
    pub deaths_max: u32,
    /// The wait after the first death; it doubles with each further one. Default 200 ms.
    pub delay_first: Duration,
    /// The longest wait. Default 10 s.
    pub delay_max: Duration,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            healthy_after: Duration::from_secs(30),
            deaths_max: 6,
            delay_first: Duration::from_millis(200),
            delay_max: Duration::from_secs(10),
        }
    }
}

/// Counts the deaths of one server.
#[derive(Debug)]
pub(super) struct Deaths {
    policy: RestartPolicy,
    in_a_row: u32,
}

impl Deaths {
    pub(super) fn new(policy: RestartPolicy) -> Self {
        Self { policy, in_a_row: 0 }
    }

    /// How many in a row there were.
    pub(super) fn in_a_row(&self) -> u32 {
        self.in_a_row
    }

    /// Counts the death of a server that ran for `lived`; returns how long to wait before the next
    /// start, or `None` to give up.
    ///
    /// `dice` is random: servers that died of one cause do not all come back at one time. The wait
    /// is between half and all of its step.
    pub(super) fn count(&mut self, lived: Duration, dice: u32) -> Option<Duration> {
        let RestartPolicy { healthy_after, deaths_max, delay_first, delay_max } = self.policy;
        if lived >= healthy_after {
            self.in_a_row = 0;
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        if self.in_a_row >= deaths_max {
            return None;
        }
        let doubled = 2_u32.saturating_pow(self.in_a_row.saturating_sub(1));
        let step = delay_first.saturating_mul(doubled).min(delay_max);
        let half = step / 2;
        Some(half + half.mul_f64(f64::from(dice) / f64::from(u32::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_secs(1);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn delays(dice: u32) -> Vec<Option<Duration>> {
        let mut deaths =
            Deaths::new(RestartPolicy { delay_max: ms(500), ..RestartPolicy::default() });
        (0..6).map(|_| deaths.count(QUICK, dice)).collect()
    }

    #[test]
    fn waits_double_up_to_the_longest_and_then_it_gives_up() {
        let expected = [200, 400, 500, 500, 500].map(|wait| Some(ms(wait)));
        assert_eq!(delays(u32::MAX)[..5], expected);
        assert_eq!(delays(u32::MAX)[5], None);
    }

    #[test]
    fn chance_takes_at_most_half_of_a_wait() {
        let expected = [100, 200, 250, 250, 250].map(|wait| Some(ms(wait)));
        assert_eq!(delays(0)[..5], expected);
    }

    #[test]
    fn a_server_that_was_healthy_dies_for_the_first_time() {
        let mut deaths = Deaths::new(RestartPolicy::default());
        for _ in 0..5 {
            deaths.count(QUICK, 0);
        }
        assert_eq!(deaths.in_a_row(), 5);
        assert_eq!(deaths.count(Duration::from_secs(30), u32::MAX), Some(ms(200)));
        assert_eq!(deaths.in_a_row(), 1);
    }

    #[test]
    fn a_policy_of_one_death_never_starts_again() {
        let policy = RestartPolicy { deaths_max: 1, ..RestartPolicy::default() };
        assert_eq!(Deaths::new(policy).count(Duration::from_secs(3_600), 0), None);
    }
}
