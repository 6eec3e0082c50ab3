//! Measures us beside the raw way to do the same, in the same run, and holds the ratio to a goal.

use std::fmt;
use std::num::NonZeroUsize;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::args::{Args, UsageError};
use crate::repo::Repo;

use measure::Measured;

mod calls;
mod measure;
mod swarm;
mod watch;

/// What to measure and how to show it.
#[derive(Debug)]
pub(crate) struct Options {
    json: bool,
    /// How many things run at a time; by default as many as the machine has processors.
    workers: NonZeroUsize,
    chosen: Chosen,
}

/// Which cases to measure.
#[derive(Debug, PartialEq)]
enum Chosen {
    /// Those with this in their names.
    With(String),
    /// Those of the row with this id, which their names begin with.
    Row(String),
}

impl Options {
    /// Reads the command line.
    ///
    /// # Errors
    /// A usage error, also when the number of workers is no number or zero, and when both a row and
    /// a filter are given.
    pub(crate) fn parse(mut args: Args) -> Result<Self> {
        let json = args.flag("--json");
        let workers = match args.options("--workers")?.last() {
            Some(text) => text.parse().map_err(|_| {
                UsageError::new(format!("--workers wants a number above 0, not `{text}`"))
            })?,
            None => std::thread::available_parallelism().context("count the processors")?,
        };
        let row = args.options("--row")?.pop();
        let chosen = match (row, args.last_word()?) {
            (Some(row), None) => Chosen::Row(row),
            (None, filter) => Chosen::With(filter.unwrap_or_default()),
            (Some(_), Some(_)) => {
                return Err(UsageError::new("--row and a filter exclude each other".to_owned()));
            }
        };
        Ok(Self { json, workers, chosen })
    }
}

impl Chosen {
    fn has(&self, name: &str) -> bool {
        match self {
            Self::With(part) => name.contains(part),
            Self::Row(row) => name.strip_prefix(row).is_some_and(|rest| rest.starts_with('-')),
        }
    }

    /// The arguments that choose the same of the measuring program's cases.
    fn words(&self) -> Vec<&str> {
        match self {
            Self::With(part) => vec![part],
            Self::Row(row) => vec!["--row", row],
        }
    }
}

/// One thing that is measured here, from outside: whole programs.
struct Case {
    name: &'static str,
    /// The ratio ours / raw to reach; `None` when the row only informs.
    goal: Option<f64>,
    better: Better,
    measure: Measure,
}

/// Every row but those that the measuring program of `benches/` brings itself.
const CASES: &[Case] = &[
    lower("swarm-2000-true", Some(1.5), swarm::measure),
    lower("W1-watched-publisher-work-daemon", Some(1.03), watch::daemon_work),
    lower("W1-watched-publisher-work-nats", Some(1.03), watch::nats_work),
    lower("W2-watched-publisher-time-daemon", None, watch::daemon_time),
    lower("W2-watched-publisher-time-nats", None, watch::nats_time),
];

/// A case whose figures are better the lower they are.
const fn lower(name: &'static str, goal: Option<f64>, measure: Measure) -> Case {
    Case { name, goal, better: Better::Lower, measure }
}

/// Measures both ways; the figures share a unit.
type Measure = fn(&Repo, &Options) -> Result<Measured>;

/// Which way a figure improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Better {
    Higher,
    Lower,
}

/// Measures the cases one after the other; `false` when one misses its goal.
///
/// # Errors
/// When a measurement fails, or no case is chosen.
pub(crate) fn run(repo: &Repo, options: &Options) -> Result<bool> {
    let chosen = &options.chosen;
    let mut report = Report { json: options.json, rows: 0, all_met: true };
    calls::measure(repo, &chosen.words(), |row| report.add(&row))?;
    for case in CASES.iter().filter(|case| chosen.has(case.name)) {
        let Measured { raw, ours } =
            (case.measure)(repo, options).with_context(|| format!("measure {}", case.name))?;
        let (case, goal, better) = (case.name.to_owned(), case.goal, case.better);
        report.add(&Row { case, raw, ours, goal, better });
    }
    if report.rows == 0 {
        bail!("no case is called so: {}", chosen.words().join(" "));
    }
    Ok(report.all_met)
}

/// What was printed so far.
struct Report {
    json: bool,
    rows: usize,
    all_met: bool,
}

impl Report {
    /// Prints a row as soon as it is measured.
    fn add(&mut self, row: &Row) {
        self.rows += 1;
        self.all_met &= row.is_met();
        if self.json {
            println!("{}", row.to_json());
        } else {
            println!("{row}");
        }
    }
}

/// A case with its figures.
#[derive(Debug, PartialEq)]
struct Row {
    case: String,
    raw: f64,
    ours: f64,
    /// `None` when the row only informs.
    goal: Option<f64>,
    better: Better,
}

impl Row {
    fn ratio(&self) -> f64 {
        self.ours / self.raw
    }

    /// A ratio that is no number meets no goal.
    fn is_met(&self) -> bool {
        match (self.goal, self.better) {
            (None, _) => true,
            (Some(goal), Better::Higher) => self.ratio() >= goal,
            (Some(goal), Better::Lower) => self.ratio() <= goal,
        }
    }

    fn to_json(&self) -> String {
        json!({
            "case": self.case,
            "raw": self.raw,
            "ours": self.ours,
            "ratio": self.ratio(),
            "goal": self.goal,
            "better": self.better.name(),
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
        let Self { case, raw, ours, goal, better } = self;
        write!(f, "  {case:<20} raw {raw:.3}  ours {ours:.3}  ratio {:.2}", self.ratio())?;
        let Some(goal) = goal else {
            return write!(f, "  (no goal)");
        };
        let verdict = if self.is_met() { "met" } else { "MISSED" };
        write!(f, "  goal {goal:.2} ({} is better)  {verdict}", better.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(raw: f64, ours: f64, better: Better) -> Row {
        Row { case: "case".to_owned(), raw, ours, goal: Some(1.5), better }
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
    fn a_row_without_a_goal_misses_none() {
        let row = Row { goal: None, ..row(1.0, 9.0, Better::Lower) };
        assert!(row.is_met());
        assert!(row.to_json().contains("\"goal\":null"));
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
    fn a_row_has_the_cases_that_begin_with_its_id() {
        let names = ["N1-publish-subscribe-1", "N10-other", "beside-N1-x"];
        let chosen = Options::parse(Args::new(["--row=N1".to_owned()])).unwrap().chosen;
        assert_eq!(names.map(|name| chosen.has(name)), [true, false, false]);
    }

    #[test]
    fn a_row_and_a_filter_are_a_usage_error() {
        let args = Args::new(["--row=N1", "codec"].map(str::to_owned));
        assert!(Options::parse(args).unwrap_err().is::<UsageError>());
    }

    #[test]
    fn zero_workers_is_a_usage_error() {
        let args = Args::new(["--workers=0".to_owned()]);
        assert!(Options::parse(args).unwrap_err().is::<UsageError>());
    }
}
