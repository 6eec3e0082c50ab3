//! Compare-and-set on the head of a subject: one line, never a fork.

use std::sync::Arc;

use bus_core::{Engine, Error, ErrorKind, Expect, Receipt, Retention, Seq};
use bus_subjects::Subject;

use crate::{
    case::{Case, cases},
    check::{CaseResult, equal, holds, refused},
    context::{Context, frame, text},
};

pub(super) const CASES: &[Case] = cases![Nothing:
    the_first_of_a_subject_expects_position_zero,
    an_append_at_the_expected_head_is_stored,
    a_stale_head_is_a_conflict_and_stores_nothing,
    other_subjects_do_not_move_a_head,
    an_append_refused_by_its_head_leaves_its_id_free,
    racing_appenders_never_fork_a_chain,
];

async fn receipts(context: &Context) -> CaseResult<Subject> {
    context.stream("RECEIPTS", "receipts", Retention::AppendOnly).await?;
    context.subject("receipts", "s1.completed")
}

async fn append_at(
    context: &Context,
    subject: &Subject,
    text: &str,
    head: u64,
) -> CaseResult<Result<Receipt, Error>> {
    Ok(context.bus.append(frame(subject, text)?, Expect::LastOfSubject(Seq(head))).await)
}

async fn the_first_of_a_subject_expects_position_zero(context: &Context) -> CaseResult {
    let subject = receipts(context).await?;
    equal("first position", append_at(context, &subject, "r1", 0).await??.seq, Seq(1))?;
    let again = append_at(context, &subject, "r2", 0).await?;
    refused("a second first", again, ErrorKind::Conflict)
}

async fn an_append_at_the_expected_head_is_stored(context: &Context) -> CaseResult {
    let subject = receipts(context).await?;
    let mut head = 0;
    for n in 1..=5 {
        head = append_at(context, &subject, &format!("r{n}"), head).await??.seq.0;
    }
    equal("head", context.bus.last(subject).await?.map(|last| last.seq.0), Some(head))
}

async fn a_stale_head_is_a_conflict_and_stores_nothing(context: &Context) -> CaseResult {
    let subject = receipts(context).await?;
    context.append_all(&subject, &["r1", "r2"]).await?;
    for head in [0, 1, 3, u64::MAX] {
        let appended = append_at(context, &subject, &format!("wrong-{head}"), head).await?;
        refused(&format!("an append at head {head} of 2"), appended, ErrorKind::Conflict)?;
    }
    let stream = context.stream_name("RECEIPTS")?;
    equal("stored", context.stored_texts(&stream).await?, ["r1", "r2"])
}

async fn other_subjects_do_not_move_a_head(context: &Context) -> CaseResult {
    let subject = receipts(context).await?;
    let other = context.subject("receipts", "s2.completed")?;
    context.append(&subject, "r1").await?;
    context.append_all(&other, &["x1", "x2"]).await?;
    equal("position", append_at(context, &subject, "r2", 1).await??.seq, Seq(4))
}

async fn an_append_refused_by_its_head_leaves_its_id_free(context: &Context) -> CaseResult {
    let subject = receipts(context).await?;
    context.append(&subject, "r1").await?;
    let stale = append_at(context, &subject, "r2", 0).await?;
    refused("the stale append", stale, ErrorKind::Conflict)?;
    let receipt = append_at(context, &subject, "r2", 1).await??;
    equal("the same id at the right head is a duplicate", receipt.duplicate, false)?;
    equal("position", receipt.seq, Seq(2))
}

/// Appends `count` links, each naming the head it was made for; the loser of a race reads anew.
async fn link_up(bus: Arc<dyn Engine>, subject: Subject, who: usize, count: u32) -> CaseResult {
    // A race is lost only to somebody who won it, so nobody loses more often than there are links.
    const LOST_MAX: u32 = 1000;
    for n in 0..count {
        let mut is_linked = false;
        for attempt in 0..LOST_MAX {
            let head = bus.last(subject.clone()).await?.map_or(0, |last| last.seq.0);
            // Lets every other appender read the same head.
            tokio::task::yield_now().await;
            let mut link = frame(&subject, &format!("{who}-{n}-{attempt}"))?;
            link.body = head.to_string().into();
            match bus.append(link, Expect::LastOfSubject(Seq(head))).await {
                Ok(_) => {
                    is_linked = true;
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error.into()),
            }
        }
        holds(is_linked, || format!("appender {who} lost {LOST_MAX} races"))?;
    }
    Ok(())
}

async fn racing_appenders_never_fork_a_chain(context: &Context) -> CaseResult {
    const APPENDERS: usize = 8;
    const EACH: u32 = 25;
    let subject = receipts(context).await?;
    let mut racing = Vec::new();
    for who in 0..APPENDERS {
        let bus = context.connect(&format!("appender-{who}")).await?;
        racing.push(link_up(bus, subject.clone(), who, EACH));
    }
    context.race(racing).await?;
    let stored = context.stored(&context.stream_name("RECEIPTS")?, 1).await?;
    equal("links stored", stored.len(), APPENDERS * EACH as usize)?;
    for (position, link) in stored.iter().enumerate() {
        equal("predecessor of a link", text(&link.frame), position.to_string())?;
    }
    Ok(())
}
