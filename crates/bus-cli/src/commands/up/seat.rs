//! The agents that a daemon has of its own: each acts in one workspace, with its rights alone.

use std::sync::Arc;

use bus_core::{BusMetrics, Clock, Endpoint, EndpointParts, Engine, Guarded, Identity, Roster};
use bus_crypto::{Keyring, SystemEntropy};
use bus_envelope::WireForm;

use crate::error::CliError;

/// Has an agent act on `engine`, which the daemon keeps or has connected to as it.
///
/// # Errors
/// When its certificate is not one of the roster's workspace.
pub(super) fn seat(
    engine: Arc<dyn Engine>,
    identity: Identity,
    roster: &Arc<Roster>,
    keyring: &Arc<Keyring>,
    clock: Arc<dyn Clock>,
) -> Result<Endpoint, CliError> {
    roster.admit(identity.certificate().token())?;
    let policy = identity.certificate().policy();
    let endpoint = Endpoint::new(EndpointParts {
        engine: Arc::new(Guarded::new(engine, policy)),
        identity,
        session: None,
        queue: None,
        keyring: Arc::clone(keyring),
        roster: Arc::clone(roster),
        clock,
        entropy: Arc::new(SystemEntropy::new()),
        metrics: Arc::<BusMetrics>::default(),
        wire: WireForm::Compact,
        checkpoints: None,
    })?;
    Ok(endpoint)
}
