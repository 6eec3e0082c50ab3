//! The tasks that stand in the queues of a workspace: looked through, found by id, and cancelled.

mod cancel;

use std::collections::HashMap;

use bus_envelope::Timestamp;
use bus_subjects::{Address, AddressKind, BucketKey, BucketName, Filter, RoleName};

pub use self::cancel::Cancelled;
use crate::{
    ClaimMark, Endpoint, Error, ErrorKind, KeyState, Opened, Placement, Replay, Result, Revision,
    Seq, Stored, WatchItem, cancels::mark_of, claims::Claimed, planes,
};

/// The queued tasks of one workspace, as an operator may see and treat them.
///
/// What is told is true of the moment it was read: a task may begin or end while its line is
/// printed.
#[derive(Debug, Clone)]
pub struct Tasks {
    endpoint: Endpoint,
}

/// A task that is in its queue.
#[derive(Debug)]
pub struct QueuedTask {
    /// Its position in the stream of tasks.
    pub seq: Seq,
    /// When it was stored.
    pub stored: Timestamp,
    /// The role whose queue it is in; `None` when its subject is no queue's.
    pub role: Option<RoleName>,
    /// The id it was stored under: the task's own, or `<id>.r<n>` when it was redriven.
    pub frame_id: String,
    /// How it is handed out.
    pub placement: Placement,
    /// Where it stands.
    pub state: QueuedState,
    /// What it says, or why that cannot be known.
    pub content: Result<Box<Opened>>,
}

/// Where a task stands, as the marks tell that its workers and operators left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueuedState {
    /// Nobody works on it.
    Waiting,
    /// It is not handed out before this time.
    Scheduled(Timestamp),
    /// A worker began it, and has said nothing of its end yet.
    Begun {
        /// Who.
        worker: String,
        /// In which attempt.
        attempt: u32,
        /// When, in canonical form.
        since: String,
    },
    /// It is cancelled, and whoever gets it next gives it up.
    Cancelled {
        /// By whom.
        by: String,
    },
}

/// Queued tasks, opened one after the other as they are asked for, in the order of their positions.
#[must_use = "tasks are not read until they are asked for"]
pub struct QueuedTasks {
    tasks: Tasks,
    stored: Replay,
    claims: HashMap<BucketKey, ClaimMark>,
    cancels: HashMap<BucketKey, String>,
    now: Timestamp,
}

impl Tasks {
    /// The tasks of the endpoint's workspace.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint }
    }

    /// The tasks that stand in the queue of `role`, or in all queues.
    ///
    /// # Errors
    /// `Denied` to all but operators; `NotFound` when the workspace has no queues yet; `Closed`,
    /// `Unavailable`.
    pub async fn list(&self, role: Option<&RoleName>) -> Result<QueuedTasks> {
        let workspace = self.endpoint.workspace();
        let filter = match role.cloned() {
            Some(role) => {
                Filter::from(&Address::Task { workspace: workspace.clone(), role }.subject())
            }
            None => AddressKind::Task.filter(Some(workspace)),
        };
        let stored = self.endpoint.replay(planes::work_stream(workspace)?, filter).await?;
        // After the tasks: a mark whose task is gone is of no use, a task without its mark is shown
        // as one that waits.
        let claims = self.claims().await?;
        let cancels = self.cancels().await?;
        let now = self.endpoint.clock().now();
        Ok(QueuedTasks { tasks: self.clone(), stored, claims, cancels, now })
    }

    /// The newest task with this id that is in a queue; `None` when there is none.
    ///
    /// # Errors
    /// As [`Tasks::list`].
    pub async fn find(&self, task_id: &str) -> Result<Option<QueuedTask>> {
        let mut tasks = self.list(None).await?;
        let mut found = None;
        while let Some(task) = tasks.next().await {
            let task = task?;
            if task.task_id() == task_id {
                found = Some(task);
            }
        }
        Ok(found)
    }

    async fn claims(&self) -> Result<HashMap<BucketKey, ClaimMark>> {
        let bucket = BucketName::claims(self.endpoint.workspace());
        // A damaged mark tells nothing about its task.
        self.marks(bucket, |state| match state {
            KeyState::Value(value) => serde_json::from_slice(value).ok(),
            KeyState::Deleted | KeyState::Expired => None,
        })
        .await
    }

    async fn cancels(&self) -> Result<HashMap<BucketKey, String>> {
        let bucket = BucketName::cancels(self.endpoint.workspace());
        let marks = self.marks(bucket, |state| mark_of(state).map(|mark| mark.by)).await;
        match marks {
            // Who may not see the marks sees the tasks all the same.
            Err(error) if error.kind() == ErrorKind::Denied => Ok(HashMap::new()),
            marks => marks,
        }
    }

    /// All marks of a bucket as they are now.
    async fn marks<T>(
        &self,
        bucket: BucketName,
        read: impl Fn(&KeyState) -> Option<T>,
    ) -> Result<HashMap<BucketKey, T>> {
        let engine = self.endpoint.engine();
        let mut watch = engine.watch(bucket, Filter::parse("*")?, Revision::START).await?;
        let mut marks = HashMap::new();
        while let Some(item) = watch.next().await {
            match item? {
                WatchItem::Current => return Ok(marks),
                WatchItem::Resync => marks.clear(),
                WatchItem::Changed(change) => match read(&change.state) {
                    Some(mark) => drop(marks.insert(change.key, mark)),
                    None => drop(marks.remove(&change.key)),
                },
            }
        }
        Err(Error::new(ErrorKind::Closed, "tasks", "the bus was closed"))
    }
}

impl QueuedTasks {
    /// The next task; `None` at the end. Cancel safe.
    ///
    /// # Errors
    /// Those of [`crate::Bus::replay`].
    pub async fn next(&mut self) -> Option<Result<QueuedTask>> {
        let stored = match self.stored.next().await? {
            Ok(stored) => stored,
            Err(error) => return Some(Err(error)),
        };
        Some(self.of(stored))
    }

    fn of(&self, stored: Stored) -> Result<QueuedTask> {
        let Stored { frame, seq, time } = stored;
        let endpoint = &self.tasks.endpoint;
        let stream = planes::work_stream(endpoint.workspace())?;
        let key = Claimed::at(stream, time, seq).key()?;
        let placement = frame.placement.as_deref().cloned().unwrap_or_default();
        let not_before = placement.not_before.filter(|begin| *begin > self.now);
        let state = match (self.claims.get(&key), self.cancels.get(&key), not_before) {
            (_, Some(by), _) => QueuedState::Cancelled { by: by.clone() },
            (Some(mark), None, _) => QueuedState::Begun {
                worker: mark.worker.clone(),
                attempt: mark.attempt,
                since: mark.claimed.clone(),
            },
            (None, None, Some(begin)) => QueuedState::Scheduled(begin),
            (None, None, None) => QueuedState::Waiting,
        };
        let role = match Address::parse(&frame.subject) {
            Ok(Address::Task { role, .. }) => Some(role),
            _ => None,
        };
        let content = endpoint.open(&frame).map(Box::new);
        let frame_id = frame.id.to_string();
        Ok(QueuedTask { seq, stored: time, role, frame_id, placement, state, content })
    }
}

impl QueuedTask {
    /// The id of the task's envelope, or of its frame when it cannot be opened.
    #[must_use]
    pub fn task_id(&self) -> &str {
        match &self.content {
            Ok(opened) => &opened.envelope.id,
            Err(_) => &self.frame_id,
        }
    }
}

impl std::fmt::Debug for QueuedTasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueuedTasks").field("tasks", &self.tasks).finish_non_exhaustive()
    }
}
