//! Runs the faults of the NATS engine, and writes down what a long run did.

use std::fmt::Write as _;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::args::Args;
use crate::conformance::sentence;
use crate::nats;
use crate::page::{FAULTS, Page};
use crate::repo::{Repo, name_of};
use crate::steps::Stopwatch;

/// How often and which.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// Many times, and for as long as faults last.
    long: bool,
    json: bool,
    /// Part of a fault's name.
    filter: Option<String>,
}

impl Options {
    /// Reads the command line.
    ///
    /// # Errors
    /// A usage error.
    pub(crate) fn parse(mut args: Args) -> Result<Self> {
        let (long, json) = (args.flag("--long"), args.flag("--json"));
        Ok(Self { long, json, filter: args.last_word()? })
    }
}

/// Runs the faults; `false` when one did harm or none ran. The result of a whole long run is
/// written into the page.
///
/// # Errors
/// When the tests cannot be built or do not speak the format, or the page cannot be written.
pub(crate) fn run(repo: &Repo, options: &Options) -> Result<bool> {
    let watch = Stopwatch::start();
    let mut command = repo.cargo(["test", "--quiet", "-p", "bus-nats", "--test", "faults", "--"]);
    command.args(options.filter.as_deref()).env("VAKBUS_FAULTS_JSON", "1").stderr(Stdio::inherit());
    if options.long {
        command.env("VAKBUS_FAULTS", "long");
    }
    nats::lend(repo, &mut command);
    let output = command.output().with_context(|| name_of(&command))?;
    let text = String::from_utf8(output.stdout).context("the faults print UTF-8")?;
    let rows = read(&text)?;
    for row in &rows {
        if options.json { println!("{}", row.line) } else { println!("  {}", row.as_text()) }
    }
    let failed = rows.iter().filter(|row| !row.held).count();
    if !output.status.success() && failed == 0 {
        bail!("{} ended with {} though no fault did harm", name_of(&command), output.status);
    }
    if options.long && options.filter.is_none() {
        let minutes = watch.read().as_secs().div_ceil(60);
        let mut page = Page::read(repo);
        page.faults = render(&rows, minutes);
        page.write(repo)?;
    }
    println!("{} held, {failed} did harm", rows.len() - failed);
    Ok(!rows.is_empty() && failed == 0)
}

/// What became of one fault.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    fault: String,
    held: bool,
    /// What was done and counted, or what went wrong.
    told: String,
    /// As it was printed.
    line: String,
}

impl Row {
    fn parse(line: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(line)?;
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let held = match text("outcome").context("a row has an outcome")?.as_str() {
            "held" => true,
            "failed" => false,
            other => bail!("`{other}` is no outcome"),
        };
        let told = text(if held { "facts" } else { "reason" });
        Ok(Self {
            fault: text("fault").context("a row has a fault")?,
            held,
            told: told.context("a row says what was seen")?,
            line: line.to_owned(),
        })
    }

    fn as_text(&self) -> String {
        let outcome = if self.held { "held  " } else { "FAILED" };
        format!("{outcome}  {}: {}", self.fault, self.told)
    }
}

/// Reads what the tests printed; lines that are no rows say nothing.
fn read(printed: &str) -> Result<Vec<Row>> {
    let lines = printed.lines().filter(|line| line.starts_with('{'));
    lines
        .map(|line| Row::parse(line).with_context(|| format!("the faults printed {line}")))
        .collect()
}

/// The part of the page that a long run writes.
fn render(rows: &[Row], minutes: u64) -> String {
    let mut page = format!(
        "{FAULTS}\n\
         What the NATS engine does when its server is killed, frozen, full or away, or when its\n\
         neighbours misbehave: each a test on real servers, in `crates/bus-nats/tests/faults`.\n\
         `cargo xtask test` does each once; this is what `cargo xtask faults --long` counted in\n\
         its last run, which took {minutes} minutes.\n\n\
         | fault | outcome | what was done and seen |\n|---|---|---|\n"
    );
    for row in rows {
        let outcome = if row.held { "held" } else { "**harm**" };
        let told = row.told.replace('|', "/").replace('\n', " ");
        let _infallible = writeln!(page, "| {} | {outcome} | {told} |", sentence(&row.fault));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELD: &str = r#"{"fault":"a_kill","outcome":"held","facts":"9 kills; 0 lost"}"#;
    const FAILED: &str =
        r#"{"fault":"a_freeze","outcome":"failed","reason":"m1 is lost\nm2 | m3"}"#;

    #[test]
    fn rows_are_told_from_talk() {
        let rows = read(&format!("running 2 tests\n{HELD}\n{FAILED}\n")).unwrap();
        let seen: Vec<_> = rows.iter().map(|row| (row.fault.as_str(), row.held)).collect();
        assert_eq!(seen, [("a_kill", true), ("a_freeze", false)]);
    }

    #[test]
    fn a_damaged_row_is_an_error() {
        for line in ["{", r#"{"fault":"a"}"#, r#"{"fault":"a","outcome":"held"}"#] {
            assert!(read(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_long_run_is_a_table_with_a_line_a_fault() {
        let page = render(&read(&format!("{HELD}\n{FAILED}")).unwrap(), 7);
        assert!(page.starts_with(FAULTS), "{page}");
        assert!(page.contains("\n| A kill | held | 9 kills; 0 lost |\n"), "{page}");
        assert!(page.ends_with("| A freeze | **harm** | m1 is lost m2 / m3 |\n"), "{page}");
        assert!(page.contains("took 7 minutes"), "{page}");
    }
}
