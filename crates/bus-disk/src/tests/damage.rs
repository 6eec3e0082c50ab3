//! What a broken disk or a careless copy does to the files is seen, never read over.

use std::path::PathBuf;

use super::*;
use crate::{batch::BatchHeader, segment::Segment, snapshot::SnapshotWriter};

/// A journal of `batches` batches in one segment, not closed.
fn journal(batches: u64) -> FaultyFiles {
    let files = FaultyFiles::default();
    let opened = Opened::on(&files, Sync::Always).unwrap();
    for seq in 1..=batches {
        opened.say_safely(seq, seq).unwrap();
    }
    files.restarted(Keep::Synced)
}

fn first_segment() -> PathBuf {
    Segment::path(&Path::new(DIR).join("journal"), 1)
}

/// Bytes of a batch with one record.
const BATCH: usize = 64;

fn place(batch: usize) -> usize {
    Segment::HEADER_BYTES as usize + batch * BATCH
}

#[test]
fn a_batch_has_the_size_that_these_tests_reckon_with() {
    let mut record = Vec::new();
    Record::Change(Change::Done { consumer: 1, seq: 1 }).write(&mut record);
    let bytes = BatchHeader::BYTES + record.len();
    assert_eq!(bytes.next_multiple_of(BatchHeader::ALIGN), BATCH);
}

#[test]
fn a_flipped_bit_in_the_middle_is_an_error_with_its_place() {
    for batch in 0..4 {
        for byte in [0, 4, 8, 12, 16, 24, 32, 40, 60] {
            let files = journal(5);
            files.damage(&first_segment(), |content| content[place(batch) + byte] ^= 4);
            let error = reopened(&files, Keep::All).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            let expected = format!("0000000000000001.seg is damaged at byte {}", place(batch));
            assert!(error.to_string().contains(&expected), "{error}");
        }
    }
}

#[test]
fn a_flipped_bit_in_the_last_batch_cuts_that_batch_alone() {
    for byte in [0, 4, 8, 12, 16, 24, 32, 40, 60] {
        let files = journal(5);
        files.damage(&first_segment(), |content| content[place(4) + byte] ^= 4);
        let found = reopened(&files, Keep::All).unwrap();
        assert_eq!(found.into_keys().collect::<Vec<_>>(), [1, 2, 3, 4]);
    }
}

#[test]
fn after_an_orderly_end_damage_to_the_last_batch_is_an_error_too() {
    let files = FaultyFiles::default();
    let opened = Opened::on(&files, Sync::Always).unwrap();
    opened.say_safely(1, 1).unwrap();
    drop(opened);
    files.damage(&first_segment(), |content| content[place(0) + 41] ^= 1);
    assert_eq!(reopened(&files, Keep::All).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_damaged_header_of_a_segment_is_an_error() {
    for byte in 0..28 {
        let files = journal(1);
        files.damage(&first_segment(), |content| content[byte] ^= 1);
        assert_eq!(reopened(&files, Keep::All).unwrap_err().kind(), ErrorKind::Corrupt, "{byte}");
    }
}

#[test]
fn a_segment_that_is_missing_is_an_error() {
    let files = FaultyFiles::default();
    let opened = Opened::on(&files, Sync::Always).unwrap();
    let mut seq = 0;
    while files.paths().iter().filter(|path| path.extension().is_some()).count() < 4 {
        seq += 1;
        opened.say_safely(seq, seq).unwrap();
    }
    drop(opened);
    for number in 1..=2 {
        let copy = files.restarted(Keep::All);
        copy.remove(&Segment::path(&Path::new(DIR).join("journal"), number)).unwrap();
        let error = reopened(&copy, Keep::All).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("it is missing"), "{error}");
    }
}

#[test]
fn a_picture_that_tells_of_more_than_the_journal_does_is_an_error() {
    // As a copy has them that took the journal first, while a picture was taken.
    for (end, is_good) in [(5, true), (7, true), (8, false)] {
        let files = journal(7);
        let home = Home::layout(Path::new(DIR));
        let mut writer = SnapshotWriter::begin(&files, &home, 5, 1).unwrap();
        for seq in 1..=end {
            writer.add(&Record::Change(Change::Done { consumer: seq, seq })).unwrap();
        }
        writer.finish(end).unwrap();
        match reopened(&files, Keep::All) {
            Ok(found) => assert!(is_good && found.len() == 7, "{end}: {found:?}"),
            Err(error) => assert!(!is_good && error.kind() == ErrorKind::Corrupt, "{error}"),
        }
    }
}

#[test]
fn what_a_stranger_stores_never_passes_for_a_batch() {
    // A batch of another segment, whole and good, as content: its salt is not the right one.
    let files = journal(3);
    let stolen = std::cell::RefCell::new(Vec::new());
    files.damage(&first_segment(), |content| {
        stolen.borrow_mut().extend_from_slice(&content[place(2)..place(3)]);
    });
    let other = journal(2);
    other.damage(&first_segment(), |content| {
        content[place(2)..place(3)].copy_from_slice(&stolen.borrow());
    });
    assert_eq!(reopened(&other, Keep::All).unwrap().len(), 2);
}
