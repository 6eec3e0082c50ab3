//! `vakbus task`: tasks sent, listed, shown, cancelled, and their results.

mod end;
mod list;
mod print;
mod send;

use std::time::Duration;

use bus_core::{Cancelled, QueuedTask, Tasks};
use serde_json::json;

use self::end::{End, Ends};
pub(crate) use self::send::{content_type, durability, payload, text_or_stdin};
use crate::{
    args::{Global, Raw, TaskCommand},
    engine::{self, Scope, Session},
    error::{CliError, Exit},
    print as out,
    workspace::Part,
};

/// Runs the command.
pub(crate) fn run(command: TaskCommand, global: &Global) -> Result<Exit, CliError> {
    match command {
        TaskCommand::Send(args) => send::run(args, global),
        TaskCommand::Ls(args) => {
            engine::run(global, async |session| list::run(&args, session, global).await)
        }
        TaskCommand::Show { id } => {
            engine::run(global, async |session| show(&id, session, global).await)
        }
        TaskCommand::Cancel { id, reason } => engine::run(global, async |session| {
            cancel(&id, reason.as_deref(), session, global).await
        }),
        TaskCommand::Result { id, wait, raw } => {
            Raw::check(raw, &format!("vakbus task result {id}"))?;
            engine::run(global, async |session| {
                let limit = wait.map(|wait| wait.0);
                result(&id, (limit, raw), session, global).await
            })
        }
    }
}

/// `limit` says whether its end is waited for, and how long; `raw` how its output is printed.
async fn result(
    id: &str,
    (limit, raw): (Option<Option<Duration>>, Option<Raw>),
    session: &Session,
    global: &Global,
) -> Result<Exit, CliError> {
    let agent = session.agent(Part::Operator, Scope::default()).await?;
    let ends = Ends::new(&agent, id, None);
    let end = match (ends.now().await?, limit) {
        (None, Some(limit)) => {
            session.place().check_shared("work on the task while this command waits for it")?;
            ends.wait(limit).await?
        }
        (end, _) => end,
    };
    match end {
        Some(end) => print::end(&agent, id, &end, (raw, global)).await,
        None if limit.is_some() => Err(print::no_end(id)),
        None => match Tasks::new(agent.endpoint.clone()).find(id).await? {
            Some(_) => Err(CliError::new(Exit::Timeout, format!("task {id} has no end yet"))
                .next(format!("vakbus task result {id} --wait"))),
            None => Err(unknown(id)),
        },
    }
}

async fn show(id: &str, session: &Session, global: &Global) -> Result<Exit, CliError> {
    let agent = session.agent(Part::Operator, Scope::default()).await?;
    if let Some(task) = Tasks::new(agent.endpoint.clone()).find(id).await? {
        print::queued(&task, session.clock.now(), global)?;
        return Ok(Exit::Done);
    }
    match Ends::new(&agent, id, None).now().await? {
        Some(End::Done(done)) => print::done_line(id, &done, global)?,
        Some(End::Dead(dead)) => print::dead_line(&dead, global)?,
        None => return Err(unknown(id)),
    }
    Ok(Exit::Done)
}

async fn cancel(
    id: &str,
    reason: Option<&str>,
    session: &Session,
    global: &Global,
) -> Result<Exit, CliError> {
    let agent = session.agent(Part::Operator, Scope::default()).await?;
    let tasks = Tasks::new(agent.endpoint.clone());
    let cancelled = match tasks.find(id).await? {
        Some(task) => cancel_found(&tasks, &task, reason).await?,
        None => Cancelled::Gone,
    };
    let (what, text, worker) = match &cancelled {
        Cancelled::TakenOut => ("taken-out", "taken out of its queue".to_owned(), None),
        Cancelled::Told { worker } => (
            "told",
            format!("a worker has begun it: {worker} is told to stop it, if it listens"),
            Some(worker),
        ),
        Cancelled::Gone => {
            let ended = Ends::new(&agent, id, None).now().await?;
            let what = match ended {
                None => return Err(unknown(id)),
                Some(End::Done(_)) => format!("task {id} is done already"),
                Some(End::Dead(_)) => format!("task {id} is given up already"),
            };
            return Err(CliError::new(Exit::Failed, what).next(format!("vakbus task show {id}")));
        }
    };
    if global.json {
        out::json(&json!({ "task": id, "cancelled": what, "worker": worker }))?;
    } else {
        out::line(&format!("task {id}: {text}"))?;
    }
    Ok(Exit::Done)
}

async fn cancel_found(
    tasks: &Tasks,
    task: &QueuedTask,
    reason: Option<&str>,
) -> Result<Cancelled, CliError> {
    Ok(tasks.cancel(task, reason).await?)
}

fn unknown(id: &str) -> CliError {
    let what = format!("no task {id} is in a queue, and none with this id has ended");
    CliError::new(Exit::Failed, what).next("vakbus task ls --json")
}
