//! Who follows a stream sees each record once, and finds its end without reading it.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use bus_core::{Endpoint, Follow, Seq, planes};
use bus_stories::{Stage, task};
use bus_subjects::{Filter, Role};
use proptest::prelude::*;

/// Follows the stage's tasks from `from` on.
fn follow(stage: &Stage, reader: &Endpoint, from: Seq) -> Follow {
    let stream = planes::work_stream(&stage.workspace).unwrap();
    Follow::new(reader.clone(), stream, Filter::from(&stage.tasks().subject()), from)
}

/// A stage whose queue holds `count` tasks, and who may read them.
async fn filled(count: usize) -> (Stage, Endpoint, Endpoint) {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let reader = stage.agent("reader", Role::Operator).unwrap();
    for number in 0..count {
        boss.send(task(&stage, &number.to_string())).await.unwrap();
    }
    (stage, boss, reader)
}

async fn seen(follow: &mut Follow) -> Vec<u64> {
    let mut seen = Vec::new();
    follow.look(|stored| seen.push(stored.seq.0)).await.unwrap();
    seen
}

#[tokio::test(start_paused = true)]
async fn each_record_is_seen_once_and_in_order() {
    let (stage, boss, reader) = filled(3).await;
    let mut follow = follow(&stage, &reader, Seq(1));

    assert_eq!(seen(&mut follow).await, [1, 2, 3]);
    assert!(seen(&mut follow).await.is_empty());
    boss.send(task(&stage, "one more")).await.unwrap();
    assert_eq!(seen(&mut follow).await, [4]);
    assert_eq!(follow.position(), Seq(5));
}

#[tokio::test(start_paused = true)]
async fn who_begins_at_the_end_sees_what_comes_after_it() {
    let (stage, boss, reader) = filled(37).await;
    let stream = planes::work_stream(&stage.workspace).unwrap();
    let filter = Filter::from(&stage.tasks().subject());
    let mut follow = Follow::at_end(reader, stream, filter).await.unwrap();

    boss.send(task(&stage, "one more")).await.unwrap();

    assert_eq!(seen(&mut follow).await, [38]);
}

#[tokio::test(start_paused = true)]
async fn who_may_not_read_follows_nothing() {
    let (stage, _boss, _reader) = filled(1).await;
    let stranger = stage.agent("ann", Role::Observer).unwrap();

    let error = follow(&stage, &stranger, Seq(1)).look(drop).await.unwrap_err();

    assert_eq!(error.kind(), bus_core::ErrorKind::Denied);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_end_is_found_whatever_was_kept(count in 0_usize..70) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let end = runtime.block_on(async {
            let (stage, _boss, reader) = filled(count).await;
            let stream = planes::work_stream(&stage.workspace).unwrap();
            let filter = Filter::from(&stage.tasks().subject());
            Follow::at_end(reader, stream, filter).await.unwrap().position()
        });
        prop_assert_eq!(end, Seq(u64::try_from(count).unwrap() + 1));
    }
}
