//! Requests: one answer, none at once, or an outcome that is unknown.

use std::time::Duration;

use bus_core::{ErrorKind, Frame, FrameId, Outcome, Subscription};
use bus_subjects::Subject;

use crate::{
    case::{Case, cases},
    check::{CaseResult, Failure, equal, failed, holds, refused},
    context::{Context, frame, text},
};

pub(super) const CASES: &[Case] = cases![Nothing:
    a_request_is_answered,
    a_request_arrives_unchanged_but_for_its_reply,
    an_answer_arrives_with_its_headers,
    a_request_nobody_hears_fails_at_once,
    a_request_without_an_answer_has_an_unknown_outcome,
    the_first_answer_wins,
    two_requests_get_their_own_answers,
    a_late_answer_never_reaches_the_next_request,
    a_request_that_is_too_large_is_refused,
];

const WAIT: Duration = Duration::from_secs(2);

/// Hears one request and returns it with the subject its answer goes to.
async fn hear_request(
    context: &Context,
    responder: &mut Subscription,
) -> CaseResult<(Frame, Subject)> {
    let request = context.hear(responder).await?;
    let reply = request.reply.clone();
    let reply = reply.ok_or_else(|| Failure::new("the request has no reply subject"))?;
    Ok((request, reply))
}

async fn a_request_is_answered(context: &Context) -> CaseResult {
    let subject = context.subject("call", "m1.ping")?;
    let mut responder = context.listen(&subject, 4).await?;
    let answering = async {
        let (request, reply) = hear_request(context, &mut responder).await?;
        context.publish(&reply, &format!("answer-to-{}", text(&request))).await
    };
    let asking = context.bus.request(frame(&subject, "q1")?, WAIT);
    let (answer, answered) = tokio::join!(asking, answering);
    answered?;
    equal("answer", text(&answer?), "answer-to-q1")
}

async fn a_request_arrives_unchanged_but_for_its_reply(context: &Context) -> CaseResult {
    let subject = context.subject("call", "m1.ping")?;
    let mut responder = context.listen(&subject, 4).await?;
    let mut sent = frame(&subject, "q1")?;
    sent.headers.add("ce-type", "call").map_err(bus_core::Error::from)?;
    let answering = async {
        let (request, reply) = hear_request(context, &mut responder).await?;
        context.publish(&reply, "a").await?;
        CaseResult::Ok(request)
    };
    let (answer, heard) = tokio::join!(context.bus.request(sent.clone(), WAIT), answering);
    answer?;
    equal("request", Frame { reply: None, ..heard? }, sent)
}

async fn an_answer_arrives_with_its_headers(context: &Context) -> CaseResult {
    let subject = context.subject("call", "m1.ping")?;
    let mut responder = context.listen(&subject, 4).await?;
    let answering = async {
        let (_, reply) = hear_request(context, &mut responder).await?;
        let mut answer = frame(&reply, "a1")?;
        answer.headers.add("ce-type", "answer").map_err(bus_core::Error::from)?;
        Ok::<_, Failure>(context.bus.publish(answer).await?)
    };
    let asking = context.bus.request(frame(&subject, "q1")?, WAIT);
    let (answer, answered) = tokio::join!(asking, answering);
    answered?;
    let answer = answer?;
    equal("id of the answer", answer.id.as_str(), "a1")?;
    equal("header of the answer", answer.headers.get("ce-type"), Some("answer"))
}

async fn a_request_nobody_hears_fails_at_once(context: &Context) -> CaseResult {
    let request = frame(&context.subject("call", "m1.nobody")?, "q1")?;
    let asking = context.bus.request(request, Duration::from_secs(600));
    let asked = context.at_once("a request that nobody hears", asking).await?;
    refused("a request that nobody hears", asked, ErrorKind::NoRecipient)
}

async fn a_request_without_an_answer_has_an_unknown_outcome(context: &Context) -> CaseResult {
    let subject = context.subject("call", "m1.mute")?;
    let mut mute = context.listen(&subject, 4).await?;
    let asked =
        context.wait("a request", context.bus.request(frame(&subject, "q1")?, WAIT)).await?;
    failed("a request without an answer", asked, ErrorKind::Timeout, Outcome::Unknown)?;
    equal("the request", context.hear_text(&mut mute).await?, "q1")
}

async fn the_first_answer_wins(context: &Context) -> CaseResult {
    let subject = context.subject("call", "m1.ping")?;
    let mut responder = context.listen(&subject, 4).await?;
    let answering = async {
        let (_, reply) = hear_request(context, &mut responder).await?;
        context.publish(&reply, "first").await?;
        context.publish(&reply, "second").await
    };
    let asking = context.bus.request(frame(&subject, "q1")?, WAIT);
    let (answer, answered) = tokio::join!(asking, answering);
    answered?;
    equal("answer", text(&answer?), "first")
}

async fn two_requests_get_their_own_answers(context: &Context) -> CaseResult {
    let subject = context.subject("call", "m1.ping")?;
    let mut responder = context.listen(&subject, 4).await?;
    let answering = async {
        let one = hear_request(context, &mut responder).await?;
        let two = hear_request(context, &mut responder).await?;
        holds(one.1 != two.1, || "both requests have one reply subject".to_owned())?;
        for (request, reply) in [two, one] {
            context.publish(&reply, &format!("answer-to-{}", text(&request))).await?;
        }
        CaseResult::Ok(())
    };
    let one = context.bus.request(frame(&subject, "q1")?, WAIT);
    let two = context.bus.request(frame(&subject, "q2")?, WAIT);
    let (one, two, answered) = tokio::join!(one, two, answering);
    answered?;
    equal("first answer", text(&one?), "answer-to-q1")?;
    equal("second answer", text(&two?), "answer-to-q2")
}

async fn a_late_answer_never_reaches_the_next_request(context: &Context) -> CaseResult {
    let subject = context.subject("call", "m1.ping")?;
    let mut responder = context.listen(&subject, 4).await?;
    let asked = context.bus.request(frame(&subject, "q1")?, Duration::from_millis(100)).await;
    failed("the first request", asked, ErrorKind::Timeout, Outcome::Unknown)?;
    let answering = async {
        let (_, late) = hear_request(context, &mut responder).await?;
        let (_, reply) = hear_request(context, &mut responder).await?;
        context.publish(&late, "late").await?;
        context.publish(&reply, "in-time").await
    };
    let asking = context.bus.request(frame(&subject, "q2")?, WAIT);
    let (answer, answered) = tokio::join!(asking, answering);
    answered?;
    equal("answer to the second request", text(&answer?), "in-time")
}

async fn a_request_that_is_too_large_is_refused(context: &Context) -> CaseResult {
    let subject = context.subject("call", "m1.ping")?;
    let mut responder = context.listen(&subject, 4).await?;
    let body = vec![7; Frame::BYTES_MAX + 1];
    let asking = context.bus.request(Frame::new(subject, FrameId::parse("large")?, body), WAIT);
    refused("a request that is too large", asking.await, ErrorKind::TooLarge)?;
    context.hears_nothing(&mut responder).await
}
