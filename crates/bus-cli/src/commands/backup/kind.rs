//! Which engine a backup is of, as the first line of its manifest says.

use std::{fs::OpenOptions, io::Read, os::unix::fs::OpenOptionsExt, path::Path};

use rustix::fs::OFlags;

/// Which engine a backup is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// NATS servers.
    Nats,
    /// This machine's own; also what is none, which is for that engine's reader to say.
    Own,
}

impl Kind {
    /// The kind of the backup in `dir`.
    pub(super) fn of(dir: &Path) -> Self {
        let mut options = OpenOptions::new();
        // Neither a link nor a pipe holds anybody up.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        options.read(true).custom_flags(flags.bits() as i32);
        let mut first = Vec::new();
        let read = options
            .open(dir.join("manifest"))
            .and_then(|file| file.take(NATS.len() as u64).read_to_end(&mut first));
        match read {
            Ok(_) if first == NATS => Self::Nats,
            _ => Self::Own,
        }
    }
}

/// How the manifest of a backup of servers begins.
const NATS: &[u8] = b"vakbus backup 1 nats\n";
