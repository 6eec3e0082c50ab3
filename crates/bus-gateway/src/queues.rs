//! How the work queues of workspaces stand, few enough to be labels.

use std::{collections::BTreeMap, sync::Arc};

use bus_core::{ConsumerState, Engine, ErrorKind, Lag, Result, planes};
use bus_subjects::WorkspaceId;
use futures_util::future::try_join_all;

/// How everything that waits stands at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Standing {
    /// How many workspaces were asked for.
    pub workspaces: usize,
    /// Their work queues, by workspace and name; at most [`Standing::QUEUES_MAX`]. None in a
    /// process that may not see them.
    pub queues: Vec<QueueReading>,
    /// How many more there are.
    pub left_out: usize,
}

/// One work queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueReading {
    /// Its workspace.
    pub workspace: WorkspaceId,
    /// The role that serves it; `swarm-*`: those of all swarms that run, together.
    pub queue: String,
    /// What waits and what is under a lease in it.
    pub lag: Lag,
}

impl Standing {
    /// How many queues are shown apart.
    pub const QUEUES_MAX: usize = 256;

    /// Asks the engine of each workspace, all at once.
    ///
    /// # Errors
    /// The first error of an engine; a workspace that has gone meanwhile is none. Cancel safe.
    pub async fn read(engines: &[(WorkspaceId, Arc<dyn Engine>)]) -> Result<Self> {
        let asked = try_join_all(engines.iter().map(|(workspace, engine)| async move {
            match engine.consumers(planes::work_stream(workspace)?).await {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok((workspace, Vec::new())),
                consumers => consumers.map(|consumers| (workspace, consumers)),
            }
        }));
        let asked = asked.await?;
        let mut queues: Vec<_> = asked
            .into_iter()
            .flat_map(|(workspace, consumers)| of_workspace(workspace, &consumers))
            .collect();
        queues.sort_by(|a, b| (&a.workspace, &a.queue).cmp(&(&b.workspace, &b.queue)));
        let left_out = queues.len().saturating_sub(Self::QUEUES_MAX);
        queues.truncate(Self::QUEUES_MAX);
        Ok(Self { workspaces: engines.len(), queues, left_out })
    }
}

/// The queues of one workspace. Each swarm has one under an id of its own, which would be a new
/// label with every run: they are added up.
fn of_workspace(workspace: &WorkspaceId, consumers: &[ConsumerState]) -> Vec<QueueReading> {
    let mut by_name = BTreeMap::<&str, Lag>::new();
    for state in consumers {
        let name = state.spec.name.as_str();
        let role = name.strip_prefix("worker_").unwrap_or(name);
        let queue = if role.starts_with(SWARM) { SWARMS } else { role };
        let sum = by_name.entry(queue).or_default();
        sum.pending = sum.pending.saturating_add(state.lag.pending);
        sum.in_flight = sum.in_flight.saturating_add(state.lag.in_flight);
        sum.oldest = sum.oldest.max(state.lag.oldest);
    }
    let reading = |(queue, lag): (&str, Lag)| QueueReading {
        workspace: workspace.clone(),
        queue: queue.to_owned(),
        lag,
    };
    by_name.into_iter().map(reading).collect()
}

/// How the roles of swarms begin.
const SWARM: &str = "swarm-";

/// All of them; no role is called so.
const SWARMS: &str = "swarm-*";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bus_core::{Bus as _, ConsumerSpec, Expect, Frame, FrameId};
    use bus_mem::InMemoryBus;
    use bus_subjects::{ConsumerName, Filter, Subject};

    use super::*;

    /// A workspace of which each role has a queue with one task.
    async fn workspace(roles: &[&str]) -> (WorkspaceId, Arc<dyn Engine>) {
        let (name, bus) = (WorkspaceId::parse("w1").unwrap(), InMemoryBus::new().connect());
        for stream in planes::workspace_streams(&name).unwrap() {
            bus.declare(stream).await.unwrap();
        }
        for role in roles {
            let subject = format!("vak.work.w1.{role}.task");
            let spec = ConsumerSpec {
                stream: planes::work_stream(&name).unwrap(),
                name: ConsumerName::parse(&format!("worker_{role}")).unwrap(),
                filter: Filter::parse(&subject).unwrap(),
                lease: Duration::from_secs(30),
            };
            drop(bus.consume(spec).await.unwrap());
            let id = FrameId::parse(role).unwrap();
            let task = Frame::new(Subject::parse(&subject).unwrap(), id, "task");
            bus.append(task, Expect::Any).await.unwrap();
        }
        (name, Arc::new(bus))
    }

    fn waiting(standing: &Standing) -> Vec<(&str, u64)> {
        standing.queues.iter().map(|q| (q.queue.as_str(), q.lag.pending)).collect()
    }

    #[tokio::test]
    async fn each_role_is_a_queue_and_all_swarms_are_one() {
        let of = workspace(&["coder", "swarm-1", "swarm-2", "swarmer"]).await;
        let standing = Standing::read(&[of]).await.unwrap();
        assert_eq!(waiting(&standing), [("coder", 1), ("swarm-*", 2), ("swarmer", 1)]);
        assert_eq!((standing.workspaces, standing.left_out), (1, 0));
    }

    #[tokio::test]
    async fn queues_beyond_the_limit_are_counted_and_not_shown() {
        let roles: Vec<_> = (0..Standing::QUEUES_MAX + 2).map(|n| format!("r{n}")).collect();
        let of = workspace(&roles.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let standing = Standing::read(&[of]).await.unwrap();
        assert_eq!((standing.queues.len(), standing.left_out), (Standing::QUEUES_MAX, 2));
    }

    #[tokio::test]
    async fn a_workspace_that_has_gone_has_no_queues() {
        let gone = (WorkspaceId::parse("gone").unwrap(), workspace(&[]).await.1);
        assert_eq!(Standing::read(&[gone]).await.unwrap().queues, []);
    }

    #[tokio::test]
    async fn an_engine_that_is_closed_is_an_error() {
        let (name, engine) = workspace(&[]).await;
        engine.close().await.unwrap();
        let error = Standing::read(&[(name, engine)]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed);
    }
}
