//! Measures what we build beside the raw libraries: one JSON row a line on standard output.
//!
//! `cargo xtask bench` builds and runs this. The one argument is part of a case's name.
#![expect(clippy::print_stdout, reason = "printing the rows is what this program is for")]

use anyhow::{Context, Result};
use serde_json::json;

use case::Case;

mod case;
mod codec;
mod disk;
mod event;
mod fanout;
mod fanout_cost;
mod queue;
mod queue_claims;
mod raw_json;
mod raw_log;
mod raw_postcard;
mod raw_queue;
mod raw_trie;
mod seal;
mod subjects;

fn main() -> Result<()> {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let groups: [(&str, &[Case]); 8] = [
        ("lower", fanout_cost::COSTS),
        ("higher", fanout::RATES),
        ("lower", queue::CASES),
        ("lower", queue_claims::CASES),
        ("lower", subjects::CASES),
        ("lower", codec::CASES),
        ("lower", seal::CASES),
        ("higher", disk::CASES),
    ];
    let all = groups.into_iter().flat_map(|(better, cases)| cases.iter().map(move |c| (better, c)));
    for (better, case) in all.filter(|(_, case)| case.name.contains(&filter)) {
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
