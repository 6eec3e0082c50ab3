//! `vakbus status`: whether a daemon runs, and how it stands.

use bus_core::{Lag, planes};
use serde_json::json;

use crate::{
    args::Global,
    engine::{self, Paths, Scope, Session},
    error::{CliError, Exit},
    home::Home,
    print as out,
    workspace::Part,
};

/// Says it; the exit code is that of an engine that cannot be reached when none runs.
pub(crate) fn run(global: &Global) -> Result<Exit, CliError> {
    let home = Home::locate(global.data_dir.as_deref())?;
    let paths = Paths::new(global, &home);
    if global.memory || !paths.is_served() {
        match global.json {
            true => out::json(&json!({ "running": false }))?,
            false => out::line("no daemon runs for this data directory")?,
        }
        return Ok(Exit::Unreachable);
    }
    let running = paths.running();
    engine::run(global, async |session| {
        let lag = work(session).await?;
        let running = running.as_ref();
        if global.json {
            out::json(&json!({
                "running": true,
                "pid": running.map(|running| running.pid),
                "since": running.map(|running| running.since.as_str()),
                "version": running.map(|running| running.version.as_str()),
                "socket": paths.socket.display().to_string(),
                "durability": running.map(|running| running.durability.as_str()),
                "workspace": global.workspace.as_str(),
                "streams": streams(global)?,
                "tasks": { "pending": lag.pending, "in_flight": lag.in_flight },
            }))?;
            return Ok(Exit::Done);
        }
        if let Some(running) = running {
            out::line(&format!("running     pid {}, since {}", running.pid, running.since))?;
            out::line(&format!("durability  {}", running.durability))?;
        }
        out::line(&format!("socket      {}", paths.socket.display()))?;
        out::line(&format!("streams     {}", streams(global)?.join(", ")))?;
        let Lag { pending, in_flight, .. } = lag;
        out::line(&format!("tasks       {pending} waiting, {in_flight} running"))?;
        Ok(Exit::Done)
    })
}

async fn work(session: &Session) -> Result<Lag, CliError> {
    let agent = session.agent(Part::Operator, Scope::default()).await?;
    let stream = planes::work_stream(agent.endpoint.workspace())?;
    Ok(agent.endpoint.queue_lag(stream).await?)
}

/// The names of the workspace's streams.
fn streams(global: &Global) -> Result<Vec<String>, CliError> {
    let streams = planes::workspace_streams(&global.workspace)?;
    Ok(streams.iter().map(|stream| stream.name.to_string()).collect())
}
