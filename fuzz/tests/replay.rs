//! Every body over the kept corpus, the seeds and seeded changes of both, on a stable compiler.
//!
//! `VAKBUS_FUZZ_SEED` and `VAKBUS_FUZZ_ROUNDS` choose other changes and more of them.
#![expect(clippy::print_stdout, reason = "a random test prints its seed")]

use std::path::Path;

use bus_fuzz::replay::{self, Crash};
use bus_fuzz::{CANARY, TARGETS, Target};

macro_rules! replays {
    ($($test:ident = $target:literal;)*) => {
        $(
            #[test]
            fn $test() {
                replay($target);
            }
        )*

        #[test]
        fn every_target_is_replayed() {
            let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, [$($target),*]);
        }
    };
}

replays! {
    the_binary_form_holds_its_laws = "binary";
    a_bundle_holds_its_laws = "bundle";
    a_checkpoint_holds_its_laws = "checkpoint";
    a_cloud_event_holds_its_laws = "cloud_event";
    the_compact_form_holds_its_laws = "compact";
    credentials_hold_their_laws = "creds";
    filters_hold_their_laws = "filter";
    the_records_of_a_journal_hold_their_laws = "journal";
    the_json_form_holds_its_laws = "json";
    tokens_hold_their_laws = "jwt";
    messages_of_the_socket_hold_their_laws = "link";
    nkeys_hold_their_laws = "nkey";
    a_recording_holds_its_laws = "recording";
    a_proof_holds_its_laws = "proof";
    a_revocation_holds_its_laws = "revocation";
    subjects_hold_their_laws = "subject";
    a_tasks_file_holds_its_laws = "tasks";
    what_a_terminal_is_given_holds_its_laws = "terminal";
    tickets_hold_their_laws = "ticket";
    trace_headers_hold_their_laws = "traceparent";
}

/// A loop that misses a planted fault would miss every other one.
#[test]
fn the_planted_fault_is_found() {
    let inputs = replay::inputs(&CANARY).unwrap();
    assert!(replay::walk(&CANARY, &inputs).is_ok());
    let crash = replay::mutate(&CANARY, &inputs, seed(), |round| round < rounds()).unwrap_err();
    assert!(crash.input.starts_with(b"bus"), "{}", crash.message);
    assert!(crash.message.contains("out of range"), "{}", crash.message);
}

fn replay(name: &str) {
    let target = Target::named(name).unwrap();
    let inputs = replay::inputs(&target).unwrap();
    let (seed, rounds) = (seed(), rounds());
    println!(
        "VAKBUS_FUZZ_SEED={seed} VAKBUS_FUZZ_ROUNDS={rounds}: {name}, {} inputs",
        inputs.len()
    );
    let walked = replay::walk(&target, &inputs).unwrap_or_else(|crash| report(name, &crash));
    // A body that takes nothing or everything looks at nothing.
    assert!(walked.accepted > 0 && walked.refused > 0, "{walked:?}");
    let mutated = replay::mutate(&target, &inputs, seed, |round| round < rounds)
        .unwrap_or_else(|crash| report(name, &crash));
    println!("walked {walked:?}, mutated {mutated:?}");
}

/// Keeps the input where a developer can run it again, and fails.
fn report<T>(name: &str, crash: &Crash) -> T {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("crash-{name}"));
    std::fs::write(&file, &crash.input).unwrap();
    panic!("{}: {}; the input is in {}", crash.origin, crash.message, file.display());
}

fn seed() -> u64 {
    number("VAKBUS_FUZZ_SEED", 0x5eed)
}

fn rounds() -> u64 {
    number("VAKBUS_FUZZ_ROUNDS", 8_000)
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}
