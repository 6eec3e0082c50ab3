//! Writes the seeds for libFuzzer, and fuzzes without it: `cargo xtask fuzz` runs this.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "its output is what it is for")]

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bus_fuzz::replay::{self, Crash};
use bus_fuzz::{TARGETS, Target};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["list"] => {
            TARGETS.iter().for_each(|target| println!("{}", target.name));
            Ok(true)
        }
        ["seeds", folder] => write_seeds(Path::new(folder)).map(|()| true),
        ["mutate", target, seconds, seed, crashes] => {
            mutate(target, seconds, seed, Path::new(crashes))
        }
        _ => Err(format!("usage: {USAGE}")),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bus-fuzz: {error}");
            ExitCode::from(2)
        }
    }
}

/// Writes each target's seeds into its own folder below `root`, one file each, named by content.
fn write_seeds(root: &Path) -> Result<(), String> {
    for target in TARGETS {
        let folder = root.join(target.name);
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        for seed in (target.seeds)() {
            // What is longer is only replayed: it would slow every later input down.
            if seed.len() <= bus_fuzz::mutate::BYTES_MAX {
                let file = folder.join(format!("seed-{:016x}", digest(&seed)));
                std::fs::write(file, &seed).map_err(|error| error.to_string())?;
            }
        }
    }
    Ok(())
}

/// The blind loop: mutates for some seconds, then says how many inputs it ran.
fn mutate(name: &str, seconds: &str, seed: &str, crashes: &Path) -> Result<bool, String> {
    let target = Target::named(name).ok_or(format!("no target is called {name}"))?;
    let seconds: u64 = seconds.parse().map_err(|_| "seconds must be a number")?;
    let seed: u64 = seed.parse().map_err(|_| "the seed must be a number")?;
    let inputs = replay::inputs(&target).map_err(|error| error.to_string())?;
    let end = now() + Duration::from_secs(seconds);
    let goes_on = |executions: u64| !executions.is_multiple_of(64) || now() < end;
    let found = replay::walk(&target, &inputs)
        .and_then(|_| replay::mutate(&target, &inputs, seed, goes_on));
    match found {
        Ok(tally) => {
            println!("executions {}", tally.executions);
            Ok(true)
        }
        Err(crash) => {
            let Crash { origin, message, input } = *crash;
            let file = crashes.join(format!("crash-{:016x}", digest(&input)));
            std::fs::create_dir_all(crashes).map_err(|error| error.to_string())?;
            std::fs::write(&file, input).map_err(|error| error.to_string())?;
            eprintln!("{name}: {origin}: {message}");
            println!("crash {}", file.display());
            Ok(false)
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the loop is bounded by the clock of whoever waits")]
fn now() -> Instant {
    Instant::now()
}

fn digest(input: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    hasher.finish()
}

const USAGE: &str = "bus-fuzz list | seeds FOLDER | mutate TARGET SECONDS SEED CRASHES";
