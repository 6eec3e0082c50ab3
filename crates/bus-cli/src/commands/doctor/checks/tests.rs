//! Each check at each level.

use super::{
    super::finding::Level::{self, Bad, Ok, Skipped, Warn},
    *,
};

fn levels(findings: &[Finding]) -> Vec<Level> {
    findings.iter().map(|finding| finding.level).collect()
}

/// Whatever is wrong says how to mend it.
fn mends(finding: &Finding) -> Level {
    let is_wrong = matches!(finding.level, Warn | Bad);
    assert!(!is_wrong || finding.mend.as_ref().is_some_and(|mend| !mend.is_empty()), "{finding:?}");
    finding.level
}

fn there(facts: StreamFacts) -> Vec<(String, StreamStanding)> {
    vec![("VAK_WORK_w1".to_owned(), StreamStanding::There(facts))]
}

fn sound() -> StreamFacts {
    StreamFacts { copies: 3, has_leader: true, ..StreamFacts::default() }
}

#[test]
fn a_disk_that_fills_is_a_warning_and_then_bad() {
    let room = |mib: u64| Room { free_bytes: mib << 20, free_files: None, network: None };
    assert_eq!(mends(&disk(room(2000))), Ok);
    assert_eq!(mends(&disk(room(1023))), Warn);
    assert_eq!(mends(&disk(room(127))), Bad);
}

#[test]
fn few_files_and_a_network_are_warnings() {
    let room = Room { free_bytes: u64::MAX, free_files: Some(9_999), network: None };
    assert_eq!(mends(&disk(room)), Warn);
    assert_eq!(mends(&disk(Room { free_files: Some(10_000), ..room })), Ok);
    assert_eq!(mends(&disk(Room { network: Some("NFS"), ..room })), Warn);
}

#[test]
fn a_secret_is_good_for_ninety_days() {
    assert_eq!(mends(&secret("v1", Some(90 * DAY))), Ok);
    assert_eq!(mends(&secret("v1", Some(91 * DAY))), Warn);
    assert_eq!(mends(&secret("v1", None)), Ok);
}

#[test]
fn a_certificate_that_ends_is_a_warning_and_then_bad() {
    let of = |left| certificates(&[("a1".to_owned(), left), ("a2".to_owned(), Some(99 * DAY))]);
    assert_eq!(mends(&of(Some(14 * DAY))), Ok);
    assert_eq!(mends(&of(Some(13 * DAY))), Warn);
    let ended = of(None);
    assert_eq!((mends(&ended), ended.found.as_str()), (Bad, "ended: a1"));
}

#[test]
fn a_daemon_of_another_version_is_a_warning() {
    assert_eq!(mends(&daemon(env!("CARGO_PKG_VERSION"))), Ok);
    assert_eq!(mends(&daemon("0.0.1")), Warn);
}

#[test]
fn a_server_that_is_too_old_is_bad() {
    assert_eq!(mends(&server_version("2.12.0", true)), Ok);
    assert_eq!(mends(&server_version("2.11.9", false)), Bad);
}

#[test]
fn a_server_that_syncs_late_is_bad_where_it_is_said_to_sync_always() {
    let every = Sync::Seen(Some(Duration::from_secs(120)));
    assert_eq!(mends(&sync(every, ("replicated", Durability::Synced))), Bad);
    assert_eq!(mends(&sync(every, ("development", Durability::Written))), Warn);
    assert_eq!(mends(&sync(Sync::Seen(None), ("replicated", Durability::Synced))), Ok);
    assert_eq!(mends(&sync(Sync::Unseen, ("synced", Durability::Synced))), Skipped);
    assert_eq!(mends(&sync(Sync::Kept(Durability::Written), ("", Durability::Written))), Warn);
    assert_eq!(mends(&sync(Sync::Kept(Durability::Synced), ("", Durability::Synced))), Ok);
}

#[test]
fn too_few_copies_and_no_leader_are_bad_and_one_that_is_behind_is_a_warning() {
    assert_eq!(mends(&replicas(&there(sound()), 3)), Ok);
    assert_eq!(mends(&replicas(&there(StreamFacts { copies: 1, ..sound() }), 3)), Bad);
    assert_eq!(mends(&replicas(&there(StreamFacts { has_leader: false, ..sound() }), 3)), Bad);
    let behind = StreamFacts { behind: vec!["n2".to_owned()], ..sound() };
    let finding = replicas(&there(behind), 3);
    assert_eq!((mends(&finding), finding.found.contains("n2")), (Warn, true));
    assert_eq!(mends(&replicas(&[], 3)), Skipped);
}

#[test]
fn each_stream_that_is_missing_or_otherwise_is_named() {
    let mut all = there(StreamFacts { drift: vec!["max_age is 60".to_owned()], ..sound() });
    all.push(("VAK_DLQ".to_owned(), StreamStanding::Missing));
    let found = streams(&all);
    assert_eq!(levels(&found), [Bad, Bad]);
    assert!(found[0].found.contains("VAK_WORK_w1: max_age is 60"), "{found:?}");
    assert!(found[1].found.contains("VAK_DLQ"), "{found:?}");
    assert!(found.iter().all(|finding| mends(finding) == Bad));
}

#[test]
fn a_missing_stream_of_recordings_is_a_warning() {
    let found = streams(&[("VAK_REC_w1".to_owned(), StreamStanding::Missing)]);
    assert_eq!(levels(&found), [Warn]);
    assert_eq!(mends(&found[0]), Warn);
}

#[test]
fn streams_that_are_not_seen_are_not_said_to_be_good() {
    let hidden = vec![("VAK_DLQ".to_owned(), StreamStanding::Hidden)];
    assert_eq!(levels(&streams(&hidden)), [Skipped]);
    assert_eq!(levels(&streams(&there(sound()))), [Ok]);
}

#[test]
fn a_clock_that_is_off_is_a_warning_and_then_bad() {
    let of = |ms: i128, doubt| clock(Some((ms * 1_000_000, Duration::from_millis(doubt))));
    assert_eq!(mends(&of(900, 0)), Ok);
    assert_eq!(mends(&of(-1_100, 0)), Warn);
    assert_eq!(mends(&of(31_000, 0)), Bad);
    assert_eq!(mends(&of(1_100, 200)), Ok, "it may be the way of the answer");
    assert_eq!(mends(&clock(None)), Skipped);
    assert!(of(-1_100, 0).found.contains("behind"));
}

#[test]
fn messages_that_are_too_small_are_a_warning() {
    assert_eq!(mends(&max_payload(8 << 20)), Ok);
    assert_eq!(mends(&max_payload(1 << 20)), Warn);
}

#[test]
fn the_longest_list_of_queues_counts() {
    let of = |most| partitions(&[("VAK_WORK_w1".to_owned(), most), ("X".to_owned(), 1)]);
    assert_eq!(mends(&of(400)), Ok);
    assert_eq!(mends(&of(401)), Warn);
    assert_eq!(mends(&of(501)), Bad);
    assert_eq!(mends(&partitions(&[])), Skipped);
}

#[test]
fn what_is_let_through_and_what_is_denied_by_mistake_are_bad() {
    let probe = |may, was_let| Probe { what: "a worker that forges a task", may, was_let };
    assert_eq!(levels(&permissions(&[probe(true, true), probe(false, false)])), [Ok]);
    let wrong = permissions(&[probe(false, true), probe(true, false), probe(true, true)]);
    assert_eq!(levels(&wrong), [Bad, Bad]);
    assert!(wrong[0].found.contains("let through") && wrong[1].found.contains("is denied"));
    assert!(wrong.iter().all(|finding| mends(finding) == Bad));
    assert_eq!(levels(&permissions(&[])), [Skipped]);
}

#[test]
fn receipts_that_fill_their_stream_are_a_warning() {
    assert_eq!(mends(&receipts_room(800_000)), Ok);
    assert_eq!(mends(&receipts_room(800_001)), Warn);
}
