//! S3.38 to S3.42 on real servers: a machine with a leaf node, whose outboxes a courier carries to
//! a hub that is killed, and whose courier and leaf node are killed.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bus_core::{
    Bus, Courier, CourierEvent, Endpoint, Engine, Frame, Outbox, OutboxRecord, RecordState, Result,
    Roster, Seq, SystemClock, certify, planes,
};
use bus_nats::{ConnectionState, NatsBus};
use bus_stories::{Stage, task};
use bus_subjects::{AgentId, Filter, Role};
use bus_testserver::TestPair;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

/// What must come comes within this.
const SOON: Duration = Duration::from_secs(60);

/// A machine whose workspace lives at its leaf node, and a hub.
struct Machine {
    pair: TestPair,
    home: Stage,
    /// The engine behind `home`.
    leaf: NatsBus,
    hub: NatsBus,
    told: Arc<Mutex<Vec<CourierEvent>>>,
}

/// A courier at work; dropped it is killed.
struct Carrying {
    _task: JoinSet<Result<()>>,
}

impl Machine {
    async fn new() -> Self {
        let pair = tokio::task::block_in_place(TestPair::start);
        let leaf = NatsBus::open(pair.options(pair.leaf.url())).await.unwrap();
        let hub = NatsBus::open(pair.options(pair.hub.url())).await.unwrap();
        let home = Stage::on(Arc::new(leaf.clone()), Arc::new(SystemClock::new())).await.unwrap();
        leaf.declare(planes::outbox(&home.workspace).unwrap()).await.unwrap();
        for stream in planes::workspace_streams(&home.workspace).unwrap() {
            hub.declare(stream).await.unwrap();
        }
        Self { pair, home, leaf, hub, told: Arc::default() }
    }

    /// An agent whose tasks go to the hub.
    fn sender(&self, name: &str) -> Endpoint {
        let identity = self.home.certified(name, Role::Orchestrator).unwrap();
        let mut parts = self.home.parts(identity);
        let (workspace, agent) = (self.home.workspace.clone(), AgentId::parse(name).unwrap());
        parts.engine = Arc::new(Outbox::new(parts.engine, workspace, agent));
        Endpoint::new(parts).unwrap()
    }

    async fn fill(&self, boss: &Endpoint, count: usize) -> Vec<String> {
        let mut ids = Vec::new();
        for number in 0..count {
            ids.push(boss.send(task(&self.home, &number.to_string())).await.unwrap().id);
        }
        ids
    }

    fn carry(&self) -> Carrying {
        self.carry_believing(&self.home.roster)
    }

    fn carry_believing(&self, roster: &Arc<Roster>) -> Carrying {
        let identity = self.home.certified("courier", Role::Keeper).unwrap();
        let mut parts = self.home.parts(identity);
        parts.roster = Arc::clone(roster);
        let home = Endpoint::new(parts).unwrap();
        let courier = Courier::new(home, Arc::new(self.hub.clone()) as Arc<dyn Engine>);
        let told = Arc::clone(&self.told);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let report = |event| told.lock().unwrap().push(event);
            courier.run(&CancellationToken::new(), report).await
        });
        Carrying { _task: task }
    }

    fn carried(&self) -> usize {
        let told = self.told.lock().unwrap();
        told.iter().filter(|event| matches!(event, CourierEvent::Carried { .. })).count()
    }

    /// Waits until a courier has told of so many arrivals.
    async fn until_carried(&self, count: usize) {
        let end = Instant::now() + SOON;
        while self.carried() < count {
            assert!(Instant::now() < end, "{} of {count}: {:?}", self.carried(), self.told);
            let mut states = self.hub.states();
            // The next look: at a change, or in a moment.
            let _changed = timeout(Duration::from_millis(5), states.changed()).await;
        }
    }

    /// Waits until nothing is left in the outboxes.
    async fn until_empty(&self) {
        let end = Instant::now() + SOON;
        loop {
            let counts = self.outbox().counts().await;
            if counts.as_ref().is_ok_and(|counts| counts.waiting == 0) {
                return;
            }
            assert!(Instant::now() < end, "{counts:?}: {:?}", self.told.lock().unwrap());
            let mut states = self.leaf.states();
            let _changed = timeout(Duration::from_millis(20), states.changed()).await;
        }
    }

    fn outbox(&self) -> Outbox {
        let boss = AgentId::parse("boss").unwrap();
        Outbox::new(Arc::new(self.leaf.clone()), self.home.workspace.clone(), boss)
    }

    async fn states(&self) -> Vec<OutboxRecord> {
        self.outbox().states().await.unwrap()
    }

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

    async fn assert_none_at_home(&self) {
        let stream = planes::work_stream(&self.home.workspace).unwrap();
        assert_eq!(self.home.stored(stream).await.unwrap(), []);
    }
}

async fn lost(bus: &NatsBus) {
    let mut states = bus.states();
    let is_lost = |state: &ConnectionState| state.epoch().is_none();
    assert!(timeout(SOON, states.wait_for(is_lost)).await.is_ok(), "the loss was not told");
}

async fn found(bus: &NatsBus) {
    let mut states = bus.states();
    let is_there = |state: &ConnectionState| state.epoch().is_some();
    assert!(timeout(SOON, states.wait_for(is_there)).await.is_ok(), "it was not found again");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waited_arrives_once_after_the_hub_returns() {
    let mut machine = Machine::new().await;
    machine.pair.hub.kill();
    lost(&machine.hub).await;
    let boss = machine.sender("boss");
    let mut ids = machine.fill(&boss, 20).await;
    let _courier = machine.carry();
    ids.extend(machine.fill(&boss, 20).await);
    assert_eq!(machine.outbox().counts().await.unwrap().waiting, 40);
    machine.pair.hub.restart().unwrap();
    machine.until_carried(40).await;
    machine.until_empty().await;
    assert_eq!(machine.ids_at_hub().await, ids);
    machine.assert_none_at_home().await;
    // As its author sealed it.
    let worker = machine.home.agent("coder-1", Role::Worker).unwrap();
    let first = worker.open(machine.at_hub().await.first().unwrap()).unwrap();
    assert_eq!((&*first.payload, first.envelope.lineage.agent.as_str()), (&b"0"[..], "boss"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_leaf_and_a_killed_courier_lose_nothing() {
    let mut machine = Machine::new().await;
    let boss = machine.sender("boss");
    let mut ids = Vec::new();
    for round in 0..3 {
        ids.extend(machine.fill(&boss, 60).await);
        let courier = machine.carry();
        // In the middle of its way, wherever that is.
        machine.until_carried(round * 60 + 1).await;
        machine.pair.leaf.kill();
        drop(courier);
        lost(&machine.leaf).await;
        machine.pair.leaf.restart().unwrap();
        found(&machine.leaf).await;
        let _next = machine.carry();
        machine.until_empty().await;
    }
    assert_eq!(machine.ids_at_hub().await, ids);
    let states = machine.states().await;
    assert_eq!(states.len(), ids.len());
    assert!(states.iter().all(|record| matches!(record.state, RecordState::AtHub { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_that_is_killed_while_records_arrive_has_each_once() {
    let mut machine = Machine::new().await;
    let boss = machine.sender("boss");
    let _courier = machine.carry();
    let mut ids = Vec::new();
    for round in 0..3 {
        ids.extend(machine.fill(&boss, 60).await);
        machine.until_carried(round * 60 + 1).await;
        machine.pair.hub.kill();
        lost(&machine.hub).await;
        machine.pair.hub.restart().unwrap();
        machine.until_empty().await;
    }
    assert_eq!(machine.ids_at_hub().await, ids);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_record_has_a_state() {
    let mut machine = Machine::new().await;
    let boss = machine.sender("boss");
    let arrived = machine.fill(&boss, 3).await;
    let courier = machine.carry();
    machine.until_empty().await;
    drop(courier);
    machine.pair.hub.kill();
    lost(&machine.hub).await;
    let waiting = machine.fill(&boss, 2).await;
    let _courier = machine.carry();
    let end = Instant::now() + SOON;
    let outbox = machine.outbox();
    loop {
        let mut records = outbox.waiting(None).await.unwrap();
        let first = records.next().await.unwrap().unwrap();
        assert_eq!(first.id.as_str(), waiting.first().unwrap());
        if first.tries > 0 {
            assert!(first.last_error.is_some(), "{first:?}");
            break;
        }
        assert!(Instant::now() < end, "it was never tried");
    }
    let states = machine.states().await;
    for id in &arrived {
        let state = states.iter().find(|record| record.id.as_str() == id).map(|it| &it.state);
        let Some(RecordState::AtHub { stream, .. }) = state else { panic!("{id}: {state:?}") };
        assert_eq!(stream.as_str(), "VAK_WORK_w1");
    }
    let counts = outbox.counts().await.unwrap();
    assert_eq!((counts.waiting, counts.at_hub, counts.refused), (2, 3, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_its_author_may_not_publish_is_not_carried() {
    let machine = Machine::new().await;
    let (boss, other) = (machine.sender("boss"), machine.sender("boss-2"));
    let forbidden = machine.fill(&other, 1).await;
    let allowed = machine.fill(&boss, 1).await;
    // The courier knows by now that the one may only look.
    let roster = Roster::new(*machine.home.account().public());
    roster.admit(boss.identity().certificate().token()).unwrap();
    let issue = machine.home.issue("boss-2", Role::Observer).unwrap();
    let nkey = &other.identity().certificate().nkey;
    roster.admit(&certify(machine.home.account(), nkey, &issue).unwrap()).unwrap();
    let _courier = machine.carry_believing(&Arc::new(roster));
    machine.until_empty().await;
    assert_eq!(machine.ids_at_hub().await, allowed);
    let states = machine.states().await;
    let state = states.iter().find(|record| record.id.as_str() == forbidden[0]).map(|it| &it.state);
    assert!(matches!(state, Some(RecordState::Refused { .. })), "{state:?}");
    let letters = machine.home.letters().await.unwrap();
    let letters: Vec<_> = letters.iter().map(|letter| letter.original.id.clone()).collect();
    assert_eq!(letters, forbidden);
}
