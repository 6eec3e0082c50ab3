//! A case and its clock: both ways in turn, many times over, and the median of each.

use std::time::Duration;

use anyhow::Result;
use rustix::time::{ClockId, clock_gettime};

/// One thing to measure.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// The ratio ours / raw to reach; `None` when the row only informs.
    pub(crate) goal: Option<f64>,
    pub(crate) measure: fn() -> Result<Figures>,
}

/// The medians of a case, in nanoseconds a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Figures {
    pub(crate) raw: f64,
    pub(crate) ours: f64,
}

/// Measures two ways to do the same, each of which answers with what it made.
///
/// The rounds take turns, so that whatever disturbs the machine disturbs both.
///
/// # Errors
/// What a way reports: a call that fails has no time.
pub(crate) fn compare<A, B>(
    mut raw: impl FnMut() -> Result<A>,
    mut ours: impl FnMut() -> Result<B>,
) -> Result<Figures> {
    let raw_calls = calls_a_round(&mut raw)?;
    let our_calls = calls_a_round(&mut ours)?;
    let (mut raws, mut owns) = ([0.0; ROUNDS], [0.0; ROUNDS]);
    for (raw_figure, our_figure) in raws.iter_mut().zip(&mut owns) {
        *raw_figure = nanoseconds_a_call(&mut raw, raw_calls)?;
        *our_figure = nanoseconds_a_call(&mut ours, our_calls)?;
    }
    Ok(Figures { raw: median(raws), ours: median(owns) })
}

/// How many calls fill a round; finding out warms up.
fn calls_a_round<T>(call: &mut impl FnMut() -> Result<T>) -> Result<u32> {
    let mut calls = 1;
    loop {
        let took = time(call, calls)?;
        if took >= ROUND / 2 || calls >= CALLS_MAX {
            let fitting = f64::from(calls) * ROUND.as_secs_f64() / took.as_secs_f64().max(1e-9);
            return Ok((fitting as u32).clamp(1, CALLS_MAX));
        }
        calls *= 2;
    }
}

fn nanoseconds_a_call<T>(call: &mut impl FnMut() -> Result<T>, calls: u32) -> Result<f64> {
    Ok(time(call, calls)?.as_secs_f64() * 1e9 / f64::from(calls))
}

/// Processor time, system calls included: nothing here waits, so that what others do meanwhile
/// costs cache lines and no more.
fn time<T>(call: &mut impl FnMut() -> Result<T>, calls: u32) -> Result<Duration> {
    let start = processor_time();
    for _ in 0..calls {
        let _made = std::hint::black_box(call()?);
    }
    Ok(processor_time().saturating_sub(start))
}

/// The processor time of this thread, system calls included, whatever else ran meanwhile.
pub(crate) fn processor_time() -> Duration {
    read(ClockId::ThreadCPUTime)
}

/// Time that passes whoever runs.
pub(crate) fn wall_time() -> Duration {
    read(ClockId::Monotonic)
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    // Both clocks count up from zero, so neither part is negative or too large.
    let (seconds, rest) = (time.tv_sec.try_into(), time.tv_nsec.try_into());
    Duration::new(seconds.unwrap_or_default(), rest.unwrap_or_default())
}

fn median(mut figures: [f64; ROUNDS]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(ROUNDS / 2).copied().unwrap_or(f64::NAN)
}

/// An odd number, so that the median is one of them.
const ROUNDS: usize = 15;
const ROUND: Duration = Duration::from_millis(20);
const CALLS_MAX: u32 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_of_the_rounds() {
        let mut figures = [5.0; ROUNDS];
        figures[0] = 100.0;
        figures[1] = 1.0;
        assert_eq!(median(figures), 5.0);
    }

    #[test]
    fn a_call_that_fails_fails_the_case() {
        assert!(compare(|| Ok(()), || Err::<(), _>(anyhow::anyhow!("refused"))).is_err());
    }
}
