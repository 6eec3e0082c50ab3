//! Case C18: torn ends are closed off, kept and reported once; damage in the middle is an error.

use std::{
    fs,
    io::{self, Cursor, Read, Seek, SeekFrom, Write},
};

use proptest::prelude::*;

use super::{JsonlError, JsonlItem, JsonlReader, JsonlWriter, TailReport, writer::Appender};

const RECORDS: [&str; 3] = [r#"{"n":1}"#, r#"{"n":"zwölf"}"#, r#"{"n":3}"#];

fn log() -> Vec<u8> {
    RECORDS.iter().flat_map(|record| format!("{record}\n").into_bytes()).collect()
}

/// Opens a file with these bytes, appends two records, and gives back the report and the file.
fn reopened(bytes: &[u8]) -> (Option<TailReport>, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.jsonl");
    fs::write(&path, bytes).unwrap();
    let mut writer = JsonlWriter::open(&path).unwrap();
    let report = writer.take_tail_report();
    assert_eq!(writer.take_tail_report(), None);
    for record in [r#"{"new":1}"#, r#"{"new":2}"#] {
        writer.append(record.as_bytes()).unwrap();
    }
    writer.sync().unwrap();
    (report, fs::read(&path).unwrap())
}

fn records(bytes: &[u8]) -> Vec<String> {
    let read = JsonlReader::new(bytes).map(Result::unwrap);
    read.filter_map(|item| match item {
        JsonlItem::Record { bytes, .. } => Some(String::from_utf8(bytes).unwrap()),
        JsonlItem::Torn { .. } => None,
    })
    .collect()
}

fn torn(bytes: &[u8]) -> Vec<u64> {
    let read = JsonlReader::new(bytes).map(Result::unwrap);
    read.filter_map(|item| match item {
        JsonlItem::Torn { line, .. } => Some(line),
        JsonlItem::Record { .. } => None,
    })
    .collect()
}

#[test]
fn a_whole_log_is_opened_without_a_report() {
    let (report, bytes) = reopened(&log());
    assert_eq!((report, records(&bytes).len()), (None, 5));
}

#[test]
fn a_record_cut_in_its_middle_is_closed_off_and_reported() {
    let cut = &log()[..log().len() - 4];
    let (report, bytes) = reopened(cut);
    let Some(TailReport::ClosedOff(found)) = report else { panic!("{report:?}") };
    assert_eq!((found.lines, found.bytes), (1, 4));
    assert_eq!(&bytes[..cut.len()], cut);
    assert_eq!(records(&bytes)[2..], [r#"{"new":1}"#, r#"{"new":2}"#]);
    assert_eq!(torn(&bytes), [3]);
}

#[test]
fn a_record_that_lacks_only_its_line_feed_is_recovered() {
    let (report, bytes) = reopened(&log()[..log().len() - 1]);
    assert_eq!(report, Some(TailReport::Recovered));
    assert_eq!(records(&bytes).len(), 5);
}

#[test]
fn a_record_cut_in_a_multi_byte_character_is_closed_off() {
    let at = log().iter().position(|byte| *byte == 0xc3).unwrap() + 1;
    let (report, bytes) = reopened(&log()[..at]);
    assert!(matches!(report, Some(TailReport::ClosedOff(_))));
    assert_eq!(records(&bytes).len(), 3);
}

#[test]
fn a_plain_line_splitter_reads_the_new_records_too() {
    let (_, bytes) = reopened(&log()[..log().len() - 4]);
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    assert_eq!(lines[4..6], [br#"{"new":1}"#, br#"{"new":2}"#]);
}

#[test]
fn a_fragment_is_reported_once() {
    let (_, bytes) = reopened(&log()[..log().len() - 4]);
    assert_eq!(reopened(&bytes).0, None);
}

#[test]
fn closing_off_that_was_interrupted_is_taken_up_again() {
    let cut = &log()[..log().len() - 4];
    let whole = reopened(cut).1;
    let mark_end = whole.iter().rposition(|byte| *byte == b'\n').unwrap();
    for end in cut.len()..mark_end - 22 {
        let (report, bytes) = reopened(&whole[..end]);
        assert!(report.is_some(), "cut at {end}");
        assert_eq!(records(&bytes)[..2], RECORDS[..2]);
        assert_eq!(torn(&bytes), [3], "cut at {end}");
    }
}

#[test]
fn damage_in_the_middle_is_an_error_with_its_line() {
    let mut bytes = log();
    bytes[9] = b'x';
    let items: Vec<_> = JsonlReader::new(bytes.as_slice()).collect();
    assert!(matches!(items[1], Err(JsonlError::Damaged { line: 2 })));
    assert_eq!(items.len(), 2);
}

#[test]
fn a_mark_without_its_fragment_is_damage() {
    let (_, bytes) = reopened(&log()[..log().len() - 4]);
    let text = String::from_utf8(bytes).unwrap();
    let kept: String = text
        .lines()
        .filter(|line| *line != r#"{"n""#)
        .fold(String::new(), |text, line| text + line + "\n");
    assert_ne!(kept, text);
    let last = JsonlReader::new(kept.as_bytes()).last().unwrap();
    assert!(matches!(last, Err(JsonlError::Damaged { line: 3 })));
}

#[test]
fn a_file_that_is_no_log_is_not_written_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.jsonl");
    fs::write(&path, "one\n".repeat(100)).unwrap();
    assert!(matches!(JsonlWriter::open(&path), Err(JsonlError::DamagedTail { .. })));
    assert_eq!(fs::read(&path).unwrap().len(), 400);
}

#[test]
fn only_one_json_object_of_one_line_is_a_record() {
    let mut appender = Appender::new(Cursor::new(Vec::new())).unwrap();
    for record in
        ["", "{", "[1]", "1", "{}\n{}", "{\"a\":\n1}", " {}", "{}{}", "{\"vakbus_torn\":1}"]
    {
        let refused = appender.append(record.as_bytes());
        assert!(matches!(refused, Err(JsonlError::NotRecord(_))), "{record:?}");
    }
    assert!(appender.file.get_ref().is_empty());
}

#[test]
fn a_record_that_did_not_fit_on_the_disk_is_an_error_and_the_next_one_is_whole() {
    let mut appender = Appender::new(Disk { bytes: Cursor::new(Vec::new()), free: 12 }).unwrap();
    appender.append(br#"{"n":1}"#).unwrap();
    assert!(matches!(appender.append(br#"{"n":2}"#), Err(JsonlError::Io { .. })));
    assert!(matches!(appender.append(br#"{"n":3}"#), Err(JsonlError::Io { .. })));
    appender.file.free = 1_000;
    appender.append(br#"{"n":4}"#).unwrap();
    assert!(matches!(appender.report, Some(TailReport::ClosedOff(_))));
    let bytes = appender.file.bytes.into_inner();
    assert_eq!(records(&bytes), [r#"{"n":1}"#, r#"{"n":4}"#]);
    assert_eq!(torn(&bytes).len(), 1);
}

#[test]
fn a_record_of_which_only_the_line_feed_did_not_fit_is_kept() {
    let mut appender = Appender::new(Disk { bytes: Cursor::new(Vec::new()), free: 15 }).unwrap();
    appender.append(br#"{"n":1}"#).unwrap();
    assert!(matches!(appender.append(br#"{"n":2}"#), Err(JsonlError::Io { .. })));
    appender.file.free = 1_000;
    appender.append(br#"{"n":3}"#).unwrap();
    assert_eq!(appender.report, Some(TailReport::Recovered));
    let bytes = appender.file.bytes.into_inner();
    assert_eq!(records(&bytes), [r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":3}"#]);
}

#[test]
fn a_batch_that_did_not_fit_says_how_many_records_were_written() {
    let mut appender = Appender::new(Disk { bytes: Cursor::new(Vec::new()), free: 20 }).unwrap();
    let batch: [&[u8]; 3] = [br#"{"n":1}"#, br#"{"n":2}"#, br#"{"n":3}"#];
    let failed = appender.append_all(&batch).unwrap_err();
    assert_eq!(failed.written, 2);
    appender.file.free = 1_000;
    appender.append_all(&batch[2..]).unwrap();
    assert_eq!(records(appender.file.bytes.get_ref()), [r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":3}"#]);
}

#[test]
fn a_batch_with_one_that_is_no_record_writes_none() {
    let mut appender = Appender::new(Cursor::new(Vec::new())).unwrap();
    let failed = appender.append_all(&[br#"{"n":1}"#, b"[]"]).unwrap_err();
    assert_eq!((failed.written, appender.file.get_ref().len()), (0, 0));
}

#[cfg(unix)]
#[test]
fn a_new_log_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.jsonl");
    JsonlWriter::open(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_long_last_record_is_found_whole() {
    let long = format!("{{\"n\":\"{}\"}}\n", "x".repeat(100_000));
    let mut bytes = log();
    bytes.extend_from_slice(long.as_bytes());
    let (report, bytes) = reopened(&bytes);
    assert_eq!((report, records(&bytes).len()), (None, 6));
}

#[test]
fn a_long_fragment_is_closed_off_whole() {
    let mut bytes = log();
    bytes.extend_from_slice(format!("{{\"n\":\"{}", "x".repeat(100_000)).as_bytes());
    let (report, bytes) = reopened(&bytes);
    let Some(TailReport::ClosedOff(found)) = report else { panic!("{report:?}") };
    assert_eq!((found.offset, found.bytes), (log().len() as u64, 100_006));
    assert_eq!(records(&bytes).len(), 5);
}

proptest! {
    #[test]
    fn wherever_a_log_is_cut_the_new_records_are_read_back(at in 0_usize..40) {
        let whole = log();
        let cut = &whole[..at.min(whole.len())];
        let (_, bytes) = reopened(cut);
        let read = records(&bytes);
        prop_assert_eq!(&read[read.len() - 2..], [r#"{"new":1}"#, r#"{"new":2}"#]);
        prop_assert_eq!(&bytes[..cut.len()], cut);
    }

    #[test]
    fn whatever_the_end_of_a_log_is_it_can_be_read_after_it_was_mended(
        tail in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut bytes = log();
        bytes.extend_from_slice(&tail);
        if let Ok(mut appender) = Appender::new(Cursor::new(bytes)) {
            appender.append(br#"{"new":1}"#).unwrap();
            let items: Result<Vec<_>, _> =
                JsonlReader::new(appender.file.get_ref().as_slice()).collect();
            prop_assert!(items.is_ok());
        }
    }
}

/// A disk that takes only so many bytes more.
struct Disk {
    bytes: Cursor<Vec<u8>>,
    free: usize,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.free);
        if taken == 0 && !bytes.is_empty() {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        self.free -= taken;
        self.bytes.seek(SeekFrom::End(0))?;
        self.bytes.write(&bytes[..taken])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Disk {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.bytes.read(bytes)
    }
}

impl Seek for Disk {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.bytes.seek(to)
    }
}
