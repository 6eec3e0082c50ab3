//! Holds the in-memory engine against the suite's plain model, under a stopped clock.

#![expect(clippy::print_stdout, reason = "the seeds of random tests are printed first")]

use std::sync::Arc;

use bus_conformance::{CaseOutcome, ModelTest, Suite};
use bus_mem::Limits;

mod common;

use common::Mem;

#[test]
fn random_operations_are_answered_as_the_model_says() {
    const SEEDS: u64 = 200;
    const STEPS: usize = 300;
    let tests = ModelTest::seeds(SEEDS, STEPS);
    let first = tests.first().map(ModelTest::seed);
    println!("{} seeds from {first:?}, {STEPS} steps each", tests.len());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let failures: Vec<_> = std::thread::scope(|scope| {
        let tests = Arc::new(tests);
        let spawn = |worker: usize| {
            let tests = Arc::clone(&tests);
            scope.spawn(move || {
                let mine = tests.iter().skip(worker).step_by(workers);
                mine.filter_map(|test| test.run(Mem::default).err()).next()
            })
        };
        let running: Vec<_> = (0..workers).map(spawn).collect();
        running.into_iter().filter_map(|worker| worker.join().unwrap()).collect()
    });
    for failure in &failures {
        println!("{failure}");
    }
    assert!(failures.is_empty(), "the engine and the model do not agree");
}

/// A broker whose buckets remember one key that ended, so that watches lose count again and again.
fn forgetful() -> Mem {
    let limits = Limits { tombstones_per_bucket_max: 1, ..Limits::default() };
    Mem { limits, ..Mem::default() }
}

#[test]
fn a_reader_that_is_told_of_losses_ends_with_what_the_bucket_holds() {
    const READERS: [&str; 3] = [
        "a_watched_bucket_is_mirrored",
        "a_slow_watch_ends_with_what_the_bucket_holds",
        "a_watch_that_is_dropped_in_the_middle_misses_nothing",
    ];
    let reports = Suite::new(forgetful).outcomes(|case| READERS.contains(&case));
    let outcomes: Vec<_> = reports.iter().map(|report| &report.outcome).collect();
    assert_eq!(outcomes, [&CaseOutcome::Passed; READERS.len()], "{reports:?}");
    for test in (1..=20).map(|seed| ModelTest::new(seed, 300)) {
        let failure = test.run(forgetful).err();
        assert!(failure.is_none(), "{failure:?}");
    }
}
