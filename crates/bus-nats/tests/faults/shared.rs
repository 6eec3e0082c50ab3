//! Two engines, as of two processes, use the same names.

use std::collections::BTreeSet;

use bus_core::{Bus, ErrorKind, Expect, Outcome, Seq};
use bus_nats::NatsBus;
use bus_subjects::Subject;
use tokio::task::JoinSet;

use crate::{
    scale::Scale,
    stage::{Stage, bounded, frame, kept, stored},
};

/// A chain has one line of records, however many write it.
pub(crate) async fn two_engines_that_append_to_one_head_never_both_win(scale: Scale) -> String {
    let stage = Stage::new().await;
    stage.bus.declare(kept()).await.unwrap();
    let each = scale.pick(100, 3_000);
    let mut writers = JoinSet::new();
    for writer in 0..2 {
        writers.spawn(append_on_head(stage.another().await, writer, each));
    }
    let (mut lost, mut won) = (0, BTreeSet::new());
    while let Some(wrote) = writers.join_next().await {
        let (heads, losses) = wrote.unwrap();
        lost += losses;
        for head in heads {
            assert!(won.insert(head), "two records follow {head}");
        }
    }
    assert_eq!(stored(&stage.bus).await.len() as u64, 2 * each);
    assert_eq!(won, (0..2 * each).collect());
    format!("{} records in one line; {lost} attempts lost and were told", 2 * each)
}

/// Appends `each` records to the newest head, and returns the heads with the number of losses.
async fn append_on_head(bus: NatsBus, writer: u64, each: u64) -> (Vec<u64>, u64) {
    let subject = Subject::parse("work.chain").unwrap();
    let (mut heads, mut losses, mut head) = (Vec::new(), 0, 0);
    while (heads.len() as u64) < each {
        let record = frame("work.chain", &format!("w{writer}-{}", heads.len()));
        match bus.append(record, Expect::LastOfSubject(Seq(head))).await {
            Ok(receipt) => {
                assert!(!receipt.duplicate, "it was sent once");
                heads.push(head);
                head = receipt.seq.0;
            }
            Err(error) => {
                let told = (error.kind(), error.outcome());
                assert_eq!(told, (ErrorKind::Conflict, Outcome::NotDone), "{error:?}");
                losses += 1;
                head = bus.last(subject.clone()).await.unwrap().map_or(0, |last| last.seq.0);
            }
        }
    }
    (heads, losses)
}

pub(crate) async fn two_engines_that_declare_one_name_agree_or_are_told(scale: Scale) -> String {
    let rounds = scale.pick(2, 20);
    for _ in 0..rounds {
        let stage = Stage::new().await;
        let (one, other) = (stage.another().await, stage.another().await);
        let (first, second) = tokio::join!(one.declare(bounded(7)), other.declare(bounded(8)));
        assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
        let error = first.and(second).unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Conflict, Outcome::NotDone));
        assert!(error.detail().contains("max_msgs"), "{error}");
    }
    format!("{rounds} pairs at once; one was in force, the other was told what differs")
}
