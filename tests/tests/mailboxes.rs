//! C15 and D19: what is sent to an agent waits for that agent, whether it came yet or not.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::time::Duration;

use bus_core::{ConsumerSpec, Endpoint, ErrorKind, Mailbox, Outgoing, Priority, planes};
use bus_envelope::Draft;
use bus_stories::Stage;
use bus_subjects::{Address, AgentId, ConsumerName, Filter, Role, Subject};

const LEASE: Duration = Duration::from_secs(30);

async fn stage() -> (Stage, Endpoint) {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    (stage, boss)
}

/// A note made for nowhere in particular.
fn note(text: &str) -> Draft {
    let elsewhere = Subject::parse("vak.work.w1.coder.task").unwrap();
    Draft::new(elsewhere, "vak.note", text.to_owned()).content_type("text/plain")
}

async fn send(boss: &Endpoint, to: &str, text: &str) {
    boss.send_to(&AgentId::parse(to).unwrap(), note(text)).await.unwrap();
}

fn inbox(stage: &Stage, agent: &str) -> Subject {
    let workspace = stage.workspace.clone();
    Address::Inbox { workspace, agent: agent.parse().unwrap() }.subject()
}

/// The next message, acknowledged.
async fn take(mailbox: &mut Mailbox) -> String {
    let mail = mailbox.next().await.unwrap().unwrap();
    let text = String::from_utf8(mail.content.as_ref().unwrap().payload.to_vec()).unwrap();
    mail.ack().await.unwrap();
    text
}

async fn waiting(stage: &Stage) -> u64 {
    let lag = stage.engine.lag(planes::inbox_stream(&stage.workspace).unwrap()).await.unwrap();
    lag.pending + lag.in_flight
}

#[tokio::test(start_paused = true)]
async fn a_message_waits_for_an_agent_that_never_came() {
    let (stage, boss) = stage().await;
    send(&boss, "a1", "hello").await;
    assert_eq!(waiting(&stage).await, 1);
    let mut mailbox = stage.agent("a1", Role::Worker).unwrap().mailbox(LEASE).await.unwrap();
    assert_eq!(take(&mut mailbox).await, "hello");
    assert_eq!(waiting(&stage).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_message_waits_for_an_agent_that_is_away() {
    let (stage, boss) = stage().await;
    let agent = stage.agent("a1", Role::Worker).unwrap();
    drop(agent.mailbox(LEASE).await.unwrap());
    send(&boss, "a1", "while you were out").await;
    let mut mailbox = agent.mailbox(LEASE).await.unwrap();
    assert_eq!(take(&mut mailbox).await, "while you were out");
}

#[tokio::test(start_paused = true)]
async fn messages_outlive_the_consumer_of_their_mailbox() {
    let (stage, boss) = stage().await;
    let agent = stage.agent("a1", Role::Worker).unwrap();
    let mut mailbox = agent.mailbox(LEASE).await.unwrap();
    send(&boss, "a1", "before").await;
    let unread = mailbox.next().await.unwrap().unwrap();

    let stream = planes::inbox_stream(&stage.workspace).unwrap();
    let name = ConsumerName::parse("inbox_a1").unwrap();
    assert!(stage.engine.remove_consumer(stream, name).await.unwrap());
    send(&boss, "a1", "after").await;

    let over = mailbox.next().await.unwrap().unwrap_err();
    assert_eq!(over.kind(), ErrorKind::NotFound);
    assert!(unread.ack().await.is_err(), "a verdict without a lease");
    let mut mailbox = agent.mailbox(LEASE).await.unwrap();
    let mut texts = [take(&mut mailbox).await, take(&mut mailbox).await];
    texts.sort();
    assert_eq!(texts, ["after", "before"]);
}

#[tokio::test(start_paused = true)]
async fn a_mailbox_has_one_consumer() {
    let (stage, boss) = stage().await;
    let agent = stage.agent("a1", Role::Worker).unwrap();
    let mut mailbox = agent.mailbox(LEASE).await.unwrap();
    let second = ConsumerSpec {
        stream: planes::inbox_stream(&stage.workspace).unwrap(),
        name: ConsumerName::parse("another").unwrap(),
        filter: Filter::from(&inbox(&stage, "a1")),
        lease: LEASE,
    };
    assert_eq!(agent.consume(second).await.unwrap_err().kind(), ErrorKind::Conflict);
    send(&boss, "a1", "for one").await;
    assert_eq!(take(&mut mailbox).await, "for one");
}

#[tokio::test(start_paused = true)]
async fn who_reads_slowly_keeps_what_it_took_from_a_second_process_of_the_agent() {
    let (stage, boss) = stage().await;
    let agent = stage.agent("a1", Role::Worker).unwrap();
    let (mut slow, mut quick) =
        (agent.mailbox(LEASE).await.unwrap(), agent.mailbox(LEASE).await.unwrap());
    for text in ["1", "2", "3"] {
        send(&boss, "a1", text).await;
    }
    let held = slow.next().await.unwrap().unwrap();
    assert_eq!([take(&mut quick).await, take(&mut quick).await], ["2", "3"]);
    held.ack().await.unwrap();
    assert_eq!(waiting(&stage).await, 0);
}

#[tokio::test(start_paused = true)]
async fn mailboxes_are_apart() {
    let (stage, boss) = stage().await;
    send(&boss, "a1", "for one").await;
    send(&boss, "a2", "for two").await;
    let one = stage.agent("a1", Role::Worker).unwrap();
    let two = stage.agent("a2", Role::Worker).unwrap();
    assert_eq!(take(&mut two.mailbox(LEASE).await.unwrap()).await, "for two");
    assert_eq!(take(&mut one.mailbox(LEASE).await.unwrap()).await, "for one");
}

#[tokio::test(start_paused = true)]
async fn an_urgent_message_overtakes_in_a_mailbox() {
    let (stage, boss) = stage().await;
    send(&boss, "a1", "whenever").await;
    let stop = Outgoing::from(note("stop now")).priority(Priority::HIGHEST);
    boss.send_to(&AgentId::parse("a1").unwrap(), stop).await.unwrap();
    let mut mailbox = stage.agent("a1", Role::Worker).unwrap().mailbox(LEASE).await.unwrap();
    assert_eq!([take(&mut mailbox).await, take(&mut mailbox).await], ["stop now", "whenever"]);
}

#[tokio::test(start_paused = true)]
async fn a_worker_writes_to_no_mailbox() {
    let (stage, _) = stage().await;
    let worker = stage.agent("a1", Role::Worker).unwrap();
    let refused = worker.send_to(&AgentId::parse("a2").unwrap(), note("psst")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
}

#[tokio::test(start_paused = true)]
async fn mail_without_a_word_comes_again_and_mail_put_off_is_not_counted() {
    let (stage, boss) = stage().await;
    let agent = stage.agent("a1", Role::Worker).unwrap();
    let mut mailbox = agent.mailbox(LEASE).await.unwrap();
    send(&boss, "a1", "again").await;
    drop(mailbox.next().await.unwrap().unwrap());
    let second = mailbox.next().await.unwrap().unwrap();
    assert_eq!(second.attempt(), 2);
    second.later(Duration::from_secs(60)).await.unwrap();
    let start = tokio::time::Instant::now();
    let third = mailbox.next().await.unwrap().unwrap();
    assert_eq!((third.attempt(), start.elapsed().as_secs()), (2, 60));
    third.extend().await.unwrap();
    third.ack().await.unwrap();
    assert_eq!(waiting(&stage).await, 0);
}

#[tokio::test(start_paused = true)]
async fn mail_that_cannot_be_opened_is_shown_and_can_be_given_up() {
    let (stage, boss) = stage().await;
    let sent = boss.send_to(&"a1".parse().unwrap(), note("x")).await.unwrap();
    let mut mailbox = stage.agent("a1", Role::Worker).unwrap().mailbox(LEASE).await.unwrap();
    assert_eq!(take(&mut mailbox).await, "x");
    let frame = bus_core::Frame { id: bus_core::FrameId::parse("another").unwrap(), ..sent.frame };
    stage.engine.append(frame, bus_core::Expect::Any).await.unwrap();

    let mail = mailbox.next().await.unwrap().unwrap();

    assert_eq!(mail.content.as_ref().unwrap_err().kind(), ErrorKind::Corrupt);
    mail.reject("it cannot be read").await.unwrap();
    assert_eq!(waiting(&stage).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_mailbox_whose_agents_certificate_ended_hands_its_mail_back() {
    let (stage, boss) = stage().await;
    let mut issue = stage.issue("a1", Role::Worker).unwrap();
    issue.valid_for = Some(Duration::from_secs(60));
    let entropy = bus_crypto::SystemEntropy::new();
    let identity = bus_core::Identity::issue(stage.account(), &issue, &entropy).unwrap();
    stage.roster.admit(identity.certificate().token()).unwrap();
    let mut mailbox = stage.endpoint(identity).unwrap().mailbox(LEASE).await.unwrap();
    tokio::time::advance(Duration::from_secs(60)).await;
    send(&boss, "a1", "too late").await;

    let refused = mailbox.next().await.unwrap().unwrap_err();

    assert_eq!(refused.kind(), ErrorKind::Denied);
    let lag = stage.engine.lag(planes::inbox_stream(&stage.workspace).unwrap()).await.unwrap();
    assert_eq!((lag.pending, lag.in_flight), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_nothing_or_more_than_a_day_is_refused() {
    let (stage, _) = stage().await;
    let agent = stage.agent("a1", Role::Worker).unwrap();
    for lease in [Duration::ZERO, Duration::from_secs(24 * 3600 + 1)] {
        assert_eq!(agent.mailbox(lease).await.unwrap_err().kind(), ErrorKind::Invalid);
    }
}
