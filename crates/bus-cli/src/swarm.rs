//! `vakbus swarm`: tasks in, a fleet of workers on one engine, evidence and a summary out.

mod away;
mod dead_letters;
mod evidence;
mod feeder;
mod files;
mod fleet;
mod ground;
mod ledger;
mod observer;
mod others;
mod plan;
mod progress;
mod show;
mod signals;
mod summary;

use std::{sync::Arc, time::Duration};

use bus_core::{Stop, Worker};
use bus_runner::CommandAgent;
use tokio::{
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use self::{
    away::Away, feeder::Fed, fleet::Fleet, ground::Site, ledger::Ledger, observer::Seen,
    others::Others, plan::Plan, progress::Progress, summary::Summary,
};
pub(crate) use self::{
    fleet::{LEASE_OF_DAEMON, emit_socket, run_id},
    plan::surrounding_trace,
    signals::{Asked, Signals},
};
use crate::{
    args::{Global, SwarmArgs},
    error::{CliError, Exit},
    gateway,
    home::Home,
    secrets::Secrets,
    terminal::CommandTerminal,
    workspace::Workspace,
};

/// Runs a swarm to its end and says how it went.
pub(crate) fn run(args: SwarmArgs, global: &Global) -> Result<Exit, CliError> {
    let mut plan = Plan::new(args, &global.config)?;
    let home = Home::locate(global.data_dir.as_deref())?;
    let secrets = Secrets::new(&global.config, &home);
    secrets.withhold(&mut plan.command);
    let workspace = Workspace::open_or_new(&home, &global.workspace)?;
    plan.make_evidence_dir()?;
    let site = Site::find(global, &home, &secrets)?;
    plan.check_recording(&site)?;
    files::allow(plan.workers)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| CliError::new(Exit::Failed, format!("cannot start: {error}")))?;
    let exit = runtime.block_on(async {
        let mut signals = Signals::new();
        let summary = drive(plan, &workspace, (global, &secrets, site), &mut signals).await?;
        summary.print(global.json, signals.patience()).await?;
        Ok(summary.exit())
    });
    // Whoever still writes to a reader that does not read is left behind.
    runtime.shutdown_background();
    exit
}

/// The whole run on one engine: fleet up, tasks in, results out, evidence, fleet down.
async fn drive(
    mut plan: Plan,
    workspace: &Workspace,
    (global, secrets, site): (&Global, &Secrets, Site),
    signals: &mut Signals,
) -> Result<Summary, CliError> {
    let gateway = gateway::bind(plan.metrics_listen).await?;
    let beginning = Fleet::start(workspace, &mut plan, (secrets, site));
    let Some(fleet) = signals.unless_asked(beginning).await? else {
        return Err(CliError::new(Exit::Failed, "interrupted before any task was begun"));
    };
    let _following = plan.terminal.as_ref().map(CommandTerminal::follow);
    let plan = Arc::new(plan);
    let began = fleet.clock.now();
    let ledger = Arc::new(Ledger::new(plan.tasks.len()));
    let stop = Stop::default();
    let feed = fleet.hear(plan.follow).await?;
    let observer = tokio_spawn(observer::watch(feed, plan.follow, signals.hurry.clone()));
    let progress = Progress::start(&ledger, fleet.backlog(), plan.follow, global);
    let others = watch_others(&fleet, &plan, &ledger)?;
    if let Some(http) = gateway::url(gateway.as_ref()) {
        progress.say(&format!("metrics at {http}/metrics")).await;
    }
    let _answers = gateway::answer(gateway, fleet.working());
    if fleet.is_shared {
        let run_id = &fleet.run_id;
        progress.say(&format!("to join this run: vakbus worker --join {run_id} -- …")).await;
    }
    let mut workers = start_workers(&fleet, &plan, &ledger, &stop);
    let source = fleet.orchestrator.clone();
    let fed = feeder::feed(source, Arc::clone(&plan), Arc::clone(&ledger), stop.drain.clone());
    let feeder = tokio_spawn(fed);

    wait(&ledger, &stop, &mut workers, (signals, &progress)).await;
    let fed = join(feeder, &ledger).await;
    if let Some(left) = fleet.left_behind(&plan, &ledger) {
        progress.say(&left).await;
    }
    progress.finish();
    tracing::info!("the tasks are done");
    let seconds = fleet.clock.now().since(began).as_secs_f64();
    let others = others.map(|(others, watching)| {
        watching.abort();
        others
    });
    let hurry = signals.hurry.clone();
    let parts = (fed, observer, hurry);
    let rest = finish((&fleet, &plan, others.as_deref()), &ledger, parts, seconds);
    Ok(signals.during(rest).await)
}

/// What comes after the tasks. Whatever goes wrong here is a trouble: the summary is told.
async fn finish(
    (fleet, plan, others): (&Fleet, &Plan, Option<&Others>),
    ledger: &Ledger,
    (fed, observer, hurry): (Fed, JoinHandle<Seen>, CancellationToken),
    seconds: f64,
) -> Summary {
    let _known = fleet.backlog().read().await;
    if let Some(others) = others
        && let Err(error) = others.look(ledger).await
    {
        ledger.fail(format!("what others did could not be read: {error}"));
    }
    let others = others.map(Others::seen).unwrap_or_default();
    let stored = evidence::read((fleet, &others), ledger).await;
    // Nothing is published any more: what the observer still holds is all there is.
    if let Err(error) = fleet.hush().await {
        ledger.fail(format!("the live events did not end: {error}"));
        observer.abort();
    }
    let seen = join(observer, ledger).await;
    let recorded = fleet.recorded(hurry.cancelled()).await.unwrap_or_else(|error| {
        ledger.fail(format!("not everything is recorded: {error}"));
        None
    });
    let mut bundle = None;
    if let Some(dir) = &plan.evidence {
        // Without evidence the run is not what was asked for, but its summary is still true.
        match evidence::write(dir, (fleet, &others), &fed, &stored) {
            Ok(_report) => bundle = Some(dir.display().to_string()),
            Err(error) => ledger.fail(error.to_string()),
        }
    }
    Summary::new((fleet, plan), ledger, (&fed, &seen, &stored), bundle, seconds).with(recorded)
}

/// Begins to look for what others end, where there may be any.
#[expect(clippy::type_complexity, reason = "a pair that is taken apart where it is used")]
fn watch_others(
    fleet: &Fleet,
    plan: &Plan,
    ledger: &Arc<Ledger>,
) -> Result<Option<(Arc<Others>, JoinHandle<()>)>, CliError> {
    if !fleet.is_shared {
        return Ok(None);
    }
    let others = Arc::new(Others::new(fleet, plan)?);
    let (watched, ledger) = (Arc::clone(&others), Arc::clone(ledger));
    let watching = tokio_spawn(async move { watched.watch(&ledger).await });
    Ok(Some((others, watching)))
}

fn start_workers(
    fleet: &Fleet,
    plan: &Arc<Plan>,
    ledger: &Arc<Ledger>,
    stop: &Stop,
) -> JoinSet<()> {
    let mut workers = JoinSet::new();
    for worker in fleet.workers(plan) {
        let agent = fleet.agent(plan);
        workers.spawn(work(worker, agent, Arc::clone(ledger), stop.clone()));
    }
    workers
}

/// One worker until it is told to stop. It waits for an engine of others that is away for a while.
/// One that ends before may hold a task whose lease lasts: the
/// run is drained then, because nobody else would get that task for a long time.
async fn work(worker: Worker, agent: CommandAgent, ledger: Arc<Ledger>, stop: Stop) {
    let mut away = Away::default();
    loop {
        match worker.run(&agent, &stop, |event| ledger.note(event)).await {
            Ok(()) if stop.drain.is_cancelled() => return,
            Ok(()) => ledger.fail("a worker ended before the tasks were done".to_owned()),
            Err(error) if agent.keeps_results && away.may_end(&error, Instant::now()) => {
                tracing::warn!(%error, "the engine is away: a worker tries again");
                tokio::select! {
                    () = sleep(Away::PAUSE) => continue,
                    () = stop.drain.cancelled() => return,
                }
            }
            Err(error) => ledger.fail(format!("a worker ended: {error}")),
        }
        return stop.drain.cancel();
    }
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
            asked = signals.next(|| ledger.is_settled()) => match asked {
                Asked::Nothing => {}
                Asked::Drain => {
                    ledger.interrupt();
                    stop.drain.cancel();
                    progress.say("finishing what runs; Ctrl-C again stops now").await;
                }
                Asked::StopNow => {
                    stop.now.cancel();
                    progress.say("stopping now: running commands are ended").await;
                }
            },
            ended = workers.join_next() => match ended {
                None => {
                    stop.drain.cancel();
                    return;
                }
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    ledger.fail(format!("a worker broke: {error}"));
                    stop.drain.cancel();
                }
            },
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the command line is one of the places that spawn")]
fn tokio_spawn<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    tokio::spawn(future)
}

/// The result of a task; one that broke is a trouble and has none.
async fn join<T: Default>(task: JoinHandle<T>, ledger: &Ledger) -> T {
    task.await.unwrap_or_else(|error| {
        ledger.fail(format!("a part of the run broke: {error}"));
        T::default()
    })
}

/// How long certificates of a swarm's agents are valid: longer than any run.
const VALID_FOR: Duration = Duration::from_secs(30 * 24 * 3600);

#[cfg(test)]
mod tests;
