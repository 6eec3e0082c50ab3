//! The keeper of a daemon: sweeps what nobody can ask for any more.

use std::{collections::HashSet, sync::Arc};

use bus_core::{Engine, KeyState, Result, Revision, WatchItem, planes};
use bus_subjects::{BucketKey, BucketName, ConsumerName, Filter, WorkspaceId};

/// Sweeps the outputs whose results have ended, and the queues of swarms that have.
///
/// An output is stored before the result that names it, and a swarm joins its queue before it fills
/// it; so nothing is swept at the first sight of it, only when it is still so the next time.
#[derive(Default)]
pub(super) struct Keeper {
    /// What had no result the last time, by workspace and key.
    orphans: HashSet<(WorkspaceId, BucketKey)>,
    /// Queues of swarms that were empty the last time.
    empty: HashSet<(WorkspaceId, ConsumerName)>,
}

impl Keeper {
    /// Sweeps once through all workspaces, each on its engine.
    pub(super) async fn sweep(&mut self, workspaces: Vec<(WorkspaceId, Arc<dyn Engine>)>) {
        let (mut orphans, mut empty) = (HashSet::new(), HashSet::new());
        for (workspace, engine) in workspaces {
            let (engine, workspace) = (&*engine, &workspace);
            // What cannot be read now is looked at the next time.
            if let Err(error) = self.sweep_outputs(engine, workspace, &mut orphans).await {
                tracing::warn!(%workspace, %error, "the outputs of ended results were not swept");
            }
            if let Err(error) = self.sweep_queues(engine, workspace, &mut empty).await {
                tracing::warn!(%workspace, %error, "the queues of ended swarms were not swept");
            }
        }
        (self.orphans, self.empty) = (orphans, empty);
    }

    async fn sweep_outputs(
        &self,
        engine: &dyn Engine,
        workspace: &WorkspaceId,
        orphans: &mut HashSet<(WorkspaceId, BucketKey)>,
    ) -> Result<()> {
        let bucket = BucketName::results(workspace);
        let blobs = engine.list_blobs(bucket.clone()).await?;
        if blobs.is_empty() {
            return Ok(());
        }
        let results = results(engine, bucket.clone()).await?;
        for blob in blobs {
            // `<key of its result>/<number of the output>`
            let result = blob.key.as_str().split('/').next().unwrap_or_default();
            if results.contains(result) {
                continue;
            }
            let orphan = (workspace.clone(), blob.key.clone());
            if self.orphans.contains(&orphan) {
                engine.delete_blob(bucket.clone(), blob.key).await?;
            } else {
                orphans.insert(orphan);
            }
        }
        Ok(())
    }

    async fn sweep_queues(
        &self,
        engine: &dyn Engine,
        workspace: &WorkspaceId,
        empty: &mut HashSet<(WorkspaceId, ConsumerName)>,
    ) -> Result<()> {
        let stream = planes::work_stream(workspace)?;
        for queue in engine.consumers(stream.clone()).await? {
            let name = queue.spec.name;
            let is_busy = queue.lag.pending > 0 || queue.lag.in_flight > 0;
            if is_busy || !name.as_str().starts_with(SWARM_QUEUE) {
                continue;
            }
            let found = (workspace.clone(), name.clone());
            if self.empty.contains(&found) {
                // What was sent in this very moment stays in the stream for whoever joins again.
                engine.remove_consumer(stream.clone(), name).await?;
            } else {
                empty.insert(found);
            }
        }
        Ok(())
    }
}

async fn results(engine: &dyn Engine, bucket: BucketName) -> Result<HashSet<String>> {
    let mut watch = engine.watch(bucket, Filter::parse("*")?, Revision::START).await?;
    let mut keys = HashSet::new();
    while let Some(item) = watch.next().await {
        match item? {
            WatchItem::Current => break,
            WatchItem::Resync => keys.clear(),
            WatchItem::Changed(change) => match change.state {
                KeyState::Value(_) => drop(keys.insert(change.key.to_string())),
                KeyState::Deleted | KeyState::Expired => {
                    keys.remove(change.key.as_str());
                }
            },
        }
    }
    Ok(keys)
}

/// How the consumers of swarms' queues begin.
const SWARM_QUEUE: &str = "worker_swarm-";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bus_core::{BlobBody, ConsumerSpec, Put};
    use bus_mem::InMemoryBus;
    use bytes::Bytes;

    use super::*;

    async fn blob(bus: &dyn Engine, bucket: &BucketName, key: &str) {
        let body = BlobBody::from(Bytes::from_static(b"output"));
        bus.put_blob(bucket.clone(), BucketKey::parse(key).unwrap(), body).await.unwrap();
    }

    #[tokio::test]
    async fn an_output_is_swept_when_it_has_no_result_for_the_second_time() {
        let bus: Arc<dyn Engine> = Arc::new(InMemoryBus::new());
        let workspace = WorkspaceId::parse("w1").unwrap();
        let bucket = BucketName::results(&workspace);
        blob(&*bus, &bucket, "kept/1").await;
        blob(&*bus, &bucket, "gone/1").await;
        let kept = BucketKey::parse("kept").unwrap();
        bus.put(bucket.clone(), kept, Put::new("result")).await.unwrap();
        let mut keeper = Keeper::default();
        let count = async || bus.list_blobs(bucket.clone()).await.unwrap().len();
        keeper.sweep(vec![(workspace.clone(), Arc::clone(&bus))]).await;
        assert_eq!(count().await, 2);
        keeper.sweep(vec![(workspace.clone(), Arc::clone(&bus))]).await;
        assert_eq!(count().await, 1);
        keeper.sweep(vec![(workspace, Arc::clone(&bus))]).await;
        assert_eq!(count().await, 1);
    }

    async fn join(bus: &dyn Engine, workspace: &WorkspaceId, role: &str) {
        let spec = ConsumerSpec {
            stream: planes::work_stream(workspace).unwrap(),
            name: ConsumerName::parse(&format!("worker_{role}")).unwrap(),
            filter: Filter::parse(&format!("vak.work.{workspace}.{role}.task")).unwrap(),
            lease: Duration::from_secs(30),
        };
        drop(bus.consume(spec).await.unwrap());
    }

    #[tokio::test]
    async fn the_queue_of_an_ended_swarm_is_swept_and_no_other() {
        let bus: Arc<dyn Engine> = Arc::new(InMemoryBus::new());
        let workspace = WorkspaceId::parse("w1").unwrap();
        for stream in planes::workspace_streams(&workspace).unwrap() {
            bus.declare(stream).await.unwrap();
        }
        join(&*bus, &workspace, "coder").await;
        join(&*bus, &workspace, "swarm-1").await;
        let mut keeper = Keeper::default();
        let names = async || {
            let stream = planes::work_stream(&workspace).unwrap();
            let queues = bus.consumers(stream).await.unwrap();
            queues.iter().map(|queue| queue.spec.name.to_string()).collect::<Vec<_>>()
        };
        keeper.sweep(vec![(workspace.clone(), Arc::clone(&bus))]).await;
        assert_eq!(names().await, ["worker_coder", "worker_swarm-1"]);
        keeper.sweep(vec![(workspace.clone(), Arc::clone(&bus))]).await;
        assert_eq!(names().await, ["worker_coder"]);
    }
}
