//! The parts of a run without its commands: what breaks is told, and never waited for.

use bus_core::WorkerSpec;
use bus_runner::{CommandSpec, TaskLine};
use bus_subjects::{RoleName, WorkspaceId};
use tempfile::TempDir;
use tokio::time::timeout;

use super::*;
use crate::{
    args::Color,
    config::{Config, Layer},
};

const LIMIT: Duration = Duration::from_secs(60);

/// A fleet of one worker for tasks with these texts.
pub(super) async fn fleet(texts: &[&str]) -> (TempDir, Plan, Fleet) {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::locate(Some(&dir.path().join("data"))).unwrap();
    let name = WorkspaceId::parse("default").unwrap();
    let workspace = Workspace::new(&home, &name).unwrap();
    let task =
        |(at, text): (usize, &&str)| TaskLine { line: at + 1, id: None, text: (*text).to_owned() };
    let mut plan = Plan {
        role: RoleName::parse("worker").unwrap(),
        workers: 1,
        tasks: texts.iter().enumerate().map(task).collect(),
        retry: bus_core::RetryPolicy::default(),
        command: CommandSpec::new("true", [] as [&str; 0]),
        terminal: None,
        output_bytes_max: bus_runner::OUTPUT_BYTES_MAX,
        evidence: None,
        follow: false,
        recording: None,
        metrics_listen: None,
        trace: None,
        limits: bus_mem::Limits::default(),
    };
    let secrets = Secrets::new(&Config::default(), &home);
    let fleet = Fleet::start(&workspace, &mut plan, (&secrets, Site::Own)).await.unwrap();
    (dir, plan, fleet)
}

fn troubles(ledger: &Ledger) -> Vec<String> {
    ledger.state().troubles
}

/// Waits for workers of which none does any work.
async fn waited(ledger: &Ledger, workers: &mut JoinSet<()>, stop: &Stop) {
    let global = Global {
        workspace: WorkspaceId::parse("default").unwrap(),
        data_dir: None,
        json: false,
        verbose: 0,
        quiet: true,
        color: Color::Never,
        nats_url: None,
        creds: None,
        settings_file: None,
        agent: None,
        memory: false,
        config: Config::default(),
        flags: Layer::default(),
    };
    let (_dir, _plan, fleet) = fleet(&[]).await;
    let progress = Progress::start(&Arc::new(Ledger::new(1)), fleet.backlog(), false, &global);
    let mut signals = Signals::new();
    let waiting = wait(ledger, stop, workers, (&mut signals, &progress));
    timeout(LIMIT, waiting).await.expect("the run waits for ever");
}

#[tokio::test]
async fn a_worker_that_ends_by_an_error_drains_the_run() {
    let (_dir, plan, fleet) = fleet(&["a"]).await;
    // The orchestrator has no right to take tasks.
    let spec = WorkerSpec::new(plan.role.clone());
    let worker = Worker::new(fleet.orchestrator.clone(), spec);
    let (ledger, stop) = (Arc::new(Ledger::new(1)), Stop::default());
    work(worker, fleet.agent(&plan), Arc::clone(&ledger), stop.clone()).await;
    assert!(stop.drain.is_cancelled());
    let said = troubles(&ledger);
    assert!(said.len() == 1 && said[0].starts_with("a worker ended: "), "{said:?}");
}

#[tokio::test]
async fn a_worker_that_breaks_drains_the_run() {
    let (ledger, stop) = (Ledger::new(1), Stop::default());
    let mut workers = JoinSet::new();
    workers.spawn(async { panic!("on purpose") });
    let drained = stop.drain.clone();
    workers.spawn(async move { drained.cancelled().await });
    waited(&ledger, &mut workers, &stop).await;
    let said = troubles(&ledger);
    assert!(said.len() == 1 && said[0].starts_with("a worker broke: "), "{said:?}");
}

#[tokio::test]
async fn a_part_that_breaks_after_the_tasks_is_a_trouble_and_no_end() {
    let ledger = Ledger::new(0);
    let seen: Seen = join(tokio_spawn(async { panic!("on purpose") }), &ledger).await;
    assert_eq!((seen.events, troubles(&ledger).len()), (0, 1));
}

#[tokio::test]
async fn a_pause_of_minutes_loses_no_worker() {
    let (_dir, plan, _fleet) = fleet(&["a"]).await;
    assert!(fleet::worker_spec(&plan).lease >= Duration::from_secs(3600));
}

#[tokio::test]
async fn one_agents_end_is_not_the_end_of_the_bus() {
    let (_dir, plan, fleet) = fleet(&["a"]).await;
    let mut feed = fleet.hear(false).await.unwrap();
    fleet.hush().await.unwrap();
    assert!(feed.next().await.is_none());
    let ledger = Arc::new(Ledger::new(1));
    let drain = Stop::default().drain;
    let fed = feeder::feed(fleet.orchestrator.clone(), Arc::new(plan), ledger.clone(), drain).await;
    assert_eq!((fed.ids.len(), troubles(&ledger).len()), (1, 0));
}

#[tokio::test]
async fn the_lag_is_what_the_engine_says() {
    let (_dir, plan, fleet) = fleet(&["a", "b", "c"]).await;
    let (ledger, drain) = (Arc::new(Ledger::new(3)), Stop::default().drain);
    feeder::feed(fleet.orchestrator.clone(), Arc::new(plan), ledger, drain).await;
    assert_eq!(fleet.backlog().read().await, Some(3));
    assert_eq!(fleet.metrics.snapshot().active_queue_lag, 3);
}

#[tokio::test]
async fn a_task_whose_worker_is_in_doubt_is_done_when_its_receipt_is_and_its_queue_is_empty() {
    let (_dir, plan, fleet) = fleet(&["a"]).await;
    let (plan, ledger) = (Arc::new(plan), Arc::new(Ledger::new(1)));
    let (drain, stop) = (Stop::default().drain, Stop::default());
    let source = fleet.orchestrator.clone();
    let fed = feeder::feed(source, Arc::clone(&plan), Arc::clone(&ledger), drain).await;
    let others = Others::new(&fleet, &plan).unwrap();
    let doubt = || {
        let error = bus_core::Error::new(bus_core::ErrorKind::Unavailable, "settle", "lost");
        bus_core::TaskEvent::Unsettled { task_id: fed.ids[0].clone(), error: error.unknown() }
    };
    ledger.note(doubt());
    // It waits in its queue.
    others.look(&ledger).await.unwrap();
    assert!(!ledger.is_settled());
    let workers = fleet.workers(&plan);
    workers[0].run(&fleet.agent(&plan), &stop, |_| stop.drain.cancel()).await.unwrap();
    others.look(&ledger).await.unwrap();
    assert_eq!(ledger.state().completed, 1);
}
