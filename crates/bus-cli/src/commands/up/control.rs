//! What a daemon does for operators beside its engine: backups.

use std::path::PathBuf;

use bus_core::{BoxFuture, Error, ErrorKind, Result};
use bus_disk::DiskBus;
use bus_link::{BACKUP, Control};
use tokio::sync::Mutex;

use crate::commands::backup::{Copied, target};

/// The door of a daemon for its operators.
pub(super) struct Host {
    /// The engine on disk; none with `--memory`.
    disk: Option<DiskBus>,
    /// The data directory.
    home: PathBuf,
    /// Held while a backup is made.
    making: Mutex<()>,
}

impl Host {
    pub(super) fn new(disk: Option<&DiskBus>, home: PathBuf) -> Self {
        Self { disk: disk.map(DiskBus::connect), home, making: Mutex::new(()) }
    }

    /// Makes a backup in `dir`, which whoever asks has named and is not trusted for that.
    async fn backup(&self, dir: String) -> Result<String> {
        let Some(disk) = &self.disk else {
            let why = "this daemon keeps nothing: it was started with --memory";
            return Err(Error::new(ErrorKind::Unsupported, "backup", why));
        };
        let Ok(_making) = self.making.try_lock() else {
            let why = "another backup is being made: wait for its end";
            return Err(Error::new(ErrorKind::Conflict, "backup", why));
        };
        let dir = PathBuf::from(dir);
        target::check(&dir, &self.home)?;
        let copied = Copied::from(disk.backup(dir.clone()).await?);
        tracing::info!(dir = %dir.display(), ?copied, "a backup was made");
        serde_json::to_string(&copied).map_err(|error| {
            Error::new(ErrorKind::Invalid, "backup", error.to_string()).because(error).unknown()
        })
    }
}

impl Control for Host {
    fn control(&self, verb: String, argument: String) -> BoxFuture<'_, Result<String>> {
        Box::pin(async move {
            match verb.as_str() {
                BACKUP => self.backup(argument).await,
                _ => {
                    let why = "this daemon does not do this";
                    Err(Error::new(ErrorKind::Unsupported, "control", why))
                }
            }
        })
    }
}

#[cfg(test)]
mod tests;
