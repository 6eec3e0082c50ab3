//! Measures what a run costs: 2,000 times `true`, several at a time, beside `xargs -P`.
#![expect(clippy::print_stdout, reason = "an example prints what it measures")]
#![expect(clippy::disallowed_methods, reason = "a measurement needs the clock, and tasks")]

use std::error::Error;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;

use bus_runner::{CommandSpec, OutputSink, OutputStream, StopSignal, run};

const RUNS: usize = 2_000;
const WORKERS: usize = 8;
const ROUNDS: usize = 5;

struct Nothing;

impl OutputSink for Nothing {
    fn started(&mut self, _pid: u32) {}

    async fn chunk(&mut self, _stream: OutputStream, _bytes: Bytes) {}
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    for _ in 0..ROUNDS {
        let ours = runtime.block_on(ours())?;
        let theirs = theirs()?;
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
        let each = ours / RUNS as u32;
        println!("{RUNS} runs: ours {ours:?} ({each:?} each), xargs {theirs:?}, ratio {ratio:.2}");
    }
    Ok(())
}

async fn ours() -> Result<Duration, Box<dyn Error>> {
    let command = Arc::new(CommandSpec::new("true", ["{}"]).for_text("x")?);
    let (next, begin) = (Arc::new(AtomicUsize::new(0)), Instant::now());
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let (command, next) = (Arc::clone(&command), Arc::clone(&next));
            tokio::spawn(async move {
                let mut failures = 0;
                while next.fetch_add(1, Ordering::Relaxed) < RUNS {
                    let report = run(&command, Bytes::new(), &mut Nothing, StopSignal::new()).await;
                    failures += usize::from(!report.is_success());
                }
                failures
            })
        })
        .collect();
    let mut failures = 0;
    for worker in workers {
        failures += worker.await?;
    }
    if failures > 0 {
        return Err(format!("{failures} runs failed").into());
    }
    Ok(begin.elapsed())
}

fn theirs() -> Result<Duration, Box<dyn Error>> {
    use std::io::Write;

    let begin = Instant::now();
    let mut child = Command::new("xargs")
        .args(["-P", &WORKERS.to_string(), "-n", "1", "true"])
        .stdin(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all("x\n".repeat(RUNS).as_bytes())?;
    }
    let status = child.wait()?;
    if !status.success() {
        return Err("xargs failed".into());
    }
    Ok(begin.elapsed())
}
