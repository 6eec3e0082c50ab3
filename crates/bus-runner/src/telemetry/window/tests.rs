//! Which record a window holds (C30).

use proptest::prelude::*;

use super::*;
use crate::events::Children;
use crate::identity::ProcessIdentity;

fn key(task: &str, attempt: u32) -> TelemetryKey {
    TelemetryKey {
        agent: AgentId::parse("ann").unwrap(),
        incarnation: Uuid::from_u128(1),
        session: None,
        task: task.to_owned(),
        attempt,
    }
}

/// A record whose processor time says which one it is.
fn record(pid: u32, cpu_ms: u64) -> TelemetryRecord {
    TelemetryRecord {
        task: "t".to_owned(),
        attempt: 1,
        process: ProcessIdentity { boot_id: Uuid::from_u128(2), pid, start_ticks: u64::from(pid) },
        is_last: false,
        rss_bytes: Some(1),
        peak_rss_bytes: Some(1),
        cpu_time: Duration::from_millis(cpu_ms),
        cpu_rate: None,
        interval: Duration::ZERO,
        children: Children::NotCounted,
    }
}

#[expect(clippy::disallowed_methods, reason = "a test needs one instant to count from")]
fn start() -> Instant {
    Instant::now()
}

proptest! {
    #[test]
    fn an_older_sample_never_replaces_a_newer_one(
        order in Just((1..20u64).collect::<Vec<_>>()).prop_shuffle(),
        twice in 1..20u64,
    ) {
        let (mut window, now) = (TelemetryWindow::new(), start());
        let mut newest = 0;
        for seq in order.into_iter().chain([twice]) {
            let is_news = window.hear(key("t", 1), seq, record(7, seq), now);
            prop_assert_eq!(is_news, seq > newest);
            newest = newest.max(seq);
            prop_assert_eq!(window.get(&key("t", 1)), Some(&record(7, newest)));
        }
        prop_assert_eq!(window.records().count(), 1);
    }
}

#[test]
fn a_new_process_is_not_shown_with_figures_of_the_old() {
    let (mut window, now) = (TelemetryWindow::new(), start());
    window.hear(key("t", 1), 1, record(7, 100), now);
    window.hear(key("t", 2), 2, record(7, 0), now);
    window.hear(key("t", 1), 3, record(7, 200), now);
    assert_eq!(window.get(&key("t", 2)), Some(&record(7, 0)));
}

#[test]
fn a_new_life_of_an_agent_counts_from_the_beginning() {
    let (mut window, now) = (TelemetryWindow::new(), start());
    window.hear(key("t", 1), 900, record(7, 1), now);
    let reborn = TelemetryKey { incarnation: Uuid::from_u128(3), ..key("t", 1) };
    assert!(window.hear(reborn.clone(), 1, record(8, 2), now));
    assert_eq!(window.get(&reborn), Some(&record(8, 2)));
}

#[test]
fn an_entry_goes_when_nothing_newer_came() {
    let (mut window, now) = (TelemetryWindow::new(), start());
    window.hear(key("quiet", 1), 1, record(7, 1), now);
    window.hear(key("busy", 1), 2, record(8, 1), now);
    window.hear(key("busy", 1), 3, record(8, 2), now + Duration::from_secs(9));
    window.expire(now + Duration::from_millis(9_999));
    assert_eq!(window.records().count(), 2);
    window.expire(now + WINDOW_AGE_MAX);
    let left: Vec<_> = window.records().map(|(key, _record)| key.task.as_str()).collect();
    assert_eq!(left, ["busy"]);
}

#[test]
fn a_window_has_a_bound() {
    let (mut window, now) = (TelemetryWindow::new(), start());
    for seq in 1..=WINDOW_ENTRIES_MAX as u64 + 2 {
        window.hear(key(&seq.to_string(), 1), seq, record(7, seq), now);
    }
    let (first, _record) = window.records().next().unwrap();
    assert_eq!((window.records().count(), first.task.as_str()), (WINDOW_ENTRIES_MAX, "3"));
    assert_eq!(
        (window.entries.len(), window.order.len()),
        (WINDOW_ENTRIES_MAX, WINDOW_ENTRIES_MAX)
    );
}
