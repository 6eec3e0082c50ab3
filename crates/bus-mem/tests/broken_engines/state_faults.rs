//! Faults of samples, buckets and blobs, each found by the cases named here.

use crate::{fails, fault::Fault};

#[test]
fn an_engine_that_keeps_no_samples_is_found() {
    fails(
        Fault::KeepsNoSamples,
        &["a_late_reader_sees_the_newest_sample", "every_late_reader_sees_the_sample"],
    );
}

#[test]
fn an_engine_that_keeps_every_subject_is_found() {
    fails(
        Fault::KeepsEverySubject,
        &[
            "a_late_reader_sees_no_other_subjects",
            "a_late_subscriber_that_wants_everything_sees_no_sample",
            "an_old_sample_is_no_longer_shown",
            "a_late_subscriber_hears_nothing_old",
        ],
    );
}

#[test]
fn an_engine_whose_values_never_end_is_found() {
    fails(Fault::NeverExpires, &["a_value_ends_with_its_time", "an_expired_key_counts_as_absent"]);
}

#[test]
fn an_engine_that_keeps_the_first_end_of_a_value_is_found() {
    fails(
        Fault::KeepsTheEnd,
        &[
            "a_value_put_anew_without_an_end_stays",
            "a_value_put_anew_with_a_shorter_time_ends_earlier",
        ],
    );
}

#[test]
fn an_engine_that_mixes_up_how_values_end_is_found() {
    fails(
        Fault::MixesUpEnds,
        &["an_end_by_time_and_an_end_by_hand_are_told_apart", "a_watch_sees_deletions"],
    );
}

#[test]
fn an_engine_whose_watches_drop_deletions_is_found() {
    fails(
        Fault::WatchDropsEnds,
        &[
            "a_watch_sees_deletions",
            "a_waiting_watch_sees_a_value_end",
            "a_watch_goes_on_where_it_was",
            "a_watched_bucket_is_mirrored",
        ],
    );
}

#[test]
fn an_engine_whose_watches_never_say_that_they_are_current_is_found() {
    fails(Fault::WatchIsNeverCurrent, &["a_watch_says_once_when_it_is_current"]);
}

#[test]
fn an_engine_whose_watches_begin_empty_is_found() {
    fails(Fault::WatchBeginsEmpty, &["a_watch_begins_with_what_is_there"]);
}

#[test]
fn an_engine_whose_watches_begin_anew_is_found() {
    fails(
        Fault::WatchBeginsAnew,
        &["a_watch_that_missed_nothing_goes_on_in_silence", "a_watch_goes_on_where_it_was"],
    );
}

#[test]
fn an_engine_whose_watches_lose_changes_is_found() {
    fails(
        Fault::WatchLosesChanges,
        &["a_watch_sees_what_is_put_later", "a_watch_that_is_dropped_in_the_middle_misses_nothing"],
    );
}

#[test]
fn an_engine_that_shows_blobs_before_they_are_whole_is_found() {
    fails(
        Fault::ShowsBlobsEarly,
        &[
            "an_unfinished_blob_is_invisible",
            "an_aborted_blob_is_invisible",
            "a_dropped_upload_is_invisible",
            "an_aborted_upload_leaves_the_blob_before",
        ],
    );
}

#[test]
fn an_engine_that_hands_out_damaged_blobs_is_found() {
    fails(
        Fault::DamagesBlobs,
        &["a_blob_is_read_back_whole", "a_blob_in_odd_parts_is_read_back_whole"],
    );
}

#[test]
fn an_engine_with_digests_of_its_own_is_found() {
    fails(
        Fault::DigestsPartByPart,
        &[
            "the_digest_of_a_blob_is_the_root_of_its_pieces",
            "the_digest_of_a_blob_does_not_depend_on_its_parts",
        ],
    );
}

#[test]
fn an_engine_that_drops_empty_blobs_is_found() {
    fails(Fault::DropsEmptyBlobs, &["an_empty_blob_is_a_blob"]);
}

#[test]
fn an_engine_whose_readers_see_another_blob_in_the_middle_is_found() {
    fails(Fault::ReadsWhatIsThereNow, &["a_reader_keeps_the_blob_it_began"]);
}

#[test]
fn an_engine_that_deletes_no_blob_is_found() {
    fails(Fault::DeletesNothing, &["a_deleted_blob_is_gone"]);
}

#[test]
fn an_engine_that_lists_in_another_order_is_found() {
    fails(Fault::ListsBackwards, &["blobs_are_listed_by_key", "consumers_are_listed_by_name"]);
}
