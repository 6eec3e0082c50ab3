//! Measures what we build beside the raw libraries: one JSON row a line on standard output.
//!
//! `cargo xtask bench` builds and runs this. The one argument is part of a case's name; `--row N4`
//! means the cases of that row.
#![expect(clippy::print_stdout, reason = "printing the rows is what this program is for")]

use anyhow::{Context, Result, anyhow};
use serde_json::json;

use case::Case;

mod case;
mod codec;
mod disk;
mod event;
mod fanout;
mod fanout_cost;
mod fleet;
mod nats;
mod output;
mod queue;
mod queue_claims;
mod raw_json;
mod raw_log;
mod raw_postcard;
mod raw_queue;
mod raw_trie;
mod seal;
mod subjects;

/// The allocator of the `vakbus` program.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<()> {
    if let Some(bytes) = output::writer::asked(std::env::args().skip(1)) {
        return output::writer::write(bytes?);
    }
    let chosen = Chosen::parse(std::env::args().skip(1))?;
    let groups: [(&str, &[Case]); 18] = [
        ("lower", fanout_cost::COSTS),
        ("higher", fanout::RATES),
        ("lower", queue::CASES),
        ("lower", queue_claims::CASES),
        ("lower", subjects::CASES),
        ("lower", codec::CASES),
        ("lower", seal::CASES),
        ("lower", output::run::COSTS),
        ("lower", output::text::COSTS),
        ("higher", disk::CASES),
        ("higher", nats::live::RATES),
        ("lower", nats::ask::TIMES),
        ("higher", nats::ask::RATES),
        ("higher", nats::append::RATES),
        ("higher", nats::pull::RATES),
        ("lower", nats::state::TIMES),
        ("higher", nats::objects::RATES),
        ("lower", nats::mailboxes::COSTS),
    ];
    let all = groups.into_iter().flat_map(|(better, cases)| cases.iter().map(move |c| (better, c)));
    for (better, case) in all.filter(|(_, case)| chosen.has(case.name)) {
        let figures = (case.measure)().with_context(|| format!("measure {}", case.name))?;
        let row = json!({
            "case": case.name,
            "raw": figures.raw,
            "ours": figures.ours,
            "ratio": figures.ours / figures.raw,
            "goal": case.goal,
            "better": better,
        });
        println!("{row}");
    }
    Ok(())
}

/// Which cases to measure.
enum Chosen {
    /// Those with this in their names.
    With(String),
    /// Those of this row.
    Row(String),
}

impl Chosen {
    fn parse(words: impl Iterator<Item = String>) -> Result<Self> {
        let words: Vec<String> = words.collect();
        match words.as_slice() {
            [] => Ok(Self::With(String::new())),
            [option, row] if option == "--row" => Ok(Self::Row(format!("{row}-"))),
            [filter] => Ok(Self::With(filter.clone())),
            _ => Err(anyhow!("expected part of a name, or --row and the id of a row")),
        }
    }

    fn has(&self, name: &str) -> bool {
        match self {
            Self::With(part) => name.contains(part),
            Self::Row(start) => name.starts_with(start),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_its_own_cases_alone() -> Result<()> {
        let words = ["--row".to_owned(), "N1".to_owned()];
        let chosen = Chosen::parse(words.into_iter())?;
        let names = ["N1-publish-subscribe-1", "N10-other", "queue-N1-beside"];
        assert_eq!(names.map(|name| chosen.has(name)), [true, false, false]);
        Ok(())
    }
}
