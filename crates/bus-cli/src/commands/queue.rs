//! `vakbus queue`: what waits in the queues, and their pausing.

use std::{collections::BTreeMap, time::Duration};

use bus_core::{ConsumerSpec, Lag, Seq, planes};
use bus_envelope::Timestamp;
use bus_subjects::{Address, AddressKind, ConsumerName, Filter, RoleName};
use serde_json::json;

use crate::{
    args::{Global, QueueCommand},
    engine::{self, Agent, Scope, Session},
    error::{CliError, Exit},
    print as out,
    swarm::LEASE_OF_DAEMON,
    workspace::Part,
};

/// Runs the command.
pub(crate) fn run(command: QueueCommand, global: &Global) -> Result<Exit, CliError> {
    engine::run(global, async |session| {
        let agent = session.agent(Part::Operator, Scope::default()).await?;
        match command {
            QueueCommand::Ls => list(&agent, session, global).await,
            QueueCommand::Pause { role, time } => {
                let until = session.clock.now().plus(time.unwrap_or(FOR_EVER));
                steer(&agent, &role, Some(until)).await?;
                tell(&role, Some(until), global)
            }
            QueueCommand::Resume { role } => {
                steer(&agent, &role, None).await?;
                tell(&role, None, global)
            }
        }
    })
}

/// A queue as it is now.
pub(crate) struct Queue {
    /// What waits and runs.
    pub(crate) lag: Lag,
    /// Until when it hands out nothing.
    pub(crate) paused_until: Option<Timestamp>,
}

async fn list(agent: &Agent, session: &Session, global: &Global) -> Result<Exit, CliError> {
    let now = session.clock.now();
    for (role, queue) in queues(agent, now).await? {
        let Queue { lag, paused_until } = queue;
        let paused_until = paused_until.filter(|until| *until > now);
        if global.json {
            let ms = |age: Duration| u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
            out::json(&json!({
                "queue": role,
                "pending": lag.pending,
                "in_flight": lag.in_flight,
                "oldest_ms": lag.oldest.map(ms),
                "paused_until": paused_until.map(|time| time.to_string()),
            }))?;
            continue;
        }
        let oldest = lag.oldest.map_or_else(String::new, |age| {
            let age = humantime::format_duration(Duration::from_secs(age.as_secs()));
            format!("  oldest {age}")
        });
        let paused = paused_until.map_or_else(String::new, |time| format!("  paused until {time}"));
        let Lag { pending, in_flight, .. } = lag;
        out::line(&format!("{role}  {pending} waiting  {in_flight} running{oldest}{paused}"))?;
    }
    Ok(Exit::Done)
}

/// The queues by role: those that workers joined, and those whose tasks wait for a first one.
pub(crate) async fn queues(
    agent: &Agent,
    now: Timestamp,
) -> Result<BTreeMap<String, Queue>, CliError> {
    let stream = planes::work_stream(agent.endpoint.workspace())?;
    let lag = agent.endpoint.queue_lag(stream.clone()).await?;
    let (mut queues, mut known) = (BTreeMap::new(), 0_u64);
    for state in agent.endpoint.queues(stream.clone()).await? {
        let name = state.spec.name.as_str();
        let role = name.strip_prefix("worker_").unwrap_or(name).to_owned();
        known = known.saturating_add(state.lag.pending).saturating_add(state.lag.in_flight);
        queues.insert(role, Queue { lag: state.lag, paused_until: state.paused_until });
    }
    if known >= lag.pending.saturating_add(lag.in_flight) {
        return Ok(queues);
    }
    let filter = AddressKind::Task.filter(Some(agent.endpoint.workspace()));
    let mut tasks = agent.engine.replay(stream, filter, Seq(1)).await?;
    let mut alone: BTreeMap<String, Queue> = BTreeMap::new();
    while let Some(task) = tasks.next().await {
        let task = task?;
        let Ok(Address::Task { role, .. }) = Address::parse(&task.frame.subject) else { continue };
        if queues.contains_key(role.as_str()) {
            continue;
        }
        let empty = || Queue { lag: Lag::default(), paused_until: None };
        let queue = alone.entry(role.to_string()).or_insert_with(empty);
        queue.lag.pending += 1;
        queue.lag.oldest = queue.lag.oldest.max(Some(now.since(task.time)));
    }
    queues.append(&mut alone);
    Ok(queues)
}

/// Pauses a queue until then, or has it hand out its tasks; one that nobody joined yet as well.
pub(crate) async fn steer(
    agent: &Agent,
    role: &RoleName,
    until: Option<Timestamp>,
) -> Result<(), CliError> {
    let workspace = agent.endpoint.workspace().clone();
    let stream = planes::work_stream(&workspace)?;
    let name = ConsumerName::parse(&format!("worker_{role}"))?;
    let consumers = agent.endpoint.queues(stream.clone()).await?;
    if !consumers.iter().any(|queue| queue.spec.name == name) {
        // A pause has to wait for the first one who joins.
        let filter = Filter::from(&Address::Task { workspace, role: role.clone() }.subject());
        let spec = ConsumerSpec {
            stream: stream.clone(),
            name: name.clone(),
            filter,
            lease: LEASE_OF_DAEMON,
        };
        drop(agent.engine.consume(spec).await?);
    }
    Ok(agent.engine.pause(stream, name, until).await?)
}

fn tell(role: &RoleName, until: Option<Timestamp>, global: &Global) -> Result<Exit, CliError> {
    let until = until.map(|time| time.to_string());
    if global.json {
        out::json(&json!({ "queue": role.as_str(), "paused_until": until }))?;
    } else {
        out::line(&match until {
            Some(until) => format!("queue {role}: paused until {until}"),
            None => format!("queue {role}: hands out its tasks"),
        })?;
    }
    Ok(Exit::Done)
}

/// A pause without an end: a hundred years.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 86_400);
