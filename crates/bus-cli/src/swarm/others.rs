//! What the bus keeps of the ends of a run's tasks: who joins a run tells nobody but the bus, and a
//! worker that lost its connection may not know what became of its own verdict.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bus_core::{
    DeadLetterEvent, Endpoint, Engine, Follow, Opened, Result, Roster, Seq, TaskEvent, planes,
};
use bus_evidence::{RECEIPT_COMPLETED, WorkReceipt};
use bus_subjects::{Address, AddressKind, ConsumerName, Filter, StreamName, Subject};
use tokio::{sync::Mutex as Turn, time::sleep};
use uuid::Uuid;

use super::{fleet::Fleet, ledger::Ledger, plan::Plan};

/// Looks for what others ended.
pub(super) struct Others {
    reader: Endpoint,
    engine: Arc<dyn Engine>,
    roster: Arc<Roster>,
    /// The queue of the run.
    queue: Subject,
    /// The lives of the run's own workers.
    own: HashSet<Uuid>,
    /// The consumer of the queue.
    consumer: (StreamName, ConsumerName),
    /// Where the next look begins. One look at a time.
    follows: Turn<[Follow; 2]>,
    /// What the run's own workers ended, by task.
    own_ends: Mutex<HashMap<String, TaskEvent>>,
    seen: Mutex<Seen>,
}

/// Whose work was found.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// The lives of workers that are not the run's own.
    pub(super) lives: HashSet<Uuid>,
    /// Their certificates.
    pub(super) certificates: BTreeSet<String>,
}

impl Others {
    /// Those of the run of `fleet`.
    ///
    /// # Errors
    /// None in practice: the names of the planes are valid.
    pub(super) fn new(fleet: &Fleet, plan: &Plan) -> Result<Self> {
        let workspace = fleet.orchestrator.workspace().clone();
        let role = plan.role.clone();
        let consumer = ConsumerName::parse(&format!("worker_{role}"))?;
        let receipts =
            Address::Receipt { workspace: workspace.clone(), session: fleet.session.clone() };
        let letters = AddressKind::DeadLetter.filter(Some(&workspace));
        let follow =
            |stream, filter| Follow::new(fleet.orchestrator.clone(), stream, filter, Seq(1));
        Ok(Self {
            reader: fleet.orchestrator.clone(),
            engine: Arc::clone(&fleet.engine),
            roster: Arc::clone(&fleet.roster),
            queue: Address::Task { workspace, role }.subject(),
            own: fleet.worker_lives(),
            consumer: (planes::work_stream(fleet.orchestrator.workspace())?, consumer),
            follows: Turn::new([
                follow(planes::receipts_stream()?, Filter::from(&receipts.subject())),
                follow(planes::dead_letters_stream()?, letters),
            ]),
            own_ends: Mutex::default(),
            seen: Mutex::default(),
        })
    }

    /// Looks again and again. Never returns: an engine that is away for a while is looked at later.
    pub(super) async fn watch(&self, ledger: &Ledger) {
        loop {
            if let Err(error) = self.look(ledger).await {
                tracing::info!(%error, "what others did is looked at again later");
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Looks once, and notes what is new.
    ///
    /// # Errors
    /// When a stream cannot be read; the next look goes on from there.
    pub(super) async fn look(&self, ledger: &Ledger) -> Result<()> {
        let mut follows = self.follows.lock().await;
        for follow in follows.iter_mut() {
            follow
                .look(|stored| {
                    // What does not open here is no word of a worker of this workspace.
                    let Ok(opened) = self.reader.open(&stored.frame) else { return };
                    let Some(event) = self.end_in(&opened) else { return };
                    if self.own.contains(&opened.envelope.lineage.incarnation) {
                        lock(&self.own_ends).insert(id_of(&event).to_owned(), event);
                    } else {
                        self.remember(&opened);
                        ledger.note(event);
                    }
                })
                .await?;
        }
        drop(follows);
        self.settle_doubts(ledger).await
    }

    /// Counts what the run's own workers ended and could not say. As long as anything is in the
    /// queue it may be one of these tasks, which is handed out again.
    async fn settle_doubts(&self, ledger: &Ledger) -> Result<()> {
        let doubtful = ledger.doubtful();
        if doubtful.is_empty() || !self.is_queue_empty().await? {
            return Ok(());
        }
        for task in doubtful {
            let end = lock(&self.own_ends).remove(&task);
            if let Some(event) = end {
                ledger.note(event);
            }
        }
        Ok(())
    }

    async fn is_queue_empty(&self) -> Result<bool> {
        let (stream, name) = &self.consumer;
        let consumers = self.engine.consumers(stream.clone()).await?;
        let queue = consumers.iter().find(|queue| queue.spec.name == *name);
        Ok(queue.is_some_and(|queue| queue.lag.pending == 0 && queue.lag.in_flight == 0))
    }

    /// Whose work was found so far.
    pub(super) fn seen(&self) -> Seen {
        lock(&self.seen).clone()
    }

    /// The end of a task of this run that a receipt or a dead letter tells of.
    fn end_in(&self, opened: &Opened) -> Option<TaskEvent> {
        if opened.envelope.event_type == RECEIPT_COMPLETED {
            let WorkReceipt { task_id, attempt, .. } = WorkReceipt::parse(&opened.payload).ok()?;
            return Some(TaskEvent::Completed { task_id, attempt });
        }
        let letter = DeadLetterEvent::from_json(&opened.payload).ok()?;
        (letter.subject == self.queue.as_str()).then_some(TaskEvent::DeadLettered {
            task_id: letter.envelope_id,
            attempts: letter.attempts,
            reason: letter.failure_reason,
        })
    }

    fn remember(&self, opened: &Opened) {
        let mut seen = lock(&self.seen);
        seen.lives.insert(opened.envelope.lineage.incarnation);
        let signer = opened.envelope.signature.as_ref().map(|signature| &signature.signer);
        if let Some(certificate) = signer.and_then(|signer| self.roster.get(signer)) {
            seen.certificates.insert(certificate.token().to_owned());
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The task that ended.
fn id_of(event: &TaskEvent) -> &str {
    match event {
        TaskEvent::Completed { task_id, .. }
        | TaskEvent::Retried { task_id, .. }
        | TaskEvent::DeadLettered { task_id, .. }
        | TaskEvent::Released { task_id, .. }
        | TaskEvent::Unsettled { task_id, .. } => task_id,
    }
}

/// How often it is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(250);
