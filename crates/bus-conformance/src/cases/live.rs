//! The live plane: who hears what, in which order, and unchanged.

use std::time::Duration;

use bus_core::{ErrorKind, Frame, FrameId};

use crate::{
    case::{Case, cases},
    check::{CaseResult, equal, refused},
    context::{A_MOMENT, Context, frame, text},
};

pub(super) const CASES: &[Case] = cases![Nothing:
    every_subscriber_hears_every_frame,
    live_order_is_kept_per_subject,
    live_order_is_kept_per_publisher,
    a_frame_published_after_subscribe_returned_is_heard,
    a_publisher_hears_itself,
    overlapping_subscriptions_each_hear_a_frame_once,
    a_late_subscriber_hears_nothing_old,
    a_dropped_subscription_no_longer_listens,
    a_frame_arrives_unchanged,
    an_empty_body_arrives_empty,
    the_largest_frame_arrives,
    a_frame_that_is_too_large_is_refused_and_not_heard,
];

async fn every_subscriber_hears_every_frame(context: &Context) -> CaseResult {
    let subject = context.subject("events", "s1.tokens")?;
    let mut subscriptions = Vec::new();
    for _ in 0..5 {
        subscriptions.push(context.listen(&subject, 64).await?);
    }
    for n in 0..20 {
        context.publish(&subject, &format!("f{n}")).await?;
    }
    for (listener, subscription) in subscriptions.iter_mut().enumerate() {
        for n in 0..20 {
            let heard = context.hear_text(subscription).await?;
            equal(&format!("frame {n} at subscriber {listener}"), heard, format!("f{n}"))?;
        }
        context.hears_nothing(subscription).await?;
    }
    Ok(())
}

async fn live_order_is_kept_per_subject(context: &Context) -> CaseResult {
    let one = context.subject("events", "s1.tokens")?;
    let two = context.subject("events", "s2.tokens")?;
    let mut both = context.listen(context.filter("events", "*.tokens")?, 256).await?;
    for n in 0..50 {
        context.publish(&one, &format!("{n}")).await?;
        context.publish(&two, &format!("{n}")).await?;
    }
    let (mut of_one, mut of_two) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        let frame = context.hear(&mut both).await?;
        if frame.subject == one { &mut of_one } else { &mut of_two }.push(text(&frame));
    }
    let expected: Vec<_> = (0..50).map(|n| n.to_string()).collect();
    equal("order of the first subject", &of_one, &expected)?;
    equal("order of the second subject", &of_two, &expected)
}

async fn live_order_is_kept_per_publisher(context: &Context) -> CaseResult {
    let subject = context.subject("events", "s1.tokens")?;
    let other = context.connect("other").await?;
    let mut subscription = context.listen(&subject, 256).await?;
    for n in 0..50 {
        context.publish(&subject, &format!("main-{n}")).await?;
        other.publish(frame(&subject, &format!("other-{n}"))?).await?;
    }
    let mut heard = Vec::new();
    for _ in 0..100 {
        heard.push(context.hear_text(&mut subscription).await?);
    }
    for publisher in ["main", "other"] {
        let of_one: Vec<_> = heard.iter().filter(|text| text.starts_with(publisher)).collect();
        let expected: Vec<_> = (0..50).map(|n| format!("{publisher}-{n}")).collect();
        equal(&format!("order of {publisher}"), of_one, expected.iter().collect::<Vec<_>>())?;
    }
    Ok(())
}

async fn a_frame_published_after_subscribe_returned_is_heard(context: &Context) -> CaseResult {
    let other = context.connect("other").await?;
    for round in 0..50 {
        let subject = context.subject("events", &format!("s{round}.tokens"))?;
        let mut subscription = context.listen(&subject, 4).await?;
        other.publish(frame(&subject, "at-once")?).await?;
        let heard = context.hear_text(&mut subscription).await?;
        equal(&format!("round {round}"), heard, "at-once")?;
    }
    Ok(())
}

async fn a_publisher_hears_itself(context: &Context) -> CaseResult {
    let subject = context.subject("events", "s1.tokens")?;
    let mut subscription = context.listen(&subject, 4).await?;
    context.publish(&subject, "mine").await?;
    equal("frame", context.hear_text(&mut subscription).await?, "mine")
}

async fn overlapping_subscriptions_each_hear_a_frame_once(context: &Context) -> CaseResult {
    let subject = context.subject("events", "s1.tokens")?;
    let mut narrow = context.listen(&subject, 4).await?;
    let mut wide = context.listen(context.filter("events", ">")?, 4).await?;
    context.publish(&subject, "once").await?;
    for subscription in [&mut narrow, &mut wide] {
        equal("frame", context.hear_text(subscription).await?, "once")?;
        context.hears_nothing(subscription).await?;
    }
    Ok(())
}

async fn a_late_subscriber_hears_nothing_old(context: &Context) -> CaseResult {
    let subject = context.subject("events", "s1.tokens")?;
    context.publish(&subject, "old").await?;
    context.let_arrive().await?;
    let mut late = context.listen(&subject, 4).await?;
    context.hears_nothing(&mut late).await?;
    context.publish(&subject, "new").await?;
    equal("first frame heard", context.hear_text(&mut late).await?, "new")
}

async fn a_dropped_subscription_no_longer_listens(context: &Context) -> CaseResult {
    let subject = context.subject("call", "m1.ping")?;
    drop(context.listen(&subject, 4).await?);
    // An engine may learn of the drop a little later; it must learn of it.
    for _ in 0..10 {
        let asked = context.bus.request(frame(&subject, "q")?, A_MOMENT).await;
        match asked {
            Err(error) if error.kind() == ErrorKind::NoRecipient => return Ok(()),
            _ => context.elapse(Duration::from_millis(100)).await,
        }
    }
    let asked = context.bus.request(frame(&subject, "q")?, A_MOMENT).await;
    refused("a request that only a dropped subscription heard", asked, ErrorKind::NoRecipient)
}

async fn a_frame_arrives_unchanged(context: &Context) -> CaseResult {
    let subject = context.subject("events", "s1.terminal")?;
    let mut subscription = context.listen(&subject, 4).await?;
    let every_byte: Vec<u8> = (0..=u8::MAX).chain([0, b'\r', b'\n', 0xff]).collect();
    let id = FrameId::parse("!id:with/every~kind.of=sign*>")?;
    let mut sent = Frame::new(subject, id, every_byte);
    sent.reply = Some(context.subject("call", "m1.answer")?);
    for (name, value) in [
        ("ce-id", "4711"),
        ("Nats-Like", "a: b, c"),
        ("repeated", "first"),
        ("repeated", "second"),
        ("text", "Gr\u{fc}\u{df}e, \u{4f60}\u{597d}"),
    ] {
        sent.headers.add(name, value).map_err(bus_core::Error::from)?;
    }
    context.bus.publish(sent.clone()).await?;
    equal("frame", context.hear(&mut subscription).await?, sent)
}

async fn an_empty_body_arrives_empty(context: &Context) -> CaseResult {
    let subject = context.subject("events", "s1.terminal")?;
    let mut subscription = context.listen(&subject, 4).await?;
    let sent = Frame::new(subject, FrameId::parse("empty")?, Vec::new());
    context.bus.publish(sent.clone()).await?;
    equal("frame", context.hear(&mut subscription).await?, sent)
}

async fn the_largest_frame_arrives(context: &Context) -> CaseResult {
    let subject = context.subject("events", "s1.terminal")?;
    let mut subscription = context.listen(&subject, 4).await?;
    let body = vec![7; Frame::BYTES_MAX];
    context.bus.publish(Frame::new(subject, FrameId::parse("largest")?, body)).await?;
    let heard = context.hear(&mut subscription).await?;
    equal("bytes of the frame", heard.bytes(), Frame::BYTES_MAX)
}

async fn a_frame_that_is_too_large_is_refused_and_not_heard(context: &Context) -> CaseResult {
    let subject = context.subject("events", "s1.terminal")?;
    let mut subscription = context.listen(&subject, 4).await?;
    let body = vec![7; Frame::BYTES_MAX + 1];
    let too_large = Frame::new(subject.clone(), FrameId::parse("too-large")?, body);
    refused("publish", context.bus.publish(too_large).await, ErrorKind::TooLarge)?;
    context.publish(&subject, "next").await?;
    equal("first frame heard", context.hear_text(&mut subscription).await?, "next")
}
