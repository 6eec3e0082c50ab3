//! Latest-value subjects: who comes late sees the newest sample, and only there.

use std::{num::NonZeroUsize, time::Duration};

use bus_core::{Overflow, Subscription};
use bus_subjects::Filter;

use crate::{
    case::{Case, cases},
    check::{CaseResult, Failure, equal},
    context::{A_MOMENT, Context, text},
};

pub(super) const CASES: &[Case] = cases![Nothing:
    a_late_reader_sees_the_newest_sample,
    a_late_reader_sees_one_sample_of_each_subject,
    a_late_reader_of_few_subjects_sees_the_newest_ones,
    a_late_reader_goes_on_with_what_comes_next,
    every_late_reader_sees_the_sample,
    a_late_reader_sees_no_other_subjects,
    a_late_subscriber_that_wants_everything_sees_no_sample,
    an_old_sample_is_no_longer_shown,
];

/// A reader of the newest frames, of up to `subjects` subjects.
async fn reader(context: &Context, filter: Filter, subjects: usize) -> CaseResult<Subscription> {
    let subjects =
        NonZeroUsize::new(subjects).ok_or_else(|| Failure::new("the case asks for no subjects"))?;
    Ok(context.bus.subscribe(filter, Overflow::Latest { subjects }).await?)
}

async fn sample(context: &Context, session: &str, text: &str) -> CaseResult {
    context.publish(&context.subject("events", &format!("{session}.telemetry"))?, text).await
}

/// What waits for the reader, sorted.
async fn seen(
    context: &Context,
    reader: &mut Subscription,
    count: usize,
) -> CaseResult<Vec<String>> {
    let mut seen = Vec::new();
    for _ in 0..count {
        seen.push(text(&context.hear(reader).await?));
    }
    seen.sort();
    context.hears_nothing(reader).await?;
    Ok(seen)
}

async fn a_late_reader_sees_the_newest_sample(context: &Context) -> CaseResult {
    for text in ["old", "older", "newest"] {
        sample(context, "s1", text).await?;
    }
    context.let_arrive().await?;
    let mut late = reader(context, context.filter("events", "s1.telemetry")?, 4).await?;
    equal("sample", seen(context, &mut late, 1).await?, ["newest"])
}

async fn a_late_reader_sees_one_sample_of_each_subject(context: &Context) -> CaseResult {
    for n in 0..3 {
        for session in ["s1", "s2", "s3"] {
            sample(context, session, &format!("{session}-{n}")).await?;
        }
    }
    context.let_arrive().await?;
    let mut all = reader(context, context.filter("events", "*.telemetry")?, 64).await?;
    equal("samples", seen(context, &mut all, 3).await?, ["s1-2", "s2-2", "s3-2"])?;
    let mut one = reader(context, context.filter("events", "s2.telemetry")?, 64).await?;
    equal("sample of one session", seen(context, &mut one, 1).await?, ["s2-2"])
}

async fn a_late_reader_of_few_subjects_sees_the_newest_ones(context: &Context) -> CaseResult {
    for session in ["s1", "s2", "s3", "s4", "s5"] {
        sample(context, session, session).await?;
    }
    context.let_arrive().await?;
    let mut few = reader(context, context.filter("events", "*.telemetry")?, 2).await?;
    // The others were never its frames: they are no gap.
    equal("samples", seen(context, &mut few, 2).await?, ["s4", "s5"])
}

async fn a_late_reader_goes_on_with_what_comes_next(context: &Context) -> CaseResult {
    sample(context, "s1", "before").await?;
    context.let_arrive().await?;
    let mut late = reader(context, context.filter("events", "*.telemetry")?, 4).await?;
    equal("first", seen(context, &mut late, 1).await?, ["before"])?;
    sample(context, "s1", "next").await?;
    sample(context, "s2", "other").await?;
    equal("then", seen(context, &mut late, 2).await?, ["next", "other"])?;
    // A newer one takes the place of the one that was not read yet.
    let mut slow = reader(context, context.filter("events", "s1.telemetry")?, 4).await?;
    sample(context, "s1", "newest").await?;
    context.let_arrive().await?;
    equal("at last", seen(context, &mut slow, 1).await?, ["newest"])
}

async fn every_late_reader_sees_the_sample(context: &Context) -> CaseResult {
    sample(context, "s1", "sample").await?;
    context.let_arrive().await?;
    let other = context.connect("other").await?;
    for bus in [&context.bus, &other, &context.bus] {
        let filter = context.filter("events", "s1.telemetry")?;
        let subjects = NonZeroUsize::MIN;
        let mut late = bus.subscribe(filter, Overflow::Latest { subjects }).await?;
        equal("sample", seen(context, &mut late, 1).await?, ["sample"])?;
    }
    Ok(())
}

async fn a_late_reader_sees_no_other_subjects(context: &Context) -> CaseResult {
    for tail in ["s1.tokens", "s1.terminal", "s1.telemetry.more", "telemetry"] {
        context.publish(&context.subject("events", tail)?, tail).await?;
    }
    context.publish(&context.subject("state", "s1.telemetry")?, "state").await?;
    context.let_arrive().await?;
    for plane in ["events", "state"] {
        let mut late = reader(context, context.filter(plane, ">")?, 64).await?;
        // What was published to make sure of the arrival may not be among it either.
        context.hears_nothing(&mut late).await?;
    }
    Ok(())
}

async fn a_late_subscriber_that_wants_everything_sees_no_sample(context: &Context) -> CaseResult {
    sample(context, "s1", "before").await?;
    context.let_arrive().await?;
    let mut late = context.listen(context.filter("events", "s1.telemetry")?, 4).await?;
    context.hears_nothing(&mut late).await?;
    sample(context, "s1", "after").await?;
    equal("frame", context.hear_text(&mut late).await?, "after")
}

async fn an_old_sample_is_no_longer_shown(context: &Context) -> CaseResult {
    /// How long a sample counts as new.
    const AGE: Duration = Duration::from_secs(10);
    sample(context, "s1", "old").await?;
    context.elapse(AGE / 2 + A_MOMENT).await;
    sample(context, "s2", "new").await?;
    context.elapse(AGE / 2).await;
    let mut late = reader(context, context.filter("events", "*.telemetry")?, 4).await?;
    equal("samples", seen(context, &mut late, 1).await?, ["new"])
}
