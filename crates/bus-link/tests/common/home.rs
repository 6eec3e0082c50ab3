//! A directory of its own for a socket.

use std::{fs::Permissions, os::unix::fs::PermissionsExt as _, path::PathBuf};

use tempfile::TempDir;

/// A directory that is closed to others.
pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::set_permissions(home.path(), Permissions::from_mode(0o700)).unwrap();
        Self(home)
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        self.0.path()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.0.path().join("bus.sock")
    }
}
