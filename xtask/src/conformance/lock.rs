//! The reviewed list of cases that do not apply to an engine: `engine case reason` a line.

use anyhow::{Context, Result, bail};

use super::row::{Outcome, Row};

/// Where the list stands, below the root of the repository.
pub(super) const PATH: &str = "tests/conformance.lock";

/// The cases that are known not to apply.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lock {
    entries: Vec<Entry>,
}

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    engine: String,
    case: String,
    reason: String,
}

impl Lock {
    /// Reads the list; empty lines and lines that begin with `#` say nothing.
    ///
    /// # Errors
    /// When a line has no reason, names none of `engines`, or repeats a case.
    pub(super) fn parse(text: &str, engines: &[&str]) -> Result<Self> {
        let mut entries: Vec<Entry> = Vec::new();
        for (number, line) in (1..).zip(text.lines().map(str::trim)) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let entry = Entry::parse(line)
                .with_context(|| format!("{PATH}:{number}: expected `engine case reason`"))?;
            if !engines.contains(&entry.engine.as_str()) {
                bail!("{PATH}:{number}: no engine is called `{}`", entry.engine);
            }
            if entries.iter().any(|e| e.engine == entry.engine && e.case == entry.case) {
                bail!("{PATH}:{number}: {} {} is listed twice", entry.engine, entry.case);
            }
            entries.push(entry);
        }
        Ok(Self { entries })
    }

    /// Turns into failures what the list does not expect, and adds one for each listed case that
    /// should have run and did not. `is_whole` says that no filter kept cases out.
    pub(super) fn judge(&self, engine: &str, mut rows: Vec<Row>, is_whole: bool) -> Vec<Row> {
        let listed = || self.entries.iter().filter(|entry| entry.engine == engine);
        for row in &mut rows {
            let entry = listed().find(|entry| entry.case == row.case);
            let reason = row.reason.as_deref().unwrap_or_default();
            let wrong = match (row.outcome, entry) {
                (Outcome::NotApplicable, None) => format!(
                    "not listed in {PATH}; if that is right, add `{engine} {} {reason}`",
                    row.case
                ),
                (Outcome::NotApplicable, Some(entry)) if entry.reason != reason => format!(
                    "{PATH} gives another reason; if the new one is right, write `{engine} {} \
                     {reason}`",
                    row.case
                ),
                (Outcome::Passed, Some(_)) => {
                    format!("listed in {PATH} but it applies and passed; take it out")
                }
                _ => continue,
            };
            row.outcome = Outcome::Failed;
            row.reason = Some(wrong);
        }
        for Entry { case, .. } in listed().filter(|_| is_whole) {
            if !rows.iter().any(|row| row.case == *case) {
                rows.push(Row {
                    engine: engine.to_owned(),
                    area: "Not in the suite".to_owned(),
                    case: case.clone(),
                    outcome: Outcome::Failed,
                    reason: Some(format!("listed in {PATH} but the suite has no such case")),
                });
            }
        }
        rows
    }
}

impl Entry {
    fn parse(line: &str) -> Option<Self> {
        let (engine, rest) = line.split_once(char::is_whitespace)?;
        let (case, reason) = rest.trim_start().split_once(char::is_whitespace)?;
        Some(Self {
            engine: engine.to_owned(),
            case: case.to_owned(),
            reason: reason.trim().to_owned(),
        })
    }
}
