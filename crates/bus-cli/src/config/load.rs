//! Reads all layers of settings of this process and decides what a project may set.

use std::path::{Path, PathBuf};

use super::{Config, Layer, Origin, Places, SettingsFile, Standing, TrustStore};
use crate::{
    error::{CliError, Exit},
    home::Home,
};

/// What a process is to read its settings from.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Where the files are.
    pub(crate) places: Places,
    /// What the environment sets.
    pub(crate) environment: Layer,
    /// What the command line sets.
    pub(crate) flags: Layer,
}

/// The settings of this process.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// All layers, merged.
    pub(crate) config: Config,
    /// What was left out, and why.
    pub(crate) warnings: Vec<CliError>,
}

impl Settings {
    /// Finds the files of this process and reads its environment. `named` takes the place of the
    /// user's file, and so does the variable `VAKBUS_CONFIG`.
    ///
    /// # Errors
    /// A variable that does not hold what its setting takes.
    pub(crate) fn find(named: Option<&Path>, flags: Layer) -> Result<Self, CliError> {
        let environment = Layer::of_environment(|name| std::env::var_os(name))?;
        let variable = std::env::var_os("VAKBUS_CONFIG").filter(|path| !path.is_empty());
        let variable = variable.map(PathBuf::from);
        Ok(Self { places: Places::find(named.or(variable.as_deref())), environment, flags })
    }

    /// Reads and merges everything.
    ///
    /// A file that nobody trusts keeps its harmless settings; the others are left out with a
    /// warning (S0.60). A file that was trusted and then changed is refused, because going on
    /// without its server would put messages on another bus than the one its user relies on (D12).
    ///
    /// # Errors
    /// Files with unknown names, wrong kinds or secrets; a trusted file that was changed.
    pub(crate) fn load(&self) -> Result<Loaded, CliError> {
        let user = self.user()?;
        let mut warnings = Vec::new();
        let mut layers = vec![user];
        if let Some(path) = &self.places.project {
            layers.extend(self.project(path, &mut warnings)?);
        }
        layers.extend([self.environment.clone(), self.flags.clone()]);
        Ok(Loaded { config: Config::merge(layers), warnings })
    }

    /// The settings without any project's: where trust is recorded does not depend on it.
    ///
    /// # Errors
    /// As for the user's file in [`Self::load`].
    pub(crate) fn own(&self) -> Result<Config, CliError> {
        Ok(Config::merge([self.user()?, self.environment.clone(), self.flags.clone()]))
    }

    /// The settings without any file's, for what has to work whatever the files say.
    pub(crate) fn without_files(&self) -> Config {
        Config::merge([self.environment.clone(), self.flags.clone()])
    }

    /// Where trust is recorded.
    ///
    /// # Errors
    /// As [`Self::own`].
    pub(crate) fn trust_store(&self) -> Result<TrustStore, CliError> {
        Ok(TrustStore::new(&Home::locate(self.own()?.data_dir())?))
    }

    fn user(&self) -> Result<Layer, CliError> {
        // Without a home directory nobody has settings of his own.
        let Ok(path) = self.places.user() else { return Ok(Layer::default()) };
        let shown = path.display();
        let Some(file) = SettingsFile::read(path)? else {
            if self.places.is_named {
                let what = format!("there is no settings file {shown}");
                return Err(CliError::usage(what).next("name one that is there with --config"));
            }
            return Ok(Layer::default());
        };
        if file.is_foreign {
            let what = format!("{shown} can be written by other users");
            return Err(CliError::new(Exit::Refused, what)
                .next(format!("look at what it says, then make it yours: chmod go-w {shown}")));
        }
        file.layer(Origin::User)
    }

    fn project(
        &self,
        path: &Path,
        warnings: &mut Vec<CliError>,
    ) -> Result<Option<Layer>, CliError> {
        let shown = path.display();
        let ignored = || {
            let what = format!("{shown} can be written by other users: it is ignored");
            CliError::usage(what).next(LOOK_AND_TRUST)
        };
        let file = match SettingsFile::read(path) {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(None),
            // A stranger stops no command with a file that cannot be read.
            Err(error) => match SettingsFile::is_foreign_at(path) {
                true if !self.trust_store()?.knows(path)? => {
                    warnings.push(ignored());
                    return Ok(None);
                }
                _ => return Err(error),
            },
        };
        let standing = self.trust_store()?.standing(&file)?;
        if file.is_foreign && standing != Standing::Trusted {
            warnings.push(ignored());
            return Ok(None);
        }
        let mut layer = file.layer(Origin::Project)?;
        let names: Vec<&str> = layer.privileged().map(|(key, _)| key.name()).collect();
        let names = names.join(", ");
        match standing {
            Standing::Trusted => {}
            Standing::Changed if !names.is_empty() => {
                let what = format!("{shown} changed since it was trusted, and sets {names}");
                return Err(CliError::new(Exit::Refused, what).next(format!(
                    "{LOOK_AND_TRUST}, or `vakbus config trust --revoke` to do without"
                )));
            }
            Standing::Untrusted | Standing::Changed => {
                if !layer.drop_privileged().is_empty() {
                    let what = format!("{shown} is not trusted: ignored are {names}");
                    warnings.push(CliError::usage(what).next(LOOK_AND_TRUST));
                }
            }
        }
        Ok(Some(layer))
    }
}

const LOOK_AND_TRUST: &str = "look at it, then `vakbus config trust`";
