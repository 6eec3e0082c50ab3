//! The door to what a server does for its operators beside the engine.

use bus_core::{BoxFuture, Error, ErrorKind, Result};
use bus_subjects::{Subject, WorkspaceId};

/// What a server's host does when an operator asks for it over the socket.
///
/// Only who may publish to [`control_subject`] of the verb gets this far.
pub trait Control: Send + Sync {
    /// Does what `verb` says with `argument`, a client's text, and says what came of it.
    ///
    /// What was begun goes on when the client goes away.
    ///
    /// # Errors
    /// `Unsupported` for what this host does not do; `Invalid` for an argument it refuses; and
    /// those of what it does.
    fn control(&self, verb: String, argument: String) -> BoxFuture<'_, Result<String>>;
}

/// Under which subject the right to `verb` is asked, as a right to publish; a backup is what a
/// NATS server calls a snapshot.
///
/// # Errors
/// `Unsupported` when there is no such verb.
pub fn control_subject(verb: &str, workspace: &WorkspaceId) -> Result<Subject> {
    match verb {
        BACKUP => Ok(Subject::parse(&format!("$JS.API.STREAM.SNAPSHOT.VAK_WORK_{workspace}"))?),
        _ => {
            let why = "no server does this: expected the verb backup";
            Err(Error::new(ErrorKind::Unsupported, "control", why))
        }
    }
}

/// The verb that copies what the engine keeps; its argument is the directory.
pub const BACKUP: &str = "backup";
