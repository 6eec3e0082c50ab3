//! Agents of one workspace, made as a fleet makes them.

use std::sync::Arc;

use anyhow::Result;
use bus_core::{
    BusMetrics, Clock, Endpoint, EndpointParts, Engine, Identity, Issue, Roster, SystemClock,
};
use bus_crypto::{Entropy, Keyring, NkeyKind, SigningKey, SystemEntropy, WorkspaceSecret};
use bus_envelope::WireForm;
use bus_subjects::{AgentId, Role, SessionId, WorkspaceId};

/// A workspace with its account key and its secret.
pub(crate) struct Fleet {
    account: SigningKey,
    workspace: WorkspaceId,
    keyring: Arc<Keyring>,
    roster: Arc<Roster>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
}

impl Fleet {
    pub(crate) fn new() -> Result<Self> {
        let entropy = Arc::new(SystemEntropy::new());
        let account = SigningKey::generate(NkeyKind::Account, &*entropy)?;
        let workspace = WorkspaceId::parse("acme")?;
        let keyring = Keyring::new();
        keyring.add_secret("acme", "main", WorkspaceSecret::generate(&*entropy)?)?;
        let roster = Arc::new(Roster::new(*account.public()));
        let (keyring, clock) = (Arc::new(keyring), Arc::new(SystemClock::new()));
        Ok(Self { account, workspace, keyring, roster, clock, entropy })
    }

    pub(crate) fn workspace(&self) -> &WorkspaceId {
        &self.workspace
    }

    /// An agent on `engine`, without checkpoints of what it publishes live.
    pub(crate) fn agent(
        &self,
        engine: Arc<dyn Engine>,
        name: &str,
        role: Role,
    ) -> Result<Endpoint> {
        self.agent_with(engine, name, vec![role])
    }

    /// The same in several roles.
    pub(crate) fn agent_with(
        &self,
        engine: Arc<dyn Engine>,
        name: &str,
        roles: Vec<Role>,
    ) -> Result<Endpoint> {
        let (workspace, agent) = (self.workspace.clone(), AgentId::parse(name)?);
        let issue = Issue::new(workspace, agent, roles, self.clock.now());
        let identity = Identity::issue(&self.account, &issue, &*self.entropy)?;
        self.roster.admit(identity.certificate().token())?;
        Ok(Endpoint::new(EndpointParts {
            engine,
            identity,
            session: Some(SessionId::parse(SESSION)?),
            queue: None,
            keyring: Arc::clone(&self.keyring),
            roster: Arc::clone(&self.roster),
            clock: Arc::clone(&self.clock),
            entropy: Arc::clone(&self.entropy),
            metrics: Arc::new(BusMetrics::default()),
            wire: WireForm::Compact,
            checkpoints: None,
        })?)
    }
}

/// The session that all agents work for.
pub(crate) const SESSION: &str = "session-7";
