//! One case on one engine, as the suite prints it and as we print it.

use std::collections::BTreeSet;
use std::fmt;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// What became of one case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) engine: String,
    /// The title of the case's area.
    pub(super) area: String,
    pub(super) case: String,
    pub(super) outcome: Outcome,
    pub(super) reason: Option<String>,
}

/// How a case went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    Failed,
    NotApplicable,
}

impl Row {
    /// The row as one line of JSON.
    pub(super) fn to_json(&self) -> String {
        let mut value = json!({
            "engine": self.engine,
            "area": self.area,
            "case": self.case,
            "outcome": self.outcome.name(),
        });
        if let (Some(reason), Some(fields)) = (&self.reason, value.as_object_mut()) {
            fields.insert("reason".to_owned(), Value::from(reason.as_str()));
        }
        value.to_string()
    }

    fn parse(line: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(line)?;
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let outcome = match text("outcome").context("a row has an outcome")?.as_str() {
            "passed" => Outcome::Passed,
            "failed" => Outcome::Failed,
            "not_applicable" => Outcome::NotApplicable,
            other => bail!("`{other}` is no outcome"),
        };
        let row = Self {
            engine: text("engine").context("a row has an engine")?,
            area: text("area").context("a row has an area")?,
            case: text("case").context("a row has a case")?,
            outcome,
            reason: text("reason"),
        };
        if row.outcome == Outcome::NotApplicable && row.reason.is_none() {
            bail!("{} does not apply, for no reason", row.case);
        }
        Ok(row)
    }
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::NotApplicable => "not_applicable",
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { engine, case, outcome, reason, .. } = self;
        match outcome {
            Outcome::Passed => write!(f, "  {engine:<5} passed  {case}")?,
            Outcome::Failed => write!(f, "  {engine:<5} FAILED  {case}")?,
            Outcome::NotApplicable => write!(f, "  {engine:<5} n/a     {case}")?,
        }
        reason.iter().try_for_each(|reason| write!(f, ": {reason}"))
    }
}

/// Reads what the suite printed for `engine`: its rows, and all lines that are not rows.
///
/// # Errors
/// When a row is damaged, speaks for another engine, or repeats a case.
pub(super) fn read(engine: &str, printed: &str) -> Result<(Vec<Row>, Vec<String>)> {
    let mut rows: Vec<Row> = Vec::new();
    let mut talk = Vec::new();
    let mut seen = BTreeSet::new();
    for line in printed.lines().filter(|line| !line.trim().is_empty()) {
        if !line.starts_with('{') {
            talk.push(line.to_owned());
            continue;
        }
        let row = Row::parse(line).with_context(|| format!("the {engine} suite printed {line}"))?;
        if row.engine != engine {
            bail!("the {engine} suite printed a row of engine {}", row.engine);
        }
        if !seen.insert(row.case.clone()) {
            bail!("the {engine} suite ran {} twice", row.case);
        }
        rows.push(row);
    }
    Ok((rows, talk))
}
