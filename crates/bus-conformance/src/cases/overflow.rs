//! Slow subscribers: the oldest frames go, are counted, and nobody else notices.

use std::num::NonZeroUsize;

use bus_core::{FeedItem, Overflow, Retention, Subscription, Verdict};
use bus_subjects::Filter;

use crate::{
    case::{Case, cases},
    check::{CaseResult, Failure, equal},
    context::{Context, frame, text},
};

pub(super) const CASES: &[Case] = cases![Nothing:
    a_full_feed_drops_the_oldest_and_counts_them,
    a_feed_that_is_just_full_misses_nothing,
    a_gap_does_not_end_a_subscription,
    two_gaps_are_counted_separately,
    what_was_heard_and_missed_adds_up,
    a_slow_subscriber_never_slows_the_publisher,
    a_slow_subscriber_never_slows_its_siblings,
    coming_and_going_in_a_burst_disturbs_nobody,
    a_sleeping_reader_of_a_stream_misses_nothing,
    latest_keeps_the_newest_of_a_subject_without_a_gap,
    latest_keeps_one_of_each_subject,
    latest_beyond_its_subjects_drops_the_oldest_with_a_gap,
    latest_goes_on_after_it_was_read,
];

async fn publish_numbers(context: &Context, numbers: std::ops::Range<u32>) -> CaseResult {
    let subject = context.subject("events", "s1.tokens")?;
    for n in numbers {
        context.publish(&subject, &n.to_string()).await?;
    }
    context.let_arrive().await
}

async fn hears_numbers(
    context: &Context,
    subscription: &mut Subscription,
    numbers: std::ops::Range<u32>,
) -> CaseResult {
    for n in numbers {
        equal("frame", context.hear_text(subscription).await?, n.to_string())?;
    }
    Ok(())
}

async fn slow(context: &Context, capacity: usize) -> CaseResult<Subscription> {
    context.listen(&context.subject("events", "s1.tokens")?, capacity).await
}

async fn latest(context: &Context, filter: Filter, subjects: usize) -> CaseResult<Subscription> {
    let subjects =
        NonZeroUsize::new(subjects).ok_or_else(|| Failure::new("the case asks for no subjects"))?;
    Ok(context.bus.subscribe(filter, Overflow::Latest { subjects }).await?)
}

async fn a_full_feed_drops_the_oldest_and_counts_them(context: &Context) -> CaseResult {
    let mut subscription = slow(context, 4).await?;
    publish_numbers(context, 0..10).await?;
    equal("frames missed", context.hear_gap(&mut subscription).await?, 6)?;
    hears_numbers(context, &mut subscription, 6..10).await?;
    context.hears_nothing(&mut subscription).await
}

async fn a_feed_that_is_just_full_misses_nothing(context: &Context) -> CaseResult {
    let mut subscription = slow(context, 4).await?;
    publish_numbers(context, 0..4).await?;
    hears_numbers(context, &mut subscription, 0..4).await?;
    context.hears_nothing(&mut subscription).await
}

async fn a_gap_does_not_end_a_subscription(context: &Context) -> CaseResult {
    let mut subscription = slow(context, 64).await?;
    publish_numbers(context, 0..1000).await?;
    equal("frames missed", context.hear_gap(&mut subscription).await?, 936)?;
    hears_numbers(context, &mut subscription, 936..1000).await?;
    publish_numbers(context, 1000..1010).await?;
    hears_numbers(context, &mut subscription, 1000..1010).await
}

async fn two_gaps_are_counted_separately(context: &Context) -> CaseResult {
    let mut subscription = slow(context, 2).await?;
    publish_numbers(context, 0..5).await?;
    equal("first gap", context.hear_gap(&mut subscription).await?, 3)?;
    hears_numbers(context, &mut subscription, 3..5).await?;
    publish_numbers(context, 5..9).await?;
    equal("second gap", context.hear_gap(&mut subscription).await?, 2)?;
    hears_numbers(context, &mut subscription, 7..9).await
}

async fn what_was_heard_and_missed_adds_up(context: &Context) -> CaseResult {
    let mut subscription = slow(context, 8).await?;
    let (mut next, mut published) = (0_u64, 0_u32);
    // Bursts below, at and above the capacity, read in part and in full.
    for (burst, reads) in [(5, 2), (8, 3), (20, 1), (1, 4), (9, 9), (30, 2), (8, 100)] {
        publish_numbers(context, published..published + burst).await?;
        published += burst;
        for _ in 0..reads {
            if next == u64::from(published) {
                break;
            }
            match context.hear_item(&mut subscription).await? {
                FeedItem::Gap { missed } => next += missed,
                FeedItem::Frame(frame) => {
                    equal(
                        "the frame after what was heard and missed",
                        text(&frame),
                        next.to_string(),
                    )?;
                    next += 1;
                }
            }
        }
    }
    equal("heard and missed together", next, u64::from(published))?;
    context.hears_nothing(&mut subscription).await
}

async fn a_slow_subscriber_never_slows_the_publisher(context: &Context) -> CaseResult {
    let subject = context.subject("events", "s1.tokens")?;
    let mut sleeping = context.listen(&subject, 1).await?;
    let publishing = async {
        for n in 0..2000 {
            context.publish(&subject, &n.to_string()).await?;
        }
        CaseResult::Ok(())
    };
    context.wait("the publisher", publishing).await??;
    context.let_arrive().await?;
    equal("frames missed", context.hear_gap(&mut sleeping).await?, 1999)
}

async fn a_slow_subscriber_never_slows_its_siblings(context: &Context) -> CaseResult {
    let mut sleeping = slow(context, 1).await?;
    let mut awake = slow(context, 8).await?;
    for n in 0..200 {
        publish_numbers(context, n..n + 1).await?;
        hears_numbers(context, &mut awake, n..n + 1).await?;
    }
    equal("frames missed", context.hear_gap(&mut sleeping).await?, 199)
}

async fn coming_and_going_in_a_burst_disturbs_nobody(context: &Context) -> CaseResult {
    let mut stays = slow(context, 64).await?;
    for n in 0..200 {
        let mut passing = slow(context, 2).await?;
        publish_numbers(context, n * 5..n * 5 + 5).await?;
        equal("frames missed in passing", context.hear_gap(&mut passing).await?, 3)?;
        hears_numbers(context, &mut passing, n * 5 + 3..n * 5 + 5).await?;
        drop(passing);
        hears_numbers(context, &mut stays, n * 5..n * 5 + 5).await?;
    }
    context.hears_nothing(&mut stays).await
}

async fn a_sleeping_reader_of_a_stream_misses_nothing(context: &Context) -> CaseResult {
    /// More than any feed of these cases holds.
    const MANY: usize = 300;
    let stream = context.stream("APPROVALS", "approvals", Retention::Kept).await?;
    let subject = context.subject("approvals", "s1.request")?;
    let mut spec = context.consumer(&stream, "reader")?;
    spec.filter = Filter::from(&subject);
    let mut reader = context.bus.consume(spec).await?;
    // One batch, because a round trip for each of them takes long on a network.
    let requests: CaseResult<Vec<_>> = (0..MANY).map(|n| frame(&subject, &n.to_string())).collect();
    context.bus.append_all(requests?).await?;
    for n in 0..MANY {
        let request = context.claims(&mut reader, (&n.to_string(), 1)).await?;
        request.settle(Verdict::Ack).await?;
    }
    equal("pending", context.state_of(&stream, "reader").await?.lag.pending, 0)
}

async fn latest_keeps_the_newest_of_a_subject_without_a_gap(context: &Context) -> CaseResult {
    let filter = context.filter("events", "s1.tokens")?;
    let mut subscription = latest(context, filter, 4).await?;
    publish_numbers(context, 0..100).await?;
    hears_numbers(context, &mut subscription, 99..100).await?;
    context.hears_nothing(&mut subscription).await
}

async fn latest_keeps_one_of_each_subject(context: &Context) -> CaseResult {
    let mut subscription = latest(context, context.filter("events", "*.telemetry")?, 64).await?;
    for n in 0..3 {
        for session in 0..50 {
            let subject = context.subject("events", &format!("s{session}.telemetry"))?;
            context.publish(&subject, &format!("{session}-{n}")).await?;
        }
    }
    context.let_arrive().await?;
    let mut heard = Vec::new();
    for _ in 0..50 {
        heard.push(context.hear_text(&mut subscription).await?);
    }
    let mut expected: Vec<_> = (0..50).map(|session| format!("{session}-2")).collect();
    heard.sort();
    expected.sort();
    equal("newest of each subject", heard, expected)?;
    context.hears_nothing(&mut subscription).await
}

async fn latest_beyond_its_subjects_drops_the_oldest_with_a_gap(context: &Context) -> CaseResult {
    let mut subscription = latest(context, context.filter("events", "*.telemetry")?, 2).await?;
    for session in ["s1", "s2", "s3"] {
        let subject = context.subject("events", &format!("{session}.telemetry"))?;
        context.publish(&subject, session).await?;
    }
    context.let_arrive().await?;
    equal("frames missed", context.hear_gap(&mut subscription).await?, 1)?;
    equal("frame", context.hear_text(&mut subscription).await?, "s2")?;
    equal("frame", context.hear_text(&mut subscription).await?, "s3")
}

async fn latest_goes_on_after_it_was_read(context: &Context) -> CaseResult {
    let filter = context.filter("events", "s1.tokens")?;
    let mut subscription = latest(context, filter, 1).await?;
    for end in [10, 20, 30] {
        publish_numbers(context, end - 10..end).await?;
        hears_numbers(context, &mut subscription, end - 1..end).await?;
        context.hears_nothing(&mut subscription).await?;
    }
    Ok(())
}
