//! Which project files the user trusts: their paths, each with the SHA-256 of what was looked at.

use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::SettingsFile;
use crate::{
    error::{CliError, Exit},
    home::Home,
};

/// The trusted files of a data home; one record a file, so that two changes never meet.
#[derive(Debug)]
pub(crate) struct TrustStore(Home);

/// What the user said about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing.
    Untrusted,
    /// It is trusted as it is.
    Trusted,
    /// It was trusted, and says something else now.
    Changed,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    path: PathBuf,
    sha256: String,
}

impl TrustStore {
    /// The store in the data home `home`. The project itself must have no say in where that is.
    pub(crate) fn new(home: &Home) -> Self {
        Self(home.below("trusted"))
    }

    /// Whether the user said anything about the file at `path`.
    ///
    /// # Errors
    /// When its directory cannot be found.
    pub(crate) fn knows(&self, path: &Path) -> Result<bool, CliError> {
        Ok(self.0.below(&record_name(&whole(path)?)).exists())
    }

    /// What the user said about `file`.
    ///
    /// # Errors
    /// When a record cannot be read or is damaged: that is no reason to trust.
    pub(crate) fn standing(&self, file: &SettingsFile) -> Result<Standing, CliError> {
        let path = whole(&file.path)?;
        let name = record_name(&path);
        if !self.0.below(&name).exists() {
            return Ok(Standing::Untrusted);
        }
        let text = self.0.read(&name)?;
        let record: Option<Record> = serde_json::from_str(&text).ok();
        match record.filter(|record| record.path == path) {
            Some(record) if record.sha256 == digest(file.text.as_bytes()) => Ok(Standing::Trusted),
            Some(_) => Ok(Standing::Changed),
            None => {
                let shown = self.0.path().join(&name);
                let what = format!("{} is damaged", shown.display());
                Err(CliError::new(Exit::Failed, what).next("vakbus config trust --revoke"))
            }
        }
    }

    /// Trusts `file` as it was read.
    ///
    /// # Errors
    /// When it cannot be recorded.
    pub(crate) fn trust(&self, file: &SettingsFile) -> Result<(), CliError> {
        let path = whole(&file.path)?;
        let record = Record { sha256: digest(file.text.as_bytes()), path };
        let text = serde_json::to_string(&record).map_err(|_| {
            CliError::usage(format!("{} is not UTF-8", file.path.display()))
                .next("move the project to a path that is text")
        })?;
        self.0.create()?;
        self.0.replace(&record_name(&record.path), &text)
    }

    /// Forgets `path`; says whether it was trusted.
    ///
    /// # Errors
    /// When the record cannot be removed.
    pub(crate) fn revoke(&self, path: &Path) -> Result<bool, CliError> {
        let path = whole(path)?;
        self.0.remove(&record_name(&path))
    }
}

/// The digest of a file's bytes, as records hold it.
pub(crate) fn digest(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

/// The place of the file, without links above it. A link in that place is not followed: what a
/// file says is taken from where it stands, so a link to a trusted file is another file.
fn whole(path: &Path) -> Result<PathBuf, CliError> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let dir = dir
        .canonicalize()
        .map_err(|error| CliError::usage(format!("cannot find {}: {error}", path.display())))?;
    Ok(dir.join(path.file_name().unwrap_or_default()))
}

fn record_name(path: &Path) -> String {
    digest(path.as_os_str().as_encoded_bytes())
}
