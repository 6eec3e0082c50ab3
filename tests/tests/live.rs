//! C16: a slow subscriber loses the oldest, is told so, stays, and slows nobody down.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::num::NonZeroUsize;

use bus_core::{Endpoint, ErrorKind, EventFeed, Incoming, Overflow};
use bus_envelope::{ChainScope, ChainVerdict, ChainVerifier, Draft, MessageEnvelope, WireForm};
use bus_stories::{Fault, Op, Stage};
use bus_subjects::{Filter, Role};

async fn listen(stage: &Stage, name: &str, capacity: usize) -> EventFeed {
    let viewer = stage.agent(name, Role::Observer).unwrap();
    let overflow = Overflow::DropOldest { capacity: NonZeroUsize::new(capacity).unwrap() };
    viewer.subscribe(Filter::parse("vak.events.w1.s1.>").unwrap(), overflow).await.unwrap()
}

async fn publish(stage: &Stage, worker: &Endpoint, texts: std::ops::RangeInclusive<u32>) {
    for n in texts {
        let draft = Draft::new(stage.tokens().subject(), "vak.token", n.to_string());
        worker.publish(draft).await.unwrap();
    }
}

/// One item of a feed, in short.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Text(u32),
    Gap(u64),
}

async fn hear(feed: &mut EventFeed) -> (Heard, Option<MessageEnvelope>) {
    match feed.next().await.unwrap() {
        Incoming::Message(opened) => {
            let text = std::str::from_utf8(&opened.payload).unwrap();
            (Heard::Text(text.parse().unwrap()), Some(opened.envelope))
        }
        Incoming::Gap { missed } => (Heard::Gap(missed), None),
        Incoming::Checkpoint(checkpoint) => unreachable!("they are off: {checkpoint:?}"),
        Incoming::Refused(error) => unreachable!("refused: {error}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_subscriber_is_told_its_gap_and_then_hears_on() {
    let stage = Stage::new().await.unwrap();
    let worker = stage.agent("coder-1", Role::Worker).unwrap();
    let mut slow = listen(&stage, "slow", 4).await;
    publish(&stage, &worker, 1..=10).await;

    let mut heard = Vec::new();
    for _ in 0..5 {
        heard.push(hear(&mut slow).await.0);
    }
    let expected = [Heard::Gap(6), Heard::Text(7), Heard::Text(8), Heard::Text(9), Heard::Text(10)];
    assert_eq!(heard, expected);

    publish(&stage, &worker, 11..=12).await;
    assert_eq!(hear(&mut slow).await.0, Heard::Text(11));
    assert_eq!(hear(&mut slow).await.0, Heard::Text(12));
}

#[tokio::test(start_paused = true)]
async fn every_gap_is_told_and_the_numbers_add_up() {
    let stage = Stage::new().await.unwrap();
    let worker = stage.agent("coder-1", Role::Worker).unwrap();
    let mut slow = listen(&stage, "slow", 8).await;
    let (mut texts, mut missed) = (0, 0);
    for round in 0..50 {
        publish(&stage, &worker, round * 20 + 1..=round * 20 + 20).await;
        for _ in 0..5 {
            match hear(&mut slow).await.0 {
                Heard::Text(_) => texts += 1,
                Heard::Gap(gap) => missed += gap,
            }
        }
    }
    loop {
        match hear(&mut slow).await.0 {
            Heard::Text(n) => {
                texts += 1;
                if n == 1000 {
                    break;
                }
            }
            Heard::Gap(gap) => missed += gap,
        }
    }
    assert_eq!(texts + missed, 1000);
    assert!(missed > 0);
}

#[tokio::test(start_paused = true)]
async fn to_the_chain_a_gap_is_a_gap_and_no_forgery() {
    let stage = Stage::new().await.unwrap();
    let worker = stage.agent("coder-1", Role::Worker).unwrap();
    let mut slow = listen(&stage, "slow", 4).await;
    publish(&stage, &worker, 1..=2).await;
    let (_, first) = hear(&mut slow).await;
    let first = first.unwrap();
    let window = NonZeroUsize::new(64).unwrap();
    let mut chain = ChainVerifier::new(ChainScope::incarnation_of(&first), window);
    let mut verdicts = vec![chain.feed(&first)];

    publish(&stage, &worker, 3..=12).await;
    for _ in 0..5 {
        if let (_, Some(envelope)) = hear(&mut slow).await {
            verdicts.push(chain.feed(&envelope));
        }
    }

    use ChainVerdict::{Gap, Linked};
    assert_eq!(verdicts, [Linked, Gap { missed: 7 }, Linked, Linked, Linked]);
    let found = chain.summary();
    assert_eq!((found.missed, found.forks, found.altered, found.foreign), (7, 0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn live_events_of_every_wire_form_open_and_make_a_chain() {
    for wire in [WireForm::Binary, WireForm::Json, WireForm::Compact] {
        let stage = Stage::new().await.unwrap();
        let mut parts = stage.parts(stage.certified("coder-1", Role::Worker).unwrap());
        parts.wire = wire;
        let worker = Endpoint::new(parts).unwrap();
        let mut feed = listen(&stage, "viewer", 4).await;
        publish(&stage, &worker, 1..=3).await;

        let (mut verdicts, mut chain) = (Vec::new(), None);
        for n in 1..=3 {
            let (heard, envelope) = hear(&mut feed).await;
            assert_eq!(heard, Heard::Text(n), "{wire:?}");
            let (envelope, window) = (envelope.unwrap(), NonZeroUsize::MIN);
            let scope = ChainScope::incarnation_of(&envelope);
            let chain = chain.get_or_insert_with(|| ChainVerifier::new(scope, window));
            verdicts.push(chain.feed(&envelope));
        }
        assert_eq!(verdicts, [ChainVerdict::Linked; 3], "{wire:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_subscriber_costs_its_sibling_and_the_publisher_nothing() {
    let stage = Stage::new().await.unwrap();
    let worker = stage.agent("coder-1", Role::Worker).unwrap();
    let mut slow = listen(&stage, "slow", 1).await;
    let mut quick = listen(&stage, "quick", 4096).await;
    let start = tokio::time::Instant::now();
    publish(&stage, &worker, 1..=2000).await;
    assert!(start.elapsed().is_zero(), "the publisher waited");

    for n in 1..=2000 {
        assert_eq!(hear(&mut quick).await.0, Heard::Text(n));
    }
    assert_eq!(hear(&mut slow).await.0, Heard::Gap(1999));
    assert_eq!(hear(&mut slow).await.0, Heard::Text(2000));
}

#[tokio::test(start_paused = true)]
async fn a_forged_live_event_is_an_item_and_not_the_end() {
    let stage = Stage::new().await.unwrap();
    let worker = stage.agent("coder-1", Role::Worker).unwrap();
    let mut feed = listen(&stage, "viewer", 64).await;
    let id = bus_core::FrameId::parse("x").unwrap();
    let forged = bus_core::Frame::new(stage.tokens().subject(), id, "not an envelope");
    stage.engine.publish(forged).await.unwrap();
    publish(&stage, &worker, 1..=1).await;

    let Some(Incoming::Refused(error)) = feed.next().await else { panic!("it was let through") };
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert_eq!(hear(&mut feed).await.0, Heard::Text(1));
}

#[tokio::test(start_paused = true)]
async fn a_live_event_that_was_certainly_not_sent_leaves_no_gap() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let worker = stage.agent("coder-1", Role::Worker).unwrap();
    let mut feed = listen(&stage, "viewer", 64).await;
    flaky.fail(Op::Publish, "vak.events.", Fault::Refused(ErrorKind::Unavailable), 1);
    let draft = Draft::new(stage.tokens().subject(), "vak.token", "0");
    worker.publish(draft).await.unwrap_err();
    publish(&stage, &worker, 1..=1).await;
    let (_, envelope) = hear(&mut feed).await;
    assert_eq!(envelope.unwrap().lineage.seq_num, 1);
}

#[tokio::test(start_paused = true)]
async fn a_live_event_that_may_have_been_heard_gets_no_twin() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let worker = stage.agent("coder-1", Role::Worker).unwrap();
    let mut feed = listen(&stage, "viewer", 64).await;
    flaky.fail(Op::Publish, "vak.events.", Fault::LostAfter, 1);
    let draft = Draft::new(stage.tokens().subject(), "vak.token", "0");
    worker.publish(draft).await.unwrap_err();
    publish(&stage, &worker, 1..=1).await;

    let numbers =
        [hear(&mut feed).await.1, hear(&mut feed).await.1].map(|e| e.unwrap().lineage.seq_num);
    assert_eq!(numbers, [1, 2]);
}
