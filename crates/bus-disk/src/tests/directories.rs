//! Directories that cannot be made, read or written: an error that says so, and nothing lost.

use std::os::unix::fs::symlink;

use bus_core::Outcome;
use bus_mem::journal::Journal as _;

use super::*;
use crate::{
    DiskBus, DiskOptions,
    files::{faulty::Fault, make_dirs},
};

fn kind_of(opened: Result<Opened>) -> (ErrorKind, String) {
    let error = opened.err().unwrap();
    assert_eq!(error.outcome(), Outcome::NotDone);
    (error.kind(), error.to_string())
}

#[test]
fn a_directory_that_cannot_be_changed_is_unavailable_and_stays_as_it_is() {
    let files = FaultyFiles::default();
    let opened = Opened::on(&files, Sync::Always).unwrap();
    opened.say_safely(1, 7).unwrap();
    drop(opened);
    let locked = files.restarted(Keep::All);
    locked.set(Fault::ReadOnly);
    let (kind, why) = kind_of(Opened::on(&locked, Sync::Always));
    assert_eq!(kind, ErrorKind::Unavailable);
    assert!(why.contains("/data/journal"), "{why}");
    assert_eq!(reopened(&locked, Keep::All).unwrap(), Model::from([(1, 7)]));
}

#[test]
fn a_new_directory_that_cannot_be_changed_is_unavailable() {
    let files = FaultyFiles::default();
    files.set(Fault::ReadOnly);
    assert_eq!(kind_of(Opened::on(&files, Sync::Always)).0, ErrorKind::Unavailable);
}

#[test]
fn no_room_for_the_first_segment_is_full_and_the_next_try_begins_anew() {
    let files = FaultyFiles::default();
    files.set(Fault::Room(SIZES.segment - 1));
    let (kind, why) = kind_of(Opened::on(&files, Sync::Always));
    assert_eq!(kind, ErrorKind::Full);
    assert!(why.contains("/data/journal"), "{why}");
    files.set(Fault::Room(SIZES.segment * 4));
    let opened = Opened::on(&files, Sync::Always).unwrap();
    opened.say_safely(1, 1).unwrap();
    assert_eq!(reopened(&files, Keep::Synced).unwrap(), Model::from([(1, 1)]));
}

#[test]
fn a_write_that_fails_ends_the_journal_and_what_was_safe_stays() {
    let files = FaultyFiles::default();
    let opened = Opened::on(&files, Sync::Always).unwrap();
    opened.say_safely(1, 1).unwrap();
    files.set(Fault::NoWrite);
    let failed = opened.say_safely(2, 2).unwrap_err();
    assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::Unavailable, Outcome::Unknown));
    let refused = opened.store.journal.admit("append", 1, true).unwrap_err();
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Unavailable, Outcome::NotDone));
    assert_eq!(reopened(&files, Keep::All).unwrap(), Model::from([(1, 1)]));
}

#[test]
fn directories_that_were_made_survive_a_power_cut() {
    let files = FaultyFiles::default();
    make_dirs(&files, Path::new("/data/agent/vakbus")).unwrap();
    let left = files.restarted(Keep::Synced);
    for dir in ["/data", "/data/agent", "/data/agent/vakbus"] {
        assert!(left.is_dir(Path::new(dir)).is_ok_and(|is_dir| is_dir), "{dir} is lost");
    }
}

#[test]
fn a_directory_below_a_file_is_unavailable() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "content").unwrap();
    let error = DiskBus::open(DiskOptions::new(file.join("home"))).unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unavailable, Outcome::NotDone));
    assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
    assert_eq!(std::fs::read(&file).unwrap(), b"content");
}

#[tokio::test]
async fn a_second_opener_in_the_same_process_is_refused_and_disturbs_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("d");
    let first = DiskBus::open(DiskOptions::new(&home)).unwrap();
    for _try in 0..3 {
        let refused = DiskBus::open(DiskOptions::new(&home)).unwrap_err();
        assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Conflict, Outcome::NotDone));
    }
    let owner = std::fs::read_to_string(home.join("lock")).unwrap();
    assert!(owner.starts_with(&format!("pid {} on ", std::process::id())), "{owner}");
    first.shut_down().await.unwrap();
    assert!(DiskBus::open(DiskOptions::new(&home)).is_ok());
}

#[tokio::test]
async fn a_link_to_a_directory_is_refused_and_nothing_is_made_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    let (real, link) = (dir.path().join("real"), dir.path().join("link"));
    std::fs::create_dir(&real).unwrap();
    symlink(&real, &link).unwrap();
    let refused = DiskBus::open(DiskOptions::new(&link)).unwrap_err();
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Denied, Outcome::NotDone));
    assert_eq!(std::fs::read_dir(&real).unwrap().count(), 0);
}
