//! Runs thousands of agents on one embedded bus; `cargo xtask load` builds and starts this.
//!
//! Exit codes: 0 nothing lost and nothing done twice without a redelivery, 1 otherwise, 2 wrong
//! usage.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "telling what came of the load is what this program is for"
)]

use std::process::ExitCode;

use bus_stories::{Load, LoadReport};
use serde_json::json;

#[tokio::main]
async fn main() -> ExitCode {
    let (load, json) = match parse(std::env::args().skip(1)) {
        Ok(order) => order,
        Err(why) => {
            eprintln!("bus-load: {why}");
            return ExitCode::from(2);
        }
    };
    let report = match load.run().await {
        Ok(report) => report,
        Err(error) => {
            eprintln!("bus-load: {error}");
            return ExitCode::FAILURE;
        }
    };
    let complaints = report.complaints(load);
    if json {
        println!("{}", to_json(load, &report, &complaints));
    } else {
        print!("{}", to_text(load, &report));
        complaints.iter().for_each(|complaint| println!("WRONG: {complaint}"));
    }
    if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<(Load, bool), String> {
    let (mut load, mut json) = (Load::FULL, false);
    while let Some(word) = words.next() {
        if word == "--json" {
            json = true;
            continue;
        }
        let value = words.next().ok_or_else(|| format!("{word} wants a value"))?;
        let number: usize = value
            .parse()
            .ok()
            .filter(|&number| number > 0)
            .ok_or_else(|| format!("{word} wants a number above 0, not `{value}`"))?;
        match word.as_str() {
            "--agents" => load.agents = number,
            "--tasks" => load.tasks = number,
            _ => return Err(format!("did not expect `{word}`")),
        }
    }
    Ok((load, json))
}

fn to_text(load: Load, report: &LoadReport) -> String {
    let Load { agents, tasks } = load;
    let seconds = report.took.as_secs_f64();
    let mut text = format!(
        "{agents} agents did {} of {tasks} tasks in {seconds:.1} s: {:.0} tasks/s\n",
        report.done,
        report.done as f64 / seconds
    );
    text.push_str(&format!(
        "{} redeliveries, {} receipts in unbroken chains: {}, {} mails, {} live events, {} left\n",
        report.redeliveries,
        report.receipts,
        report.chains_hold,
        report.mails,
        report.events,
        report.left
    ));
    if let Some([before, idle, high, after]) = report.memory {
        let each = idle.bytes.saturating_sub(before.bytes) / agents as u64;
        text.push_str(&format!(
            "memory: {before} before, {idle} with all agents idle ({each} bytes an agent), \
             {high} at most, {after} after\n"
        ));
    }
    text
}

fn to_json(load: Load, report: &LoadReport, complaints: &[String]) -> serde_json::Value {
    let memory = report.memory.map(|memory| memory.map(|at| at.bytes));
    json!({
        "agents": load.agents,
        "tasks": load.tasks,
        "done": report.done,
        "runs_again": report.runs_again,
        "redeliveries": report.redeliveries,
        "receipts": report.receipts,
        "chains_hold": report.chains_hold,
        "mails": report.mails,
        "events": report.events,
        "left": report.left,
        "seconds": report.took.as_secs_f64(),
        "memory_bytes": memory,
        "complaints": complaints,
    })
}
