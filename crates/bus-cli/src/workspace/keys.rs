//! The named secrets of a workspace: one seals, older ones still open, withdrawn ones are refused.

use std::time::SystemTime;

use bus_crypto::{Keyring, SystemEntropy, WorkspaceSecret};

use super::{Workspace, damaged};
use crate::{
    error::{CliError, Exit},
    home::Home,
    secrets::Secrets,
};

/// A secret of a workspace by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedSecret {
    /// `v1`, `v2` and so on.
    pub(crate) name: SecretName,
    /// What it is good for.
    pub(crate) standing: KeyStanding,
    /// When it was made or withdrawn, as its file tells.
    pub(crate) since: Option<SystemTime>,
}

/// What a secret is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyStanding {
    /// It seals and opens.
    Seals,
    /// It opens what was sealed with it.
    Opens,
    /// It is gone; what was sealed with it is refused.
    Withdrawn,
}

/// The name of a secret: `v1`, `v2` and so on. Its key ids are `<workspace>.<name>.<life>` (D11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SecretName(u32);

impl Workspace {
    /// Its secrets: the one from outside when there is one, else those of the data home.
    ///
    /// # Errors
    /// When a secret cannot be read or is damaged.
    pub(crate) fn keyring(&self, secrets: &Secrets) -> Result<Keyring, CliError> {
        let keyring = Keyring::new();
        match secrets.workspace_secret()? {
            // It stands alone: a name that the data home gives to another secret means nothing.
            Some(secret) => {
                let name = SecretName::FIRST.to_string();
                keyring.add_secret(self.name.as_str(), &name, secret)?;
            }
            None => self.refresh(&keyring)?,
        }
        Ok(keyring)
    }

    /// Brings a key ring of the data home's secrets up to date: what was rotated in seals, what was
    /// withdrawn is refused. A process that goes on calls this when it is told to read again.
    ///
    /// # Errors
    /// As [`Self::keyring`]; what could be read before counts already.
    pub(crate) fn refresh(&self, keyring: &Keyring) -> Result<(), CliError> {
        let workspace = self.name.as_str();
        let named = self.secrets()?;
        for gone in named.iter().filter(|secret| secret.standing == KeyStanding::Withdrawn) {
            keyring.withdraw(&format!("{workspace}.{}", gone.name))?;
        }
        let mut last = None;
        for known in named.iter().filter(|secret| secret.standing != KeyStanding::Withdrawn) {
            let secret = self.secret(known.name)?;
            keyring.add_secret(workspace, &known.name.to_string(), secret)?;
            last = Some(known.name.to_string());
        }
        match last {
            Some(name) => Ok(keyring.set_current(workspace, &name)?),
            // Says that the first one is not there.
            None => self.dir.read(&SecretName::FIRST.file()).map(drop),
        }
    }

    /// Its secrets by name, the oldest first.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub(crate) fn secrets(&self) -> Result<Vec<NamedSecret>, CliError> {
        let files = self.dir.list("")?;
        let of = |text: &str| files.iter().any(|file| file == text);
        let mut names: Vec<SecretName> =
            files.iter().filter_map(|file| SecretName::of_file(file)).collect();
        names.sort_unstable();
        names.dedup();
        let last = names.iter().rev().find(|name| !of(&name.tombstone())).copied();
        let named = names.into_iter().map(|name| {
            let (standing, file) = match of(&name.tombstone()) {
                true => (KeyStanding::Withdrawn, name.tombstone()),
                false if Some(name) == last => (KeyStanding::Seals, name.file()),
                false => (KeyStanding::Opens, name.file()),
            };
            let made = std::fs::metadata(self.dir.path().join(file));
            NamedSecret { name, standing, since: made.and_then(|meta| meta.modified()).ok() }
        });
        Ok(named.collect())
    }

    /// Makes the next secret, which seals from now on; older ones still open.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn rotate(&self) -> Result<SecretName, CliError> {
        let next = self.secrets()?.last().map_or(1, |newest| newest.name.0.saturating_add(1));
        let name = SecretName(next);
        let text = WorkspaceSecret::generate(&SystemEntropy::new())?.to_text();
        // Two at the same moment: the second finds the name taken, and nothing is lost.
        self.dir.write_new(&name.file(), &text)?;
        Ok(name)
    }

    /// Withdraws a secret: everything that was sealed with it is refused from now on, and the
    /// secret itself is removed.
    ///
    /// # Errors
    /// When there is no such secret, when it is the one that seals or that one is damaged, or when
    /// it cannot be written.
    pub(crate) fn withdraw(&self, name: &str) -> Result<(), CliError> {
        let named = self.secrets()?;
        let Some(secret) = named.iter().find(|secret| secret.name.to_string() == name) else {
            let what = format!("workspace {} has no secret of this name", self.name);
            return Err(CliError::usage(what).next("vakbus keys ls"));
        };
        let name = secret.name;
        match secret.standing {
            KeyStanding::Seals => {
                let what = format!("{name} is the secret that seals now");
                return Err(
                    CliError::new(Exit::Refused, what).next("vakbus keys rotate, then withdraw it")
                );
            }
            // Goes on where a crash came between the two steps.
            KeyStanding::Withdrawn => {}
            KeyStanding::Opens => {
                // It goes for ever, so the one that seals has to be there and good.
                let mut seals = named.iter().filter(|known| known.standing == KeyStanding::Seals);
                seals.try_for_each(|known| self.secret(known.name).map(drop))?;
                self.dir.write_new(&name.tombstone(), "withdrawn\n")?;
            }
        }
        self.dir.remove(&name.file())?;
        Ok(())
    }

    fn secret(&self, name: SecretName) -> Result<WorkspaceSecret, CliError> {
        let file = name.file();
        WorkspaceSecret::from_text(&self.dir.read(&file)?)
            .map_err(|error| damaged(&self.dir, &file, error))
    }

    /// Writes the first secret of a workspace that is being made.
    pub(super) fn first_secret(dir: &Home) -> Result<(), CliError> {
        let text = WorkspaceSecret::generate(&SystemEntropy::new())?.to_text();
        dir.write_new(&SecretName::FIRST.file(), &text)
    }
}

impl KeyStanding {
    /// In one word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Seals => "seals",
            Self::Opens => "opens",
            Self::Withdrawn => "withdrawn",
        }
    }
}

impl SecretName {
    /// The first secret of every workspace, in the file that has been there from the beginning.
    const FIRST: Self = Self(1);

    fn file(self) -> String {
        match self {
            Self::FIRST => "secret".to_owned(),
            _ => format!("secret.{self}"),
        }
    }

    fn tombstone(self) -> String {
        format!("secret.{self}.withdrawn")
    }

    fn of_file(file: &str) -> Option<Self> {
        if file == Self::FIRST.file() {
            return Some(Self::FIRST);
        }
        let rest = file.strip_prefix("secret.v")?;
        let number = rest.strip_suffix(".withdrawn").unwrap_or(rest);
        let name = Self(number.parse().ok()?);
        // One spelling only: `v02` would be another file of the same name.
        [name.file(), name.tombstone()].iter().any(|known| known == file).then_some(name)
    }
}

impl std::fmt::Display for SecretName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "v{}", self.0)
    }
}

#[cfg(test)]
mod tests;
