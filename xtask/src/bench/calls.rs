//! The measures of single calls: a program of its own, in `benches/`, prints their rows.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::nats;
use crate::repo::{Repo, name_of, succeeds};

use super::{Better, Row};

/// Builds and runs the program with these arguments, and hands on each row once it is printed.
///
/// # Errors
/// When the program does not build or fails, or prints what is no row.
pub(super) fn measure(repo: &Repo, words: &[&str], mut take: impl FnMut(Row)) -> Result<()> {
    if !succeeds(&mut repo.cargo(["build", "--quiet", "--release", "-p", "bus-bench"]))? {
        bail!("bus-bench does not build");
    }
    let mut command = Command::new(repo.target_dir()?.join("release").join("bus-bench"));
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped());
    nats::lend(repo, &mut command);
    let mut program = command.spawn().with_context(|| name_of(&command))?;
    let printed = program.stdout.take().context("the program has no output")?;
    for line in BufReader::new(printed).lines() {
        let line = line.with_context(|| name_of(&command))?;
        take(row(&line).with_context(|| format!("not a row: {line}"))?);
    }
    let status = program.wait().with_context(|| name_of(&command))?;
    if !status.success() {
        bail!("{}: {status}", name_of(&command));
    }
    Ok(())
}

/// Reads a row; the ratio in it is not taken on trust.
fn row(line: &str) -> Option<Row> {
    let row: Value = serde_json::from_str(line).ok()?;
    let number = |field: &str| row.get(field).and_then(Value::as_f64);
    let better = match row.get("better")?.as_str()? {
        "lower" => Better::Lower,
        "higher" => Better::Higher,
        _ => return None,
    };
    let goal = row.get("goal")?;
    Some(Row {
        case: row.get("case")?.as_str()?.to_owned(),
        raw: number("raw")?,
        ours: number("ours")?,
        goal: if goal.is_null() { None } else { Some(goal.as_f64()?) },
        better,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_it_is_printed() {
        let printed = Row {
            case: "nonce".to_owned(),
            raw: 2.0,
            ours: 3.0,
            goal: None,
            better: Better::Higher,
        };
        assert_eq!(row(&printed.to_json()), Some(printed));
    }

    #[test]
    fn a_line_without_a_figure_is_no_row() {
        assert_eq!(row(r#"{"case":"a","raw":1.0,"goal":null,"better":"lower"}"#), None);
        assert_eq!(row("warming up"), None);
    }
}
