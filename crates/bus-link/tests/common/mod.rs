//! What the test targets share: identities, homes, ways to reach a server in this process.

#![expect(dead_code, unused_imports, reason = "no target uses all of it")]

mod home;
mod on_disk;
mod people;
mod pipes;

pub(crate) use home::Home;
pub(crate) use on_disk::{End, OnDisk};
pub(crate) use people::People;
pub(crate) use pipes::Pipes;
