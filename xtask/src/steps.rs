//! Runs named steps one after the other and remembers how each went and how long it took.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::repo::Repo;

/// One thing that a task does.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) run: fn(&Repo) -> Result<Outcome>,
}

/// How a step stands to the build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Says something even when the code does not build.
    Free,
    /// The build itself.
    Build,
    /// Says nothing new once the build has failed, so it is not run then.
    NeedsBuild,
}

/// How a step went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed,
    /// It passed at the second go; the text says what did not at the first.
    Unsteady(String),
    /// It could not say anything, for the reason given; that is no failure.
    NotRun(String),
}

impl From<bool> for Outcome {
    fn from(passed: bool) -> Self {
        if passed { Self::Passed } else { Self::Failed }
    }
}

/// What became of all steps; its text is the closing table.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    name: &'static str,
    outcome: Outcome,
    took: Duration,
}

impl Report {
    pub(crate) fn is_good(&self) -> bool {
        self.rows.iter().all(|row| row.outcome != Outcome::Failed)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Row { name, outcome, took } in &self.rows {
            let seconds = took.as_secs_f64();
            match outcome {
                Outcome::Passed => writeln!(f, "  {name:<12} passed   {seconds:>7.1} s")?,
                Outcome::Unsteady(what) => {
                    writeln!(f, "  {name:<12} passed   {seconds:>7.1} s, unsteady: {what}")?;
                }
                Outcome::Failed => writeln!(f, "  {name:<12} FAILED   {seconds:>7.1} s")?,
                Outcome::NotRun(why) => writeln!(f, "  {name:<12} not run: {why}")?,
            }
        }
        Ok(())
    }
}

/// Runs every step, whatever becomes of the others; only a failed build spares those that need it.
pub(crate) fn run_all(repo: &Repo, steps: &[Step]) -> Report {
    let mut report = Report::default();
    let mut built = true;
    for Step { name, kind, run } in steps {
        println!("== {name}");
        let watch = Stopwatch::start();
        let outcome = if *kind == Kind::NeedsBuild && !built {
            Outcome::NotRun("the build failed".to_owned())
        } else {
            run(repo).unwrap_or_else(|error| {
                eprintln!("{name}: {error:#}");
                Outcome::Failed
            })
        };
        let took = watch.read();
        match &outcome {
            Outcome::Passed => println!("== {name}: passed in {:.1} s\n", took.as_secs_f64()),
            Outcome::Unsteady(what) => {
                println!("== {name}: passed in {:.1} s, unsteady: {what}\n", took.as_secs_f64());
            }
            Outcome::Failed => println!("== {name}: FAILED in {:.1} s\n", took.as_secs_f64()),
            Outcome::NotRun(why) => println!("not run: {why}\n"),
        }
        built &= *kind != Kind::Build || outcome != Outcome::Failed;
        report.rows.push(Row { name, outcome, took });
    }
    report
}

/// Measures how long something takes.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(
        clippy::disallowed_methods,
        reason = "a developer's tool times real processes; no rule of the product depends on it"
    )]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn read(&self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Step = Step { name: "good", kind: Kind::NeedsBuild, run: |_| Ok(Outcome::Passed) };
    const BAD: Step = Step { name: "bad", kind: Kind::Free, run: |_| Ok(Outcome::Failed) };
    const BROKEN: Step =
        Step { name: "broken", kind: Kind::Free, run: |_| Err(anyhow::anyhow!("no such tool")) };
    const BAD_BUILD: Step = Step { name: "build", kind: Kind::Build, run: |_| Ok(Outcome::Failed) };
    const ABSENT: Step = Step {
        name: "absent",
        kind: Kind::Free,
        run: |_| Ok(Outcome::NotRun("not installed".to_owned())),
    };

    fn outcomes(steps: &[Step]) -> (Vec<Outcome>, bool) {
        let report = run_all(&Repo::find().unwrap(), steps);
        let good = report.is_good();
        (report.rows.into_iter().map(|row| row.outcome).collect(), good)
    }

    #[test]
    fn steps_after_a_failed_one_still_run() {
        assert_eq!(outcomes(&[BAD, GOOD]), (vec![Outcome::Failed, Outcome::Passed], false));
    }

    #[test]
    fn a_step_that_cannot_run_its_tool_has_failed() {
        assert_eq!(outcomes(&[BROKEN]), (vec![Outcome::Failed], false));
    }

    #[test]
    fn a_failed_build_spares_the_steps_that_need_it() {
        let spared = Outcome::NotRun("the build failed".to_owned());
        assert_eq!(outcomes(&[BAD_BUILD, GOOD]), (vec![Outcome::Failed, spared], false));
    }

    #[test]
    fn a_step_that_does_not_apply_is_no_failure() {
        let (_, good) = outcomes(&[ABSENT, GOOD]);
        assert!(good);
    }

    #[test]
    fn the_table_has_a_line_a_step() {
        let took = Duration::from_millis(1_250);
        let rows = vec![
            Row { name: "fmt", outcome: Outcome::Passed, took },
            Row { name: "tests", outcome: Outcome::Failed, took },
            Row { name: "tests", outcome: Outcome::Unsteady("-p x --lib".to_owned()), took },
            Row { name: "deny", outcome: Outcome::NotRun("absent".to_owned()), took },
        ];
        let expected = "  fmt          passed       1.2 s\n  tests        FAILED       1.2 s\n  \
                        tests        passed       1.2 s, unsteady: -p x --lib\n  \
                        deny         not run: absent\n";
        assert_eq!(Report { rows }.to_string(), expected);
    }
}
