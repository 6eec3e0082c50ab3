//! Journals that are torn, held or cannot be written (case C18).

use std::{fs, time::Duration};

use bus_core::Outcome;
use bus_evidence::TailReport;
use tokio::time::timeout;

use super::support::{Peer, Stage, definition, journal as records, texts, unread};
use crate::{
    BusError, Inbox, JournalRecord, JournalSync,
    JournalSync::OnClose,
    Limits, PeerBus, PeerOptions,
    journal::{self, Journal, Lines},
};

async fn two(stage: &Stage) -> (Peer, Peer, Inbox) {
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let inbox = stage.inbox(&coder).await;
    (chief, coder, inbox)
}

/// Has a journal of three records end as `cut` leaves it, and two more written to it.
async fn after(cut: impl Fn(&[u8]) -> usize) -> (Stage, Vec<String>) {
    let stage = Stage::new();
    let (chief, _coder, _inbox) = two(&stage).await;
    for text in ["eins", "zwei", "zwölf"] {
        stage.send(&chief, &definition("coder"), text).await.unwrap();
    }
    stage.bus.close().await.unwrap();
    let path = stage.bus.log_path();
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..cut(&bytes)]).unwrap();

    let options = PeerOptions { clock: stage.clock.clone(), ..PeerOptions::default() };
    let stage = Stage { bus: PeerBus::with(stage.logs.path(), options), ..stage };
    let (chief, _coder, _inbox) = two(&stage).await;
    for text in ["vier", "fünf"] {
        stage.send(&chief, &definition("coder"), text).await.unwrap();
    }
    let texts = stage.envelopes().iter().map(|e| e.payload.text().to_owned()).collect();
    (stage, texts)
}

#[tokio::test]
async fn a_record_cut_in_its_middle_costs_no_other() {
    let (stage, texts) = after(|bytes| bytes.len() - 20).await;
    assert_eq!(texts, ["eins", "zwei", "vier", "fünf"]);
    let mended = stage.bus.take_mended();
    assert!(matches!(&mended[..], [(_, TailReport::ClosedOff(_))]), "{mended:?}");
    assert_eq!(stage.bus.take_mended(), []);
}

#[tokio::test]
async fn a_record_that_lacks_its_line_feed_counts() {
    let (stage, texts) = after(|bytes| bytes.len() - 1).await;
    assert_eq!(texts, ["eins", "zwei", "zwölf", "vier", "fünf"]);
    assert!(matches!(&stage.bus.take_mended()[..], [(_, TailReport::Recovered)]));
}

#[tokio::test]
async fn a_record_cut_in_a_character_costs_no_other() {
    let at = |bytes: &[u8]| bytes.iter().position(|byte| *byte == 0xc3).unwrap() + 1;
    let (stage, texts) = after(at).await;
    assert_eq!(texts, ["eins", "zwei", "vier", "fünf"]);
    let text = fs::read(stage.bus.log_path()).unwrap();
    let lines: Vec<_> = text.split(|byte| *byte == b'\n').collect();
    let whole = |line: &&&[u8]| serde_json::from_slice::<serde_json::Value>(line).is_ok();
    // A plain splitter reads all but the fragment, and the mark that follows it.
    assert_eq!(lines.iter().filter(whole).count(), 5);
}

/// A folder of logs in whose place a file stands, so that nothing can be made in it.
fn blocked(stage: &Stage) -> std::path::PathBuf {
    let dir = stage.logs.path().join("bus");
    fs::write(&dir, "in the way").unwrap();
    dir
}

#[tokio::test]
async fn an_unwritable_log_never_reports_a_clean_delivery() {
    let stage = Stage::new();
    let (chief, _coder, mut inbox) = two(&stage).await;
    blocked(&stage);
    let failed = stage.send(&chief, &definition("coder"), "1").await.unwrap_err();
    assert_eq!((failed.code(), failed.outcome()), ("journal", Outcome::Unknown));
    let BusError::Journal { message_id: Some(id), .. } = &failed else { panic!("{failed}") };
    let items = unread(&mut inbox);
    let [crate::InboxItem::Envelope(got)] = &items[..] else { panic!("{items:?}") };
    assert_eq!(&got.message_id, id);
}

#[tokio::test]
async fn while_the_log_cannot_be_written_nothing_more_is_delivered() {
    let stage = Stage::new();
    let (chief, _coder, mut inbox) = two(&stage).await;
    let dir = blocked(&stage);
    stage.send(&chief, &definition("coder"), "1").await.unwrap_err();
    let refused = stage.send(&chief, &definition("coder"), "2").await.unwrap_err();
    assert_eq!((refused.code(), refused.outcome()), ("journal", Outcome::NotDone));
    fs::remove_file(dir).unwrap();
    stage.send(&chief, &definition("coder"), "3").await.unwrap();
    assert_eq!(texts(&unread(&mut inbox)), ["1", "3"]);
    assert_eq!(stage.envelopes().len(), 1);
}

#[tokio::test]
async fn a_dropped_message_without_a_record_is_not_told_as_recorded() {
    let stage = Stage::new();
    let chief = stage.peer("chief").await;
    blocked(&stage);
    let failed = stage.send(&chief, &definition("coder"), "1").await.unwrap_err();
    assert_eq!((failed.code(), failed.outcome()), ("journal", Outcome::NotDone));
    assert!(failed.to_string().contains("no live instance of definition coder"), "{failed}");
}

#[tokio::test]
async fn losses_that_could_not_be_recorded_are_told_by_the_next_record() {
    let day = Duration::from_secs(86_400);
    let limits = Limits { lease: day * 10, ..Limits::default() };
    let stage = Stage::with(PeerOptions { inbox_max: 1, limits, ..PeerOptions::default() });
    let (chief, _coder, _wedged) = two(&stage).await;
    stage.send(&chief, &definition("coder"), "1").await.unwrap();
    // The next day's file cannot be opened.
    stage.clock.pass(day);
    let path = stage.bus.log_path();
    fs::create_dir(&path).unwrap();
    stage.send(&chief, &definition("coder"), "2").await.unwrap_err();
    fs::remove_dir(&path).unwrap();
    stage.send(&chief, &definition("coder"), "3").await.unwrap();
    stage.send(&chief, &definition("coder"), "4").await.unwrap();
    let told: Vec<_> = stage
        .journal()
        .into_iter()
        .filter_map(|record| match record {
            JournalRecord::Envelope { envelope, losses_unrecorded } => {
                Some((envelope.payload.text().to_owned(), losses_unrecorded))
            }
            JournalRecord::InboxMiss(_) => None,
        })
        .collect();
    let expected = [("1", false), ("3", true), ("4", false)];
    assert_eq!(told, expected.map(|(text, losses)| (text.to_owned(), losses)));
    // Of the three that gave way the loss of the first has no record.
    assert_eq!(stage.misses().iter().map(|miss| miss.missed_total).collect::<Vec<_>>(), [2, 3]);
}

#[tokio::test]
async fn a_second_bus_on_the_same_log_does_not_write_into_it() {
    let stage = Stage::new();
    let (chief, _coder, _inbox) = two(&stage).await;
    stage.send(&chief, &definition("coder"), "1").await.unwrap();
    let options = PeerOptions { clock: stage.clock.clone(), ..PeerOptions::default() };
    let other = Stage { bus: PeerBus::with(stage.logs.path(), options), ..Stage::new() };
    let (theirs, _peer, _theirs) = two(&other).await;
    let failed = other.send(&theirs, &definition("coder"), "2").await.unwrap_err();
    assert!(failed.to_string().contains("written by another process"), "{failed}");
    assert_eq!(records(stage.logs.path()).len(), 1);
}

#[tokio::test]
async fn a_closed_bus_delivers_nothing() {
    let stage = Stage::new();
    let (chief, _coder, mut inbox) = two(&stage).await;
    stage.send(&chief, &definition("coder"), "1").await.unwrap();
    stage.bus.close().await.unwrap();
    let refused = stage.send(&chief, &definition("coder"), "2").await.unwrap_err();
    assert_eq!((refused.code(), refused.outcome()), ("journal", Outcome::NotDone));
    assert_eq!(texts(&unread(&mut inbox)), ["1"]);
}

#[tokio::test]
async fn a_journal_that_waits_for_the_disk_writes_the_same() {
    let stage = Stage::with(PeerOptions { sync: JournalSync::EachBatch, ..PeerOptions::default() });
    let (chief, _coder, _inbox) = two(&stage).await;
    stage.send(&chief, &definition("coder"), "1").await.unwrap();
    assert_eq!(stage.envelopes().len(), 1);
}

#[tokio::test]
async fn a_line_that_comes_when_the_writer_has_ended_waits_for_nobody() {
    for has_begun in [false, true] {
        let stage = Stage::new();
        let journal = Journal::new(stage.logs.path().join("bus"), stage.clock.clone(), OnClose);
        if has_begun {
            journal.begin().unwrap();
        }
        journal.close().await.unwrap();
        let written = journal::wait(journal.write(Lines::default()));
        let late = timeout(Duration::from_secs(30), written).await.expect("it waits for ever");
        assert_eq!(late.unwrap_err().0, "its writer has ended");
    }
}

#[tokio::test]
async fn a_journal_that_was_closed_has_no_room_for_who_began_before() {
    let stage = Stage::new();
    let journal = Journal::new(stage.logs.path().join("bus"), stage.clock.clone(), OnClose);
    journal.begin().unwrap();
    journal.check_room().unwrap();
    journal.seal();
    let refused = journal.check_room().unwrap_err();
    assert_eq!((refused.code(), refused.outcome()), ("journal", Outcome::NotDone));
}

#[tokio::test]
async fn many_bytes_that_wait_for_the_journal_leave_no_room() {
    let stage = Stage::new();
    let journal = Journal::new(stage.logs.path().join("bus"), stage.clock.clone(), OnClose);
    // Its writer has not begun: the disk could as well hang.
    let envelope = bytes::Bytes::from(vec![b'x'; 1024 * 1024]);
    for _ in 0..64 {
        journal.check_room().unwrap();
        drop(journal.write(Lines { envelope: envelope.clone(), ..Lines::default() }));
    }
    assert_eq!(journal.check_room().unwrap_err().code(), "full");
}
