//! C26, C27, S0.44: what an approval is good for, and that it is good once, on every engine.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

mod bound;
mod ends;
mod engines;
mod lost;
mod mailbox;
mod named;
mod race;

use std::{sync::Arc, time::Duration};

use bus_authority::{Approval, Approvals, Book, NotUsed, Requested, Used};
use bus_core::{ApprovalRequest, Endpoint, Identity, planes};
use bus_envelope::Timestamp;
use bus_stories::{Flaky, Stage};
use bus_subjects::Role;

const ACTION: &str = "deploy.production";
const TARGET: &str = "web-1";
const LEASE: Duration = Duration::from_secs(30);

fn request() -> ApprovalRequest {
    ApprovalRequest::new(ACTION, TARGET, &["yes", "no", "later"]).unwrap()
}

/// A worker that asks, and an operator.
struct Scene {
    stage: Stage,
    worker: Endpoint,
    otto: Endpoint,
    desk: Approvals,
}

impl Scene {
    fn on(stage: Stage) -> Self {
        let worker = stage.agent("coder-1", Role::Worker).unwrap();
        let otto = stage.agent("otto", Role::Operator).unwrap();
        let desk = Approvals::new(worker.clone(), LEASE);
        Self { stage, worker, otto, desk }
    }

    async fn new() -> Self {
        Self::on(Stage::new().await.unwrap())
    }

    async fn flaky() -> (Self, Arc<Flaky>) {
        let (stage, flaky) = Stage::flaky().await.unwrap();
        (Self::on(stage), flaky)
    }

    async fn ask(&self) -> Requested {
        self.desk.request(None, &request()).await.unwrap()
    }

    async fn answer(&self, asked: &Requested, choice: &str) {
        let session = &asked.session;
        self.otto.resolve_approval(session, asked.approval, choice, None).await.unwrap();
    }

    /// An approval that was asked for and allowed.
    async fn allowed(&self) -> Requested {
        let asked = self.ask().await;
        self.answer(&asked, "yes").await;
        asked
    }

    /// The use that was asked for.
    async fn take(&self, asked: &Requested) -> Result<Used, NotUsed> {
        take(&self.desk, asked, None).await
    }

    /// The approval as the operator knows it.
    async fn known(&self, asked: &Requested) -> Approval {
        let book = Book::read(&self.otto, Some(&asked.session)).await.unwrap();
        book.get(&asked.approval).unwrap().clone()
    }

    /// The desk of another process of the worker.
    fn another(&self) -> Approvals {
        Approvals::new(self.stage.endpoint(again(&self.worker)).unwrap(), LEASE)
    }

    /// How many messages wait in mailboxes.
    async fn waiting(&self) -> u64 {
        let inbox = planes::inbox_stream(&self.stage.workspace).unwrap();
        self.stage.engine.lag(inbox).await.unwrap().pending
    }

    /// The types of what is stored on the receipts, in order.
    async fn records(&self) -> Vec<String> {
        let frames = self.stage.stored(planes::receipts_stream().unwrap()).await.unwrap();
        frames.iter().map(|frame| self.otto.open(frame).unwrap().envelope.event_type).collect()
    }

    fn in_a_minute(&self) -> Timestamp {
        self.stage.clock.now().plus(Duration::from_secs(60))
    }
}

/// The use that was asked for, at a desk.
async fn take(
    desk: &Approvals,
    asked: &Requested,
    until: Option<Timestamp>,
) -> Result<Used, NotUsed> {
    let ask = desk.ask(ACTION, TARGET, None)?;
    desk.take(&asked.approval.into(), &ask, until).await
}

fn code(result: Result<Used, NotUsed>) -> &'static str {
    result.err().unwrap().code()
}

/// The same identity for another process life.
fn again(endpoint: &Endpoint) -> Identity {
    let identity = endpoint.identity();
    let key = bus_crypto::SigningKey::from_seed_text(&identity.key().seed_text()).unwrap();
    Identity::from_parts(key, identity.certificate().token()).unwrap()
}
