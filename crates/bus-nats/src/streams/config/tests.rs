//! Configurations and their differences, without a server.

use super::*;

fn spec() -> StreamSpec {
    let name = StreamName::parse("WORK").unwrap();
    let filters = vec![Filter::parse("w.*.task").unwrap(), Filter::parse("w.a.b.>").unwrap()];
    StreamSpec::new(name, filters, Retention::WorkQueue)
}

#[test]
fn a_specification_is_read_back_as_it_was_written() {
    for retention in [Retention::WorkQueue, Retention::AppendOnly, Retention::Kept] {
        for window in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
            let most = NonZeroU64::MAX;
            let sent = StreamSpec {
                retention,
                dedupe_window: window,
                messages_max: most,
                messages_per_subject_max: NonZeroU64::MIN,
                ..spec()
            };
            let config = wanted(&sent, Profile::Development).unwrap();
            assert_eq!(read_spec(&config), Some(sent));
        }
    }
}

#[test]
fn a_stream_without_a_specification_is_somebody_elses() {
    let mut config = wanted(&spec(), Profile::Development).unwrap();
    config.remove("metadata");
    assert_eq!(read_spec(&config), None);
}

#[test]
fn what_only_the_server_added_is_no_drift() {
    let asked = wanted(&spec(), Profile::Development).unwrap();
    let mut held = asked.clone();
    held.insert("compression".to_owned(), json!("none"));
    held.insert("sources".to_owned(), json!([]));
    held.remove("deny_delete");
    held["metadata"]["_nats.level"] = json!("1");
    held["subjects"].as_array_mut().unwrap().reverse();
    assert_eq!(drift(&asked, &held), [""; 0]);
}

#[test]
fn more_copies_than_asked_for_are_no_drift() {
    let asked = wanted(&spec(), Profile::Development).unwrap();
    let held = wanted(&spec(), Profile::Replicated).unwrap();
    assert_eq!(drift(&asked, &held), [""; 0]);
}

#[test]
fn every_difference_is_listed() {
    let asked = wanted(&spec(), Profile::Replicated).unwrap();
    let mut held = wanted(&spec(), Profile::Development).unwrap();
    held.insert("max_age".to_owned(), json!(5));
    held.insert("sealed".to_owned(), json!(true));
    let differences = drift(&asked, &held);
    for name in ["num_replicas is 1, expected 3", "max_age is 5", "sealed is true"] {
        assert!(differences.iter().any(|one| one.contains(name)), "{name}: {differences:?}");
    }
    assert_eq!(differences.len(), 3, "{differences:?}");
}

#[test]
fn placed_messages_are_kept_beside_the_plain_ones() {
    let config = wanted(&spec(), Profile::Development).unwrap();
    let expected = json!(["w.*.task", "w.a.b.>", "vakp.*.*.w.*.task", "vakp.*.*.w.a.b.>"]);
    assert_eq!(config["subjects"], expected);
}
