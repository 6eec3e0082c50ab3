//! What a command writes: shown and kept at the same time, and neither holds up the other.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]
#![expect(clippy::disallowed_methods, reason = "a story does several things at once")]

use std::{sync::Arc, time::Duration};

use bus_core::{
    Endpoint, ErrorKind, EventFeed, Incoming, Opened, Overflow, ResultOutput, Results, TaskEvent,
    TaskResult, output_hash,
};
use bus_envelope::EventHash;
use bus_evidence::WorkReceipt;
use bus_runner::{CommandAgent, CommandSpec, TERMINAL_STDERR, TERMINAL_STDOUT};
use bus_stories::{Fault, Flaky, Op, Stage, words, work};
use bus_subjects::{Address, Role};
use tokio::time::timeout;

/// The longest wait.
const LIMIT: Duration = Duration::from_secs(60);

/// A shell script as the agent of the stage's session, whose results are kept.
fn agent(stage: &Stage, script: &str) -> CommandAgent {
    let command = CommandSpec::new("sh", ["-c", script]);
    let mut agent = CommandAgent::new(command, stage.session.clone(), "run-1".to_owned());
    agent.keeps_results = true;
    agent
}

/// Does one task to its end; its id, and what became of it.
async fn done(stage: &Stage, agent: &CommandAgent) -> (String, Vec<TaskEvent>) {
    let id = stage.fill(&["x"]).await.unwrap().remove(0);
    let is_settled = |events: &[TaskEvent]| {
        matches!(events.last(), Some(TaskEvent::Completed { .. } | TaskEvent::DeadLettered { .. }))
    };
    let worker = stage.worker("w").unwrap();
    let events = timeout(LIMIT, work(&worker, agent, is_settled)).await.unwrap().unwrap();
    (id, events)
}

async fn listener(stage: &Stage) -> (Endpoint, EventFeed) {
    let observer = stage.agent("observer", Role::Observer).unwrap();
    let filter = Address::filter_session_events(&stage.workspace, &stage.session);
    let overflow = Overflow::DropOldest { capacity: 4096.try_into().unwrap() };
    let feed = observer.subscribe(filter, overflow).await.unwrap();
    (observer, feed)
}

/// The chunks of one type that are heard until the command has ended, by its last figures.
async fn heard(feed: &mut EventFeed, event_type: &str) -> Vec<Opened> {
    let mut found = Vec::new();
    loop {
        match timeout(LIMIT, feed.next()).await.unwrap().unwrap() {
            Incoming::Message(opened) if opened.envelope.event_type == event_type => {
                found.push(*opened);
            }
            Incoming::Message(opened)
                if opened.envelope.event_type == bus_runner::TELEMETRY
                    && String::from_utf8_lossy(&opened.payload).contains("\"last\":true") =>
            {
                return found;
            }
            _ => {}
        }
    }
}

async fn result_of(stage: &Stage, id: &str) -> (TaskResult, Vec<u8>) {
    let results = Results::new(stage.agent("boss2", Role::Orchestrator).unwrap());
    let result = results.get(id).await.unwrap().unwrap();
    let mut bytes = Vec::new();
    if let Some(mut reader) = results.output(&result).await.unwrap() {
        while let Some(part) = reader.next().await {
            bytes.extend_from_slice(&part.unwrap());
        }
    }
    (result, bytes)
}

async fn receipt(stage: &Stage) -> WorkReceipt {
    let frames = stage.stored(bus_core::planes::receipts_stream().unwrap()).await.unwrap();
    let auditor = stage.agent("auditor", Role::Auditor).unwrap();
    let opened = auditor.open(frames.last().unwrap()).unwrap();
    WorkReceipt::parse(&opened.payload).unwrap()
}

/// What `seq 1 LAST` writes.
fn numbers(last: u64) -> Vec<u8> {
    (1..=last).flat_map(|number| format!("{number}\n").into_bytes()).collect()
}

fn offset(opened: &Opened) -> u64 {
    opened.envelope.extensions.get("offset").unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn output_is_shown_with_its_task_its_attempt_and_its_place() {
    let stage = Stage::new().await.unwrap();
    let (_observer, mut feed) = listener(&stage).await;
    let (id, _) = done(&stage, &agent(&stage, "seq 1 20000; echo oh >&2")).await;
    let chunks = heard(&mut feed, TERMINAL_STDOUT).await;
    let mut all = Vec::new();
    for chunk in &chunks {
        assert_eq!(offset(chunk), all.len() as u64);
        let extensions = &chunk.envelope.extensions;
        assert_eq!((extensions["task"].as_str(), extensions["attempt"].as_str()), (&*id, "1"));
        all.extend_from_slice(&chunk.payload);
    }
    assert_eq!(all, numbers(20_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_stream_counts_for_itself() {
    let stage = Stage::new().await.unwrap();
    let (_observer, mut feed) = listener(&stage).await;
    done(&stage, &agent(&stage, "seq 1 100; echo oh >&2")).await;
    let chunks = heard(&mut feed, TERMINAL_STDERR).await;
    assert_eq!(chunks.iter().map(offset).collect::<Vec<_>>(), [0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_who_listens_holds_up_a_command() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    // The first event never gets out, and no other comes past it.
    flaky.fail(Op::Publish, "vak.events", Fault::StuckAfter, 1);
    let (id, events) = done(&stage, &agent(&stage, "seq 1 1000000")).await;
    assert_eq!(words(&events), ["completed"]);
    let (result, bytes) = result_of(&stage, &id).await;
    assert_eq!((bytes, result.left_out), (numbers(1_000_000), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bus_that_never_answers_for_events_holds_up_no_end() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    flaky.fail(Op::Publish, "vak.events", Fault::StuckAfter, u32::MAX);
    let (_id, events) = done(&stage, &agent(&stage, "seq 1 10")).await;
    assert_eq!(words(&events), ["completed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bus_that_takes_no_events_loses_them_and_nothing_else() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    flaky.fail(Op::Publish, "vak.events", Fault::Refused(ErrorKind::Unavailable), u32::MAX);
    let (id, events) = done(&stage, &agent(&stage, "seq 1 300000")).await;
    assert_eq!(words(&events), ["completed"]);
    assert_eq!(result_of(&stage, &id).await.1, numbers(300_000));
    let tried = flaky.calls().iter().filter(|call| call.op == Op::Publish).count();
    assert!(tried < 30, "{tried} events were tried, one after the other, while none got out");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_lost_is_the_oldest_and_the_newest_is_shown() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let (_observer, mut feed) = listener(&stage).await;
    let pause = Duration::from_secs(1);
    flaky.fail(Op::Publish, "vak.events", Fault::SlowBefore(pause), 1);
    done(&stage, &agent(&stage, "seq 1 1000000")).await;
    let chunks = heard(&mut feed, TERMINAL_STDOUT).await;
    let shown: usize = chunks.iter().map(|chunk| chunk.payload.len()).sum();
    let (all, last) = (numbers(1_000_000), chunks.last().unwrap());
    assert_eq!(offset(last) + last.payload.len() as u64, all.len() as u64);
    assert!(shown < 3_000_000, "{shown} bytes were shown: nothing was lost");
    for chunk in &chunks {
        let begin = usize::try_from(offset(chunk)).unwrap();
        assert_eq!(chunk.payload, all[begin..begin + chunk.payload.len()], "at {begin}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_does_not_answer_holds_up_no_showing() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let (_observer, mut feed) = listener(&stage).await;
    flaky.fail(Op::PutBlob, "", Fault::SlowBefore(Duration::from_secs(3)), 1);
    let stage = Arc::new(stage);
    let working = tokio::spawn({
        let stage = Arc::clone(&stage);
        async move {
            let agent = agent(&stage, "seq 1 300000; seq 1 10");
            done(&stage, &agent).await
        }
    });
    // More than is kept inline is shown before the store has taken any of it.
    let mut shown = 0;
    while shown <= Results::INLINE_BYTES_MAX {
        if let Incoming::Message(opened) = timeout(LIMIT, feed.next()).await.unwrap().unwrap() {
            shown += opened.payload.len();
        }
    }
    assert!(!working.is_finished());
    let (id, _) = timeout(LIMIT, working).await.unwrap().unwrap();
    let all = [numbers(300_000), numbers(10)].concat();
    assert_eq!(result_of(&stage, &id).await.1, all);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_is_too_long_keeps_its_beginning_and_its_end() {
    let all = numbers(200_000);
    for bytes_max in [1, 7, 1000, 200_000] {
        let stage = Stage::new().await.unwrap();
        let mut agent = agent(&stage, "seq 1 200000; echo oh >&2");
        agent.output_bytes_max = bytes_max;
        let (id, _) = done(&stage, &agent).await;
        let (result, kept) = result_of(&stage, &id).await;
        let left_out = result.left_out.unwrap();
        assert_eq!(kept.len() as u64, bytes_max);
        assert_eq!(left_out.bytes, all.len() as u64 - bytes_max);
        let (head, tail) = kept.split_at(usize::try_from(left_out.at).unwrap());
        assert!(all.starts_with(head) && all.ends_with(tail), "{bytes_max}");
        assert_eq!(left_out.stdout_hash, EventHash::of(&all));
        let hash = output_hash(&left_out.stdout_hash, &EventHash::of(b"oh\n"));
        assert_eq!(receipt(&stage).await.output_hash, hash);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_just_fits_is_kept_whole() {
    let all = numbers(200_000);
    let stage = Stage::new().await.unwrap();
    let mut agent = agent(&stage, "seq 1 200000");
    agent.output_bytes_max = all.len() as u64;
    let (id, _) = done(&stage, &agent).await;
    let (result, kept) = result_of(&stage, &id).await;
    assert_eq!((result.left_out, kept == all), (None, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn where_no_output_is_wanted_the_result_says_so() {
    let stage = Stage::new().await.unwrap();
    let mut agent = agent(&stage, "seq 1 200000");
    agent.output_bytes_max = 0;
    let (id, _) = done(&stage, &agent).await;
    let output = result_of(&stage, &id).await.0.output;
    let reason = "its worker keeps no output".to_owned();
    assert_eq!(output, ResultOutput::NotKept { reason });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_full_costs_the_result_and_not_the_work() {
    let (stage, flaky): (Stage, Arc<Flaky>) = Stage::flaky().await.unwrap();
    flaky.fail(Op::PutBlob, "", Fault::Refused(ErrorKind::Full), 1);
    let (id, events) = done(&stage, &agent(&stage, "seq 1 500000")).await;
    assert_eq!(words(&events), ["completed"]);
    let output = result_of(&stage, &id).await.0.output;
    assert!(matches!(output, ResultOutput::NotKept { .. }), "{output:?}");
    assert_eq!(receipt(&stage).await.stdout_bytes, numbers(500_000).len() as u64);
}
