//! `vakbus worker`: serves a queue with a command, for as long as it is wanted.

mod report;

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use bus_core::{ErrorKind, Stop, Worker, WorkerSpec, planes};
use bus_runner::{CommandAgent, CommandSpec};
use bus_subjects::{Address, RoleName, SessionId};
use tokio::time::{MissedTickBehavior, sleep};

use self::report::Report;
use crate::{
    args::{Global, WorkerArgs},
    engine::{self, Agent, Scope, Session},
    error::{CliError, Exit},
    gateway::{self, Question, Working},
    print as out,
    recording::{self, Recording},
    swarm::{Asked, LEASE_OF_DAEMON, Signals, emit_socket, run_id},
    terminal::CommandTerminal,
    workspace::Part,
};

/// Serves the queue until it is told to stop, or with `--until-empty` until nothing is left.
pub(crate) fn run(mut args: WorkerArgs, global: &Global) -> Result<Exit, CliError> {
    if let Some((_, swarm)) = args.joined() {
        args.role = RoleName::parse(&swarm)?;
    }
    let mut words = args.command.clone().into_iter();
    let Some(program) = words.next() else {
        return Err(CliError::usage("no command is given").next("vakbus worker --help"));
    };
    let mut command = CommandSpec::new(program, words);
    command.timeout = args.timeout;
    let terminal = CommandTerminal::wanted(&args.terminal);
    command.terminal = terminal.as_ref().map(CommandTerminal::terminal);
    engine::run(global, async |session| {
        let _following = terminal.as_ref().map(CommandTerminal::follow);
        serve(&args, command, session, global).await
    })
}

async fn serve(
    args: &WorkerArgs,
    mut command: CommandSpec,
    session: &Session,
    global: &Global,
) -> Result<Exit, CliError> {
    session.secrets.withhold(&mut command);
    let mut signals = Signals::new();
    let (run_id, name) = match args.joined() {
        Some((run, swarm)) => (run.to_owned(), SessionId::parse(&swarm)?),
        None => {
            let run_id = run_id(&*session.clock, &*session.entropy)?;
            let name = SessionId::parse(&format!("worker-{run_id}"))?;
            (run_id, name)
        }
    };
    let scope = Scope { session: Some(name.clone()), queue: Some(args.role.clone()) };
    let beginning = async {
        let recording = record(args, session, &name).await?;
        let gateway = gateway::bind(args.metrics_listen).await?;
        Ok((recording, gateway, session.agent(Part::Worker, scope).await?))
    };
    let begun = signals.unless_asked(beginning).await?;
    let Some((recording, gateway, agent)) = begun else { return Ok(Exit::Done) };
    let mut handler = CommandAgent::new(command, name, run_id);
    handler.keeps_results = true;
    handler.emit = emit_socket(&*session.entropy);
    if let Some(bytes_max) = args.output_max {
        handler.output_bytes_max = bytes_max;
    }
    let worker = Worker::new(agent.endpoint.clone(), spec(args, global));
    let report = Arc::new(Report::new(global));
    let stop = Stop::default();
    out::remark(&format!("serving {} as {}", args.role, agent.endpoint.agent()));
    if let Some(http) = gateway::url(gateway.as_ref()) {
        report.listens(&http)?;
    }
    let _answers = gateway::answer(gateway, working(&agent, session, &handler.session));
    let worked = {
        let work = work(&worker, &handler, &stop, &report);
        let watched = watch(args, session, &stop, &mut signals, &report);
        tokio::pin!(work, watched);
        tokio::select! {
            biased;
            worked = &mut work => worked,
            // It only ends when something went wrong: what runs is finished then.
            failed = &mut watched => {
                stop.drain.cancel();
                let worked = work.await;
                failed.and(worked)
            }
        }
    };
    if let Some(recording) = recording {
        // Who asked to stop now is not to ask again.
        let hurry = async {
            if !stop.now.is_cancelled() {
                signals.next(|| false).await;
            }
        };
        match recording.finish(hurry).await {
            Ok(Some(recorded)) => out::remark(&recording::told(&recorded)),
            Ok(None) => {}
            Err(error) => out::remark(&error.as_warning()),
        }
    }
    worked?;
    report.finish()?;
    Ok(match args.until_empty && report.dead_lettered() > 0 {
        true => Exit::Partly,
        false => Exit::Done,
    })
}

/// Begins to record the worker's session, if that is wanted. Trouble with it later is told, and no
/// failure of the work.
async fn record(
    args: &WorkerArgs,
    session: &Session,
    name: &SessionId,
) -> Result<Option<Recording>, CliError> {
    let Some(policy) = args.recording.policy() else { return Ok(None) };
    if !session.place().outlives() {
        let what = "with --memory nobody could see later what is recorded";
        return Err(CliError::usage(what).next("leave out --record, or --memory"));
    }
    let recorder = session.own(recording::PART).await?;
    let recording = Recording::begin(recorder.endpoint, name, policy).await?;
    out::remark(&format!(
        "recording session {name}; see: vakbus sub --session {name} --window 500"
    ));
    Ok(Some(recording))
}

/// What this worker shows of itself. It may read the receipts of its own session: an engine that
/// says which is the last one answers.
fn working(agent: &Agent, session: &Session, own: &SessionId) -> Working {
    let workspace = agent.endpoint.workspace().clone();
    let receipts = Address::Receipt { workspace: workspace.clone(), session: own.clone() };
    Working {
        engine: Arc::clone(&agent.engine),
        workspace,
        metrics: Arc::clone(&session.metrics),
        question: Question::Last(receipts.subject()),
    }
}

fn spec(args: &WorkerArgs, global: &Global) -> WorkerSpec {
    let mut spec = WorkerSpec::new(args.role.clone());
    spec.lease = LEASE_OF_DAEMON;
    spec.retry = global.config.retry(args.max_retries, args.backoff);
    spec.concurrency = NonZeroUsize::new(args.concurrency.into()).unwrap_or(NonZeroUsize::MIN);
    spec.hears_cancels = true;
    spec
}

/// Works until it is told to stop. An engine that is away for a while is waited for: what was held
/// then comes again when its lease is over.
async fn work(
    worker: &Worker,
    handler: &CommandAgent,
    stop: &Stop,
    report: &Report,
) -> Result<(), CliError> {
    loop {
        let error = match worker.run(handler, stop, |event| report.note(event)).await {
            Ok(()) if stop.drain.is_cancelled() || stop.now.is_cancelled() => return Ok(()),
            Ok(()) => return Err(CliError::new(Exit::Unreachable, "the bus was closed")),
            Err(error) => error,
        };
        if !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout) {
            return Err(error.into());
        }
        out::remark(&format!("warning: {error}; trying again"));
        tokio::select! {
            () = stop.drain.cancelled() => return Ok(()),
            () = sleep(AWAY) => {}
        }
    }
}

/// Hears signals, and whether the queue is empty. Returns only with an error.
async fn watch(
    args: &WorkerArgs,
    session: &Session,
    stop: &Stop,
    signals: &mut Signals,
    report: &Report,
) -> Result<(), CliError> {
    let operator = match args.until_empty {
        true => Some(session.own(Part::Operator).await?),
        false => None,
    };
    let mut renewals = tokio::time::interval(RENEW_EVERY);
    renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let looked = async {
            match &operator {
                Some(operator) if !stop.drain.is_cancelled() => {
                    report.changed(LOOK_EVERY).await;
                    is_empty(operator, &args.role).await
                }
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            asked = signals.next(|| false) => match asked {
                Asked::Nothing => {}
                Asked::Drain => {
                    stop.drain.cancel();
                    out::remark("finishing what runs; a second signal hands it back and stops now");
                }
                Asked::StopNow => {
                    stop.now.cancel();
                    out::remark("stopping now: running commands are ended, their tasks handed back");
                }
            },
            _tick = renewals.tick() => session.renew(),
            is_empty = looked => if is_empty? {
                stop.drain.cancel();
            },
        }
    }
}

/// Whether nothing waits, rests or runs in the queue of `role`. One that nobody joined yet is not
/// known to be empty.
async fn is_empty(operator: &Agent, role: &RoleName) -> Result<bool, CliError> {
    let stream = planes::work_stream(operator.endpoint.workspace())?;
    let consumers = match operator.endpoint.queues(stream).await {
        // A daemon that is away for a while has emptied nothing.
        Err(error) if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout) => {
            return Ok(false);
        }
        consumers => consumers?,
    };
    let name = format!("worker_{role}");
    let queue = consumers.iter().find(|queue| queue.spec.name.as_str() == name);
    Ok(queue.is_some_and(|queue| queue.lag.pending == 0 && queue.lag.in_flight == 0))
}

/// How long an engine that is away is left alone.
const AWAY: Duration = Duration::from_secs(1);

/// How often an idle worker looks whether its queue is empty.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How often secrets and revocations are read again: a task that is sealed under a new secret rests
/// for five seconds when it is not known yet.
const RENEW_EVERY: Duration = Duration::from_secs(2);
