//! Outboxes on an engine that is closed and opened again: what waits, and what is known of it.

use std::path::Path;

use bus_core::{Clock, SystemClock};
use bus_disk::{DiskBus, DiskOptions};

use super::*;

/// A workspace at home on a directory, and its hub in memory.
struct Machine {
    home: Stage,
    bus: DiskBus,
    hub: Arc<Flaky>,
}

impl Machine {
    async fn new(dir: &Path) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let bus = DiskBus::open(DiskOptions::new(dir)).unwrap();
        let home = Stage::on(Arc::new(bus.connect()), clock).await.unwrap();
        home.engine.declare(planes::outbox(&home.workspace).unwrap()).await.unwrap();
        let hub = Arc::new(Flaky::new(Arc::new(InMemoryBus::new())));
        for stream in planes::workspace_streams(&home.workspace).unwrap() {
            hub.declare(stream).await.unwrap();
        }
        Self { home, bus, hub }
    }

    async fn restart(&mut self, dir: &Path) {
        self.bus.shut_down().await.unwrap();
        self.bus = DiskBus::open(DiskOptions::new(dir)).unwrap();
        self.home.engine = Arc::new(self.bus.connect());
    }

    /// Runs a courier until it has told so many arrivals; at home `fault` is before it.
    async fn carry(&self, arrivals: usize, at_home: impl FnOnce(&Flaky)) -> Vec<CourierEvent> {
        let flaky = Arc::new(Flaky::new(Arc::clone(&self.home.engine)));
        at_home(&flaky);
        let mut parts = self.home.parts(self.home.certified("courier", Role::Keeper).unwrap());
        parts.engine = flaky;
        let hub = Arc::clone(&self.hub) as Arc<dyn Engine>;
        let courier = Courier::new(Endpoint::new(parts).unwrap(), hub);
        let (stop, mut told) = (CancellationToken::new(), Vec::new());
        let report = |event: CourierEvent| {
            told.push(event);
            if told.len() == arrivals {
                stop.cancel();
            }
        };
        courier.run(&stop, report).await.unwrap();
        told
    }

    async fn ids_at_hub(&self) -> Vec<String> {
        let stream = planes::work_stream(&self.home.workspace).unwrap();
        let mut replay = self.hub.replay(stream, Filter::all(), Seq(1)).await.unwrap();
        let mut ids = Vec::new();
        while let Some(stored) = replay.next().await {
            ids.push(stored.unwrap().frame.id.to_string());
        }
        ids
    }

    fn outbox(&self) -> Outbox {
        let boss = AgentId::parse("boss").unwrap();
        Outbox::new(Arc::clone(&self.home.engine), self.home.workspace.clone(), boss)
    }
}

async fn fill(home: &Stage, count: usize) -> Vec<String> {
    let boss = sender(home, "boss", Role::Orchestrator);
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(boss.send(task(home, "t")).await.unwrap().id);
    }
    ids
}

#[tokio::test]
async fn what_waits_outlives_the_engine_it_waits_in() {
    let dir = tempfile::tempdir().unwrap();
    let mut machine = Machine::new(dir.path()).await;
    let ids = fill(&machine.home, 3).await;
    machine.restart(dir.path()).await;
    machine.carry(3, |_| {}).await;
    assert_eq!(machine.ids_at_hub().await, ids);
    assert_eq!(machine.outbox().counts().await.unwrap().waiting, 0);
}

#[tokio::test]
async fn what_became_of_a_record_outlives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mut machine = Machine::new(dir.path()).await;
    let ids = fill(&machine.home, 2).await;
    machine.carry(2, |_| {}).await;
    machine.restart(dir.path()).await;
    let states = machine.outbox().states().await.unwrap();
    assert_eq!(states.iter().map(|record| record.id.to_string()).collect::<Vec<_>>(), ids);
    assert!(states.iter().all(|record| is_at_hub(&record.state)));
}

#[tokio::test]
async fn a_restart_between_a_state_and_its_settlement_carries_nothing_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut machine = Machine::new(dir.path()).await;
    let ids = fill(&machine.home, 1).await;
    let told = machine.carry(1, |home| home.fail(Op::Settle, OUTBOX, Fault::LostBefore, 9)).await;
    assert!(matches!(told.as_slice(), [CourierEvent::Carried { .. }]), "{told:?}");
    assert_eq!(machine.outbox().counts().await.unwrap().waiting, 1);
    machine.restart(dir.path()).await;
    let more = fill(&machine.home, 1).await;
    machine.carry(1, |_| {}).await;
    assert_eq!(machine.hub.appended(WORK).len(), 2);
    assert_eq!(machine.ids_at_hub().await, [ids, more].concat());
}

#[tokio::test]
async fn a_restart_before_a_state_is_written_repeats_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let mut machine = Machine::new(dir.path()).await;
    let ids = fill(&machine.home, 1).await;
    // What is told is that the state was not written.
    let refused = Fault::Refused(ErrorKind::Unavailable);
    let told = machine.carry(1, |home| home.fail(Op::Put, STATES, refused, 9)).await;
    assert!(matches!(told.as_slice(), [CourierEvent::Delayed { .. }]), "{told:?}");
    machine.restart(dir.path()).await;
    machine.carry(1, |_| {}).await;
    let sent = machine.hub.appended(WORK);
    assert_eq!(sent.len(), 2);
    assert_eq!(sent.first(), sent.last());
    assert_eq!(machine.ids_at_hub().await, ids);
}
