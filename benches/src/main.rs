//! Measures the pure crates beside the raw libraries: one JSON row a line on standard output.
//!
//! `cargo xtask bench` builds and runs this. The one argument is part of a case's name.
#![expect(clippy::print_stdout, reason = "printing the rows is what this program is for")]

use anyhow::{Context, Result};
use serde_json::json;

use case::Case;

mod case;
mod codec;
mod event;
mod raw_json;
mod raw_postcard;
mod raw_trie;
mod seal;
mod subjects;

fn main() -> Result<()> {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let groups: [&[Case]; 3] = [subjects::CASES, codec::CASES, seal::CASES];
    for case in groups.into_iter().flatten().filter(|case| case.name.contains(&filter)) {
        let figures = (case.measure)().with_context(|| format!("measure {}", case.name))?;
        let row = json!({
            "case": case.name,
            "raw": figures.raw,
            "ours": figures.ours,
            "ratio": figures.ours / figures.raw,
            "goal": case.goal,
            "better": "lower",
        });
        println!("{row}");
    }
    Ok(())
}
