//! Proves that the suite has teeth: an engine that breaks a promise fails the case of that name.
//!
//! The broken engines are the in-memory engine behind a wrapper with one fault each.

mod engine;
mod fault;
mod harness;
mod model;
mod queue_faults;
mod state_faults;
mod streams;

use std::{collections::BTreeMap, time::Duration};

use bus_conformance::{CaseOutcome, Suite, case_names};

use crate::{
    fault::{Fault, WRONG_ANSWERS},
    harness::{BrokenHarness, Time},
};

#[test]
fn an_engine_without_a_fault_fails_nothing() {
    let failures = failures(Fault::None, |_| true);
    assert_eq!(failures, BTreeMap::new());
}

#[test]
fn an_engine_that_forgets_nothing_keeps_everything_over_a_restart() {
    let cases = case_names().filter(|case| case.starts_with("a_restart_")).count();
    let suite = Suite::new(|| BrokenHarness::with(Fault::ForgetsNothing, Time::Stopped));
    let reports = suite.outcomes(|case| case.starts_with("a_restart_"));
    let passed: Vec<_> = reports.iter().map(|report| &report.outcome).collect();
    assert_eq!(passed, vec![&CaseOutcome::Passed; cases], "{reports:?}");
}

#[test]
fn an_engine_that_forgets_everything_is_found_by_every_restart() {
    let cases: Vec<_> = case_names().filter(|case| case.starts_with("a_restart_")).collect();
    fails(Fault::ForgetsEverything, &cases);
}

#[test]
fn races_on_several_threads_in_real_time_have_one_winner() {
    let races = |case: &str| case.starts_with("racing_") || case.ends_with("_never_fork_a_chain");
    assert_eq!(failures_under(Time::Real, Fault::None, races), BTreeMap::new());
}

#[test]
fn every_case_fails_on_some_broken_engine() {
    let mut never_failed: Vec<_> = case_names().collect();
    for &fault in WRONG_ANSWERS {
        let failed = failures(fault, |case| never_failed.contains(&case));
        never_failed.retain(|case| !failed.contains_key(case));
    }
    assert_eq!(never_failed, [""; 0], "cases that pass whatever an engine does");
}

#[test]
fn an_engine_that_loses_live_frames_is_found() {
    fails(
        Fault::LosesEverySecondFrame,
        &["every_subscriber_hears_every_frame", "close_loses_nothing_accepted"],
    );
}

#[test]
fn an_engine_that_delivers_live_frames_twice_is_found() {
    fails(
        Fault::PublishesTwice,
        &["every_subscriber_hears_every_frame", "overlapping_subscriptions_each_hear_a_frame_once"],
    );
}

#[test]
fn an_engine_that_hides_gaps_is_found() {
    fails(
        Fault::HidesGaps,
        &[
            "a_full_feed_drops_the_oldest_and_counts_them",
            "two_gaps_are_counted_separately",
            "what_was_heard_and_missed_adds_up",
        ],
    );
}

#[test]
fn an_engine_that_counts_gaps_wrong_is_found() {
    fails(Fault::MiscountsGaps, &["what_was_heard_and_missed_adds_up"]);
}

#[test]
fn an_engine_that_ends_a_subscription_at_a_gap_is_found() {
    fails(Fault::EndsAtAGap, &["a_gap_does_not_end_a_subscription"]);
}

#[test]
fn an_engine_that_subscribes_late_is_found() {
    fails(Fault::SubscribesLate, &["a_frame_published_after_subscribe_returned_is_heard"]);
}

#[test]
fn an_engine_whose_publishers_wait_is_found() {
    fails(Fault::PublishWaits, &["a_slow_subscriber_never_slows_the_publisher"]);
}

#[test]
fn an_engine_that_says_stored_and_does_not_store_is_found() {
    fails(
        Fault::StoresNothing,
        &["an_append_that_returned_is_stored", "a_full_stream_refuses_and_drops_nothing"],
    );
}

#[test]
fn an_engine_that_forgets_ids_is_found() {
    fails(Fault::ForgetsIds, &["a_second_copy_is_a_duplicate"]);
}

#[test]
fn an_engine_that_ignores_the_expected_head_is_found() {
    fails(
        Fault::IgnoresExpectations,
        &["a_stale_head_is_a_conflict_and_stores_nothing", "racing_appenders_never_fork_a_chain"],
    );
}

#[test]
fn an_engine_that_accepts_late_verdicts_is_found() {
    fails(Fault::AcceptsLateVerdicts, &["a_late_settle_is_refused", "a_late_extend_is_refused"]);
}

#[test]
fn an_engine_that_does_not_extend_leases_is_found() {
    fails(
        Fault::ExtendsNothing,
        &["an_extended_lease_is_not_redelivered", "a_task_that_outlives_many_leases_runs_once"],
    );
}

#[test]
fn an_engine_that_counts_no_attempts_is_found() {
    fails(
        Fault::CountsNoAttempts,
        &["attempt_numbers_grow_with_every_retry", "every_vanished_worker_is_counted"],
    );
}

#[test]
fn an_engine_that_counts_releases_is_found() {
    fails(Fault::CountsReleases, &["a_release_is_not_counted"]);
}

#[test]
fn an_engine_that_retries_without_a_rest_is_found() {
    fails(
        Fault::RetriesAtOnce,
        &["a_retried_task_comes_back_after_its_delay", "a_retried_task_rests_and_others_pass_it"],
    );
}

#[test]
fn an_engine_that_loses_acknowledgements_is_found() {
    fails(Fault::LosesVerdicts, &["a_settled_task_is_gone", "a_rejected_task_is_gone"]);
}

#[test]
fn an_engine_that_ignores_revisions_is_found() {
    fails(
        Fault::IgnoresExpectations,
        &["a_put_on_a_stale_revision_is_refused", "racing_first_puts_let_one_through"],
    );
}

#[test]
fn an_engine_that_mixes_up_names_is_found() {
    fails(
        Fault::MixesUpNames,
        &[
            "an_id_is_remembered_per_stream",
            "other_subjects_do_not_move_a_head",
            "keys_and_buckets_are_apart",
        ],
    );
}

#[test]
fn an_engine_that_sees_what_is_not_there_is_found() {
    fails(
        Fault::SeesGhosts,
        &["a_key_never_put_is_absent", "the_last_of_a_silent_subject_is_none"],
    );
}

#[test]
fn an_engine_that_deletes_nothing_is_found() {
    fails(Fault::DeletesNothing, &["a_deleted_key_is_absent"]);
}

#[test]
fn an_engine_that_misnames_its_errors_is_found() {
    fails(
        Fault::MisnamesErrors,
        &["a_request_nobody_hears_fails_at_once", "streams_with_overlapping_subjects_conflict"],
    );
}

#[test]
fn an_engine_that_refuses_repeats_is_found() {
    fails(
        Fault::RefusesRepeats,
        &[
            "declaring_the_same_stream_twice_is_fine",
            "deleting_what_is_not_there_is_fine",
            "a_second_close_is_fine",
        ],
    );
}

#[test]
fn an_engine_that_stays_open_is_found() {
    fails(
        Fault::StaysOpen,
        &[
            "a_closed_bus_refuses_the_live_plane",
            "a_closed_bus_refuses_the_durable_plane",
            "a_closed_bus_refuses_its_buckets",
            "a_waiting_member_ends_with_the_close",
        ],
    );
}

#[test]
fn an_engine_that_never_answers_fails_in_time() {
    let reasons = failures(Fault::NeverAnswers, |case| case == "an_append_that_returned_is_stored");
    assert_eq!(reasons.values().collect::<Vec<_>>(), ["no answer in time"]);
}

#[test]
fn a_panic_is_a_failure_with_its_words() {
    let reasons = failures(Fault::Panics, |case| case == "an_append_that_returned_is_stored");
    assert_eq!(reasons.values().collect::<Vec<_>>(), ["panicked: the engine fell over"]);
}

#[test]
fn an_engine_that_cannot_be_reached_fails_every_case_that_applies() {
    let reasons = failures(Fault::Unreachable, |_| true);
    let applicable = case_names().filter(|case| !case.starts_with("a_restart_")).count();
    assert_eq!(reasons.len(), applicable);
    assert!(reasons.values().all(|reason| reason.contains("unavailable")), "{reasons:?}");
}

#[test]
fn an_engine_that_promises_durability_is_restarted() {
    let reasons = failures(Fault::PromisesTooMuch, |case| case.starts_with("a_restart_"));
    assert!(reasons.contains_key("a_restart_keeps_everything_acknowledged"), "{reasons:?}");
    assert!(reasons.values().all(|reason| reason.contains("unsupported")), "{reasons:?}");
}

/// Asserts that each of `cases` fails on an engine with `fault`.
#[track_caller]
fn fails(fault: Fault, cases: &[&str]) {
    let reasons = failures(fault, |case| cases.contains(&case));
    let failed: Vec<_> = reasons.keys().copied().collect();
    let mut expected = cases.to_vec();
    expected.sort_unstable();
    assert_eq!(failed, expected, "cases that fail on an engine that {fault:?}");
}

/// The failed cases among the wanted ones, with their reasons.
fn failures(fault: Fault, wants: impl Fn(&str) -> bool) -> BTreeMap<&'static str, String> {
    failures_under(Time::Stopped, fault, wants)
}

fn failures_under(
    time: Time,
    fault: Fault,
    wants: impl Fn(&str) -> bool,
) -> BTreeMap<&'static str, String> {
    // Only an engine that never answers is waited for; the others have all the time they need.
    let limit = Duration::from_secs(if fault == Fault::NeverAnswers { 1 } else { 60 });
    let suite = Suite::new(move || BrokenHarness::with(fault, time)).limit(limit);
    let failed = |outcome| match outcome {
        CaseOutcome::Failed { reason } => Some(reason),
        _ => None,
    };
    let reports = suite.outcomes(wants).into_iter();
    reports.filter_map(|report| Some((report.case, failed(report.outcome)?))).collect()
}
