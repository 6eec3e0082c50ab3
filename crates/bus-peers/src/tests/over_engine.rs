//! Buses that share their registry, over one embedded engine.

use std::{
    path::Path,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bus_core::{
    BusMetrics, Clock, Endpoint, EndpointParts, Engine, Guarded, Identity, Issue, Roster,
};
use bus_crypto::{Entropy, Keyring, NkeyKind, SigningKey, SystemEntropy, WorkspaceSecret};
use bus_envelope::wire::WireForm;
use bus_mem::InMemoryBus;
use bus_subjects::{AgentId, Role, RoleName, WorkspaceId};

use super::support::{Form, spawned};
use crate::{PeerBus, PeerOptions, Serving};

/// A bus over an engine that it has for itself.
pub(super) struct Over;

impl Form for Over {
    fn make(logs: &Path, options: PeerOptions) -> PeerBus {
        let house = House::new(Arc::clone(&options.clock));
        let mut made = pin!(house.bus("gate-1", logs, options));
        // The embedded engine answers at once.
        let Poll::Ready(bus) = made.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("the engine did not answer at once");
        };
        bus
    }
}

/// A workspace, its account and an engine.
pub(super) struct House {
    pub(super) engine: Arc<dyn Engine>,
    workspace: WorkspaceId,
    account: SigningKey,
    roster: Arc<Roster>,
    keyring: Arc<Keyring>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
}

impl House {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy::new());
        let account = SigningKey::generate(NkeyKind::Account, &*entropy).unwrap();
        let keyring = Arc::new(Keyring::new());
        let secret = WorkspaceSecret::generate(&*entropy).unwrap();
        keyring.add_secret("w1", "v1", secret).unwrap();
        Self {
            engine: Arc::new(InMemoryBus::with_clock(Arc::clone(&clock))),
            workspace: WorkspaceId::parse("w1").unwrap(),
            roster: Arc::new(Roster::new(*account.public())),
            account,
            keyring,
            clock,
            entropy,
        }
    }

    /// An agent behind its policy.
    pub(super) fn agent(&self, name: &str, roles: &[Role], queue: &str) -> Endpoint {
        let (agent, now) = (AgentId::parse(name).unwrap(), self.clock.now());
        let issue = Issue {
            role_name: Some(RoleName::parse(queue).unwrap()),
            ..Issue::new(self.workspace.clone(), agent, roles.to_vec(), now)
        };
        let identity = Identity::issue(&self.account, &issue, &*self.entropy).unwrap();
        self.roster.admit(identity.certificate().token()).unwrap();
        let policy = identity.certificate().policy_for(None, issue.role_name.as_ref());
        Endpoint::new(EndpointParts {
            engine: Arc::new(Guarded::new(Arc::clone(&self.engine), policy)),
            identity,
            session: None,
            queue: issue.role_name,
            keyring: Arc::clone(&self.keyring),
            roster: Arc::clone(&self.roster),
            clock: Arc::clone(&self.clock),
            entropy: Arc::clone(&self.entropy),
            metrics: Arc::<BusMetrics>::default(),
            wire: WireForm::Binary,
            checkpoints: None,
        })
        .unwrap()
    }

    /// A bus that nobody serves.
    pub(super) async fn unserved(
        &self,
        name: &str,
        logs: &Path,
        options: PeerOptions,
    ) -> (PeerBus, Serving) {
        let endpoint = self.agent(name, &[Role::Worker, Role::Orchestrator], "peers");
        let engine = Arc::clone(&self.engine);
        PeerBus::over(endpoint, engine, logs, options).await.unwrap()
    }

    /// A bus that is served.
    pub(super) async fn bus(&self, name: &str, logs: &Path, options: PeerOptions) -> PeerBus {
        let (bus, mut serving) = self.unserved(name, logs, options).await;
        spawned(async move { serving.run().await });
        bus
    }
}
