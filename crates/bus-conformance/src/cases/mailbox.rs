//! Mailboxes: mail for one agent waits for it, whatever became of its consumer meanwhile.

use std::num::NonZeroU64;

use bus_core::{ConsumerSpec, ErrorKind, Expect, Retention, StreamSpec, Verdict};
use bus_subjects::{ConsumerName, Filter};

use crate::{
    case::{Case, cases},
    check::{CaseResult, Failure, equal, refused},
    context::{A_MOMENT, Context, LEASE, frame, text},
};

pub(super) const CASES: &[Case] = cases![Nothing:
    a_mailbox_keeps_mail_from_before_its_agent_came,
    a_mailbox_keeps_mail_while_its_agent_is_away,
    a_mailbox_keeps_its_mail_when_its_consumer_goes,
    a_mailbox_takes_mail_when_its_consumer_is_gone,
    a_mailbox_has_one_consumer,
    a_slow_agent_loses_no_mail,
    mail_for_one_agent_never_reaches_another,
    a_full_mailbox_refuses_and_others_stay_open,
];

/// The exclusive consumer of an agent's mailbox.
async fn mailbox(context: &Context, agent: &str) -> CaseResult<ConsumerSpec> {
    let stream = context.stream("INBOX", "agent", Retention::WorkQueue).await?;
    let name = ConsumerName::parse(agent)?;
    let filter = context.filter("agent", &format!("{agent}.inbox"))?;
    Ok(ConsumerSpec { stream, name, filter, lease: LEASE })
}

async fn mail(context: &Context, agent: &str, texts: &[&str]) -> CaseResult {
    let inbox = context.subject("agent", &format!("{agent}.inbox"))?;
    context.append_all(&inbox, texts).await
}

async fn a_mailbox_keeps_mail_from_before_its_agent_came(context: &Context) -> CaseResult {
    let consumer = mailbox(context, "a1").await?;
    mail(context, "a1", &["before"]).await?;
    context.elapse(LEASE * 2).await;
    let mut agent = context.bus.consume(consumer).await?;
    context.works_off(&mut agent, &["before"]).await?;
    context.gets_nothing(&mut agent).await
}

async fn a_mailbox_keeps_mail_while_its_agent_is_away(context: &Context) -> CaseResult {
    let consumer = mailbox(context, "a1").await?;
    let mut agent = context.bus.consume(consumer.clone()).await?;
    mail(context, "a1", &["first", "held"]).await?;
    context.works_off(&mut agent, &["first"]).await?;
    drop(context.claims(&mut agent, ("held", 1)).await?);
    drop(agent);
    mail(context, "a1", &["while-away"]).await?;
    context.elapse(LEASE + A_MOMENT).await;
    let mut agent = context.bus.consume(consumer).await?;
    context.works_off(&mut agent, &["while-away"]).await?;
    context.claims(&mut agent, ("held", 2)).await?.settle(Verdict::Ack).await?;
    context.gets_nothing(&mut agent).await
}

async fn a_mailbox_keeps_its_mail_when_its_consumer_goes(context: &Context) -> CaseResult {
    let consumer = mailbox(context, "a1").await?;
    let mut agent = context.bus.consume(consumer.clone()).await?;
    mail(context, "a1", &["read", "unread"]).await?;
    context.works_off(&mut agent, &["read"]).await?;
    let removed = context.bus.remove_consumer(consumer.stream.clone(), consumer.name.clone());
    equal("there was one", removed.await?, true)?;
    equal("stored", context.stored_texts(&consumer.stream).await?, ["unread"])?;
    let mut agent = context.bus.consume(consumer).await?;
    context.works_off(&mut agent, &["unread"]).await?;
    context.gets_nothing(&mut agent).await
}

async fn a_mailbox_takes_mail_when_its_consumer_is_gone(context: &Context) -> CaseResult {
    let consumer = mailbox(context, "a1").await?;
    drop(context.bus.consume(consumer.clone()).await?);
    context.bus.remove_consumer(consumer.stream.clone(), consumer.name.clone()).await?;
    mail(context, "a1", &["sent-to-nobody"]).await?;
    equal("stored", context.stored_texts(&consumer.stream).await?, ["sent-to-nobody"])?;
    let mut agent = context.bus.consume(consumer).await?;
    context.works_off(&mut agent, &["sent-to-nobody"]).await
}

async fn a_mailbox_has_one_consumer(context: &Context) -> CaseResult {
    let consumer = mailbox(context, "a1").await?;
    let _agent = context.bus.consume(consumer.clone()).await?;
    let second = ConsumerSpec { name: ConsumerName::parse("second")?, ..consumer };
    refused("a second consumer", context.bus.consume(second).await, ErrorKind::Conflict)
}

async fn a_slow_agent_loses_no_mail(context: &Context) -> CaseResult {
    let consumer = mailbox(context, "slow").await?;
    let mut slow = context.bus.consume(consumer).await?;
    let mut quick = context.bus.consume(mailbox(context, "quick").await?).await?;
    for n in 0..100 {
        for agent in ["slow", "quick"] {
            mail(context, agent, &[&format!("{agent}-{n}")]).await?;
        }
        context.works_off(&mut quick, &[&format!("quick-{n}")]).await?;
    }
    for n in 0..100 {
        let mail = context.claims(&mut slow, (&format!("slow-{n}"), 1)).await?;
        mail.settle(Verdict::Ack).await?;
    }
    Ok(())
}

async fn mail_for_one_agent_never_reaches_another(context: &Context) -> CaseResult {
    let mut other = context.bus.consume(mailbox(context, "a2").await?).await?;
    mail(context, "a1", &["for-a1"]).await?;
    context.gets_nothing(&mut other).await?;
    let mut agent = context.bus.consume(mailbox(context, "a1").await?).await?;
    let got = context.take_now(&mut agent).await?;
    equal("mail", text(&got.frame), "for-a1")?;
    Ok(got.settle(Verdict::Ack).await?)
}

async fn a_full_mailbox_refuses_and_others_stay_open(context: &Context) -> CaseResult {
    let bound = NonZeroU64::new(2).ok_or_else(|| Failure::new("two is no bound"))?;
    let spec = context.spec("INBOX", "agent", Retention::WorkQueue)?;
    let spec = StreamSpec { messages_per_subject_max: bound, ..spec };
    context.bus.declare(spec.clone()).await?;
    mail(context, "a1", &["m1", "m2"]).await?;
    let beyond = frame(&context.subject("agent", "a1.inbox")?, "m3")?;
    let appended = context.bus.append(beyond, Expect::Any).await;
    refused("mail for a full mailbox", appended, ErrorKind::Full)?;
    mail(context, "a2", &["m4"]).await?;
    let mut consumer = context.consumer(&spec.name, "a1")?;
    consumer.filter = Filter::from(&context.subject("agent", "a1.inbox")?);
    let mut agent = context.bus.consume(consumer).await?;
    context.works_off(&mut agent, &["m1", "m2"]).await?;
    mail(context, "a1", &["m3"]).await?;
    context.works_off(&mut agent, &["m3"]).await
}
