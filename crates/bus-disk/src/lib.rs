#![doc = include_str!("../README.md")]

mod backup;
mod batch;
mod blobs;
mod bus;
mod committer;
mod contents;
mod files;
mod home;
mod journal;
mod keeper;
mod options;
pub mod record;
mod recovery;
mod segment;
mod snapshot;
mod store;
mod supply;
#[cfg(test)]
mod tests;
mod waiters;

pub use backup::{Backup, restore, verify_backup};
pub use bus::DiskBus;
pub use contents::Contents;
pub use options::{DiskOptions, Sync};
pub use recovery::Progress;
