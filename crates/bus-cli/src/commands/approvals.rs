//! `vakbus approvals`: questions that a person answers, each answer good for one use.

mod list;
mod print;
mod request;
mod resolve;
mod take;

use bus_authority::{Approval, ApprovalName, Approvals, Book, Found};
use bus_core::{Endpoint, ErrorKind};
use bus_envelope::EventHash;
use bus_subjects::{Role, SessionId};
use serde_json::json;

use crate::{
    args::{ApprovalsCommand, Global},
    engine::{self, Scope, Session},
    error::{CliError, Exit},
    print as out,
    swarm::LEASE_OF_DAEMON,
    workspace::Part,
};

/// Runs the command.
pub(crate) fn run(command: ApprovalsCommand, global: &Global) -> Result<Exit, CliError> {
    engine::run(global, async |session| match command {
        ApprovalsCommand::Request(args) => request::run(&args, session, global).await,
        ApprovalsCommand::Use(args) => take::run(&args, session, global).await,
        ApprovalsCommand::Withdraw { approval, session: of } => {
            withdraw(&ApprovalName::new(&approval), of.session, session, global).await
        }
        ApprovalsCommand::Ls(args) => list::run(&args, session, global).await,
        ApprovalsCommand::Show { approval } => {
            let reader = reader(session).await?;
            let book = book(&reader, None).await?;
            let approval = found(&book, &ApprovalName::new(&approval))?;
            print::show(approval, session.clock.now(), global)?;
            Ok(Exit::Done)
        }
        ApprovalsCommand::Resolve(args) => resolve::run(&args, session, global).await,
    })
}

/// Who reads and answers: `cli`, or the agent that `--as` names.
async fn reader(session: &Session) -> Result<Endpoint, CliError> {
    Ok(session.agent(Part::Operator, Scope::default()).await?.endpoint)
}

/// What is stored about the approvals of `of`, or of all sessions.
async fn book(reader: &Endpoint, of: Option<&SessionId>) -> Result<Book, CliError> {
    Book::read(reader, of).await.map_err(|error| match error.kind() {
        ErrorKind::Denied => {
            let what = format!("{} may not read what is asked: an operator may", reader.agent());
            CliError::new(Exit::Refused, what).next("name an operator with --as, or leave it out")
        }
        _ => error.into(),
    })
}

/// Who asks, in the session `of`.
async fn asker(session: &Session, of: SessionId) -> Result<Endpoint, CliError> {
    let scope = Scope { session: Some(of), queue: None };
    let endpoint = session.agent(Part::Worker, scope).await?.endpoint;
    if endpoint.identity().certificate().roles.contains(&Role::Worker) {
        return Ok(endpoint);
    }
    let what =
        format!("only a worker asks for approvals and uses them, and {} is none", endpoint.agent());
    Err(CliError::new(Exit::Refused, what).next("name a worker with --as, or leave it out"))
}

fn desk(endpoint: &Endpoint) -> Approvals {
    Approvals::new(endpoint.clone(), LEASE_OF_DAEMON)
}

/// The one approval that was named.
fn found<'a>(book: &'a Book, name: &ApprovalName) -> Result<&'a Approval, CliError> {
    match book.find(name) {
        Found::One(approval) => Ok(approval),
        Found::None => Err(CliError::new(Exit::Failed, format!("there is no approval {name}"))
            .next("vakbus approvals ls --state all")),
        Found::Several => {
            let what = format!("{name} names more than one approval");
            Err(CliError::usage(what)
                .next("name it by more digits, as `vakbus approvals ls --json` has them"))
        }
    }
}

/// The leaf of an approval that its asker named, who cannot look it up: this data home's operator
/// does, unless it is given in full.
async fn leaf_of(name: &ApprovalName, session: &Session) -> Result<EventHash, CliError> {
    if let Some(leaf) = name.leaf() {
        return Ok(leaf);
    }
    let operator = session.own(Part::Operator).await?.endpoint;
    let book = book(&operator, None).await?;
    Ok(found(&book, name)?.leaf())
}

async fn withdraw(
    name: &ApprovalName,
    of: SessionId,
    session: &Session,
    global: &Global,
) -> Result<Exit, CliError> {
    let leaf = leaf_of(name, session).await?;
    let scope = Scope { session: Some(of), queue: None };
    let endpoint = session.agent(Part::Worker, scope).await?.endpoint;
    if endpoint.may_resolve() {
        let book = book(&endpoint, None).await?;
        let of = found(&book, &leaf.into())?.session().clone();
        endpoint.withdraw_approval(&of, leaf).await?;
    } else {
        desk(&endpoint).withdraw(leaf).await.map_err(|refused| print::refused(name, &refused))?;
    }
    match global.json {
        true => out::json(&json!({ "approval": leaf.to_string(), "state": "withdrawn" }))?,
        false => out::line(&format!("{leaf}  withdrawn"))?,
    }
    Ok(Exit::Done)
}
