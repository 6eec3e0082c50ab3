//! Takes two measurements in turn, so that whatever disturbs the machine disturbs both.

use anyhow::{Context, Result};

/// The medians of a case, in one unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measured {
    pub(super) raw: f64,
    pub(super) ours: f64,
}

/// Runs each once to warm up, then both in turn `runs` times, and takes the medians.
///
/// # Errors
/// When a run fails, or there is none.
pub(super) fn alternate(
    runs: usize,
    mut raw: impl FnMut() -> Result<f64>,
    mut ours: impl FnMut() -> Result<f64>,
) -> Result<Measured> {
    let (_warm_raw, _warm_ours) = (raw()?, ours()?);
    let (mut raws, mut owns) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        raws.push(raw()?);
        owns.push(ours()?);
    }
    let none = "there must be a run";
    Ok(Measured { raw: median(raws).context(none)?, ours: median(owns).context(none)? })
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = values.len() / 2;
    let high = values.get(upper).copied()?;
    if values.len() % 2 == 1 {
        return Some(high);
    }
    let low = values.get(upper.checked_sub(1)?).copied()?;
    Some((low + high) / 2.0)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn the_two_ways_run_in_turn_after_a_warm_up() {
        let log = RefCell::new(String::new());
        let run = |name: char, value: f64| {
            log.borrow_mut().push(name);
            Ok(value)
        };
        alternate(3, || run('a', 1.0), || run('b', 2.0)).unwrap();
        assert_eq!(log.into_inner(), "abababab");
    }

    #[test]
    fn the_warm_up_does_not_count() {
        let mut first = true;
        let mut cold = || Ok(if std::mem::take(&mut first) { 100.0 } else { 1.0 });
        let measured = alternate(1, &mut cold, || Ok(2.0)).unwrap();
        assert_eq!(measured, Measured { raw: 1.0, ours: 2.0 });
    }

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_the_two_middles() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![9.0, 1.0, 2.0, 4.0]), Some(3.0));
        assert_eq!(median(vec![]), None);
    }

    #[test]
    fn a_failed_run_fails_the_case() {
        assert!(alternate(1, || Ok(1.0), || Err(anyhow::anyhow!("exit 1"))).is_err());
    }
}
