//! Measures us beside the raw way to do the same, in the same run, and holds the ratio to a goal.

use std::fmt;
use std::num::NonZeroUsize;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::args::{Args, UsageError};
use crate::repo::Repo;

use measure::Measured;

mod measure;
mod swarm;

/// What to measure and how to show it.
#[derive(Debug)]
pub(crate) struct Options {
    json: bool,
    /// How many things run at a time; by default as many as the machine has processors.
    workers: NonZeroUsize,
    /// Part of a case's name.
    filter: Option<String>,
}

impl Options {
    /// Reads the command line.
    ///
    /// # Errors
    /// A usage error, also when the number of workers is no number or zero.
    pub(crate) fn parse(mut args: Args) -> Result<Self> {
        let json = args.flag("--json");
        let workers = match args.options("--workers")?.last() {
            Some(text) => text.parse().map_err(|_| {
                UsageError::new(format!("--workers wants a number above 0, not `{text}`"))
            })?,
            None => std::thread::available_parallelism().context("count the processors")?,
        };
        Ok(Self { json, workers, filter: args.last_word()? })
    }
}

/// One thing to measure.
struct Case {
    name: &'static str,
    /// The ratio ours / raw to reach.
    goal: f64,
    better: Better,
    /// Measures both ways; the figures share a unit.
    measure: fn(&Repo, &Options) -> Result<Measured>,
}

/// Every row of the report.
const CASES: &[Case] =
    &[Case { name: "swarm-2000-true", goal: 1.5, better: Better::Lower, measure: swarm::measure }];

/// Which way a figure improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Better {
    #[cfg_attr(not(test), expect(dead_code, reason = "rows of throughput come with the engines"))]
    Higher,
    Lower,
}

/// Measures the cases one after the other; `false` when one misses its goal.
///
/// # Errors
/// When a measurement fails, or no case has the filter in its name.
pub(crate) fn run(repo: &Repo, options: &Options) -> Result<bool> {
    let filter = options.filter.as_deref().unwrap_or_default();
    let cases: Vec<&Case> = CASES.iter().filter(|case| case.name.contains(filter)).collect();
    if cases.is_empty() {
        bail!("no case has `{filter}` in its name");
    }
    let mut all_met = true;
    for case in cases {
        let measured =
            (case.measure)(repo, options).with_context(|| format!("measure {}", case.name))?;
        let row = Row { case: case.name, measured, goal: case.goal, better: case.better };
        all_met &= row.is_met();
        if options.json {
            println!("{}", row.to_json());
        } else {
            println!("{row}");
        }
    }
    Ok(all_met)
}

/// A case with its figures.
#[derive(Debug)]
struct Row {
    case: &'static str,
    measured: Measured,
    goal: f64,
    better: Better,
}

impl Row {
    fn ratio(&self) -> f64 {
        self.measured.ours / self.measured.raw
    }

    /// A ratio that is no number meets nothing.
    fn is_met(&self) -> bool {
        match self.better {
            Better::Higher => self.ratio() >= self.goal,
            Better::Lower => self.ratio() <= self.goal,
        }
    }

    fn to_json(&self) -> String {
        let better = self.better.name();
        json!({
            "case": self.case,
            "raw": self.measured.raw,
            "ours": self.measured.ours,
            "ratio": self.ratio(),
            "goal": self.goal,
            "better": better,
        })
        .to_string()
    }
}

impl Better {
    fn name(self) -> &'static str {
        match self {
            Self::Higher => "higher",
            Self::Lower => "lower",
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Measured { raw, ours } = self.measured;
        let verdict = if self.is_met() { "met" } else { "MISSED" };
        let (case, ratio, goal, better) = (self.case, self.ratio(), self.goal, self.better.name());
        write!(
            f,
            "  {case:<20} raw {raw:.3}  ours {ours:.3}  ratio {ratio:.2}  \
             goal {goal:.2} ({better} is better)  {verdict}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(raw: f64, ours: f64, better: Better) -> Row {
        Row { case: "case", measured: Measured { raw, ours }, goal: 1.5, better }
    }

    #[test]
    fn a_lower_ratio_meets_a_goal_where_lower_is_better() {
        assert!(row(2.0, 3.0, Better::Lower).is_met());
        assert!(!row(2.0, 3.1, Better::Lower).is_met());
    }

    #[test]
    fn a_higher_ratio_meets_a_goal_where_higher_is_better() {
        assert!(row(2.0, 3.0, Better::Higher).is_met());
        assert!(!row(2.0, 2.9, Better::Higher).is_met());
    }

    #[test]
    fn a_ratio_that_is_no_number_meets_nothing() {
        assert!(!row(0.0, 0.0, Better::Lower).is_met());
        assert!(!row(0.0, 0.0, Better::Higher).is_met());
    }

    #[test]
    fn a_json_row_has_the_six_documented_fields() {
        let row = row(2.0, 3.0, Better::Lower).to_json();
        let expected = json!({
            "case": "case", "raw": 2.0, "ours": 3.0, "ratio": 1.5, "goal": 1.5, "better": "lower"
        });
        assert_eq!(serde_json::from_str::<serde_json::Value>(&row).unwrap(), expected);
    }

    #[test]
    fn zero_workers_is_a_usage_error() {
        let args = Args::new(["--workers=0".to_owned()]);
        assert!(Options::parse(args).unwrap_err().is::<UsageError>());
    }
}
