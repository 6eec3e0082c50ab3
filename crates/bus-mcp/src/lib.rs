#![doc = include_str!("../README.md")]

mod answer;
mod approvals;
mod claims;
mod data;
mod done;
mod inbox;
mod messages;
mod results;
mod server;
mod subscriptions;
mod tasks;
#[cfg(test)]
mod tests;
mod tools;

pub use self::server::{ServeError, Server, ServerParts};
