//! For whom a message is meant: a definition or one instance, never both.

use crate::{BusError, Recipient};

/// For whom a message is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerTarget {
    /// The newest live instance of a definition.
    Definition(String),
    /// This instance and no other, whatever became of it.
    Instance(String),
}

impl PeerTarget {
    /// Reads what a sender wrote; when it names both, the instance is meant.
    ///
    /// # Errors
    /// [`BusError::InvalidTarget`] when it names none, or an empty one, and
    /// [`BusError::TooLarge`].
    pub fn parse(to: Recipient) -> Result<Self, BusError> {
        let target = match (to.instance_id, to.definition_id) {
            (Some(instance), _) => Self::Instance(instance),
            (None, Some(definition)) => Self::Definition(definition),
            (None, None) => {
                let reason = "expected to.instance_id or to.definition_id";
                return Err(BusError::InvalidTarget { reason });
            }
        };
        target.check()?;
        Ok(target)
    }

    /// How a message that nobody got names its receiver: as its sender did.
    #[must_use]
    pub fn recipient(&self) -> Recipient {
        match self {
            Self::Definition(definition) => {
                Recipient { instance_id: None, definition_id: Some(definition.clone()) }
            }
            Self::Instance(instance) => {
                Recipient { instance_id: Some(instance.clone()), definition_id: None }
            }
        }
    }

    pub(crate) fn check(&self) -> Result<(), BusError> {
        let (Self::Definition(id) | Self::Instance(id)) = self;
        if id.is_empty() {
            return Err(BusError::InvalidTarget { reason: "expected an id that is not empty" });
        }
        if id.len() > ID_BYTES_MAX {
            let (bytes, bytes_max) = (id.len(), ID_BYTES_MAX);
            return Err(BusError::TooLarge { field: "to", bytes, bytes_max });
        }
        Ok(())
    }
}

/// The longest instance id: the longest definition id, `~` and eight digits.
pub(crate) const ID_BYTES_MAX: usize = super::definition::DEFINITION_BYTES_MAX + 9;
