//! Folders for one run, gone when it is over.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};

/// A new, empty folder outside the repository; dropping it removes it with all it holds.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes a folder whose name begins with `vakbus-xtask-` and `what`.
    ///
    /// # Errors
    /// When the folder cannot be made, or somebody else already made it.
    pub(crate) fn new(what: &str) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("vakbus-xtask-{what}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).with_context(|| format!("make {}", path.display()))?;
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a folder inside and returns its path.
    ///
    /// # Errors
    /// When it cannot be made or already exists.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        std::fs::create_dir(&path).with_context(|| format!("make {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Best effort: a folder left behind in the temporary folder harms nobody.
        let _ignored = std::fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_folder_goes_with_its_owner() {
        let scratch = Scratch::new("test").unwrap();
        let inside = scratch.folder("inside").unwrap();
        assert!(inside.is_dir());
        let path = scratch.path().to_owned();
        drop(scratch);
        assert!(!path.exists());
    }
}
