//! Leases, attempts and the order of redelivery.

use bus_core::{ErrorKind, Verdict};

use super::{NO_REST, append, at, claim, queue, retry};

#[test]
fn messages_come_in_the_order_they_were_stored() {
    let (mut broker, key) = queue();
    for id in ["1", "2", "3"] {
        append(&mut broker, "work.a", id).unwrap();
    }
    let bodies: Vec<_> = std::iter::from_fn(|| claim(&mut broker, key, 0)).map(|c| c.0).collect();
    assert_eq!(bodies, ["1", "2", "3"]);
}

#[test]
fn a_retry_rests_behind_what_was_not_tried_yet() {
    let (mut broker, key) = queue();
    append(&mut broker, "work.a", "1").unwrap();
    append(&mut broker, "work.a", "2").unwrap();
    let (_, first, _) = claim(&mut broker, key, 0).unwrap();
    broker.settle(key, first, &retry(0), at(0)).unwrap();
    assert_eq!(claim(&mut broker, key, 0).map(|c| (c.0, c.2)), Some(("2".into(), 1)));
    assert_eq!(claim(&mut broker, key, 0).map(|c| (c.0, c.2)), Some(("1".into(), 2)));
}

#[test]
fn a_resting_message_comes_when_its_delay_ends_and_not_before() {
    let (mut broker, key) = queue();
    append(&mut broker, "work.a", "1").unwrap();
    let (_, token, _) = claim(&mut broker, key, 0).unwrap();
    broker.settle(key, token, &retry(100), at(5)).unwrap();
    assert_eq!(broker.next_deadline(key), Some(at(105)));
    assert_eq!(claim(&mut broker, key, 104), None);
    assert_eq!(claim(&mut broker, key, 105).map(|c| c.2), Some(2));
}

#[test]
fn a_release_is_first_in_line_under_the_same_attempt() {
    let (mut broker, key) = queue();
    append(&mut broker, "work.a", "1").unwrap();
    append(&mut broker, "work.a", "2").unwrap();
    let (_, token, _) = claim(&mut broker, key, 0).unwrap();
    broker.settle(key, token, &NO_REST, at(0)).unwrap();
    assert_eq!(claim(&mut broker, key, 0).map(|c| (c.0, c.2)), Some(("1".into(), 1)));
}

#[test]
fn several_releases_keep_the_order_they_had() {
    let (mut broker, key) = queue();
    for id in ["1", "2", "3", "4"] {
        append(&mut broker, "work.a", id).unwrap();
    }
    let held: Vec<_> = (0..3).map(|_| claim(&mut broker, key, 0).unwrap().1).collect();
    for token in held {
        broker.settle(key, token, &NO_REST, at(0)).unwrap();
    }
    let bodies: Vec<_> = std::iter::from_fn(|| claim(&mut broker, key, 0)).map(|c| c.0).collect();
    assert_eq!(bodies, ["1", "2", "3", "4"]);
}

#[test]
fn a_release_with_a_rest_is_not_counted_either() {
    let (mut broker, key) = queue();
    append(&mut broker, "work.a", "1").unwrap();
    let (_, token, _) = claim(&mut broker, key, 0).unwrap();
    let after = std::time::Duration::from_millis(50);
    broker.settle(key, token, &Verdict::Release { after }, at(0)).unwrap();
    assert_eq!(claim(&mut broker, key, 49), None);
    assert_eq!(claim(&mut broker, key, 50).map(|c| c.2), Some(1));
}

#[test]
fn a_lease_is_over_at_its_deadline_to_the_tick() {
    let (mut broker, key) = queue();
    append(&mut broker, "work.a", "1").unwrap();
    let (_, token, _) = claim(&mut broker, key, 0).unwrap();
    assert_eq!(claim(&mut broker, key, 29_999), None);
    let late = broker.settle(key, token, &Verdict::Ack, at(30_000)).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::LeaseLost);
    assert_eq!(claim(&mut broker, key, 30_000).map(|c| c.2), Some(2));
}

#[test]
fn an_old_lease_cannot_settle_the_new_one() {
    let (mut broker, key) = queue();
    append(&mut broker, "work.a", "1").unwrap();
    let (_, old, _) = claim(&mut broker, key, 0).unwrap();
    let (_, new, _) = claim(&mut broker, key, 30_000).unwrap();
    let late = broker.settle(key, old, &Verdict::Ack, at(30_001)).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::LeaseLost);
    broker.settle(key, new, &Verdict::Ack, at(30_001)).unwrap();
}

#[test]
fn a_verdict_counts_once() {
    let (mut broker, key) = queue();
    append(&mut broker, "work.a", "1").unwrap();
    let (_, token, _) = claim(&mut broker, key, 0).unwrap();
    broker.settle(key, token, &Verdict::Ack, at(1)).unwrap();
    let again = broker.settle(key, token, &Verdict::Ack, at(1)).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::LeaseLost);
}

#[test]
fn extending_for_hours_neither_loses_the_lease_nor_piles_up_deadlines() {
    let (mut broker, key) = queue();
    append(&mut broker, "work.a", "1").unwrap();
    let (_, token, _) = claim(&mut broker, key, 0).unwrap();
    for n in 1..=10_000 {
        broker.extend(key, token, at(n * 1_000)).unwrap();
    }
    assert_eq!(claim(&mut broker, key, 10_029_999), None);
    assert!(format!("{broker:?}").len() < 16_384, "the state stays small");
    assert_eq!(claim(&mut broker, key, 10_030_000).map(|c| c.2), Some(2));
}

#[test]
fn deadlines_do_not_pile_up_behind_a_lease_that_is_not_extended() {
    let (mut broker, key) = queue();
    append(&mut broker, "work.a", "1").unwrap();
    append(&mut broker, "work.a", "2").unwrap();
    claim(&mut broker, key, 0).unwrap();
    let (_, token, _) = claim(&mut broker, key, 0).unwrap();
    for ms in 1..29_000 {
        broker.extend(key, token, at(ms)).unwrap();
    }
    assert!(format!("{broker:?}").len() < 65_536, "the state stays small");
    assert_eq!(claim(&mut broker, key, 30_000).map(|c| c.0), Some("1".into()));
    assert_eq!(claim(&mut broker, key, 58_998), None);
    assert_eq!(claim(&mut broker, key, 58_999).map(|c| c.0), Some("2".into()));
}

#[test]
fn every_crash_is_counted_and_blocks_nobody_behind_it() {
    // C11: the pill kills each worker that takes it; ten good tasks stand behind.
    let (mut broker, key) = queue();
    append(&mut broker, "work.a", "boom").unwrap();
    for n in 0..10 {
        append(&mut broker, "work.a", &format!("good-{n}")).unwrap();
    }
    assert_eq!(claim(&mut broker, key, 0).unwrap().0, "boom");
    for n in 0..10 {
        let (body, token, _) = claim(&mut broker, key, 1).unwrap();
        assert_eq!(body, format!("good-{n}"));
        broker.settle(key, token, &Verdict::Ack, at(1)).unwrap();
    }
    let attempts: Vec<_> =
        (1..=3).map(|n| claim(&mut broker, key, n * 30_000).unwrap().2).collect();
    assert_eq!(attempts, [2, 3, 4]);
}

#[test]
fn a_clock_that_steps_back_lengthens_no_lease() {
    let (mut broker, key) = queue();
    append(&mut broker, "work.a", "1").unwrap();
    claim(&mut broker, key, 10_000).unwrap();
    assert_eq!(claim(&mut broker, key, 39_000), None);
    append(&mut broker, "work.a", "2").unwrap();
    let (_, second, _) = claim(&mut broker, key, 1).unwrap();
    assert_eq!(claim(&mut broker, key, 40_000).map(|c| c.0), Some("1".into()));
    broker.settle(key, second, &Verdict::Ack, at(68_999)).unwrap();
}
