//! What commands of a run emit through their runner.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]
#![expect(clippy::disallowed_methods, reason = "a story does several things at once")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bus_core::{
    CheckpointPolicy, Endpoint, EventFeed, Incoming, Opened, Overflow, Stop, Worker, WorkerSpec,
};
use bus_crypto::SystemEntropy;
use bus_envelope::EventHash;
use bus_runner::{
    CommandAgent, CommandSpec, EmitClient, EmitError, EmitPiece, EmitSocket, EndReason,
    TERMINAL_STDOUT, TOKENS_END, TOKENS_TEXT, TOKENS_THINKING,
};
use bus_stories::Stage;
use bus_subjects::{Address, Role};
use tokio::{task::JoinHandle, time::timeout};

/// The longest wait.
const LIMIT: Duration = Duration::from_secs(60);

/// A run whose command waits until the story is told.
struct Telling {
    place: tempfile::TempDir,
    feed: EventFeed,
    stop: Stop,
    task: EventHash,
    id: String,
    path: PathBuf,
    token: String,
    working: JoinHandle<()>,
}

impl Telling {
    /// Begins a run; its command says where and with what token it could emit.
    async fn begin() -> Self {
        let place = tempfile::tempdir().unwrap();
        let (said, gate) = (place.path().join("said"), place.path().join("gate"));
        let script = format!(
            "echo out; printf '%s\\n%s\\n' \"$VAKBUS_EMIT\" \"$VAKBUS_EMIT_TOKEN\" >{said}.part; \
             mkfifo {gate}; mv {said}.part {said}; cat {gate}",
            said = said.display(),
            gate = gate.display(),
        );
        let stage = Arc::new(Stage::new().await.unwrap());
        let observer = stage.agent("observer", Role::Observer).unwrap();
        let filter = Address::filter_session_events(&stage.workspace, &stage.session);
        let overflow = Overflow::DropOldest { capacity: 4096.try_into().unwrap() };
        let feed = observer.subscribe(filter, overflow).await.unwrap();
        let command = CommandSpec::new("sh", ["-c", &script]);
        let mut agent = CommandAgent::new(command, stage.session.clone(), "run-1".to_owned());
        agent.emit = Some(EmitSocket::open(&SystemEntropy::new()).unwrap());
        let boss = stage.agent("boss", Role::Orchestrator).unwrap();
        let sent = boss.send(bus_stories::task(&stage, "x")).await.unwrap();
        let stop = Stop::default();
        let working = tokio::spawn({
            let (stage, stop) = (Arc::clone(&stage), stop.clone());
            async move {
                let mut parts = stage.parts(stage.certified("w", Role::Worker).unwrap());
                parts.checkpoints = Some(CheckpointPolicy::default());
                let spec = WorkerSpec::new(stage.queue.clone());
                let worker = Worker::new(Endpoint::new(parts).unwrap(), spec);
                worker.run(&agent, &stop, |_| stop.drain.cancel()).await.unwrap();
            }
        });
        let text = timeout(LIMIT, written(&said)).await.unwrap();
        let (path, token) = text.trim_end().split_once('\n').unwrap();
        let (path, token) = (PathBuf::from(path), token.to_owned());
        let (task, id) = (sent.hash, sent.id);
        Self { place, feed, stop, task, id, path, token, working }
    }

    /// Emits `pieces` over one connection.
    async fn emit(&self, pieces: &[EmitPiece<'static>]) -> Result<u64, EmitError> {
        self.emit_in("main", pieces).await
    }

    async fn emit_in(
        &self,
        stream: &'static str,
        pieces: &[EmitPiece<'static>],
    ) -> Result<u64, EmitError> {
        let (path, token, pieces) = (self.path.clone(), self.token.clone(), pieces.to_vec());
        let emitting = tokio::task::spawn_blocking(move || {
            let mut client = EmitClient::connect(&path, &token, stream)?;
            for piece in pieces {
                client.send(piece)?;
            }
            client.finish()
        });
        timeout(LIMIT, emitting).await.unwrap().unwrap()
    }

    /// Lets the command end, and waits for the end of the run.
    async fn end(&mut self) {
        let gate = self.place.path().join("gate");
        tokio::task::spawn_blocking(move || fs::write(gate, "")).await.unwrap().unwrap();
        timeout(LIMIT, &mut self.working).await.unwrap().unwrap();
    }

    /// The next event of one of these types.
    async fn hear(&mut self, types: &[&str]) -> Opened {
        loop {
            match timeout(LIMIT, self.feed.next()).await.unwrap().unwrap() {
                Incoming::Message(opened)
                    if types.contains(&opened.envelope.event_type.as_str()) =>
                {
                    return *opened;
                }
                _ => {}
            }
        }
    }

    /// The next event of tokens: its type, where it begins, and its text.
    async fn tokens(&mut self) -> (String, String, String) {
        let opened = self.hear(&[TOKENS_TEXT, TOKENS_THINKING, TOKENS_END]).await;
        let offset = opened.envelope.extensions.get("offset").cloned().unwrap_or_default();
        let text = String::from_utf8(opened.payload.to_vec()).unwrap();
        (opened.envelope.event_type, offset, text)
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.stop.now.cancel();
    }
}

async fn written(path: &Path) -> String {
    let mut tick = tokio::time::interval(Duration::from_millis(10));
    loop {
        tick.tick().await;
        if let Ok(text) = fs::read_to_string(path) {
            return text;
        }
    }
}

fn told(event_type: &str, offset: &str, text: &str) -> (String, String, String) {
    (event_type.to_owned(), offset.to_owned(), text.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_a_command_are_events_of_its_task() {
    let mut run = Telling::begin().await;
    assert_eq!(run.emit(&[EmitPiece::Text("caf\u{e9}")]).await.unwrap(), 5);
    let opened = run.hear(&[TOKENS_TEXT]).await;
    let envelope = &opened.envelope;
    let extension = |name: &str| envelope.extensions[name].as_str();
    assert_eq!((extension("task"), extension("attempt")), (&*run.id, "1"));
    assert_eq!((extension("stream"), extension("offset")), ("main", "0"));
    assert_eq!(envelope.lineage.agent.as_str(), "w");
    assert_eq!(envelope.lineage.cause, Some(run.task));
    assert_eq!(opened.payload, "caf\u{e9}".as_bytes());
    run.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_connections_write_one_stream() {
    let mut run = Telling::begin().await;
    run.emit(&[EmitPiece::Text("one ")]).await.unwrap();
    run.emit(&[EmitPiece::Text("two")]).await.unwrap();
    assert_eq!(run.tokens().await, told(TOKENS_TEXT, "0", "one "));
    assert_eq!(run.tokens().await, told(TOKENS_TEXT, "4", "two"));
    run.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn text_and_thinking_and_other_streams_count_apart() {
    let mut run = Telling::begin().await;
    run.emit(&[EmitPiece::Thinking("hm"), EmitPiece::Text("yes")]).await.unwrap();
    run.emit_in("tool", &[EmitPiece::Text("ls")]).await.unwrap();
    assert_eq!(run.tokens().await, told(TOKENS_THINKING, "0", "hm"));
    assert_eq!(run.tokens().await, told(TOKENS_TEXT, "0", "yes"));
    assert_eq!(run.tokens().await, told(TOKENS_TEXT, "0", "ls"));
    run.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_its_end_a_stream_begins_anew() {
    let mut run = Telling::begin().await;
    let pieces = [EmitPiece::Text("one"), EmitPiece::End(EndReason::Length)];
    // The reason of the end is no text.
    assert_eq!(run.emit(&pieces).await.unwrap(), 3);
    run.emit(&[EmitPiece::Text("two")]).await.unwrap();
    assert_eq!(run.tokens().await, told(TOKENS_TEXT, "0", "one"));
    let end = r#"{"reason":"length","text_bytes":3,"thinking_bytes":0}"#;
    assert_eq!(run.tokens().await, told(TOKENS_END, "", end));
    assert_eq!(run.tokens().await, told(TOKENS_TEXT, "0", "two"));
    run.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn emitted_output_stands_behind_what_the_command_wrote() {
    let mut run = Telling::begin().await;
    assert_eq!(run.hear(&[TERMINAL_STDOUT]).await.payload, "out\n".as_bytes());
    run.emit(&[EmitPiece::Stdout(b"more\xff")]).await.unwrap();
    let opened = run.hear(&[TERMINAL_STDOUT]).await;
    assert_eq!((&*opened.payload, &*opened.envelope.extensions["offset"]), (&b"more\xff"[..], "4"));
    run.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_has_ended_is_emitted_for_no_more() {
    let mut run = Telling::begin().await;
    run.emit(&[EmitPiece::Text("x")]).await.unwrap();
    run.end().await;
    let refused = run.emit(&[EmitPiece::Text("late")]).await.unwrap_err();
    // The socket may be gone with its agent.
    let is_told = matches!(refused, EmitError::Refused { .. } | EmitError::Unreachable(_));
    assert!(is_told, "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tokens_of_a_run_that_has_ended_are_vouched_for() {
    let mut run = Telling::begin().await;
    run.emit(&[EmitPiece::Text("x")]).await.unwrap();
    let opened = run.hear(&[TOKENS_TEXT]).await;
    run.end().await;
    loop {
        if let Incoming::Checkpoint(checkpoint) =
            timeout(LIMIT, run.feed.next()).await.unwrap().unwrap()
            && checkpoint.vouching.vouched.contains(&opened.hash)
        {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_has_so_many_connections_and_no_more() {
    let run = Telling::begin().await;
    let connect = |stream: &'static str| {
        let (path, token) = (run.path.clone(), run.token.clone());
        tokio::task::spawn_blocking(move || EmitClient::connect(&path, &token, stream))
    };
    let mut open = Vec::new();
    for _ in 0..16 {
        open.push(connect("main").await.unwrap().unwrap());
    }
    let refused = connect("main").await.unwrap().unwrap_err().to_string();
    assert!(refused.contains("at most 16 connections"), "{refused}");
    drop(open);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_has_so_many_streams_and_no_more() {
    let run = Telling::begin().await;
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"];
    for name in names {
        run.emit_in(name, &[EmitPiece::Text("x")]).await.unwrap();
    }
    let refused = run.emit_in("q", &[EmitPiece::Text("x")]).await.unwrap_err().to_string();
    assert!(refused.contains("at most 16 streams"), "{refused}");
    run.emit_in("p", &[EmitPiece::Text("y")]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_are_no_streams_are_refused() {
    let run = Telling::begin().await;
    let refused = run.emit_in("a.b", &[EmitPiece::Text("x")]).await.unwrap_err();
    assert!(matches!(&refused, EmitError::Refused { reason } if reason.contains("stream")));
}
