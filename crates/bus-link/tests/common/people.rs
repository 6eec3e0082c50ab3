//! A workspace with its account, and clients that it vouches for.

use std::{sync::Arc, time::Duration};

use bus_core::{Clock, Identity, Issue};
use bus_crypto::{NkeyKind, SigningKey, SystemEntropy};
use bus_link::Admission;
use bus_subjects::{AclPolicy, AgentId, Filter, Role, WorkspaceId};

/// One workspace and its account.
pub(crate) struct People {
    pub(crate) workspace: WorkspaceId,
    pub(crate) account: SigningKey,
    clock: Arc<dyn Clock>,
}

impl People {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let account = SigningKey::generate(NkeyKind::Account, &SystemEntropy::new()).unwrap();
        Self { workspace: WorkspaceId::parse("w1").unwrap(), account, clock }
    }

    /// Lets in who this workspace vouches for.
    pub(crate) fn admission(&self) -> Admission {
        let admission = Admission::new(Arc::clone(&self.clock));
        admission.trust(self.workspace.clone(), *self.account.public());
        admission
    }

    /// As `admission`, and everybody may do everything: the suite uses workspaces of its own.
    pub(crate) fn open_admission(&self) -> Admission {
        self.admission().policy(|_| everything())
    }

    pub(crate) fn identity(&self, agent: &str, roles: Vec<Role>) -> Identity {
        self.identity_for(agent, roles, None)
    }

    pub(crate) fn identity_for(
        &self,
        agent: &str,
        roles: Vec<Role>,
        valid_for: Option<Duration>,
    ) -> Identity {
        let agent = AgentId::parse(agent).unwrap();
        let now = self.clock.now();
        let issue = Issue { valid_for, ..Issue::new(self.workspace.clone(), agent, roles, now) };
        self.issued(&issue)
    }

    /// Who has a certificate that says this.
    pub(crate) fn issued(&self, issue: &Issue) -> Identity {
        Identity::issue(&self.account, issue, &SystemEntropy::new()).unwrap()
    }
}

fn everything() -> AclPolicy {
    let mut policy = AclPolicy::default();
    policy.publish.allow.push(Filter::all());
    policy.subscribe.allow.push(Filter::all());
    policy
}
