//! Asking the host of the server for what is no business of the engine.

use bus_core::Result;

use super::{core::Repeat, link::LinkBus, settle::odd};
use crate::wire::{Answer, Call};

impl LinkBus {
    /// Has the server's host do what `verb` says with `argument`, and returns what it says of it;
    /// see [`Control`](crate::Control). What was begun goes on when this is dropped.
    ///
    /// # Errors
    /// `Denied` without the right to [`control_subject`](crate::control_subject); `Unsupported`
    /// when the server does not do it; those of what it does; `Unavailable` and `Timeout`, outcome
    /// unknown, when no answer came.
    pub async fn control(&self, verb: &str, argument: &str) -> Result<String> {
        let call = Call::Control { verb: verb.to_owned(), argument: argument.to_owned() };
        match self.say("control", call, Repeat::Never).await? {
            (Answer::Said(said), _) => Ok(said),
            _ => Err(odd("control")),
        }
    }
}
