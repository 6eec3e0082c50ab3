//! The project's own tasks: `cargo xtask help` lists them.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "talking to the developer on the terminal is what this program is for"
)]

use std::process::ExitCode;

use anyhow::Result;

use args::{Args, UsageError};
use repo::Repo;

mod args;
mod bench;
mod claims;
mod conformance;
mod faults;
mod fuzz;
mod guide;
mod layers;
mod nats;
mod page;
mod readme;
mod repo;
mod scratch;
mod script;
mod shell;
mod sim;
mod spec;
mod steps;
mod suite;
mod tested;
mod tidy;

fn main() -> ExitCode {
    match dispatch(Args::new(std::env::args().skip(1))) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(if error.is::<UsageError>() { 2 } else { 1 })
        }
    }
}

/// Runs the named task; `false` means that it ran and found something wrong.
fn dispatch(mut args: Args) -> Result<bool> {
    let Some(task) = args.word() else {
        print!("{HELP}");
        return Ok(true);
    };
    match task.as_str() {
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(true)
        }
        "check" => plain(args, suite::check),
        "test" => plain(args, suite::test),
        "tidy" => plain(args, tidy::run),
        "layers" => plain(args, layers::run),
        "readme" => plain(args, readme::run),
        "guide" => {
            let options = guide::Options::parse(args)?;
            guide::run(&Repo::find()?, &options)
        }
        "conformance" => {
            let options = conformance::Options::parse(args)?;
            conformance::run(&Repo::find()?, &options)
        }
        "bench" => {
            let options = bench::Options::parse(args)?;
            bench::run(&Repo::find()?, &options)
        }
        "faults" => {
            let options = faults::Options::parse(args)?;
            faults::run(&Repo::find()?, &options)
        }
        "fuzz" => {
            let options = fuzz::Options::parse(args)?;
            fuzz::run(&Repo::find()?, &options)
        }
        "sim" => {
            let options = sim::Options::sim(args)?;
            sim::run(&Repo::find()?, &options)
        }
        "load" => {
            let options = sim::Options::load(args)?;
            sim::run(&Repo::find()?, &options)
        }
        "nats" => {
            let options = nats::Options::parse(args)?;
            nats::run(&Repo::find()?, &options)
        }
        "spec" => {
            let options = spec::Options::parse(args)?;
            spec::run(&Repo::find()?, &options)
        }
        other => {
            Err(UsageError::new(format!("no task is called `{other}`; see `cargo xtask help`")))
        }
    }
}

/// Runs a task that takes no options.
fn plain(args: Args, task: fn(&Repo) -> Result<bool>) -> Result<bool> {
    args.end()?;
    task(&Repo::find()?)
}

const HELP: &str = "\
The project's own tasks. Run from anywhere in the repository.

  cargo xtask check         the quick part: format, tidy, layers, promises, claims, clippy
  cargo xtask test          everything CI runs: check, docs, all tests, conformance, README, guide, deny
  cargo xtask tidy          house rules: `path:line: rule: text` for each violation
  cargo xtask layers        which crate may use which, held against `cargo metadata`
  cargo xtask spec [--accept]
                            recomputes the golden vectors in Python and compares the pages of
                            docs/spec with the files they describe; --accept: they were read again
  cargo xtask readme        runs the README's `sh` blocks as written, in a fresh clone
  cargo xtask guide [PAGE]  runs the `sh` blocks of docs/guide, each page in a home of its own, and
                            looks for what the pages say that they print; PAGE is part of a name

  cargo xtask conformance [--engine NAME]... [--cluster | --least-privilege] [--json]
                  [--write-docs] [FILTER]
                            every promise of the bus on every engine (mem, disk, link, nats; all is
                            the default); FILTER is part of a case name; --cluster: nats on three
                            servers that keep copies, which takes minutes;
                            --least-privilege: nats with the rights of agents, for whom another
                            account keeps everything;
                            cases that do not apply are compared with tests/conformance.lock,
                            a whole run with docs/conformance.md (--write-docs: writes that page)
  cargo xtask faults [--long] [--json] [FILTER]
                            what the NATS engine does when its server is killed, frozen, full or
                            away; --long: many times and for as long as faults last, the result of a
                            whole run is written into docs/conformance.md
  cargo xtask sim [--seeds N] [--seed S] [--agents A] [--steps K] [--sabotage FAULT] [--release]
                  [--json]  thousands of agents on the pure broker, with crashes, lost messages and
                            clock jumps; a seed decides all of it, without one a new one is drawn;
                            a seed that fails prints its last events and the command that replays
                            it; --sabotage plants a fault that must be found
  cargo xtask load [--agents A] [--tasks T] [--json]
                            2,000 real agents on one embedded bus do 20,000 tasks; prints memory
  cargo xtask bench [--json] [--workers N] [--row ID | FILTER]
                            our figures beside the raw ones of the same run, against their goals;
                            wall times: let nothing else run meanwhile; --row N4: the cases of a row
  cargo xtask nats [--print]
                            finds the nats-server that tests run on (NATS_SERVER, PATH, or what was
                            fetched before) or fetches it; --print: its path and nothing else
  cargo xtask fuzz [--seconds N] [TARGET]...
                            each reader of strangers' bytes for N seconds (30), guided by coverage;
                            prints executions, and the path of every input that breaks something

Exit codes: 0 all well, 1 something is wrong, 2 wrong usage.
";
