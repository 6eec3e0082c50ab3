//! Where settings files are: the user's, and the nearest of the project.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

use super::file::FILE_NAME;
use crate::error::{CliError, Exit};

/// Where to look for settings files.
#[derive(Debug)]
pub(crate) struct Places {
    /// The user's file, whether it is there or not; none when no home directory is known.
    user: Option<PathBuf>,
    /// The user's home directory, without links.
    home: Option<PathBuf>,
    /// Whether the user's file was named by the caller, and so has to be there.
    pub(crate) is_named: bool,
    /// The project's file, if there is one.
    pub(crate) project: Option<PathBuf>,
}

impl Places {
    /// Finds the files of this process. `named` takes the place of the user's file.
    pub(crate) fn find(named: Option<&Path>) -> Self {
        let strategy = etcetera::choose_base_strategy().ok();
        let home = strategy.as_ref().map(|strategy| strategy.home_dir().to_owned());
        let own = || Some(strategy?.config_dir().join("vakbus").join(FILE_NAME));
        let user = named.map(Path::to_owned).or_else(own);
        // Without a current directory there is no project.
        let here = std::env::current_dir().ok();
        // The current directory has no links in it, so the home directory must have none either.
        let home = home.map(|home| home.canonicalize().unwrap_or(home));
        let project = here.and_then(|here| project_file(&here, home.as_deref()));
        let real_user = user.as_ref().and_then(|user| user.canonicalize().ok());
        let is_other =
            |path: &PathBuf| real_user.is_none() || path.canonicalize().ok() != real_user;
        Self { project: project.filter(is_other), is_named: named.is_some(), user, home }
    }

    /// The user's file, whether it is there or not.
    ///
    /// # Errors
    /// When no home directory is known.
    pub(crate) fn user(&self) -> Result<&Path, CliError> {
        self.user.as_deref().ok_or_else(|| {
            CliError::new(Exit::Failed, "no home directory is known")
                .next("set HOME, or name a settings file with --config")
        })
    }

    /// The project's file, or where it would be made: in the current directory.
    ///
    /// # Errors
    /// When a file there would be no project's.
    pub(crate) fn project_or_new(&self) -> Result<PathBuf, CliError> {
        if let Some(path) = &self.project {
            return Ok(path.clone());
        }
        let here = std::env::current_dir().map_err(|error| {
            CliError::new(Exit::Failed, format!("there is no current directory: {error}"))
        })?;
        if Some(&here) == self.home.as_ref() {
            let what = "the home directory is no project, so a settings file there is not read";
            return Err(CliError::usage(what)
                .next("leave --project out to change your own settings, or go to a project"));
        }
        Ok(here.join(FILE_NAME))
    }
}

/// The nearest settings file from `here` upwards. The search ends below the home directory, which
/// holds the user's own files and is no project, and at the root of the file system.
pub(crate) fn project_file(here: &Path, home: Option<&Path>) -> Option<PathBuf> {
    here.ancestors()
        .take_while(|dir| Some(*dir) != home)
        .map(|dir| dir.join(FILE_NAME))
        .find(|path| path.symlink_metadata().is_ok())
}
