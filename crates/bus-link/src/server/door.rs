//! One client's way to what the host does beside the engine.

use std::sync::Arc;

use bus_core::{Error, ErrorKind, Result};
use bus_subjects::{AclPolicy, WorkspaceId};

use crate::{Control, control::control_subject};

/// What the host does, for a client that may ask for it.
pub(super) struct Door {
    pub(super) control: Option<Arc<dyn Control>>,
    pub(super) policy: AclPolicy,
    pub(super) workspace: WorkspaceId,
}

impl Door {
    /// Has the host do what `verb` says.
    ///
    /// # Errors
    /// `Denied`: the client has no right to it; `Unsupported`: nobody does it here; `TooLarge`:
    /// the argument; and those of the host.
    pub(super) async fn ask(&self, verb: String, argument: String) -> Result<String> {
        let asked = control_subject(&verb, &self.workspace)?;
        if !self.policy.can_publish(&asked) {
            let why = "the policy of this identity does not allow to publish here";
            return Err(Error::new(ErrorKind::Denied, "control", why).at(asked));
        }
        if argument.len() > ARGUMENT_BYTES_MAX {
            let why = format!("an argument has at most {ARGUMENT_BYTES_MAX} bytes");
            return Err(Error::new(ErrorKind::TooLarge, "control", why));
        }
        let Some(control) = &self.control else {
            let why = "this server does nothing beside its engine";
            return Err(Error::new(ErrorKind::Unsupported, "control", why));
        };
        control.control(verb, argument).await
    }
}

/// The longest argument: more than any path has.
const ARGUMENT_BYTES_MAX: usize = 64 << 10;
