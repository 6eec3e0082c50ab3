//! A workspace with an orchestrator, a worker and an operator, and servers for them.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bus_core::{
    Bus, BusMetrics, Clock, Endpoint, EndpointParts, Engine, Guarded, Identity, Issue, RetryPolicy,
    Roster, TokioClock, planes,
};
use bus_crypto::{Entropy, Keyring, NkeyKind, SigningKey, SystemEntropy, WorkspaceSecret};
use bus_envelope::{Timestamp, WireForm};
use bus_mem::InMemoryBus;
use bus_subjects::{AgentId, Role, RoleName, SessionId, WorkspaceId};
use serde_json::Value;

use crate::{Server, ServerParts, answer::Answer};

pub(super) struct Stage {
    bus: InMemoryBus,
    engines: Mutex<Vec<Arc<dyn Engine>>>,
    pub(super) workspace: WorkspaceId,
    roster: Arc<Roster>,
    keyring: Arc<Keyring>,
    clock: Arc<dyn Clock>,
    account: SigningKey,
    entropy: Arc<dyn Entropy>,
}

impl Stage {
    pub(super) async fn new() -> Self {
        let origin = Timestamp::from_unix_ns(1_780_000_000_000_000_000);
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(origin));
        let bus = InMemoryBus::with_clock(Arc::clone(&clock));
        let workspace = WorkspaceId::parse("w1").unwrap();
        for stream in planes::workspace_streams(&workspace).unwrap() {
            bus.declare(stream).await.unwrap();
        }
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy::new());
        let account = SigningKey::generate(NkeyKind::Account, &*entropy).unwrap();
        let keyring = Arc::new(Keyring::new());
        let secret = WorkspaceSecret::generate(&*entropy).unwrap();
        keyring.add_secret("w1", "v1", secret).unwrap();
        let roster = Arc::new(Roster::new(*account.public()));
        Self { bus, engines: Mutex::default(), workspace, roster, keyring, clock, account, entropy }
    }

    /// Takes the bus away from everybody.
    pub(super) async fn close(&self) {
        let engines = std::mem::take(&mut *self.engines.lock().unwrap());
        for engine in engines {
            engine.close().await.unwrap();
        }
    }

    /// An agent with a connection of its own.
    pub(super) fn agent(&self, name: &str, roles: &[Role]) -> Endpoint {
        self.agent_in(Some("mcp"), name, roles)
    }

    /// The same in a session, or in none.
    pub(super) fn agent_in(&self, session: Option<&str>, name: &str, roles: &[Role]) -> Endpoint {
        let agent = AgentId::parse(name).unwrap();
        let issue = Issue::new(self.workspace.clone(), agent, roles.to_vec(), self.clock.now());
        let identity = Identity::issue(&self.account, &issue, &*self.entropy).unwrap();
        self.roster.admit(identity.certificate().token()).unwrap();
        let session = session.map(|session| SessionId::parse(session).unwrap());
        let policy = identity.certificate().policy_for(session.as_ref(), None);
        let engine: Arc<dyn Engine> = Arc::new(self.bus.connect());
        self.engines.lock().unwrap().push(Arc::clone(&engine));
        let parts = EndpointParts {
            engine: Arc::new(Guarded::new(engine, policy)),
            identity,
            session,
            queue: None,
            keyring: Arc::clone(&self.keyring),
            roster: Arc::clone(&self.roster),
            clock: Arc::clone(&self.clock),
            entropy: Arc::clone(&self.entropy),
            metrics: Arc::<BusMetrics>::default(),
            wire: WireForm::Compact,
            checkpoints: None,
        };
        Endpoint::new(parts).unwrap()
    }

    /// `ada`, who hands out tasks and sends messages.
    pub(super) fn sender(&self) -> Server {
        server(self.agent("ada", &[Role::Orchestrator]), None)
    }

    /// `bob`, who takes tasks.
    pub(super) fn worker(&self) -> Server {
        let bob = self.agent("bob", &[Role::Worker]);
        server(bob.clone(), Some(bob))
    }
}

pub(super) fn server(agent: Endpoint, worker: Option<Endpoint>) -> Server {
    let mut retry = RetryPolicy { retries_max: 1, ..RetryPolicy::default() };
    retry.backoff.base = Duration::ZERO;
    Server::new(ServerParts {
        queues: Some(worker.as_ref().unwrap_or(&agent).clone()),
        agent,
        worker,
        role: RoleName::parse("worker").unwrap(),
        lease: LEASE,
        retry,
    })
}

/// Calls a tool.
pub(super) async fn call(server: &Server, tool: &str, args: Value) -> Answer {
    server.call(tool, Some(args.as_object().unwrap().clone())).await
}

/// Calls a tool that has to answer.
#[track_caller]
pub(super) fn said(answer: Answer) -> Value {
    answer.unwrap_or_else(|refused| panic!("refused: {refused:?}"))
}

/// The kind, and whether nothing happened, of a call that has to be refused.
#[track_caller]
pub(super) fn refused(answer: Answer) -> (String, String, String) {
    let refused = answer.expect_err("it has to be refused").to_json();
    let field = |name: &str| refused["error"][name].as_str().unwrap().to_owned();
    (field("kind"), field("outcome"), field("reason"))
}

/// Returns when so much time of the stopped clock has passed.
pub(super) async fn passed(time: Duration) {
    tokio::time::sleep_until(tokio::time::Instant::now() + time).await;
}

/// The engine's lease.
pub(super) const LEASE: Duration = Duration::from_secs(30);
