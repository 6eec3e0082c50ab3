//! Runs the simulation over many seeds; `cargo xtask sim` builds and starts this.
//!
//! Prints the seed and the options before it begins, and for a seed that fails the last things
//! that happened and the command that replays it. Exit codes: 0 all promises kept, 1 one broken,
//! 2 wrong usage.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "telling what came of the runs is what this program is for"
)]

use std::{
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bus_crypto::{CryptoError, Entropy as _, SystemEntropy};
use bus_stories::sim::{Fault, Options, Report, simulate};
use serde_json::json;

fn main() -> ExitCode {
    match Order::parse(std::env::args().skip(1)) {
        Ok(order) => order.carry_out(),
        Err(why) => {
            eprintln!("bus-sim: {why}");
            ExitCode::from(2)
        }
    }
}

/// What to run.
struct Order {
    first: u64,
    seeds: u64,
    options: Options,
    json: bool,
}

impl Order {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut order, mut seed) = (Self::default(), None);
        while let Some(word) = words.next() {
            if word == "--json" {
                order.json = true;
                continue;
            }
            let value = words.next().ok_or_else(|| format!("{word} wants a value"))?;
            let number = || -> Result<u64, String> {
                value.parse().map_err(|_| format!("{word} wants a number, not `{value}`"))
            };
            match word.as_str() {
                "--seed" => seed = Some(number()?),
                "--seeds" => order.seeds = number()?,
                "--steps" => order.options.steps = number()?,
                "--agents" => {
                    let agents = usize::try_from(number()?).unwrap_or(usize::MAX);
                    if !(Options::AGENTS_MIN..=Options::AGENTS_MAX).contains(&agents) {
                        let (min, max) = (Options::AGENTS_MIN, Options::AGENTS_MAX);
                        return Err(format!("--agents wants {min} to {max}"));
                    }
                    order.options.agents = agents;
                }
                "--sabotage" => {
                    let names: Vec<&str> = Fault::ALL.iter().map(|fault| fault.name()).collect();
                    let fault = Fault::named(&value);
                    order.options.fault = Some(fault.ok_or_else(|| {
                        format!("no fault is called `{value}`; there are {}", names.join(", "))
                    })?);
                }
                _ => return Err(format!("did not expect `{word}`")),
            }
        }
        order.first = match seed {
            Some(seed) => seed,
            None => drawn().map_err(|error| error.to_string())?,
        };
        if order.seeds == 0 {
            return Err("--seeds wants at least 1: no run proves nothing".to_owned());
        }
        if order.first.checked_add(order.seeds).is_none() {
            return Err(format!("{} seeds from {} are no numbers", order.seeds, order.first));
        }
        Ok(order)
    }

    /// Runs every seed, on as many threads as there are processors; each run is its own world.
    fn carry_out(&self) -> ExitCode {
        let Self { first, seeds, options, json } = self;
        if !json {
            println!("seeds {first} to {}, {}", first + (seeds - 1), options.to_words());
        }
        let (next, tally) = (AtomicU64::new(0), Mutex::new(Tally::default()));
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= *seeds {
                            return;
                        }
                        let report = simulate(first + number, *options);
                        let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
                        tally.add(&report);
                        if *json {
                            println!("{}", to_json(&report));
                        } else if !report.is_good() || *seeds == 1 {
                            print!("{}", to_text(&report));
                        }
                    }
                });
            }
        });
        let tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
        let Tally { kept, broken, steps, tasks } = tally;
        if !json {
            println!(
                "{steps} steps, {tasks} tasks, {kept} seeds kept all promises, {broken} did not"
            );
        }
        if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

impl Default for Order {
    fn default() -> Self {
        Self { first: 1, seeds: 1, options: Options::default(), json: false }
    }
}

/// A seed that nobody chose.
fn drawn() -> Result<u64, CryptoError> {
    let mut bytes = [0; 4];
    SystemEntropy::new().fill(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes).into())
}

#[derive(Debug, Default)]
struct Tally {
    kept: u64,
    broken: u64,
    steps: u64,
    tasks: u64,
}

impl Tally {
    fn add(&mut self, report: &Report) {
        if report.is_good() {
            self.kept += 1;
        } else {
            self.broken += 1;
        }
        self.steps += report.figure("steps");
        self.tasks += report.figure("stored");
    }
}

fn to_text(report: &Report) -> String {
    let mut text = String::new();
    if let Some(violation) = &report.violation {
        for line in &report.last_lines {
            text.push_str(&format!("  {line}\n"));
        }
        text.push_str(&format!("seed {} BROKEN {violation}\n", report.seed));
        text.push_str(&format!("replay: {}\n", report.replay_command()));
    } else {
        text.push_str(&format!("seed {} kept all promises\n", report.seed));
    }
    text.push_str(&format!("  digest {:016x}\n", report.digest));
    for (name, number) in &report.figures {
        text.push_str(&format!("  {name} {number}\n"));
    }
    text
}

fn to_json(report: &Report) -> serde_json::Value {
    let Options { agents, steps, fault } = report.options;
    let figures: serde_json::Map<_, _> =
        report.figures.iter().map(|(name, number)| ((*name).to_owned(), json!(number))).collect();
    json!({
        "seed": report.seed,
        "agents": agents,
        "steps": steps,
        "sabotage": fault.map(Fault::name),
        "kept": report.is_good(),
        "rule": report.violation.as_ref().map(|violation| violation.rule),
        "what": report.violation.as_ref().map(|violation| violation.what.as_str()),
        "digest": format!("{:016x}", report.digest),
        "figures": figures,
        "replay": report.replay_command(),
    })
}
