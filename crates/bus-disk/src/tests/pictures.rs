//! Pictures bound the disk, and a restart reads them and what came since.

use super::*;
use crate::segment::Segment;

/// Says so much that pictures are due, and waits for one.
fn with_picture() -> (FaultyFiles, Opened) {
    let files = FaultyFiles::default();
    let opened = Opened::on(&files, Sync::Always).unwrap();
    let mut seq = 0;
    while !has_picture(&files) {
        seq += 1;
        opened.say_safely(seq % 10, seq).unwrap();
        assert!(seq < 100_000, "no picture");
    }
    (files, opened)
}

fn has_picture(files: &FaultyFiles) -> bool {
    files.paths().iter().any(|path| path.extension().is_some_and(|end| end == "snap"))
}

#[test]
fn a_restart_reads_the_picture_and_what_came_since() {
    let (files, opened) = with_picture();
    for seq in 1..=50 {
        opened.say_safely(100 + seq, seq).unwrap();
    }
    assert_eq!(reopened(&files, Keep::Synced).unwrap(), opened.model());
}

#[test]
fn the_disk_stays_bounded_by_what_lives() {
    let files = FaultyFiles::default();
    let opened = Opened::on(&files, Sync::Always).unwrap();
    let mut most = 0;
    for seq in 1..=20_000 {
        opened.say_safely(seq % 10, seq).unwrap();
        most = most.max(files.paths().len());
    }
    // 1.3 MB were written into segments of 16 KiB: 80 of them, had none gone.
    assert!(most <= 24, "{most} files");
    assert_eq!(reopened(&files, Keep::Synced).unwrap(), opened.model());
}

#[test]
fn a_damaged_picture_is_an_error_and_no_older_one_is_taken() {
    let (files, opened) = with_picture();
    drop(opened);
    let picture =
        files.paths().into_iter().find(|path| path.extension().unwrap_or_default() == "snap");
    let picture = picture.unwrap();
    for byte in [0, 8, 16, 24, 28, 32, 36, 40, 44, 60] {
        let copy = files.restarted(Keep::All);
        copy.damage(&picture, |content| content[byte] ^= 1);
        let error = reopened(&copy, Keep::All).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {byte}");
        assert!(error.to_string().contains(".snap is damaged at byte"), "{error}");
    }
    let cut = files.restarted(Keep::All);
    cut.damage(&picture, |content| content.truncate(content.len() - 16));
    assert_eq!(reopened(&cut, Keep::All).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_picture_in_the_weaker_mode_survives_a_power_cut_with_its_journal() {
    let files = FaultyFiles::default();
    let every = std::time::Duration::from_secs(3600);
    let opened = Opened::on(&files, Sync::Interval(every)).unwrap();
    let mut seq = 0;
    while !has_picture(&files) {
        seq += 1;
        opened.say_safely(seq % 10, seq).unwrap();
        assert!(seq < 100_000, "no picture");
        // At each moment: a picture never tells of more than the journal does.
        if seq % 100 == 0 {
            reopened(&files, Keep::Synced).unwrap();
        }
    }
    assert_eq!(reopened(&files, Keep::Synced).unwrap().len(), 10);
}

#[test]
fn a_picture_is_taken_as_soon_as_it_is_due() {
    let files = FaultyFiles::default();
    let opened = Opened::on(&files, Sync::Always).unwrap();
    let mut seq = 0;
    while opened.store.supply.lock().bytes <= SIZES.picture_after {
        seq += 1;
        opened.say_safely(seq % 10, seq).unwrap();
    }
    // Nothing more is said.
    let mut waits = 0;
    while !has_picture(&files) {
        std::thread::park_timeout(std::time::Duration::from_millis(10));
        waits += 1;
        assert!(waits < 1_000, "no picture");
    }
}

#[test]
fn segments_that_a_crash_left_ahead_are_never_taken_for_spare_ones_in_use() {
    let files = FaultyFiles::default();
    let opened = Opened::on(&files, Sync::Always).unwrap();
    let mut seq = 0;
    while opened.store.supply.lock().live.len() < 2 {
        seq += 1;
        opened.say_safely(seq % 10, seq).unwrap();
    }
    drop(opened);
    // The machine stopped when one was begun, and the one after it was made already.
    let journal = Path::new(DIR).join("journal");
    for number in 3..=4 {
        let _ignored = files.remove(&Segment::path(&journal, number));
        let sizes = (SIZES.segment, SIZES.segment);
        Segment::prepare(&files, &journal, number, sizes, None).unwrap();
    }
    let opened = Opened::on(&files, Sync::Always).unwrap();
    opened.store.supply.change(|stock| stock.wants_picture = true);
    while opened.store.supply.lock().live.len() > 1 {
        std::thread::park_timeout(std::time::Duration::from_millis(1));
    }
    while !files.paths().contains(&Segment::path(&journal, 6)) {
        seq += 1;
        opened.say_safely(seq % 10, seq).unwrap();
    }
    assert_eq!(reopened(&files, Keep::All).unwrap(), opened.model());
}

#[test]
fn a_picture_that_is_long_due_is_taken_before_the_end() {
    let files = FaultyFiles::default();
    // A life writes 30 KB, one is due after 64 KiB and overdue after twice as many.
    for _life in 0..6 {
        let opened = Opened::on(&files, Sync::Always).unwrap();
        for seq in 1..=1_500 {
            opened.say(seq % 10, seq);
        }
    }
    // By processes that were never there for long.
    assert!(has_picture(&files));
    assert_eq!(reopened(&files, Keep::Synced).unwrap().len(), 10);
}
