//! The server: an engine for every client of this user that can prove who it is.

mod calls;
mod door;
mod handshake;
mod held;
mod link;
mod place;
mod session;
mod streams;

pub use link::LinkServer;
pub(crate) use link::is_same_user;
pub(crate) use place::check_directory;
