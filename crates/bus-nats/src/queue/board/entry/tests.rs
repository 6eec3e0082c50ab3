//! What verdicts, leases and time make of an entry, and its stored form.

use bus_core::ErrorKind;
use proptest::prelude::*;

use super::*;

const LEASE: Duration = Duration::from_secs(30);
const REST: Duration = Duration::from_secs(5);

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_unix_ns(1_780_000_000_000_000_000).plus(Duration::from_secs(seconds))
}

fn fresh(seq: u64) -> Entry {
    Entry::fresh((seq, at(0)), "$JS.ACK.S.C.1".to_owned(), None)
}

fn held(entry: &Entry, now: Timestamp) -> Entry {
    entry.claimed("n1".to_owned(), LEASE, now).unwrap()
}

fn attempt_at(entry: &Entry, now: Timestamp) -> Option<u32> {
    entry.claimed("n2".to_owned(), LEASE, now).map(|claimed| claimed.attempt)
}

#[test]
fn a_retry_counts_and_rests() {
    let failed = held(&fresh(1), at(1)).failed(REST, at(2));
    assert_eq!(attempt_at(&failed, at(6)), None);
    assert_eq!(attempt_at(&failed, at(7)), Some(2));
}

#[test]
fn a_release_is_not_counted_however_often() {
    let mut entry = held(&fresh(1), at(1)).failed(Duration::ZERO, at(1));
    for after in [Duration::ZERO, REST, Duration::ZERO] {
        entry = held(&entry, at(100)).released(after, at(50));
    }
    assert_eq!(attempt_at(&entry, at(100)), Some(2));
}

#[test]
fn a_released_entry_that_rests_is_not_ready_before_its_time() {
    let released = held(&fresh(1), at(1)).released(REST, at(1));
    assert_eq!(attempt_at(&released, at(5)), None);
    assert_eq!(attempt_at(&released, at(6)), Some(1));
}

#[test]
fn what_was_handed_back_without_a_rest_is_first_once_only() {
    let released = held(&fresh(9), at(1)).released(Duration::ZERO, at(1));
    let older = Rank::new(1, Priority::NORMAL, at(0));
    assert!(released.rank() < older);
    let failed = held(&released, at(2)).failed(Duration::ZERO, at(2));
    assert!(failed.rank() > older);
}

#[test]
fn a_lease_that_runs_out_counts_and_makes_it_ready_at_its_end() {
    let held = held(&fresh(1), at(1));
    assert_eq!(attempt_at(&held, at(30)), None);
    assert_eq!(attempt_at(&held, at(31)), Some(2));
    assert_eq!(held.due().since, at(31));
}

#[test]
fn only_the_claim_that_holds_it_extends_it_and_only_in_time() {
    let held = held(&fresh(1), at(0));
    assert_eq!(held.extended(LEASE, at(30)), None);
    let extended = held.extended(LEASE, at(29)).unwrap();
    assert!(extended.is_held(at(58)));
    assert!(!extended.is_held(at(59)));
}

#[test]
fn an_extended_lease_keeps_the_time_the_message_became_ready() {
    let extended = held(&fresh(1), at(3)).extended(LEASE, at(4)).unwrap();
    let released = extended.released(Duration::ZERO, at(5));
    assert_eq!(released.standing, Standing::Waits { since: at(0), is_front: true });
}

#[test]
fn a_scheduled_entry_waits_its_time_and_one_that_has_passed_does_not_age_it() {
    let scheduled = |not_before| {
        let placement = Placement { not_before: Some(not_before), ..Placement::default() };
        Entry::fresh((1, at(10)), "ack".to_owned(), Some(&placement)).due().since
    };
    assert_eq!(scheduled(at(20)), at(20));
    assert_eq!(scheduled(at(5)), at(10));
}

#[test]
fn what_jetstream_delivers_again_has_its_count_and_waits_from_then_on() {
    let again = fresh(1).delivered_again(3, at(40));
    assert_eq!(attempt_at(&again, at(40)), Some(3));
    assert!(again.rank() > Rank::new(2, Priority::NORMAL, at(39)));
}

#[test]
fn of_those_ready_at_the_same_time_the_failed_one_comes_last() {
    let failed = fresh(1).delivered_again(2, at(0));
    assert!(failed.rank() > Rank::new(2, Priority::NORMAL, at(0)));
}

#[test]
fn a_level_stands_before_what_waited_up_to_ten_minutes_longer() {
    let placement = Placement { priority: Priority::new(5).unwrap(), ..Placement::default() };
    let rank = |stored| {
        let entry = Entry::fresh((2, stored), "ack".to_owned(), Some(&placement));
        entry.rank()
    };
    assert!(rank(at(600)) < Rank::new(1, Priority::NORMAL, at(0)));
    assert!(rank(at(601)) > Rank::new(1, Priority::NORMAL, at(0)));
}

#[test]
fn what_is_done_for_good_is_claimed_by_nobody() {
    let done = held(&fresh(1), at(1)).done(at(2));
    assert_eq!(done.done_at(), Some(at(2)));
    assert_eq!(attempt_at(&done, at(1_000_000)), None);
    assert!(!done.is_held(at(2)));
}

#[test]
fn every_state_is_read_back_as_it_was_written() {
    let key = OrderKey::parse("case/4711:*>.~").unwrap();
    let placement = Placement { key: Some(key), priority: Priority::HIGHEST, not_before: None };
    let placed = Entry::fresh((u64::MAX, at(0)), "ack".to_owned(), Some(&placement));
    let held = held(&placed, at(1));
    let states = [
        fresh(1),
        placed.clone(),
        held.clone(),
        held.clone().failed(REST, at(2)),
        held.clone().released(Duration::ZERO, at(2)),
        held.extended(Duration::MAX, at(2)).unwrap(),
        placed.clone().delivered_again(u32::MAX, Timestamp::MIN),
        held.done(at(3)),
    ];
    for state in states {
        assert_eq!(Entry::from_json(&state.to_json().unwrap()).unwrap(), state);
    }
}

#[test]
fn a_damaged_state_is_corrupt() {
    let good = r#"{"v":2,"seq":1,"origin":"a","level":4,"attempt":1,"since":0}"#;
    assert_eq!(Entry::from_json(good.as_bytes()).unwrap().seq, 1);
    let held = r#""front":true,"held":{"nonce":"n","until":1},"since""#;
    for (part, bad) in [
        (r#""v":2"#, r#""v":1"#),
        (r#""seq":1"#, r#""seq":0"#),
        (r#""seq":1"#, r#""seq":-1"#),
        (r#""origin":"a""#, r#""origin":"""#),
        (r#""level":4"#, r#""level":10"#),
        (r#""level":4"#, r#""level":4,"key":"a b""#),
        (r#""attempt":1"#, r#""attempt":0"#),
        (r#""since":0"#, r#""since":253402300800000000000"#),
        (r#""since""#, held),
        (r#""since":0"#, r#""since":0,"more":1"#),
        (r#""since":0"#, r#""since":0,"front":true,"done":true"#),
        ("}", ""),
    ] {
        assert!(good.contains(part), "{part}");
        let error = Entry::from_json(good.replacen(part, bad, 1).as_bytes()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{bad}");
    }
    let long = good.replacen(r#""a""#, &format!("{:?}", "a".repeat(9000)), 1);
    assert_eq!(Entry::from_json(long.as_bytes()).unwrap_err().kind(), ErrorKind::Corrupt);
}

proptest! {
    #[test]
    fn a_state_that_a_stranger_wrote_is_read_or_refused(
        at_byte in any::<prop::sample::Index>(),
        instead in proptest::collection::vec(any::<u8>(), 0..6),
        is_held in any::<bool>(),
    ) {
        let entry = if is_held { held(&fresh(1), at(1)) } else { fresh(1) };
        let mut json = entry.to_json().unwrap();
        let from = at_byte.index(json.len());
        let to = (from + instead.len()).min(json.len());
        json.splice(from..to, instead);
        // What is read can be written again and acted on.
        if let Ok(read) = Entry::from_json(&json) {
            prop_assert_eq!(Entry::from_json(&read.to_json().unwrap()).unwrap(), read.clone());
            let _either = read.clone().failed(REST, at(9)).claimed("n".to_owned(), LEASE, at(99));
        }
    }
}
