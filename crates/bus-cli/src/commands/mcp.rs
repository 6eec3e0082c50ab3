//! `vakbus mcp`: the door to the bus for an agent that speaks the Model Context Protocol.

use std::time::Duration;

use bus_core::Endpoint;
use bus_mcp::{ServeError, Server, ServerParts};
use bus_subjects::{AgentId, Role, RoleName};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::{
    args::{Global, McpArgs},
    engine::{self, Agent, Place, Scope, Session},
    error::{CliError, Exit},
    print as out,
    swarm::{LEASE_OF_DAEMON, Signals},
    workspace::Part,
};

/// Serves the client on standard input and output until it leaves. Nothing else goes to stdout.
pub(crate) fn run(args: &McpArgs, global: &Global) -> Result<Exit, CliError> {
    engine::run(global, async |session| serve(args, session, global).await)
}

async fn serve(args: &McpArgs, session: &Session, global: &Global) -> Result<Exit, CliError> {
    session.place().check_shared("talk to this agent")?;
    let mut signals = Signals::new();
    let agent = session.agent(Part::Operator, Scope::default()).await?;
    let worker = worker(args, &agent, session, global).await?;
    out::remark(&format!("speaking MCP as {}", agent.endpoint.agent()));
    let role = match &args.role {
        Some(role) => role.clone(),
        None => RoleName::parse("worker")?,
    };
    let queues = queues(&agent, worker.as_ref(), session);
    let server = Server::new(ServerParts {
        agent: agent.endpoint,
        worker: worker.map(|worker| worker.endpoint),
        queues,
        role,
        lease: LEASE_OF_DAEMON,
        retry: global.config.retry(None, None),
    });
    let stop = CancellationToken::new();
    let serving = server.serve_stdio(&stop);
    tokio::pin!(serving);
    let mut renewals = interval(RENEW_EVERY);
    renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            served = &mut serving => return ended(served),
            _asked = signals.next(|| false) => stop.cancel(),
            _tick = renewals.tick() => session.renew(),
        }
    }
}

/// Who takes tasks and asks for approvals; nobody when the agent that was named is no worker.
async fn worker(
    args: &McpArgs,
    agent: &Agent,
    session: &Session,
    global: &Global,
) -> Result<Option<Agent>, CliError> {
    let queue = match (&args.role, session.place()) {
        // A login at a server reaches the queue that it is made for.
        (None, Place::Nats(_)) => Some(RoleName::parse("worker")?),
        (role, _) => role.clone(),
    };
    let scope = Scope { session: Some(args.session.clone()), queue };
    let is_worker =
        |agent: &Agent| agent.endpoint.identity().certificate().roles.contains(&Role::Worker);
    let named: Option<&AgentId> = args.worker.as_ref();
    if named.is_none() && global.agent.is_some() && !is_worker(agent) {
        return Ok(None);
    }
    let worker = session.worker(named, scope).await?;
    if !is_worker(&worker) {
        let what = format!("{} is no worker", worker.endpoint.agent());
        return Err(CliError::new(Exit::Refused, what)
            .next("name a worker with --worker: vakbus agent add NAME --role worker"));
    }
    Ok(Some(worker))
}

/// Who looks into queues: a worker's login at a server may take from its queue and not do that.
fn queues(agent: &Agent, worker: Option<&Agent>, session: &Session) -> Option<Endpoint> {
    let is_operator = agent.endpoint.identity().certificate().roles.contains(&Role::Operator);
    match (session.place(), worker) {
        _ if is_operator => Some(agent.endpoint.clone()),
        (Place::Nats(_), _) | (_, None) => None,
        (_, Some(worker)) => Some(worker.endpoint.clone()),
    }
}

fn ended(served: Result<(), ServeError>) -> Result<Exit, CliError> {
    match served {
        Ok(()) => Ok(Exit::Done),
        Err(error @ ServeError::Protocol(_)) => {
            Err(CliError::usage(out::harmless(&error.to_string()))
                .next("start it from a client of MCP: vakbus mcp --help has a configuration"))
        }
        Err(error) => Err(CliError::new(Exit::Failed, out::harmless(&error.to_string()))),
    }
}

/// How often secrets and revocations are read again.
const RENEW_EVERY: Duration = Duration::from_secs(2);
