//! The machine stops at every step, in the middle of every write.

use std::collections::BTreeMap;

use super::*;
use crate::files::faulty::Fault;

/// Says numbers until something fails, and returns those that were answered and those in flight.
fn burst(files: &FaultyFiles, sync: Sync) -> (Model, Model) {
    let Ok(opened) = Opened::on(files, sync) else { return (Model::new(), Model::new()) };
    let mut answered = Model::new();
    for seq in 1..=12 {
        // Three at once: one batch holds several.
        for key in 0..2 {
            opened.say(seq * 3 + key, seq);
        }
        if opened.say_safely(seq * 3 + 2, seq).is_err() {
            break;
        }
        answered = opened.model();
    }
    (answered, opened.model())
}

/// What was answered is there, and what is there was said: a prefix of it.
fn check(found: &Model, (answered, said): &(Model, Model), context: &str) {
    for key in answered.keys() {
        assert!(found.contains_key(key), "{key} was answered and is lost: {context}");
    }
    let prefix: BTreeMap<_, _> = said.iter().take(found.len()).map(|(k, v)| (*k, *v)).collect();
    assert_eq!(*found, prefix, "no prefix of what was said: {context}");
}

/// How many steps a burst takes when nothing fails, with some to spare.
fn steps() -> u64 {
    let files = FaultyFiles::default();
    let _said = burst(&files, Sync::Always);
    files.steps() + 2
}

#[test]
fn a_stop_at_any_step_leaves_a_prefix_with_all_that_was_answered() {
    for step in 0..steps() {
        for bytes in [0, 1, 39, 40, 41, 60, 4096] {
            let files = FaultyFiles::default();
            files.set(Fault::StopAt { step, bytes });
            let said = burst(&files, Sync::Always);
            for keep in [Keep::All, Keep::Synced, Keep::LastWrite] {
                let context = format!("stop at step {step} after {bytes} bytes, {keep:?}");
                let found = reopened(&files, keep).unwrap_or_else(|e| panic!("{e}: {context}"));
                check(&found, &said, &context);
            }
        }
    }
}

#[test]
fn what_a_crash_left_is_no_obstacle_to_a_second_one() {
    for step in (0..steps()).step_by(3) {
        let files = FaultyFiles::default();
        files.set(Fault::StopAt { step, bytes: 50 });
        let first = burst(&files, Sync::Always);
        let again = files.restarted(Keep::All);
        let before = Opened::on(&again, Sync::Always).unwrap().model();
        check(&before, &first, &format!("first life, stop at step {step}"));
        let opened = Opened::on(&again, Sync::Always).unwrap();
        opened.say_safely(1_000, step).unwrap();
        let after = reopened(&again, Keep::Synced).unwrap();
        assert_eq!(after.get(&1_000), Some(&step));
        assert_eq!(after.len(), before.len() + 1);
    }
}

#[test]
fn the_weaker_mode_leaves_a_prefix_after_a_power_cut() {
    let every = std::time::Duration::from_secs(3600);
    for step in 0..steps() {
        let files = FaultyFiles::default();
        files.set(Fault::StopAt { step, bytes: 41 });
        let (_answered, said) = burst(&files, Sync::Interval(every));
        for keep in [Keep::Synced, Keep::LastWrite] {
            let context = format!("stop at step {step}, {keep:?}");
            let found = reopened(&files, keep).unwrap_or_else(|e| panic!("{e}: {context}"));
            check(&found, &(Model::new(), said.clone()), &context);
        }
    }
}

#[test]
fn a_sync_that_fails_ends_the_journal_and_nothing_is_done_afterwards() {
    let files = FaultyFiles::default();
    let opened = Opened::on(&files, Sync::Always).unwrap();
    opened.say_safely(1, 1).unwrap();
    files.set(Fault::NoSync);
    let failed = opened.say_safely(2, 2).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Unavailable);
    assert_eq!(failed.outcome(), bus_core::Outcome::Unknown);
    let refused = opened.store.journal.admit("append", 1, false).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    assert_eq!(refused.outcome(), bus_core::Outcome::NotDone);
    assert_eq!(reopened(&files, Keep::Synced).unwrap(), Model::from([(1, 1)]));
}
