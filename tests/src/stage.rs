//! A workspace with keys, an engine under a stopped clock, and agents in their roles.

use std::sync::Arc;

use bus_core::{
    BusMetrics, Clock, DeadLetterEvent, Endpoint, EndpointParts, Engine, Frame, Guarded, Identity,
    Issue, Lag, Result, Roster, Seq, TokioClock, Worker, WorkerSpec, planes,
};
use bus_crypto::{Entropy, Keyring, NkeyKind, SigningKey, SystemEntropy, WorkspaceSecret};
use bus_envelope::{Draft, Timestamp, WireForm};
use bus_mem::InMemoryBus;
use bus_subjects::{Address, AgentId, Filter, Role, RoleName, SessionId, StreamName, WorkspaceId};

use crate::Flaky;

/// Everything a story needs; one workspace on one embedded engine.
pub struct Stage {
    /// The engine, without any policy before it.
    pub engine: Arc<dyn Engine>,
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The session all agents work for.
    pub session: SessionId,
    /// The work queue all agents serve.
    pub queue: RoleName,
    /// The certificates that count.
    pub roster: Arc<Roster>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What all endpoints count together.
    pub metrics: Arc<BusMetrics>,
    /// The workspace's secrets.
    pub keyring: Arc<Keyring>,
    account: SigningKey,
    entropy: Arc<dyn Entropy>,
}

impl Stage {
    /// A workspace `w1` with streams declared, in the year 2026. Needs a tokio runtime; on a paused
    /// one its time stands still.
    ///
    /// # Errors
    /// None in practice.
    pub async fn new() -> Result<Self> {
        let origin = Timestamp::from_unix_ns(1_780_000_000_000_000_000);
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(origin));
        let engine = Arc::new(InMemoryBus::with_clock(Arc::clone(&clock)));
        Self::on(engine, clock).await
    }

    /// The same with an engine that fails on command.
    ///
    /// # Errors
    /// None in practice.
    pub async fn flaky() -> Result<(Self, Arc<Flaky>)> {
        let origin = Timestamp::from_unix_ns(1_780_000_000_000_000_000);
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(origin));
        let engine = Arc::new(InMemoryBus::with_clock(Arc::clone(&clock)));
        let flaky = Arc::new(Flaky::new(engine));
        let stage = Self::on(Arc::clone(&flaky) as Arc<dyn Engine>, clock).await?;
        flaky.forget();
        Ok((stage, flaky))
    }

    /// The same on another engine, such as one that fails on purpose.
    ///
    /// # Errors
    /// Those of the engine's `declare`.
    pub async fn on(engine: Arc<dyn Engine>, clock: Arc<dyn Clock>) -> Result<Self> {
        let workspace = WorkspaceId::parse("w1")?;
        for stream in planes::workspace_streams(&workspace)? {
            engine.declare(stream).await?;
        }
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy::new());
        let account = SigningKey::generate(NkeyKind::Account, &*entropy)?;
        let keyring = Arc::new(Keyring::new());
        keyring.add_secret("w1", "v1", WorkspaceSecret::generate(&*entropy)?)?;
        Ok(Self {
            engine,
            workspace,
            session: SessionId::parse("s1")?,
            queue: RoleName::parse("coder")?,
            roster: Arc::new(Roster::new(*account.public())),
            clock,
            metrics: Arc::default(),
            account,
            keyring,
            entropy,
        })
    }

    /// A certified agent at an endpoint of its own, behind its policy.
    ///
    /// # Errors
    /// `Invalid` when `name` is no agent's name.
    pub fn agent(&self, name: &str, role: Role) -> Result<Endpoint> {
        self.endpoint(self.certified(name, role)?)
    }

    /// An agent's identity, certified and admitted to the roster.
    ///
    /// # Errors
    /// `Invalid` when `name` is no agent's name.
    pub fn certified(&self, name: &str, role: Role) -> Result<Identity> {
        let identity = Identity::issue(&self.account, &self.issue(name, role)?, &*self.entropy)?;
        self.roster.admit(identity.certificate().token())?;
        Ok(identity)
    }

    /// What a certificate of this workspace says about an agent from now on.
    ///
    /// # Errors
    /// `Invalid` when `name` is no agent's name.
    pub fn issue(&self, name: &str, role: Role) -> Result<Issue> {
        let (agent, now) = (AgentId::parse(name)?, self.clock.now());
        Ok(Issue::new(self.workspace.clone(), agent, vec![role], now))
    }

    /// An endpoint for an identity, behind its policy.
    ///
    /// # Errors
    /// `UnknownKey` when the identity is of another workspace.
    pub fn endpoint(&self, identity: Identity) -> Result<Endpoint> {
        Endpoint::new(self.parts(identity))
    }

    /// What [`Stage::endpoint`] makes an endpoint of, to change a part of it.
    #[must_use]
    pub fn parts(&self, identity: Identity) -> EndpointParts {
        let certificate = identity.certificate();
        let policy = certificate.policy_for(Some(&self.session), Some(&self.queue));
        EndpointParts {
            engine: Arc::new(Guarded::new(Arc::clone(&self.engine), policy)),
            identity,
            session: Some(self.session.clone()),
            queue: Some(self.queue.clone()),
            keyring: Arc::clone(&self.keyring),
            roster: Arc::clone(&self.roster),
            clock: Arc::clone(&self.clock),
            entropy: Arc::clone(&self.entropy),
            metrics: Arc::clone(&self.metrics),
            wire: WireForm::Binary,
            checkpoints: None,
        }
    }

    /// A worker of the stage's queue.
    ///
    /// # Errors
    /// `Invalid` when `name` is no agent's name.
    pub fn worker(&self, name: &str) -> Result<Worker> {
        let spec = WorkerSpec::new(self.queue.clone());
        Ok(Worker::new(self.agent(name, Role::Worker)?, spec))
    }

    /// The key that certifies this workspace's agents.
    #[must_use]
    pub fn account(&self) -> &SigningKey {
        &self.account
    }

    /// Has an orchestrator send tasks with these texts, in order, and returns their ids.
    ///
    /// # Errors
    /// Those of [`Endpoint::send`].
    pub async fn fill(&self, texts: &[&str]) -> Result<Vec<String>> {
        let boss = self.agent("boss", Role::Orchestrator)?;
        let mut ids = Vec::new();
        for text in texts {
            ids.push(boss.send(task(self, text)).await?.id);
        }
        Ok(ids)
    }

    /// The frames that a stream holds now, in order.
    ///
    /// # Errors
    /// Those of the engine's `replay`.
    pub async fn stored(&self, stream: StreamName) -> Result<Vec<Frame>> {
        let mut replay = self.engine.replay(stream, Filter::all(), Seq(1)).await?;
        let mut frames = Vec::new();
        while let Some(stored) = replay.next().await {
            frames.push(stored?.frame);
        }
        Ok(frames)
    }

    /// The dead letters stored now, in order.
    ///
    /// # Errors
    /// Those of opening one of them.
    pub async fn letters(&self) -> Result<Vec<DeadLetterEvent>> {
        let operator = self.agent("letter-reader", Role::Operator)?;
        let frames = self.stored(planes::dead_letters_stream()?).await?;
        frames.iter().map(|f| DeadLetterEvent::from_json(&operator.open(f)?.payload)).collect()
    }

    /// How much waits in the queue of tasks.
    ///
    /// # Errors
    /// Those of the engine's `lag`.
    pub async fn lag(&self) -> Result<Lag> {
        self.engine.lag(planes::work_stream(&self.workspace)?).await
    }

    /// Where the stage's tasks go.
    #[must_use]
    pub fn tasks(&self) -> Address {
        Address::Task { workspace: self.workspace.clone(), role: self.queue.clone() }
    }

    /// Where the stage's receipts go.
    #[must_use]
    pub fn receipts(&self) -> Address {
        Address::Receipt { workspace: self.workspace.clone(), session: self.session.clone() }
    }

    /// Where the tokens of the stage's session go.
    #[must_use]
    pub fn tokens(&self) -> Address {
        Address::Tokens { workspace: self.workspace.clone(), session: self.session.clone() }
    }
}

/// A task with the text `text`.
#[must_use]
pub fn task(stage: &Stage, text: &str) -> Draft {
    let payload = bytes::Bytes::copy_from_slice(text.as_bytes());
    Draft::new(stage.tasks().subject(), "vak.task", payload).content_type("text/plain")
}
