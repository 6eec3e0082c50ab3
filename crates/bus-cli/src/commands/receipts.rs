//! `vakbus receipts`: what was done, read back and held against its chains.

mod checkpoint;
mod export;
mod letters;
mod list;
mod print;
mod prove;
mod record;
mod signer;

use bus_core::Seq;

use self::record::Record;
use crate::{
    args::{Global, ReceiptsCommand},
    engine::{self, Agent, Scope},
    error::{CliError, Exit},
    workspace::Part,
};

/// Runs the command.
pub(crate) fn run(command: ReceiptsCommand, global: &Global) -> Result<Exit, CliError> {
    engine::run(global, async |session| {
        let agent = session.agent(Part::Auditor, Scope::default()).await?;
        match command {
            ReceiptsCommand::Ls(args) => list::run(&args, &agent, global).await,
            ReceiptsCommand::Show { what } => show(&what, &agent, global).await,
            ReceiptsCommand::Export(args) => export::run(&args, session, &agent, global).await,
            ReceiptsCommand::Prove(args) => prove::run(&args, session, &agent, global).await,
            ReceiptsCommand::Checkpoint(args) => checkpoint::run(&args, &agent, global).await,
        }
    })
}

/// Shows every record of a task, or the one at a position.
async fn show(what: &str, agent: &Agent, global: &Global) -> Result<Exit, CliError> {
    let wanted = Wanted::of(what);
    let mut found = Vec::new();
    record::walk(&agent.endpoint, None, |record| {
        if wanted.is(&record) {
            found.push(record);
        }
    })
    .await?;
    if found.is_empty() {
        return Err(wanted.missing());
    }
    for record in &found {
        print::whole(record, global)?;
    }
    Ok(Exit::Done)
}

/// Which record is meant: a number is a position.
enum Wanted {
    At(Seq),
    Task(String),
}

impl Wanted {
    fn of(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Task(text.to_owned()), |seq| Self::At(Seq(seq)))
    }

    fn is(&self, record: &Record) -> bool {
        match self {
            Self::At(seq) => record.seq == *seq,
            Self::Task(task) => record.receipt().is_some_and(|receipt| receipt.task_id == *task),
        }
    }

    fn missing(&self) -> CliError {
        let what = match self {
            Self::At(seq) => format!("there is no receipt of this workspace at position {}", seq.0),
            Self::Task(task) => format!("there is no receipt of a task {task}"),
        };
        CliError::new(Exit::Failed, what).next("vakbus receipts ls lists those that are there")
    }
}
