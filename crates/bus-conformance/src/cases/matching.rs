//! Which filter hears which subject, by the rules of the NATS protocol.

use crate::{
    case::{Case, cases},
    check::{CaseResult, equal},
    context::Context,
};

pub(super) const CASES: &[Case] = cases![Nothing:
    a_filter_hears_exactly_the_subjects_it_matches,
    a_subject_is_compared_with_regard_to_case,
];

/// Filter, subject, whether the one hears the other; all below a prefix of the case's own.
const PAIRS: &[(&str, &str, bool)] = &[
    ("a", "a", true),
    ("a", "b", false),
    ("a", "ab", false),
    ("a", "a.b", false),
    ("a.b", "a", false),
    ("a.b", "a.b", true),
    ("a.b", "a.b.c", false),
    ("*", "a", true),
    ("*", "a.b", false),
    ("*.b", "a.b", true),
    ("*.b", "b", false),
    ("*.b", "a.c", false),
    ("a.*", "a", false),
    ("a.*", "a.b", true),
    ("a.*", "a.b.c", false),
    ("a.*.c", "a.b.c", true),
    ("a.*.c", "a.c", false),
    ("*.*", "a.b", true),
    ("*.*", "a", false),
    ("*.*", "a.b.c", false),
    (">", "a", true),
    (">", "a.b.c", true),
    ("a.>", "a", false),
    ("a.>", "a.b", true),
    ("a.>", "a.b.c.d", true),
    ("a.>", "b.a", false),
    ("*.>", "a", false),
    ("*.>", "a.b", true),
    ("*.b.>", "a.b.c", true),
    ("*.b.>", "a.b", false),
    ("a*", "ab", false),
    ("a*", "a*", true),
    ("a.>x", "a.b", false),
    ("a.>x", "a.>x", true),
];

async fn a_filter_hears_exactly_the_subjects_it_matches(context: &Context) -> CaseResult {
    for (number, (filter, subject, is_heard)) in PAIRS.iter().enumerate() {
        let below = |tail: &str| format!("p{number}.{tail}");
        let mut subscription = context.listen(context.filter("events", &below(filter))?, 4).await?;
        let mut end = context.listen(&context.subject("events", "end.tokens")?, 1).await?;
        context.publish(&context.subject("events", &below(subject))?, "pair").await?;
        context.publish(&context.subject("events", "end.tokens")?, "end").await?;
        context.hear(&mut end).await?;
        let what = format!("{filter} hears {subject}");
        if *is_heard {
            equal(&what, context.hear_text(&mut subscription).await?, "pair")?;
        } else {
            context.nothing(&what, subscription.next()).await?;
        }
    }
    Ok(())
}

async fn a_subject_is_compared_with_regard_to_case(context: &Context) -> CaseResult {
    let mut subscription = context.listen(&context.subject("events", "s1.tokens")?, 4).await?;
    context.publish(&context.subject("events", "S1.tokens")?, "other").await?;
    context.let_arrive().await?;
    context.hears_nothing(&mut subscription).await
}
