//! `vakbus task ls`: the tasks in their queues, and those that have ended.

use bus_core::{DeadLetters, LetterFilter, LetterOrder, Results, Tasks};
use bus_subjects::{Address, Filter};

use super::{
    end::{Dead, Done},
    print,
};
use crate::{
    args::{Global, LsArgs, TaskState},
    engine::{Agent, Scope, Session},
    error::{CliError, Exit},
    print as out,
    workspace::Part,
};

/// Lists them, queue by queue in the order of their storing; those that ended come after.
pub(super) async fn run(
    args: &LsArgs,
    session: &Session,
    global: &Global,
) -> Result<Exit, CliError> {
    let agent = session.agent(Part::Operator, Scope::default()).await?;
    let wants = |state: TaskState| args.state.contains(&state);
    let is_of_queues = |state: &TaskState| !matches!(state, TaskState::Done | TaskState::Dead);
    if args.state.is_empty() || args.state.iter().any(is_of_queues) {
        let mut tasks = Tasks::new(agent.endpoint.clone()).list(args.role.as_ref()).await?;
        while let Some(task) = tasks.next().await {
            let task = task?;
            if args.state.is_empty() || wants(print::state_of(&task.state)) {
                print::queued(&task, session.clock.now(), global)?;
            }
        }
    }
    if wants(TaskState::Done) {
        done(&agent, args, global).await?;
    }
    if wants(TaskState::Dead) {
        dead(&agent, args, global).await?;
    }
    Ok(Exit::Done)
}

async fn done(agent: &Agent, args: &LsArgs, global: &Global) -> Result<(), CliError> {
    if args.role.is_some() {
        return Err(CliError::usage("a kept result does not say whose queue its task came from")
            .next("leave --role out, or list the other states"));
    }
    for result in Results::new(agent.endpoint.clone()).list().await? {
        match result {
            Ok(result) => {
                let id = result.task_id.clone();
                let done = Done { result: Some(result), receipt: None };
                print::done_line(&id, &done, global)?;
            }
            Err(error) => out::remark(&CliError::from(error).as_warning()),
        }
    }
    Ok(())
}

async fn dead(agent: &Agent, args: &LsArgs, global: &Global) -> Result<(), CliError> {
    let workspace = agent.endpoint.workspace().clone();
    let queue = args.role.clone().map(|role| Address::Task { workspace, role }.subject());
    let filter = LetterFilter { subject: queue.as_ref().map(Filter::from), ..Default::default() };
    let letters = DeadLetters::new(agent.endpoint.clone());
    let mut letters = letters.list(filter, LetterOrder::OldestFirst).await?;
    while let Some(letter) = letters.next().await {
        let letter = letter?;
        match letter.content {
            Ok(content) => {
                print::dead_line(&Dead { letter: letter.seq, event: content.event }, global)?;
            }
            Err(error) => out::remark(&CliError::from(error).as_warning()),
        }
    }
    Ok(())
}
