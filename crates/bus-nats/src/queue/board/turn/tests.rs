//! Whose turn it is: order within a key, rests, schedules, and turns left behind.

use std::time::Duration;

use bus_core::{OrderKey, Placement};

use super::*;

const LEASE: Duration = Duration::from_secs(30);

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_unix_ns(1_780_000_000_000_000_000).plus(Duration::from_secs(seconds))
}

fn keyed(seq: u64, not_before: Option<Timestamp>) -> Entry {
    let key = Some(OrderKey::parse("a").unwrap());
    let placement = Placement { key, not_before, ..Placement::default() };
    Entry::fresh((seq, at(seq)), "ack".to_owned(), Some(&placement))
}

fn decide(holder: Option<u64>, entries: &[Entry], seq: u64, now: Timestamp) -> Turn {
    Turn::decide(holder.map(|holder| KeyTurn { holder }), entries, seq, now)
}

#[test]
fn the_first_of_a_key_goes_before_the_others() {
    let entries = [keyed(2, None), keyed(1, None)];
    assert_eq!(decide(None, &entries, 1, at(9)), Turn::Free);
    assert_eq!(decide(None, &entries, 2, at(9)), Turn::Behind(1));
}

#[test]
fn what_rests_or_is_held_keeps_its_key_even_from_those_before_it() {
    let held = keyed(2, None).claimed("n".to_owned(), LEASE, at(9)).unwrap();
    for started in [held.clone(), held.clone().failed(LEASE, at(9)), held.released(LEASE, at(9))] {
        let entries = [keyed(1, Some(at(8))), started, keyed(3, None)];
        assert_eq!(decide(Some(2), &entries, 1, at(10)), Turn::Behind(2));
        assert_eq!(decide(Some(2), &entries, 3, at(10)), Turn::Behind(2));
        assert_eq!(decide(Some(2), &entries, 2, at(10)), Turn::Own);
    }
}

#[test]
fn a_scheduled_one_lets_others_pass_until_its_time_comes() {
    let entries = [keyed(1, Some(at(100))), keyed(2, None)];
    assert_eq!(decide(None, &entries, 2, at(99)), Turn::Free);
    assert_eq!(decide(None, &entries, 2, at(100)), Turn::Behind(1));
    assert_eq!(decide(None, &entries, 1, at(100)), Turn::Free);
}

#[test]
fn a_turn_whose_message_has_left_keeps_nobody_out() {
    assert_eq!(decide(Some(1), &[keyed(2, None)], 2, at(9)), Turn::Free);
}

#[test]
fn a_turn_that_was_taken_and_not_used_goes_to_who_is_first_by_the_rules() {
    let entries = [keyed(1, Some(at(100))), keyed(2, None)];
    assert_eq!(decide(Some(2), &entries, 1, at(100)), Turn::Free);
    assert_eq!(decide(Some(1), &entries, 2, at(100)), Turn::Behind(1));
}

#[test]
fn a_turn_is_read_back_and_a_damaged_one_is_corrupt() {
    let turn = KeyTurn { holder: u64::MAX };
    assert_eq!(KeyTurn::from_json(&turn.to_json().unwrap()).unwrap(), turn);
    for bad in ["", "{}", r#"{"v":2,"holder":1}"#, r#"{"v":1,"holder":0}"#, r#"{"v":1,"h":1}"#] {
        let error = KeyTurn::from_json(bad.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{bad}");
    }
}
