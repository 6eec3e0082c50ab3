//! S3.40: what is sent to a hub that is away waits at home, and arrives once when it is back.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bus_core::{
    Bus, Courier, CourierEvent, DeadLetters, Endpoint, Engine, ErrorKind, Expect, Frame, FrameId,
    Guarded, Outbox, OutboxRecord, Outcome, RecordState, Redrive, Result, Revocation, Seq, Verdict,
    planes,
};
use bus_mem::InMemoryBus;
use bus_stories::{Fault, Flaky, Op, Stage, task};
use bus_subjects::{Address, AgentId, Filter, Role};
use tokio_util::sync::CancellationToken;

mod disk;
mod law;
mod refused;
mod takeover;

const WORK: &str = "vak.work.";
const OUTBOX: &str = "vak.outbox.";
const STATES: &str = "VAK_OUTBOX_w1.";

/// A workspace at home and its hub, both of which fail on command.
struct Place {
    home: Stage,
    flaky: Arc<Flaky>,
    hub: Arc<Flaky>,
    boss: Endpoint,
    told: Mutex<Vec<CourierEvent>>,
    /// Whether the courier's engine at home hands out several records at once: then it is not the
    /// one that fails.
    in_runs: bool,
}

impl Place {
    async fn new() -> Self {
        let (home, flaky) = Stage::flaky().await.unwrap();
        let hub = InMemoryBus::with_clock(Arc::clone(&home.clock));
        let hub = Arc::new(Flaky::new(Arc::new(hub)));
        for stream in planes::workspace_streams(&home.workspace).unwrap() {
            hub.declare(stream).await.unwrap();
        }
        home.engine.declare(planes::outbox(&home.workspace).unwrap()).await.unwrap();
        let boss = sender(&home, "boss", Role::Orchestrator);
        flaky.forget();
        hub.forget();
        Self { home, flaky, hub, boss, told: Mutex::default(), in_runs: false }
    }

    /// Sends tasks with these texts to the hub, and returns their ids.
    async fn fill(&self, texts: &[&str]) -> Vec<String> {
        let mut ids = Vec::new();
        for text in texts {
            ids.push(self.boss.send(task(&self.home, text)).await.unwrap().id);
        }
        ids
    }

    /// The courier, with the rights of an orchestrator at the hub.
    fn courier(&self) -> Courier {
        let policy = self.home.agent("at-hub", Role::Orchestrator).unwrap();
        let policy = policy.identity().certificate().policy();
        let hub = Guarded::new(Arc::clone(&self.hub) as Arc<dyn Engine>, policy);
        self.courier_to(Arc::new(hub))
    }

    fn courier_to(&self, hub: Arc<dyn Engine>) -> Courier {
        let identity = self.home.certified("courier", Role::Keeper).unwrap();
        let mut parts = self.home.parts(identity);
        if self.in_runs {
            let policy = parts.identity.certificate().policy();
            parts.engine = Arc::new(Guarded::new(self.flaky.inner(), policy));
        }
        Courier::new(Endpoint::new(parts).unwrap(), hub)
    }

    async fn run(&self, courier: &Courier, stop: &CancellationToken) -> Result<()> {
        courier.run(stop, |event| self.told.lock().unwrap().push(event)).await
    }

    /// Runs a courier until nothing waits.
    async fn drain(&self) {
        let (courier, stop) = (self.courier(), CancellationToken::new());
        tokio::select! {
            ended = self.run(&courier, &stop) => ended.unwrap(),
            () = self.is_empty() => {}
        }
    }

    /// Runs a courier for so long, and drops it.
    async fn run_for(&self, time: Duration) {
        let (courier, stop) = (self.courier(), CancellationToken::new());
        let _dropped = tokio::time::timeout(time, self.run(&courier, &stop)).await;
    }

    /// Returns when the outboxes hold nothing.
    async fn is_empty(&self) {
        let stream = planes::outbox_stream(&self.home.workspace).unwrap();
        loop {
            // Beside the flaky one: this is no part of the story.
            let lag = self.home.engine.lag(stream.clone()).await;
            if lag.is_ok_and(|lag| (lag.pending, lag.in_flight) == (0, 0)) {
                return;
            }
            pass(Duration::from_millis(50)).await;
        }
    }

    /// What the hub's stream of tasks holds, in order.
    async fn at_hub(&self) -> Vec<Frame> {
        let stream = planes::work_stream(&self.home.workspace).unwrap();
        let mut replay = self.hub.replay(stream, Filter::all(), Seq(1)).await.unwrap();
        let mut frames = Vec::new();
        while let Some(stored) = replay.next().await {
            frames.push(stored.unwrap().frame);
        }
        frames
    }

    async fn ids_at_hub(&self) -> Vec<String> {
        self.at_hub().await.iter().map(|frame| frame.id.to_string()).collect()
    }

    fn outbox(&self) -> Outbox {
        let boss = AgentId::parse("boss").unwrap();
        Outbox::new(Arc::clone(&self.home.engine), self.home.workspace.clone(), boss)
    }

    async fn states(&self) -> Vec<OutboxRecord> {
        self.outbox().states().await.unwrap()
    }

    async fn state(&self, id: &str) -> RecordState {
        self.outbox().state(&FrameId::parse(id).unwrap()).await.unwrap().unwrap().state
    }

    /// Puts `frame` into the outbox of `agent` as somebody would who may write there.
    async fn smuggle(&self, agent: &str, frame: Frame) {
        let (workspace, agent) = (self.home.workspace.clone(), AgentId::parse(agent).unwrap());
        let outbox = Outbox::new(Arc::clone(&self.home.engine), workspace, agent);
        outbox.put(frame).await.unwrap();
    }

    /// The one dead letter at home, and that nothing is at the hub.
    async fn assert_refused(&self, id: &str, reason: &str) {
        assert_eq!(self.at_hub().await, []);
        let mut letters = self.home.letters().await.unwrap();
        let letter = letters.pop().unwrap();
        assert_eq!(letters, []);
        assert!(letter.failure_reason.contains(reason), "{}", letter.failure_reason);
        assert_eq!(letter.original.id, id);
        let state = self.state(id).await;
        let is_noted = |why: &str| why == letter.failure_reason;
        let is_refused = matches!(&state, RecordState::Refused { reason, .. } if is_noted(reason));
        assert!(is_refused, "{state:?}");
    }
}

/// An endpoint whose tasks and letters go to the hub.
fn sender(stage: &Stage, name: &str, role: Role) -> Endpoint {
    let mut parts = stage.parts(stage.certified(name, role).unwrap());
    let agent = AgentId::parse(name).unwrap();
    parts.engine = Arc::new(Outbox::new(parts.engine, stage.workspace.clone(), agent));
    Endpoint::new(parts).unwrap()
}

/// Lets so much time of the stopped clock pass.
async fn pass(time: Duration) {
    let _over = tokio::time::timeout(time, std::future::pending::<()>()).await;
}

fn is_at_hub(state: &RecordState) -> bool {
    matches!(state, RecordState::AtHub { .. })
}

#[tokio::test(start_paused = true)]
async fn what_waited_arrives_once_and_in_order_after_the_hub_returns() {
    let place = Place::new().await;
    let texts: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    let ids = place.fill(&texts.iter().map(String::as_str).collect::<Vec<_>>()).await;
    place.hub.fail(Op::Append, WORK, Fault::Refused(ErrorKind::Unavailable), 5);
    place.drain().await;
    assert_eq!(place.ids_at_hub().await, ids);
    assert_eq!(place.flaky.appended(WORK), []);
}

#[tokio::test(start_paused = true)]
async fn every_record_has_a_state() {
    let place = Place::new().await;
    let ids = place.fill(&["a", "b", "c"]).await;
    assert_eq!(place.states().await, []);
    place.drain().await;
    let states = place.states().await;
    assert_eq!(states.iter().map(|record| record.id.to_string()).collect::<Vec<_>>(), ids);
    for (at, record) in states.iter().enumerate() {
        let RecordState::AtHub { stream, seq, is_duplicate, .. } = &record.state else {
            panic!("{record:?}")
        };
        assert_eq!((stream.as_str(), seq.0, *is_duplicate), ("VAK_WORK_w1", at as u64 + 1, false));
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_hub_gets_is_opened_there_as_its_author_sealed_it() {
    let place = Place::new().await;
    place.fill(&["a"]).await;
    place.drain().await;
    let opened = place.home.agent("coder-1", Role::Worker).unwrap();
    let opened = opened.open(&place.at_hub().await[0]).unwrap();
    assert_eq!((&*opened.payload, opened.envelope.lineage.agent.as_str()), (&b"a"[..], "boss"));
}

#[tokio::test(start_paused = true)]
async fn records_that_wait_together_go_together() {
    let place = Place { in_runs: true, ..Place::new().await };
    place.fill(&["a", "b", "c"]).await;
    place.drain().await;
    let calls = place.hub.calls();
    assert_eq!(calls.iter().filter(|call| call.op == Op::AppendAll).count(), 1);
    assert_eq!(calls.iter().filter(|call| call.op == Op::Append).count(), 0);
    assert_eq!(place.at_hub().await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_gets_no_answer_goes_in_halves() {
    let place = Place { in_runs: true, ..Place::new().await };
    let ids = place.fill(&["a", "b", "c", "d"]).await;
    // As on a way that never takes so much at once.
    place.hub.fail(Op::AppendAll, WORK, Fault::LostBefore, 2);
    place.drain().await;
    let calls = place.hub.calls();
    let of = |op| calls.iter().filter(|call| call.op == op).count();
    // Four, then the first two of them, each of these, and the last two.
    assert_eq!((of(Op::AppendAll), of(Op::Append)), (3, 2));
    assert_eq!(place.ids_at_hub().await, ids);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_repeats_the_same_bytes_and_stores_them_once() {
    for fault in [Fault::LostBefore, Fault::LostAfter] {
        let place = Place::new().await;
        let ids = place.fill(&["a", "b"]).await;
        place.hub.fail(Op::Append, WORK, fault, 3);
        place.drain().await;
        let sent = place.hub.appended(WORK);
        assert_eq!(sent[..4], vec![sent[0].clone(); 4], "{fault:?}");
        assert_eq!(place.ids_at_hub().await, ids, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_that_waits_says_why() {
    let place = Place::new().await;
    let ids = place.fill(&["a", "b"]).await;
    place.hub.fail(Op::Append, WORK, Fault::Refused(ErrorKind::Unavailable), 99);
    place.run_for(Duration::from_secs(1)).await;
    let outbox = place.outbox();
    let mut waiting = outbox.waiting(None).await.unwrap();
    let first = waiting.next().await.unwrap().unwrap();
    let second = waiting.next().await.unwrap().unwrap();
    assert_eq!(first.id.as_str(), ids[0]);
    assert_eq!(first.subject.as_deref(), Some("vak.work.w1.coder.task"));
    assert!(first.tries >= 2, "{first:?}");
    assert!(first.last_error.unwrap().contains("as the script says"));
    assert_eq!((second.id.as_str(), second.tries, second.last_error), (ids[1].as_str(), 0, None));
    assert!(waiting.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_counts_tell_what_waits_what_arrived_and_what_was_refused() {
    let place = Place::new().await;
    place.fill(&["a", "b"]).await;
    let forged = Frame::new(place.home.tasks().subject(), FrameId::parse("x").unwrap(), "forged");
    place.smuggle("boss", forged).await;
    place.drain().await;
    place.fill(&["c"]).await;
    pass(Duration::from_secs(3)).await;
    let counts = place.outbox().counts().await.unwrap();
    assert_eq!((counts.waiting, counts.at_hub, counts.refused), (1, 2, 1));
    assert!(counts.oldest.unwrap() >= Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn a_state_is_written_before_its_record_leaves() {
    let place = Place::new().await;
    place.fill(&["a"]).await;
    place.drain().await;
    let calls = place.flaky.calls();
    let written = calls.iter().position(|c| c.op == Op::Put && c.at.starts_with(STATES)).unwrap();
    let left = calls.iter().position(|c| c.verdict == Some(Verdict::Ack)).unwrap();
    assert!(written < left);
}

#[tokio::test(start_paused = true)]
async fn a_record_whose_state_is_known_is_not_carried_again_however_late() {
    let place = Place::new().await;
    let ids = place.fill(&["a"]).await;
    place.flaky.fail(Op::Settle, OUTBOX, Fault::LostBefore, 1);
    place.run_for(Duration::from_millis(100)).await;
    assert_eq!(place.hub.appended(WORK).len(), 1);
    // The hub knows the id no more.
    pass(Duration::from_secs(3600)).await;
    place.drain().await;
    assert_eq!(place.hub.appended(WORK).len(), 1);
    assert_eq!(place.ids_at_hub().await, ids);
}

#[tokio::test(start_paused = true)]
async fn a_courier_killed_while_it_asks_leaves_nothing_behind_and_nothing_twice() {
    let place = Place::new().await;
    let ids = place.fill(&["a", "b", "c"]).await;
    place.hub.fail(Op::Append, WORK, Fault::StuckAfter, 1);
    let (courier, stop) = (place.courier(), CancellationToken::new());
    tokio::select! {
        ended = place.run(&courier, &stop) => ended.unwrap(),
        () = place.hub.stuck() => {}
    }
    place.drain().await;
    assert_eq!(place.ids_at_hub().await, ids);
    assert!(place.states().await.iter().all(|record| is_at_hub(&record.state)));
}

#[tokio::test(start_paused = true)]
async fn a_stopped_courier_takes_the_answer_that_is_under_way_and_hands_back_the_rest() {
    let place = Place::new().await;
    let ids = place.fill(&["a", "b"]).await;
    place.hub.fail(Op::Append, WORK, Fault::SlowBefore(Duration::from_secs(2)), 1);
    let (courier, stop) = (place.courier(), CancellationToken::new());
    let soon = async {
        pass(Duration::from_secs(1)).await;
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(place.run(&courier, &stop), soon);
    ended.unwrap();
    assert_eq!(place.ids_at_hub().await, ids[..1]);
    assert!(is_at_hub(&place.state(&ids[0]).await));
    let counts = place.outbox().counts().await.unwrap();
    assert_eq!((counts.waiting, counts.at_hub), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_does_not_answer_holds_up_no_stop_for_long() {
    let place = Place::new().await;
    place.fill(&["a"]).await;
    place.hub.fail(Op::Append, WORK, Fault::StuckAfter, 1);
    let (courier, stop) = (place.courier(), CancellationToken::new());
    let soon = async {
        place.hub.stuck().await;
        stop.cancel();
        tokio::time::Instant::now()
    };
    let (ended, told) = tokio::join!(place.run(&courier, &stop), soon);
    ended.unwrap();
    assert_eq!(told.elapsed().as_secs(), 5);
    assert_eq!(place.outbox().counts().await.unwrap().waiting, 1);
}
