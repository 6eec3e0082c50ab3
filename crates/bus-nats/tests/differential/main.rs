//! Random operations on the embedded engine and on NATS side by side: both show the same.
#![cfg(test)]

use std::{
    fmt::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bus_core::Engine;
use bus_mem::InMemoryBus;
use bus_nats::{NatsBus, NatsOptions};
use bus_testserver::TestServer;
use tokio::time::{Instant, timeout};

use operation::{Head, How, Known, Operation};
use side::Side;

mod operation;
mod random;
mod side;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_seen_on_nats_is_what_is_seen_on_the_embedded_engine() {
    let server = TestServer::start();
    for seed in seeds() {
        if let Err(failure) = Pair(server.url()).try_seed(seed).await {
            panic!("{failure}\nrun again with {SEED}={seed}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_operation_that_is_only_said_to_be_done_is_found_out() {
    let lies: [Lie; 5] = [
        |operation| matches!(operation, Operation::Append { head: Head::Any, .. }),
        |operation| matches!(operation, Operation::Settle { how: How::Ack, .. }),
        |operation| matches!(operation, Operation::Put { known: Known::Any, .. }),
        |operation| matches!(operation, Operation::PutBlob { breaks: false, .. }),
        |operation| matches!(operation, Operation::Claim { .. }),
    ];
    for (number, lie) in lies.into_iter().enumerate() {
        let mut is_seen = false;
        for seed in 1..=5 {
            let played = play(two_embedded(), &Operation::list(seed, STEPS), Some(lie)).await;
            is_seen |= played.is_err();
        }
        assert!(is_seen, "lie {number} was not seen");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_embedded_engines_show_the_same() {
    for seed in 1..=20 {
        let played = play(two_embedded(), &Operation::list(seed, STEPS), None).await;
        assert_eq!(played, Ok(()), "seed {seed}");
    }
}

fn two_embedded() -> [Arc<dyn Engine>; 2] {
    [Arc::new(InMemoryBus::new()), Arc::new(InMemoryBus::new())]
}

/// The server that one of the two engines is on.
struct Pair<'a>(&'a str);

/// The number of the operation that showed a difference, and what was seen.
type Played = Result<(), (usize, String)>;

impl Pair<'_> {
    /// Plays the list of `seed`; what fails is cut down to few operations first.
    async fn try_seed(&self, seed: u64) -> Result<(), String> {
        let mut few = Operation::list(seed, STEPS);
        let Err((failed_at, mut difference)) = self.play(&few).await else { return Ok(()) };
        few.truncate(failed_at + 1);
        let (whole, mut size, end) = (few.len(), few.len() / 2, Instant::now() + CUTTING);
        while size > 0 && Instant::now() < end {
            let mut at = 0;
            while at < few.len() && Instant::now() < end {
                let mut left = few.clone();
                left.drain(at..(at + size).min(few.len()));
                match self.play(&left).await {
                    Err((failed_at, seen)) => {
                        few = left;
                        few.truncate(failed_at + 1);
                        difference = seen;
                    }
                    Ok(()) => at += size,
                }
            }
            size /= 2;
        }
        let mut text = format!("seed {seed}: {difference}\nafter {} of {whole}:", few.len());
        few.iter().for_each(|operation| write!(text, "\n  {operation:?}").unwrap());
        Err(text)
    }

    async fn play(&self, operations: &[Operation]) -> Played {
        let nats = NatsBus::open(NatsOptions::new(self.0)).await.unwrap();
        play([Arc::new(InMemoryBus::new()), Arc::new(nats)], operations, None).await
    }
}

/// Picks the operation that the second engine only says it does.
type Lie = fn(&Operation) -> bool;

/// Does the operations, and at last everything that shows what is there, on both engines.
async fn play(
    engines: [Arc<dyn Engine>; 2],
    operations: &[Operation],
    mut lie: Option<Lie>,
) -> Played {
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let [first, second] = engines.map(|engine| Side::new(engine, run));
    let (mut first, mut second) = (first.await.unwrap(), second.await.unwrap());
    let mut played = Ok(());
    for (at, operation) in operations.iter().chain(&Side::everything()).enumerate() {
        let seen = first.play(operation, None).await;
        // Only what was done can be lied about.
        let lies = lie.take_if(|lie| lie(operation) && seen.contains(' '));
        let there = match lies {
            Some(_) => second.pass_over(operation, &seen),
            None => second.play(operation, Some(&seen)).await,
        };
        if there != seen {
            let difference = format!("{operation:?}\n expected {seen}\n      got {there}");
            played = Err((at, difference));
            break;
        }
        if operation.makes_ready() {
            // What becomes ready at one time for both is ordered by clocks of their own.
            let _passed = timeout(MOMENT, std::future::pending::<()>()).await;
        }
    }
    for side in [first, second] {
        side.close().await.unwrap();
    }
    played
}

/// The seeds to try: the one that is asked for, or as many as are.
fn seeds() -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match number(SEED) {
        Some(seed) => vec![seed],
        None => (1..=number(SEEDS).unwrap_or(SEEDS_USUAL)).collect(),
    }
}

/// The variable that names the one seed to run.
const SEED: &str = "VAKBUS_DIFFERENTIAL_SEED";
/// The variable that says how many seeds to run.
const SEEDS: &str = "VAKBUS_DIFFERENTIAL_SEEDS";
const SEEDS_USUAL: u64 = 8;
const STEPS: usize = 160;
/// How long to look for fewer operations that still fail.
const CUTTING: Duration = Duration::from_secs(60);
const MOMENT: Duration = Duration::from_millis(2);
/// Keeps the names of runs on one server apart.
static RUNS: AtomicU64 = AtomicU64::new(1);
