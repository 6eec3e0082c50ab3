//! One life after another: what was safe is there, what was not never was.

use bus_conformance::{CaseOutcome, ModelTest, Suite};
use bus_core::{Seq, Verdict};
use bus_mem::{PictureCursor, journal::Statement};

use super::*;
use crate::journaled::Journaled;

#[test]
fn a_restart_keeps_what_the_suite_wants() {
    let suite = Suite::new(|| Journaled::promising(Durability::Synced));
    // Blobs are kept by whoever keeps the journal.
    let is_ours = |case: &str| case.starts_with("a_restart_") && case != "a_restart_keeps_blobs";
    let reports = suite.outcomes(is_ours);
    assert_eq!(reports.len(), 8);
    let outcomes: Vec<_> = reports.iter().map(|report| &report.outcome).collect();
    assert_eq!(outcomes, [&CaseOutcome::Passed; 8], "{reports:?}");
}

#[test]
fn random_operations_are_answered_as_the_model_says() {
    for test in (1..=40).map(|seed| ModelTest::new(seed, 300)) {
        let failure = test.run(|| Journaled::promising(Durability::Memory)).err();
        assert!(failure.is_none(), "{failure:?}");
    }
}

#[tokio::test]
async fn what_was_not_safe_never_was() {
    let (bus, journal) = queue().await;
    append(&bus, &journal, "safe").await;
    drop(bus.append(task("unsafe"), Expect::Any));
    let (bus, journal) = next_life(&journal);
    assert_eq!(bus.lag(stream()).await.unwrap().pending, 1);
    assert_eq!(append(&bus, &journal, "unsafe").await.seq, Seq(2));
}

#[tokio::test]
async fn an_id_is_known_in_the_next_life() {
    let (bus, journal) = queue().await;
    let mut member = member(&bus, &journal).await;
    append(&bus, &journal, "t").await;
    let delivery = member.next().await.unwrap().unwrap();
    let mut settled = Box::pin(delivery.settle(Verdict::Ack));
    assert!(poll(&mut settled).is_pending());
    journal.settle();
    let (bus, _journal) = next_life(&journal);
    assert!(bus.append(task("t"), Expect::Any).await.unwrap().duplicate);
}

#[tokio::test]
async fn a_lease_that_was_lost_is_not_settled_by_its_old_token() {
    let (bus, journal) = queue().await;
    let mut first = member(&bus, &journal).await;
    append(&bus, &journal, "t").await;
    let (claimed, kept) = (first.next().await.unwrap().unwrap(), journal.safe_changes());
    assert!(claimed.attempt == 1 && kept.len() < journal.changes().len(), "it is not safe");
    let (bus, journal) = next_life(&journal);
    let mut second = member(&bus, &journal).await;
    let again = second.next().await.unwrap().unwrap();
    assert_eq!(again.attempt, 1);
    let tokens = journal.changes().into_iter().filter_map(|change| match change {
        Statement::Leased { token, .. } => Some(token),
        _ => None,
    });
    assert_eq!(tokens.collect::<Vec<_>>(), [(2 << 40) + 1]);
}

#[tokio::test]
async fn a_picture_and_the_changes_since_make_the_next_life() {
    let (bus, journal) = queue().await;
    append(&bus, &journal, "1").await;
    let begun = journal.changes().len();
    let (mut cursor, mut statements) = (PictureCursor::default(), Vec::new());
    while bus.picture(&mut cursor, &mut statements) {}
    append(&bus, &journal, "2").await;
    statements.extend(journal.changes().split_off(begun));
    let next = MemoryJournal::holding(statements, Durability::Synced);
    let bus = of(&next, 2);
    assert_eq!(bus.lag(stream()).await.unwrap().pending, 2);
    let mut member = member(&bus, &next).await;
    assert_eq!(claim(&mut member).as_deref(), Some("1"));
    assert_eq!(claim(&mut member).as_deref(), Some("2"));
}
