//! The registry as the bus offers it: the pure machine behind a lock, with a clock and randomness.

pub(crate) mod definition;
mod limits;
pub(crate) mod machine;
pub(crate) mod target;

use std::sync::Arc;

use bus_core::Outcome;

pub use self::{
    limits::Limits,
    machine::{InstanceMeta, LiveInstance},
    target::PeerTarget,
};
use crate::{BusError, InstanceSecret, core::Core, shared::Shared};

/// Who is registered.
#[derive(Debug)]
pub struct InstanceRegistry {
    pub(crate) core: Arc<Core>,
    pub(crate) shared: Option<Arc<Shared>>,
}

impl InstanceRegistry {
    /// Registers an instance, and gives back its secret, which is not kept: whoever has it is the
    /// instance from now on.
    ///
    /// # Errors
    /// [`BusError::InvalidDefinitionId`], [`BusError::TooLarge`], [`BusError::Full`],
    /// [`BusError::InstanceIdCollision`], and [`BusError::Unavailable`] without randomness.
    pub async fn register(
        &self,
        definition_id: &str,
        project: Option<&str>,
    ) -> Result<(InstanceMeta, InstanceSecret), BusError> {
        let random = |_| BusError::Unavailable {
            reason: "there is no randomness".into(),
            outcome: Outcome::NotDone,
        };
        let secret = InstanceSecret::generate(self.core.entropy()).map_err(random)?;
        if let Some(shared) = &self.shared {
            let meta = shared.register(definition_id, project, secret.hash()).await?;
            return Ok((meta, secret));
        }
        let mut suffixes = [0; machine::MINTS_MAX];
        for suffix in &mut suffixes {
            let mut bytes = [0; 4];
            self.core.entropy().fill(&mut bytes).map_err(random)?;
            *suffix = u32::from_be_bytes(bytes);
        }
        let meta = self.core.register(machine::Command::Register {
            definition_id: definition_id.to_owned(),
            project: project.map(str::to_owned),
            suffixes,
            secret: secret.hash(),
        })?;
        Ok((meta, secret))
    }

    /// All that are live, in the order of their registration.
    ///
    /// # Errors
    /// [`BusError::Unavailable`] when the registry cannot be asked.
    pub async fn live(&self) -> Result<Vec<LiveInstance>, BusError> {
        Ok(self.core.live())
    }

    /// Whom a target means now. There is no way from one kind of address to the other.
    ///
    /// # Errors
    /// [`BusError::NoLiveInstance`] of a definition, [`BusError::InstanceGone`] of an instance;
    /// [`BusError::Unavailable`] when a shared registry cannot be asked.
    pub async fn resolve(&self, target: &PeerTarget) -> Result<LiveInstance, BusError> {
        target.check()?;
        if let (Some(shared), PeerTarget::Instance(instance_id)) = (&self.shared, target) {
            shared.look_up(instance_id).await?;
        }
        self.core.resolve(target)
    }

    /// The newest live instance of a definition, of those that somebody listens for if there are
    /// any.
    ///
    /// # Errors
    /// [`BusError::NoLiveInstance`].
    pub async fn resolve_definition(&self, definition_id: &str) -> Result<LiveInstance, BusError> {
        self.resolve(&PeerTarget::Definition(definition_id.to_owned())).await
    }

    /// The instance, if it is live.
    ///
    /// # Errors
    /// [`BusError::InstanceGone`].
    pub async fn resolve_instance(&self, instance_id: &str) -> Result<LiveInstance, BusError> {
        self.resolve(&PeerTarget::Instance(instance_id.to_owned())).await
    }
}
