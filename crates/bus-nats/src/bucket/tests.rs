//! Times to live as the server counts them, and the marks of ends.

use bus_core::KeyState;

use super::*;

#[test]
fn a_time_to_live_is_rounded_up_to_whole_seconds() {
    let cases = [(1, 1), (999, 1), (1_000, 1), (1_001, 2), (2_000, 2), (60_500, 61)];
    for (asked_ms, seconds) in cases {
        assert_eq!(whole_seconds(Duration::from_millis(asked_ms)), seconds, "{asked_ms} ms");
    }
}

#[test]
fn a_time_to_live_past_what_the_server_can_count_is_cut() {
    assert_eq!(whole_seconds(Duration::MAX), TTL_SECONDS_MAX);
}

#[test]
fn every_mark_of_an_end_is_told_apart() {
    let marked = |name: &'static str, value: &str| {
        let mut headers = HeaderMap::new();
        set(&mut headers, name, value).unwrap();
        layout::end(&headers)
    };
    assert_eq!(marked("Nats-Marker-Reason", "MaxAge"), Some(KeyState::Expired));
    assert_eq!(marked("Nats-Marker-Reason", "Purge"), Some(KeyState::Deleted));
    assert_eq!(marked(layout::OPERATION, "PURGE"), Some(KeyState::Deleted));
    assert_eq!(marked(layout::OPERATION, "DEL"), Some(KeyState::Deleted));
    assert_eq!(marked(layout::OPERATION, "PUT"), None);
    assert_eq!(marked("Nats-TTL", "5"), None);
}
