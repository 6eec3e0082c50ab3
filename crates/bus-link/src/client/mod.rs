//! The client: an engine whose broker is at the other end of a socket.

mod blob;
mod blobs;
mod buckets;
mod bus;
mod control;
mod core;
mod dial;
mod feed;
mod inbox;
mod line;
mod link;
mod member;
mod replay;
mod settle;
mod watch;

#[cfg(test)]
pub(crate) use self::core::Repeat;
pub use dial::{Dial, LinkStream};
pub use link::{LinkBus, LinkState, LinkStates};
