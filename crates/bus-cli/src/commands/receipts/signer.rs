//! Who signed what is stored, also when that agent is gone by now.

use std::sync::Arc;

use bus_core::{Certificate, Roster};
use bus_envelope::{MessageEnvelope, Timestamp};

use crate::error::{CliError, Exit};

/// An envelope, and when the bus stored it.
pub(super) struct Kept {
    pub(super) stored: Timestamp,
    pub(super) envelope: MessageEnvelope,
}

impl Kept {
    /// The certificate of who signed it.
    ///
    /// # Errors
    /// When none is known here, or the key was revoked before this was stored.
    pub(super) fn signer(&self, roster: &Roster) -> Result<Arc<Certificate>, CliError> {
        let agent = &self.envelope.lineage.agent;
        let nkey = self.envelope.signature.as_ref().map(|signature| signature.signer.as_str());
        let Some((certificate, revoked)) = nkey.and_then(|nkey| roster.find_kept(nkey)) else {
            let what =
                format!("the certificate of {agent}, who signed some of it, is not known here");
            return Err(CliError::new(Exit::Failed, what)
                .next("ask on the machine where the agent was made: it keeps the certificate"));
        };
        match revoked {
            Some(at) if self.stored >= at || self.envelope.time >= at => {
                let (id, stored) = (&self.envelope.id, self.stored);
                let what = format!(
                    "{id} of {agent} was stored at {stored}, and its key is revoked since {at}: \
                     nobody vouches for it"
                );
                Err(CliError::new(Exit::Refused, what)
                    .next("vakbus receipts ls shows what is not verified"))
            }
            _ => Ok(certificate),
        }
    }
}
