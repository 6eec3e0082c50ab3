//! `vakbus backup verify`: every byte held to the manifest, and with `--deep` a restore into a
//! place of its own, whose content is compared.

use std::{
    fs::{self, DirBuilder},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use bus_crypto::{Entropy, SystemEntropy};
use serde_json::{Value, json};

use super::{Copied, kind::Kind, nats, restore::read_back, tell, unsound};
use crate::{
    args::Global,
    engine::{self, Paths},
    error::{CliError, Exit},
    home::Home,
};

/// Verifies a backup.
pub(super) fn run(dir: &Path, deep: bool, global: &Global) -> Result<Exit, CliError> {
    let (copied, more) = match (Kind::of(dir), deep) {
        (Kind::Nats, false) => {
            nats::counted(&bus_nats::verify_backup(dir).map_err(|error| unsound(&error))?)
        }
        (Kind::Nats, true) => nats::try_out(dir, &Scratch::new()?, global)?,
        (Kind::Own, _) => own(dir, deep, global)?,
    };
    let more = crate::print::with(more, json!({ "deep": deep }));
    tell("verified", dir, (copied, more), global)
}

/// A backup of this machine's own engine.
fn own(dir: &Path, deep: bool, global: &Global) -> Result<(Copied, Value), CliError> {
    if !deep {
        let backup = bus_disk::verify_backup(dir).map_err(|error| unsound(&error))?;
        return Ok((backup.into(), json!({})));
    }
    let scratch = Scratch::new()?;
    let into = scratch.path().join("bus");
    let backup = bus_disk::restore(dir, &into).map_err(|error| unsound(&error))?;
    let paths = Paths::new(global, &Home::locate(global.data_dir.as_deref())?);
    let contents = engine::block_on(async { read_back(&paths, &into, global).await })?;
    let more = json!({ "streams": contents.streams, "messages": contents.messages });
    Ok((backup.into(), more))
}

/// A directory for a trial, of this user alone; removed when it is dropped.
pub(in crate::commands) struct Scratch(PathBuf);

impl Scratch {
    /// Makes one.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(in crate::commands) fn new() -> Result<Self, CliError> {
        let mut bytes = [0; 8];
        SystemEntropy::new().fill(&mut bytes)?;
        let name = format!("vakbus-trial-{:016x}", u64::from_le_bytes(bytes));
        let path = std::env::temp_dir().join(name);
        // One that is there already is somebody else's.
        DirBuilder::new().mode(0o700).create(&path).map_err(|error| {
            let what = format!("cannot make {}: {error}", path.display());
            CliError::new(Exit::Failed, what).next("name a directory with room in TMPDIR")
        })?;
        Ok(Self(path))
    }

    /// Where it is.
    pub(in crate::commands) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(dir = %self.0.display(), %error, "the trial's directory is left");
        }
    }
}
