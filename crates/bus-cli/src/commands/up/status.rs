//! `vakbus status`: which engine keeps the bus, whether it runs, what it promises, how it stands.

use std::time::Duration;

use bus_core::{Lag, Promises, planes};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    args::{Global, StatusArgs},
    commands::task::durability,
    engine::{self, NatsPlace, Paths, Scope, Session},
    error::{CliError, Exit},
    home::Home,
    print as out,
    secrets::Secrets,
    workspace::Part,
};

/// Says it; the exit code is that of an engine that cannot be reached when none runs.
pub(crate) fn run(args: &StatusArgs, global: &Global) -> Result<Exit, CliError> {
    engine::block_on(async {
        let until = args.wait.map(|wait| Instant::now() + wait);
        loop {
            let told = tell(global).await;
            let code = told.as_ref().map_or_else(CliError::code, |code| *code);
            if code != Exit::Unreachable {
                return told;
            }
            if until.is_none_or(|until| Instant::now() >= until) {
                none_runs(global)?;
                return told;
            }
            sleep(PAUSE).await;
        }
    })
}

/// Asks the engine and says it; says nothing when none runs.
async fn tell(global: &Global) -> Result<Exit, CliError> {
    let home = Home::locate(global.data_dir.as_deref())?;
    let paths = Paths::new(global, &home);
    let place = NatsPlace::find(global, &home, &Secrets::new(&global.config, &home))?;
    if place.is_none() && (global.memory || !paths.is_served()) {
        return Ok(Exit::Unreachable);
    }
    engine::with(global, async |session| {
        let state = state(session).await?;
        match &place {
            Some(place) => tell_nats(place, &state, global)?,
            None => tell_daemon(&paths, &state, global)?,
        }
        Ok(Exit::Done)
    })
    .await
}

/// What the engine says.
struct State {
    promises: Promises,
    lag: Lag,
}

async fn state(session: &Session) -> Result<State, CliError> {
    let agent = session.agent(Part::Operator, Scope::default()).await?;
    let stream = planes::work_stream(agent.endpoint.workspace())?;
    let lag = agent.endpoint.queue_lag(stream).await?;
    Ok(State { promises: agent.engine.promises(), lag })
}

fn none_runs(global: &Global) -> Result<(), CliError> {
    match global.json {
        true => out::json(&json!({ "running": false })),
        false => out::line("no engine runs for this data directory"),
    }
}

fn tell_daemon(paths: &Paths, state: &State, global: &Global) -> Result<(), CliError> {
    let running = paths.running();
    let running = running.as_ref();
    if global.json {
        let line = json!({
            "running": true,
            "pid": running.map(|running| running.pid),
            "since": running.map(|running| running.since.as_str()),
            "version": running.map(|running| running.version.as_str()),
            "socket": paths.socket.display().to_string(),
            "durability": running.map(|running| running.durability.as_str()),
        });
        return out::json(&out::with(line, rest(state, global)?));
    }
    if let Some(running) = running {
        out::line(&format!("running     pid {}, since {}", running.pid, running.since))?;
    }
    tell_promises(state)?;
    out::line(&format!("socket      {}", paths.socket.display()))?;
    tell_work(state, global)
}

fn tell_nats(place: &NatsPlace, state: &State, global: &Global) -> Result<(), CliError> {
    let supervisor = place.supervisor();
    if global.json {
        let line = json!({
            "running": true,
            "url": place.url(),
            "profile": place.profile(),
            "pid": supervisor.map(|running| running.pid),
            "since": supervisor.map(|running| running.since.as_str()),
            "version": supervisor.map(|running| running.version.as_str()),
            "server": supervisor.map(|running| running.server),
            "durability": durability(state.promises.durability),
        });
        return out::json(&out::with(line, rest(state, global)?));
    }
    if let Some(running) = supervisor {
        let (pid, since, server) = (running.pid, &running.since, running.server);
        out::line(&format!("running     pid {pid}, since {since}, nats-server {server}"))?;
    }
    tell_promises(state)?;
    out::line(&format!("server      {}, profile {}", place.told(), place.profile()))?;
    tell_work(state, global)
}

/// What every engine says of itself.
fn rest(state: &State, global: &Global) -> Result<Value, CliError> {
    Ok(json!({
        "engine": state.promises.engine,
        "shared": state.promises.shared,
        "workspace": global.workspace.as_str(),
        "streams": streams(global)?,
        "tasks": { "pending": state.lag.pending, "in_flight": state.lag.in_flight },
    }))
}

fn tell_promises(state: &State) -> Result<(), CliError> {
    let Promises { engine, durability: kept, shared } = state.promises;
    let survives = match kept {
        bus_core::Durability::Memory => "nothing",
        bus_core::Durability::Written => "the end of its processes, and not a power cut",
        bus_core::Durability::Synced => "a power cut",
    };
    let shared = if shared { "shared by processes" } else { "this process alone" };
    out::line(&format!("engine      {engine}, {shared}"))?;
    out::line(&format!("durability  {}: what is stored survives {survives}", durability(kept)))
}

fn tell_work(state: &State, global: &Global) -> Result<(), CliError> {
    out::line(&format!("streams     {}", streams(global)?.join(", ")))?;
    let Lag { pending, in_flight, .. } = state.lag;
    out::line(&format!("tasks       {pending} waiting, {in_flight} running"))
}

/// The names of the workspace's streams.
fn streams(global: &Global) -> Result<Vec<String>, CliError> {
    let streams = planes::workspace_streams(&global.workspace)?;
    Ok(streams.iter().map(|stream| stream.name.to_string()).collect())
}

/// The time between two looks. A look at a server that is away takes longer by itself.
const PAUSE: Duration = Duration::from_millis(50);
