//! What a command of a run emits beside its output: tokens and more, through its runner's socket.
//!
//! A command has no keys, and often no bus that it could reach. The runner has both: it publishes
//! what its commands emit as its own agent, in the trace of their task.

mod client;
mod frames;
mod seat;
mod socket;

pub(crate) use self::seat::Admitted;
pub use self::{
    client::{EmitClient, EmitError, EmitPiece},
    socket::EmitSocket,
};

/// The variable with the path of the runner's socket.
pub const EMIT_VAR: &str = "VAKBUS_EMIT";

/// The variable with the token of the run, which the socket asks for.
pub const EMIT_TOKEN_VAR: &str = "VAKBUS_EMIT_TOKEN";

#[cfg(test)]
mod tests;
