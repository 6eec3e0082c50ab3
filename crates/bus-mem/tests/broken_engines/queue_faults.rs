//! Faults of the durable plane, each found by the cases named here.

use crate::{fails, fault::Fault};

#[test]
fn an_engine_that_ignores_schedules_is_found() {
    fails(
        Fault::IgnoresSchedules,
        &["a_scheduled_task_waits_its_time", "scheduled_tasks_come_in_the_order_of_their_times"],
    );
}

#[test]
fn an_engine_that_ignores_priorities_is_found() {
    fails(
        Fault::IgnoresPriorities,
        &["an_urgent_task_overtakes", "an_urgent_task_overtakes_within_its_head_start"],
    );
}

#[test]
fn an_engine_that_starves_the_patient_is_found() {
    fails(Fault::StarvesThePatient, &["a_patient_task_is_not_starved"]);
}

#[test]
fn an_engine_that_ignores_order_keys_is_found() {
    fails(
        Fault::IgnoresKeys,
        &[
            "tasks_of_one_key_run_one_after_the_other",
            "a_resting_task_holds_the_others_of_its_key",
            "a_lease_that_ran_out_keeps_the_order_of_its_key",
            "order_within_keys_survives_failing_parallel_members",
        ],
    );
}

#[test]
fn an_engine_that_hands_a_task_out_twice_is_found() {
    fails(
        Fault::HandsOutTwice,
        &["each_task_goes_to_exactly_one_member", "racing_members_never_share_a_task"],
    );
}

#[test]
fn an_engine_that_claims_what_nobody_asked_for_is_found() {
    fails(
        Fault::ClaimsAhead,
        &["members_on_two_connections_share_the_work", "lag_counts_what_waits_and_what_is_held"],
    );
}

#[test]
fn an_engine_that_publishes_what_has_a_placement_is_found() {
    fails(Fault::PublishesPlacements, &["a_live_frame_with_a_placement_is_refused"]);
}

#[test]
fn an_engine_that_stores_batches_in_parts_is_found() {
    fails(
        Fault::SplitsBatches,
        &[
            "a_batch_is_stored_whole_or_not",
            "an_id_twice_in_a_batch_is_refused",
            "a_batch_over_two_streams_is_refused",
            "racing_batches_never_mix",
        ],
    );
}

#[test]
fn an_engine_that_loses_the_end_of_a_batch_is_found() {
    fails(
        Fault::CutsBatchesShort,
        &[
            "a_batch_goes_to_the_subjects_of_its_frames",
            "a_batch_wakes_every_waiting_member",
            "a_batch_is_stored_in_its_order",
        ],
    );
}

#[test]
fn an_engine_that_uses_positions_again_is_found() {
    fails(Fault::UsesPositionsAgain, &["the_position_of_a_discarded_message_is_never_used_again"]);
}

#[test]
fn an_engine_that_only_hides_what_is_discarded_is_found() {
    fails(
        Fault::OnlyHidesDiscards,
        &[
            "a_discarded_task_is_handed_out_to_nobody",
            "a_task_discarded_under_its_lease_never_comes_back",
            "a_discard_makes_room",
            "a_discarded_task_frees_its_key",
        ],
    );
}

#[test]
fn an_engine_that_says_it_discarded_evidence_is_found() {
    fails(Fault::DiscardsEvidence, &["an_append_only_stream_discards_nothing"]);
}

#[test]
fn an_engine_that_always_says_it_discarded_is_found() {
    fails(
        Fault::AlwaysDiscards,
        &["discarding_what_is_not_there_says_so", "a_discarded_message_is_gone"],
    );
}

#[test]
fn an_engine_that_ignores_pauses_is_found() {
    fails(
        Fault::IgnoresPauses,
        &[
            "a_paused_consumer_hands_out_nothing",
            "a_lease_that_runs_out_in_a_pause_is_handed_out_after_it",
            "a_paused_consumer_is_listed_as_such",
        ],
    );
}

#[test]
fn an_engine_whose_pauses_do_not_end_is_found() {
    fails(
        Fault::PausesForEver,
        &[
            "a_pause_ends_by_itself_at_its_time",
            "a_pause_until_a_time_that_has_passed_goes_on",
            "a_waiting_member_is_woken_by_the_end_of_a_pause",
        ],
    );
}

#[test]
fn an_engine_that_pauses_everybody_is_found() {
    fails(Fault::PausesEverybody, &["a_pause_leaves_other_consumers_alone"]);
}

#[test]
fn an_engine_that_removes_no_consumer_is_found() {
    fails(
        Fault::RemovesNothing,
        &[
            "a_removed_consumer_is_listed_no_more",
            "a_removed_consumer_takes_its_leases_along",
            "a_consumer_made_again_starts_at_the_beginning",
        ],
    );
}

#[test]
fn an_engine_that_removes_the_tasks_as_well_is_found() {
    fails(
        Fault::RemovesTasksToo,
        &[
            "a_work_queue_keeps_its_tasks_when_its_consumer_goes",
            "a_mailbox_keeps_its_mail_when_its_consumer_goes",
        ],
    );
}

#[test]
fn an_engine_that_lets_members_of_a_removed_consumer_wait_is_found() {
    fails(
        Fault::KeepsMembersWaiting,
        &[
            "a_waiting_member_learns_that_its_consumer_is_gone",
            "a_member_that_asks_later_learns_that_its_consumer_is_gone",
        ],
    );
}

#[test]
fn an_engine_that_miscounts_its_consumers_is_found() {
    fails(
        Fault::MiscountsConsumers,
        &[
            "a_listed_consumer_shows_what_waits_and_what_is_held",
            "a_listed_consumer_shows_the_age_of_its_oldest",
        ],
    );
}

#[test]
fn an_engine_that_ignores_filters_is_found() {
    fails(
        Fault::IgnoresFilters,
        &["a_replay_reads_only_its_filter", "a_watch_sees_only_its_filter"],
    );
}
