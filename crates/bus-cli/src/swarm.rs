//! `vakbus swarm`: tasks in, a fleet of workers on the embedded engine, evidence and a summary out.

mod dead_letters;
mod evidence;
mod feeder;
mod files;
mod fleet;
mod ledger;
mod observer;
mod plan;
mod progress;
mod show;
mod signals;
mod summary;

use std::{sync::Arc, time::Duration};

use bus_core::Stop;
use tokio::task::JoinSet;

use self::{
    fleet::Fleet, ledger::Ledger, observer::Seen, plan::Plan, progress::Progress, signals::Signals,
    summary::Summary,
};
use crate::{
    args::{Global, SwarmArgs},
    error::{CliError, Exit},
    home::Home,
    workspace::Workspace,
};

/// Runs a swarm to its end and says how it went.
pub(crate) fn run(args: SwarmArgs, global: &Global) -> Result<Exit, CliError> {
    let plan = Plan::new(args)?;
    let home = Home::locate(global.data_dir.as_deref())?;
    let workspace = Workspace::open_or_new(&home, &global.workspace)?;
    plan.make_evidence_dir()?;
    files::allow(plan.workers)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| CliError::new(Exit::Failed, format!("cannot start: {error}")))?;
    let summary = runtime.block_on(drive(plan, &workspace, global))?;
    summary.print(global.json)?;
    Ok(summary.exit())
}

/// The whole run on one engine: fleet up, tasks in, results out, evidence, fleet down.
async fn drive(plan: Plan, workspace: &Workspace, global: &Global) -> Result<Summary, CliError> {
    let mut signals = Signals::new();
    let plan = Arc::new(plan);
    let fleet = Fleet::start(workspace, &plan).await?;
    let began = fleet.clock.now();
    let ledger = Arc::new(Ledger::new(plan.tasks.len()));
    let stop = Stop::default();
    let observer = tokio_spawn(observer::watch(fleet.hear().await?, plan.follow));
    let progress = Progress::start(&ledger, plan.follow, global);
    let mut workers = start_workers(&fleet, &plan, &ledger, &stop);
    let source = fleet.orchestrator.clone();
    let fed = feeder::feed(source, Arc::clone(&plan), Arc::clone(&ledger), stop.drain.clone());
    let feeder = tokio_spawn(fed);

    wait(&ledger, &stop, &mut workers, (&mut signals, &progress)).await;
    let fed = join(feeder).await?;
    progress.finish();
    let seconds = fleet.clock.now().since(began).as_secs_f64();

    let stored = evidence::read(&fleet).await?;
    // Nothing is published any more: what the observer still holds is all there is.
    fleet.engine.close().await?;
    let seen: Seen = join(observer).await?;
    let mut bundle = None;
    if let Some(dir) = &plan.evidence {
        // Without evidence the run is not what was asked for, but its summary is still true.
        match evidence::write(dir, &fleet, &fed, &stored) {
            Ok(_report) => bundle = Some(dir.display().to_string()),
            Err(error) => ledger.fail(error.to_string()),
        }
    }
    Ok(Summary::new((&fleet, &plan), &ledger, (&fed, &seen, &stored), bundle, seconds))
}

fn start_workers(
    fleet: &Fleet,
    plan: &Arc<Plan>,
    ledger: &Arc<Ledger>,
    stop: &Stop,
) -> JoinSet<()> {
    let mut workers = JoinSet::new();
    for worker in fleet.workers(plan) {
        let (ledger, stop, agent) = (Arc::clone(ledger), stop.clone(), fleet.agent(plan));
        workers.spawn(async move {
            let report = |event| ledger.note(event);
            if let Err(error) = worker.run(&agent, &stop, report).await {
                ledger.fail(format!("a worker ended: {error}"));
            }
        });
    }
    workers
}

/// Waits until every task is settled, the user says stop, or no worker is left.
async fn wait(
    ledger: &Ledger,
    stop: &Stop,
    workers: &mut JoinSet<()>,
    (signals, progress): (&mut Signals, &Progress),
) {
    loop {
        tokio::select! {
            biased;
            () = ledger.settled(), if !stop.drain.is_cancelled() => stop.drain.cancel(),
            () = signals.next() => {
                if stop.drain.is_cancelled() {
                    progress.say("stopping now: running commands are killed");
                    stop.now.cancel();
                } else {
                    ledger.interrupt();
                    stop.drain.cancel();
                    progress.say("finishing what runs; Ctrl-C again stops now");
                }
            }
            ended = workers.join_next() => match ended {
                None => {
                    stop.drain.cancel();
                    return;
                }
                Some(Ok(())) => {}
                Some(Err(error)) => ledger.fail(format!("a worker broke: {error}")),
            },
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the command line is one of the places that spawn")]
fn tokio_spawn<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    tokio::spawn(future)
}

async fn join<T>(task: tokio::task::JoinHandle<T>) -> Result<T, CliError> {
    task.await.map_err(|error| CliError::new(Exit::Failed, format!("a task broke: {error}")))
}

/// How long certificates of a swarm's agents are valid: longer than any run.
const VALID_FOR: Duration = Duration::from_secs(30 * 24 * 3600);
