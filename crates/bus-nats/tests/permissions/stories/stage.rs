//! A workspace on a server of its own, and agents whose engines have the rights of their roles.

use std::sync::Arc;

use bus_core::{
    BusMetrics, Clock, Endpoint, EndpointParts, Engine, Guarded, Identity, Issue, Roster,
    SystemClock, Worker, WorkerSpec,
};
use bus_crypto::{Entropy, Keyring, NkeyKind, SigningKey, SystemEntropy, WorkspaceSecret};
use bus_envelope::{Draft, WireForm};
use bus_nats::{NatsBus, NatsOptions};
use bus_subjects::{AgentId, Filter, Role, RoleName, SessionId, StreamName, Subject, WorkspaceId};

use crate::world::{Shape, World, credentials, layout, new_key, policy_of, rights_of};

/// What everybody needs.
pub(crate) struct Stage {
    world: World,
    /// Whoever set up the workspace: the only one in the account that keeps everything.
    pub(crate) store: NatsBus,
    pub(crate) workspace: WorkspaceId,
    pub(crate) session: SessionId,
    pub(crate) queue: RoleName,
    pub(crate) clock: Arc<dyn Clock>,
    roster: Arc<Roster>,
    keyring: Arc<Keyring>,
    account: SigningKey,
    entropy: Arc<dyn Entropy>,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let world = World::start(Shape::Two);
        let store = NatsBus::open(world.store_options()).await.unwrap();
        store.declare_workspace(&layout()).await.unwrap();
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy::new());
        let account = new_key(NkeyKind::Account);
        let keyring = Arc::new(Keyring::new());
        let secret = WorkspaceSecret::generate(&*entropy).unwrap();
        keyring.add_secret("w1", "v1", secret).unwrap();
        Self {
            world,
            store,
            workspace: "w1".parse().unwrap(),
            session: "s1".parse().unwrap(),
            queue: "coder".parse().unwrap(),
            clock: Arc::new(SystemClock::new()),
            roster: Arc::new(Roster::new(*account.public())),
            keyring,
            account,
            entropy,
        }
    }

    /// The engine of an agent: nothing but the server keeps it to the rights of its role.
    pub(crate) async fn bus(&self, name: &str, role: Role) -> NatsBus {
        let (key, token) = self.world.token(name, rights_of(role, name));
        let (url, who) = (self.world.server().url(), credentials(&key, &token));
        let options = NatsOptions::for_agent(url, who, self.workspace.clone()).unwrap();
        NatsBus::open(options).await.unwrap()
    }

    /// A certified agent with an engine of its own, behind its policy: what that lets through, the
    /// server has to.
    pub(crate) async fn agent(&self, name: &str, role: Role) -> Endpoint {
        let agent = AgentId::parse(name).unwrap();
        let issue = Issue::new(self.workspace.clone(), agent, vec![role], self.clock.now());
        let identity = Identity::issue(&self.account, &issue, &*self.entropy).unwrap();
        self.roster.admit(identity.certificate().token()).unwrap();
        let engine: Arc<dyn Engine> = Arc::new(self.bus(name, role).await);
        let parts = EndpointParts {
            engine: Arc::new(Guarded::new(engine, policy_of(role, name))),
            identity,
            session: Some(self.session.clone()),
            queue: Some(self.queue.clone()),
            keyring: Arc::clone(&self.keyring),
            roster: Arc::clone(&self.roster),
            clock: Arc::clone(&self.clock),
            entropy: Arc::clone(&self.entropy),
            metrics: Arc::<BusMetrics>::default(),
            wire: WireForm::Binary,
            checkpoints: None,
        };
        Endpoint::new(parts).unwrap()
    }

    /// A worker of the queue that hears what is cancelled.
    pub(crate) async fn worker(&self, name: &str) -> Worker {
        let mut spec = WorkerSpec::new(self.queue.clone());
        spec.hears_cancels = true;
        spec.retry.backoff.base = std::time::Duration::from_millis(20);
        spec.retry.retries_max = 1;
        Worker::new(self.agent(name, Role::Worker).await, spec)
    }

    /// Fails when the server refused anything lately: an engine asks for nothing that the rights
    /// of its role do not hold.
    pub(crate) fn check_that_nothing_was_refused(&self) {
        let refused = self.refused();
        assert!(refused.is_empty(), "{refused:#?}");
    }

    /// What the server refused lately, by its log; but for the subject that every engine has
    /// refused on purpose, to hear what was refused before.
    pub(crate) fn refused(&self) -> Vec<String> {
        let is_refusal = |line: &String| line.contains("Violation") && !line.contains(".>.none");
        self.world.server().last_lines().0.into_iter().filter(is_refusal).collect()
    }

    /// How many messages a stream holds, by the word of whoever keeps it.
    pub(crate) async fn count(&self, stream: StreamName) -> usize {
        use bus_core::Bus as _;
        let mut replay = self.store.replay(stream, Filter::all(), bus_core::Seq(1)).await.unwrap();
        let mut count = 0;
        while let Some(stored) = replay.next().await {
            stored.unwrap();
            count += 1;
        }
        count
    }
}

/// A task with the text `text`.
pub(crate) fn task(text: &str) -> Draft {
    draft("vak.work.w1.coder.task", "vak.task", text)
}

pub(crate) fn draft(subject: &str, kind: &str, text: &str) -> Draft {
    let subject = Subject::parse(subject).unwrap();
    Draft::new(subject, kind, text.to_owned()).content_type("text/plain")
}
