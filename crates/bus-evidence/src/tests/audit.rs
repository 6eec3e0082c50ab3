//! The audit log: every record once, on a whole line, whatever interrupted the writing (C18).

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use bus_core::{Frame, FrameId, Seq, Stored};
use bus_envelope::{MessageEnvelope, Timestamp, wire};
use bus_subjects::Subject;

use super::support::{World, time};
use crate::{AuditError, AuditLog, AuditRecord, AuditStream};

struct Ground {
    dir: tempfile::TempDir,
    receipts: Vec<MessageEnvelope>,
}

impl Ground {
    fn new(receipts: usize) -> Self {
        let receipts = World::new().story(receipts + 1).receipts;
        Self { dir: tempfile::tempdir().unwrap(), receipts }
    }

    fn open(&self) -> AuditLog {
        AuditLog::open(&self.dir.path().join("audit")).unwrap()
    }

    fn record(&self, seq: u64) -> AuditRecord {
        let envelope = &self.receipts[usize::try_from(seq).unwrap() - 1];
        AuditRecord::new(AuditStream::Receipts, &stored(envelope, seq))
    }

    fn path(&self, day: &str) -> PathBuf {
        self.dir.path().join("audit/receipts").join(format!("{day}.jsonl"))
    }

    /// The positions on whole lines, file after file, and how many fragments there are.
    fn read(&self) -> (Vec<u64>, usize) {
        let folder = self.dir.path().join("audit/receipts");
        let mut files: Vec<PathBuf> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let (mut seqs, mut torn) = (Vec::new(), 0);
        for item in files.iter().flat_map(|file| crate::JsonlReader::open(file).unwrap()) {
            match item.unwrap() {
                crate::JsonlItem::Record { bytes, .. } => {
                    let line: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
                    seqs.push(line["seq"].as_u64().unwrap());
                }
                crate::JsonlItem::Torn { .. } => torn += 1,
            }
        }
        (seqs, torn)
    }
}

fn stored(envelope: &MessageEnvelope, seq: u64) -> Stored {
    let (headers, body) = wire::binary::encode(envelope);
    let id = FrameId::parse(&envelope.id).unwrap();
    let mut frame = Frame::new(envelope.subject.clone(), id, body);
    frame.headers = headers;
    Stored { frame, seq: Seq(seq), time: time(500) }
}

/// Noon of the day the certificates were issued, and so many days later.
fn noon(days: u64) -> Timestamp {
    time(12 * 3600).plus(Duration::from_secs(days * 24 * 3600))
}

#[test]
fn a_line_holds_what_verifies_without_any_key() {
    let ground = Ground::new(1);
    let record = ground.record(1);
    let line: serde_json::Value = serde_json::from_slice(record.line()).unwrap();
    // A reader that keeps the order of members reads the envelope as it was signed.
    let text = std::str::from_utf8(record.line()).unwrap();
    let raw = text.split_once("\"envelope\":").unwrap().1.strip_suffix('}').unwrap();
    let read = wire::json::decode(raw.as_bytes()).unwrap();
    assert_eq!(read, ground.receipts[0]);
    assert_eq!(line["leaf"], read.compute_hash().to_string());
    assert_eq!((&line["seq"], &line["stream"]), (&1.into(), &"VAK_RECEIPTS".into()));
}

#[test]
fn it_goes_on_after_the_last_whole_record() {
    let ground = Ground::new(3);
    let mut log = ground.open();
    assert_eq!(log.last(AuditStream::Receipts), None);
    log.append(&ground.record(1), noon(0)).unwrap();
    log.append(&ground.record(2), noon(0)).unwrap();
    drop(log);
    let log = ground.open();
    assert_eq!(log.last(AuditStream::Receipts), Some(ground.record(2).mark()));
    assert_eq!(log.last(AuditStream::Approvals), None);
}

#[test]
fn after_a_torn_line_every_receipt_is_in_the_log_once() {
    let ground = Ground::new(3);
    let whole = ground.record(2);
    let end = whole.line().len();
    for cut in (0..end).step_by(61).chain([1, end - 1, end]) {
        let mut log = ground.open();
        log.append(&ground.record(1), noon(0)).unwrap();
        drop(log);
        let mut file = OpenOptions::new().append(true).open(ground.path("2026-01-01")).unwrap();
        file.write_all(&whole.line()[..cut]).unwrap();
        let mut log = ground.open();
        log.append(&ground.record(2), noon(0)).unwrap();
        log.append(&ground.record(3), noon(0)).unwrap();
        assert_eq!(log.take_mended().len(), usize::from(cut > 0), "{cut}");
        drop(log);
        let torn = usize::from(cut > 0 && cut < end);
        assert_eq!(ground.read(), (vec![1, 2, 3], torn), "{cut}");
        fs::remove_dir_all(ground.dir.path().join("audit")).unwrap();
    }
}

#[test]
fn a_record_after_midnight_goes_to_the_new_day() {
    let ground = Ground::new(3);
    let mut log = ground.open();
    log.append(&ground.record(1), noon(0).plus(Duration::from_secs(12 * 3600 - 1))).unwrap();
    log.append(&ground.record(2), noon(0).plus(Duration::from_secs(12 * 3600))).unwrap();
    drop(log);
    let lines = |day| fs::read_to_string(ground.path(day)).unwrap().lines().count();
    assert_eq!((lines("2026-01-01"), lines("2026-01-02")), (1, 1));
}

#[test]
fn a_clock_that_goes_back_reopens_no_earlier_day() {
    let ground = Ground::new(2);
    let mut log = ground.open();
    log.append(&ground.record(1), noon(3)).unwrap();
    log.append(&ground.record(2), noon(0)).unwrap();
    drop(log);
    assert_eq!(ground.open().last(AuditStream::Receipts), Some(ground.record(2).mark()));
    assert!(!ground.path("2026-01-01").exists());
}

#[test]
fn a_new_day_that_begins_with_a_fragment_goes_on_from_the_day_before() {
    let ground = Ground::new(2);
    let mut log = ground.open();
    log.append(&ground.record(1), noon(0)).unwrap();
    drop(log);
    fs::write(ground.path("2026-01-02"), &ground.record(2).line()[..9]).unwrap();
    let mut log = ground.open();
    assert_eq!(log.last(AuditStream::Receipts), Some(ground.record(1).mark()));
    log.append(&ground.record(2), noon(1)).unwrap();
    drop(log);
    assert_eq!(ground.read(), (vec![1, 2], 1));
}

#[test]
fn a_record_that_the_log_ends_with_is_not_written_again() {
    let ground = Ground::new(1);
    let mut log = ground.open();
    log.append(&ground.record(1), noon(0)).unwrap();
    log.append(&ground.record(1), noon(0)).unwrap();
    assert_eq!(ground.read(), (vec![1], 0));
}

#[test]
fn there_is_one_writer_at_a_time() {
    let ground = Ground::new(1);
    let first = ground.open();
    let second = AuditLog::open(first.dir());
    assert!(matches!(second, Err(AuditError::Held { .. })), "{second:?}");
    drop(first);
    drop(ground.open());
}

#[test]
fn what_is_no_envelope_stands_there_byte_for_byte() {
    let ground = Ground::new(1);
    let subject = Subject::parse("vak.receipts.w1.s1.completed").unwrap();
    let frame = Frame::new(subject, FrameId::parse("x").unwrap(), &b"\xffnot\nan envelope"[..]);
    let stored = Stored { frame, seq: Seq(7), time: time(1) };
    let record = AuditRecord::new(AuditStream::Receipts, &stored);
    assert!(record.envelope().is_none());
    let mut log = ground.open();
    log.append(&record, noon(0)).unwrap();
    drop(log);
    let text = fs::read_to_string(ground.path("2026-01-01")).unwrap();
    let line: serde_json::Value = serde_json::from_str(text.trim_end()).unwrap();
    let body = data_encoding::BASE64.decode(line["body_base64"].as_str().unwrap().as_bytes());
    assert_eq!(body.unwrap(), b"\xffnot\nan envelope");
    assert!(!line["unreadable"].as_str().unwrap().is_empty(), "{line}");
    assert_eq!(ground.open().last(AuditStream::Receipts), Some(record.mark()));
}

#[test]
fn a_payload_with_line_breaks_breaks_no_line() {
    let mut envelope = Ground::new(1).receipts[0].clone();
    envelope.payload = b"{\n}".as_slice().into();
    let record = AuditRecord::new(AuditStream::Receipts, &stored(&envelope, 1));
    assert!(!record.line().contains(&b'\n'));
    let line: serde_json::Value = serde_json::from_slice(record.line()).unwrap();
    let json = data_encoding::BASE64.decode(line["json_base64"].as_str().unwrap().as_bytes());
    assert_eq!(wire::json::decode(&json.unwrap()).unwrap(), envelope);
    assert_eq!((record.envelope(), record.hash()), (Some(&envelope), envelope.compute_hash()));
    let mut log = Ground::new(1);
    log.receipts[0] = envelope;
    log.open().append(&record, noon(0)).unwrap();
    assert_eq!(log.open().last(AuditStream::Receipts), Some(record.mark()));
}

#[test]
fn the_hashes_of_all_days_are_found() {
    let ground = Ground::new(3);
    let mut log = ground.open();
    for (seq, day) in [(1, 0), (2, 1), (3, 1)] {
        log.append(&ground.record(seq), noon(day)).unwrap();
    }
    let expected = (1..=3).map(|seq| ground.record(seq).hash()).collect();
    assert_eq!(log.hashes(AuditStream::Receipts).unwrap(), expected);
}

#[cfg(unix)]
#[test]
fn nobody_else_reads_the_log() {
    use std::os::unix::fs::PermissionsExt as _;
    let ground = Ground::new(1);
    let mut log = ground.open();
    log.append(&ground.record(1), noon(0)).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(log.dir()), 0o700);
    assert_eq!(mode(&log.dir().join("receipts")), 0o700);
    assert_eq!(mode(&ground.path("2026-01-01")), 0o600);
}

/// A directory that takes the place of the file stands in for a volume that takes no more.
#[test]
fn what_could_not_be_written_is_written_later() {
    let ground = Ground::new(2);
    let mut log = ground.open();
    log.append(&ground.record(1), noon(0)).unwrap();
    fs::create_dir(ground.path("2026-01-02")).unwrap();
    let full = log.append(&ground.record(2), noon(1));
    assert!(matches!(full, Err(AuditError::Log { .. })), "{full:?}");
    fs::remove_dir(ground.path("2026-01-02")).unwrap();
    log.append(&ground.record(2), noon(1)).unwrap();
    assert_eq!(ground.read(), (vec![1, 2], 0));
}
