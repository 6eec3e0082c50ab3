//! What a session hears of a command in a terminal, and of the figures of its process.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::time::Duration;

use bus_core::{
    Endpoint, EventFeed, Incoming, Opened, Overflow, ResultOutput, Results, TaskEvent, output_hash,
};
use bus_envelope::EventHash;
use bus_runner::{
    Children, CommandAgent, CommandSpec, TELEMETRY, TERMINAL_END, TERMINAL_PTY, TERMINAL_SIZE,
    TelemetryKey, TelemetryRecord, TelemetryWindow, Terminal, TerminalEnd, TerminalExit,
    TerminalSize,
};
use bus_stories::{Stage, work};
use bus_subjects::{Address, Role};
use tokio::time::{Instant, timeout};

/// The longest wait.
const LIMIT: Duration = Duration::from_secs(60);

/// A shell script as the agent of the stage's session, with or without a terminal.
fn agent(stage: &Stage, script: &str, terminal: Option<Terminal>) -> CommandAgent {
    let mut command = CommandSpec::new("sh", ["-c", script]);
    command.terminal = terminal;
    let mut agent = CommandAgent::new(command, stage.session.clone(), "run-1".to_owned());
    agent.keeps_results = true;
    agent
}

/// Does one task to its end and returns its id and all that was heard of it.
async fn heard_of(stage: &Stage, agent: &CommandAgent) -> (String, Vec<Opened>) {
    let (_observer, mut feed) = listener(stage).await;
    let id = stage.fill(&["x"]).await.unwrap().remove(0);
    let is_settled = |events: &[TaskEvent]| {
        matches!(events.last(), Some(TaskEvent::Completed { .. } | TaskEvent::DeadLettered { .. }))
    };
    let worker = stage.worker("w").unwrap();
    timeout(LIMIT, work(&worker, agent, is_settled)).await.unwrap().unwrap();
    let mut heard = Vec::new();
    loop {
        if let Incoming::Message(opened) = timeout(LIMIT, feed.next()).await.unwrap().unwrap() {
            let is_last = opened.envelope.event_type == TELEMETRY && record(&opened).is_last;
            heard.push(*opened);
            if is_last {
                return (id, heard);
            }
        }
    }
}

async fn listener(stage: &Stage) -> (Endpoint, EventFeed) {
    let observer = stage.agent("observer", Role::Observer).unwrap();
    let filter = Address::filter_session_events(&stage.workspace, &stage.session);
    let overflow = Overflow::DropOldest { capacity: 4096.try_into().unwrap() };
    let feed = observer.subscribe(filter, overflow).await.unwrap();
    (observer, feed)
}

fn record(opened: &Opened) -> TelemetryRecord {
    TelemetryRecord::parse(&opened.payload).unwrap()
}

fn terminal() -> Option<Terminal> {
    Some(Terminal::new(TerminalSize::default()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_hears_the_size_the_bytes_and_the_end_of_a_terminal() {
    let stage = Stage::new().await.unwrap();
    let (id, heard) = heard_of(&stage, &agent(&stage, "echo one; echo two >&2", terminal())).await;
    let events: Vec<_> =
        heard.iter().filter(|opened| opened.envelope.event_type != TELEMETRY).collect();
    let kinds: Vec<_> = events.iter().map(|opened| opened.envelope.event_type.as_str()).collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&TERMINAL_SIZE), Some(&TERMINAL_END)));
    for opened in &events {
        let extensions = &opened.envelope.extensions;
        assert_eq!((extensions["task"].as_str(), extensions["attempt"].as_str()), (&*id, "1"));
    }
    let size = TerminalSize::parse_json(&events.first().unwrap().payload).unwrap();
    assert_eq!(size, TerminalSize::default());
    let mut bytes = Vec::new();
    for chunk in events.iter().filter(|opened| opened.envelope.event_type == TERMINAL_PTY) {
        assert_eq!(chunk.envelope.extensions["offset"], bytes.len().to_string());
        bytes.extend_from_slice(&chunk.payload);
    }
    assert_eq!(bytes, b"one\r\ntwo\r\n");
    let end = TerminalEnd::parse(&events.last().unwrap().payload).unwrap();
    let (exit, counts) = (TerminalExit::Code(0), (10, 0, 0));
    assert_eq!(end.exit, exit);
    assert_eq!((end.stdout_bytes, end.stderr_bytes, end.shown_lost_bytes), counts);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_size_that_changes_is_heard_with_its_place() {
    let stage = Stage::new().await.unwrap();
    let shared = terminal().unwrap();
    let script = "trap 'exit 0' WINCH; echo one; while :; do sleep 0.02; done";
    let agent = agent(&stage, script, Some(shared.clone()));
    let (_observer, mut feed) = listener(&stage).await;
    let resizing = async {
        loop {
            if let Incoming::Message(opened) = timeout(LIMIT, feed.next()).await.unwrap().unwrap()
                && opened.envelope.event_type == TERMINAL_PTY
            {
                return shared.resize("40x120".parse().unwrap());
            }
        }
    };
    let ((_id, heard), ()) = tokio::join!(heard_of(&stage, &agent), resizing);
    let mut sizes = heard.iter().filter(|opened| opened.envelope.event_type == TERMINAL_SIZE);
    let (first, second) = (sizes.next().unwrap(), sizes.next().unwrap());
    assert_eq!(first.envelope.extensions["offset"], "0");
    assert_eq!(second.envelope.extensions["offset"], "5");
    let size = TerminalSize::parse_json(&second.payload).unwrap();
    assert_eq!(size.to_string(), "40x120");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_terminal_showed_is_the_result_and_its_receipt_vouches_for_it() {
    let stage = Stage::new().await.unwrap();
    let (id, _heard) =
        heard_of(&stage, &agent(&stage, "echo done; echo aside >&2", terminal())).await;
    let results = Results::new(stage.agent("boss2", Role::Orchestrator).unwrap());
    let result = results.get(&id).await.unwrap().unwrap();
    let ResultOutput::Inline(bytes) = &result.output else { panic!("{result:?}") };
    assert_eq!(bytes[..], b"done\r\naside\r\n"[..]);
    let frames = stage.stored(bus_core::planes::receipts_stream().unwrap()).await.unwrap();
    let opened = stage.agent("auditor", Role::Auditor).unwrap().open(frames.last().unwrap());
    let receipt = bus_evidence::WorkReceipt::parse(&opened.unwrap().payload).unwrap();
    let no_stderr = EventHash::of(b"");
    assert_eq!(receipt.output_hash, output_hash(&EventHash::of(bytes), &no_stderr));
    assert_eq!((receipt.stdout_bytes, receipt.stderr_bytes), (13, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_figures_name_their_process_and_say_its_peak() {
    let stage = Stage::new().await.unwrap();
    let (id, heard) = heard_of(&stage, &agent(&stage, "sleep 0.7", None)).await;
    let figures: Vec<_> =
        heard.iter().filter(|opened| opened.envelope.event_type == TELEMETRY).collect();
    let (first, last) = (record(figures.first().unwrap()), record(figures.last().unwrap()));
    assert_eq!((first.cpu_rate, first.children), (None, Children::NotCounted));
    assert_eq!((last.is_last, last.rss_bytes, last.children), (true, None, Children::WaitedFor));
    assert!(last.peak_rss_bytes.unwrap() > 100_000, "{last:?}");
    assert_eq!((first.process, &*last.task, last.attempt), (last.process, &*id, 1));
    let mut window = TelemetryWindow::new();
    for opened in figures.iter().rev() {
        let (envelope, record) = (&opened.envelope, record(opened));
        let key = TelemetryKey::new(envelope, &record);
        window.hear(key, envelope.lineage.seq_num, record, Instant::now().into_std());
    }
    let shown: Vec<_> = window.records().map(|(_key, record)| record.clone()).collect();
    assert_eq!(shown, [last]);
}
