//! How a task ended: its result and receipt, or its dead letter, now or when it comes.

use std::time::Duration;

use bus_core::{
    DeadLetterEvent, Endpoint, Follow, Frame, Opened, Results, Seq, Stored, TaskResult, planes,
};
use bus_envelope::EventHash;
use bus_evidence::{RECEIPT_COMPLETED, WorkReceipt};
use bus_subjects::{Address, AddressKind, AgentId, Filter, StreamName};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::{engine::Agent, error::CliError};

/// The end of a task.
#[derive(Debug)]
pub(super) enum End {
    /// It is done.
    Done(Box<Done>),
    /// It was given up.
    Dead(Box<Dead>),
}

/// A task that is done, as far as it is known.
#[derive(Debug)]
pub(super) struct Done {
    /// What it gave; none when no result is kept (any more).
    pub(super) result: Option<TaskResult>,
    /// The receipt that vouches for it; none when it is not found.
    pub(super) receipt: Option<WorkReceipt>,
}

impl Done {
    /// Who did it, and in which attempt: by the receipt, else by the result.
    pub(super) fn made_by(&self) -> (Option<&AgentId>, Option<u32>) {
        let receipt = self.receipt.as_ref().map(|receipt| (&receipt.worker, receipt.attempt));
        let made = receipt.or(self.result.as_ref().map(|result| (&result.worker, result.attempt)));
        (made.map(|(worker, _)| worker), made.map(|(_, attempt)| attempt))
    }
}

/// A task that was given up.
#[derive(Debug)]
pub(super) struct Dead {
    /// The position of its dead letter.
    pub(super) letter: Seq,
    /// What the letter says.
    pub(super) event: DeadLetterEvent,
}

/// Looks for the end of one task.
pub(super) struct Ends<'a> {
    agent: &'a Agent,
    id: String,
    /// The task's leaf hash, when it is known: another task with the same id is not meant.
    hash: Option<EventHash>,
}

/// How often dead letters are looked for while somebody waits.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// After how many such looks receipts are looked through as well: a task whose worker keeps no
/// results is known to be done by nothing else.
const LOOKS_WITHOUT_RECEIPTS: u32 = 5;

/// How long after the end of its command a result may be under way.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(5);

impl<'a> Ends<'a> {
    pub(super) fn new(agent: &'a Agent, id: &str, hash: Option<EventHash>) -> Self {
        Self { agent, id: id.to_owned(), hash }
    }

    /// The end as it is known now. Of a task that was redriven and has ended both ways, the result.
    pub(super) async fn now(&self) -> Result<Option<End>, CliError> {
        if let Some(result) = self.results().get(&self.id).await?
            && self.is_meant(&result)
        {
            return self.done(result).await.map(Some);
        }
        let mut receipts = self.receipts()?;
        if let Some(end) = self.next_receipt(&mut receipts).await? {
            return self.with_result(end).await.map(Some);
        }
        let mut letters = self.letters()?;
        self.next_letter(&mut letters).await
    }

    /// Waits for the end; none when it did not come within `limit`.
    pub(super) async fn wait(&self, limit: Option<Duration>) -> Result<Option<End>, CliError> {
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut watch = self.results().watch(&self.id).await?;
        let (mut letters, mut receipts) = (self.letters()?, self.receipts()?);
        let mut looks = 0_u32;
        loop {
            let is_over = until.is_some_and(|until| Instant::now() >= until);
            if let Some(end) = self.next_letter(&mut letters).await? {
                return Ok(Some(end));
            }
            if (looks >= LOOKS_WITHOUT_RECEIPTS || is_over)
                && let Some(end) = self.next_receipt(&mut receipts).await?
            {
                return self.with_result(end).await.map(Some);
            }
            if is_over {
                return Ok(None);
            }
            looks = looks.saturating_add(1);
            let over = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                result = watch.next() => match result {
                    Some(result) => {
                        let result = result?;
                        if self.is_meant(&result) {
                            return self.done(result).await.map(Some);
                        }
                    }
                    None => return Err(closed().into()),
                },
                () = sleep(LOOK_EVERY) => {}
                () = over => {}
            }
        }
    }

    /// The result that follows a receipt: workers keep it after the receipt is stored, and so it
    /// may be under way when the receipt was just made.
    async fn with_result(&self, end: End) -> Result<End, CliError> {
        let End::Done(done) = &end else { return Ok(end) };
        let Some(receipt) = &done.receipt else { return Ok(end) };
        let age = self.endpoint().clock().now().since(receipt.finished);
        let mut watch = self.results().watch(&self.id).await?;
        let found = async {
            while let Some(result) = watch.next().await {
                let result = result?;
                if self.is_meant(&result) {
                    return Ok(Some(result));
                }
            }
            Ok::<_, CliError>(None)
        };
        match timeout(FOLLOWS_WITHIN.saturating_sub(age), found).await {
            Ok(Ok(Some(result))) => self.done(result).await,
            Ok(Err(error)) => Err(error),
            // None is kept, or none any more.
            Ok(Ok(None)) | Err(_) => Ok(end),
        }
    }

    fn is_meant(&self, result: &TaskResult) -> bool {
        self.hash.is_none_or(|hash| hash == result.task)
    }

    /// A result with its receipt.
    async fn done(&self, result: TaskResult) -> Result<End, CliError> {
        let stored = match result.receipt {
            Some(seq) => self.agent.engine.read(planes::receipts_stream()?, seq).await?,
            None => None,
        };
        let receipt = match stored {
            Some(stored) => self.receipt_in(&stored.frame, result.task),
            None => self.find_receipt(&result).await?,
        };
        Ok(End::Done(Box::new(Done { result: Some(result), receipt })))
    }

    /// The receipt of a result that does not say where it is: of an earlier attempt.
    async fn find_receipt(&self, result: &TaskResult) -> Result<Option<WorkReceipt>, CliError> {
        let workspace = self.endpoint().workspace().clone();
        let subject = Address::Receipt { workspace, session: result.session.clone() }.subject();
        let stream = planes::receipts_stream()?;
        let filter = Filter::from(&subject);
        let mut stored = self.agent.engine.replay(stream, filter, Seq(1)).await?;
        while let Some(stored) = stored.next().await {
            if let Some(receipt) = self.receipt_in(&stored?.frame, result.task) {
                return Ok(Some(receipt));
            }
        }
        Ok(None)
    }

    /// The receipt of the task with the hash `task`, if `frame` is it.
    fn receipt_in(&self, frame: &Frame, task: EventHash) -> Option<WorkReceipt> {
        let opened = self.endpoint().open(frame).ok()?;
        let is_about = opened.envelope.event_type == RECEIPT_COMPLETED
            && opened.envelope.lineage.cause == Some(task);
        let receipt = WorkReceipt::parse(&opened.payload).ok()?;
        (is_about && receipt.task_id == self.id).then_some(receipt)
    }

    async fn next_receipt(&self, follow: &mut Follow) -> Result<Option<End>, CliError> {
        self.walk(follow, |_, opened| {
            let receipt = WorkReceipt::parse(&opened.payload).ok()?;
            let cause = opened.envelope.lineage.cause;
            let is_ours = receipt.task_id == self.id && self.hash.is_none_or(|h| cause == Some(h));
            let done = Done { result: None, receipt: Some(receipt) };
            is_ours.then(|| End::Done(Box::new(done)))
        })
        .await
    }

    async fn next_letter(&self, follow: &mut Follow) -> Result<Option<End>, CliError> {
        self.walk(follow, |stored, opened| {
            let event = DeadLetterEvent::from_json(&opened.payload).ok()?;
            let cause = opened.envelope.lineage.cause;
            let is_ours =
                event.envelope_id == self.id && self.hash.is_none_or(|hash| cause == Some(hash));
            is_ours.then(|| End::Dead(Box::new(Dead { letter: stored.seq, event })))
        })
        .await
    }

    /// Looks through what is new in a stream; the last one that fits counts.
    async fn walk(
        &self,
        follow: &mut Follow,
        fits: impl Fn(&Stored, &Opened) -> Option<End>,
    ) -> Result<Option<End>, CliError> {
        let (endpoint, mut found) = (self.endpoint(), None);
        follow
            .look(|stored| {
                if let Ok(opened) = endpoint.open(&stored.frame) {
                    found = fits(&stored, &opened).or(found.take());
                }
            })
            .await?;
        Ok(found)
    }

    fn letters(&self) -> Result<Follow, CliError> {
        Ok(self.follow(planes::dead_letters_stream()?, AddressKind::DeadLetter))
    }

    fn receipts(&self) -> Result<Follow, CliError> {
        Ok(self.follow(planes::receipts_stream()?, AddressKind::Receipt))
    }

    fn follow(&self, stream: StreamName, kind: AddressKind) -> Follow {
        let filter = kind.filter(Some(self.endpoint().workspace()));
        Follow::new(self.endpoint().clone(), stream, filter, Seq(1))
    }

    fn results(&self) -> Results {
        Results::new(self.endpoint().clone())
    }

    fn endpoint(&self) -> &Endpoint {
        &self.agent.endpoint
    }
}

fn closed() -> bus_core::Error {
    bus_core::Error::new(bus_core::ErrorKind::Closed, "wait", "the bus was closed")
}
