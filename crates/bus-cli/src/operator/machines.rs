//! The users that machines of deployments were given, and those that were taken back: one file
//! each, so that two of them never meet.
//!
//! A user that was made is written down before any machine has it, and stays written down: a copy
//! of its credentials may be anywhere. One that was taken back is revoked in every later token of
//! its account.

use bus_crypto::PublicKey;

use super::{Operator, damaged};
use crate::error::CliError;

/// A user of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MachineUser {
    /// Who it is.
    pub(crate) key: PublicKey,
    /// The account that it is of.
    pub(crate) account: PublicKey,
}

impl Operator {
    /// Writes down that `machine` of `cluster` is to have a user. Both are single words.
    ///
    /// # Errors
    /// When it cannot be written: then the machine must not have it.
    pub(crate) fn note_user(
        &self,
        (cluster, machine): (&str, &str),
        MachineUser { key, account }: &MachineUser,
    ) -> Result<(), CliError> {
        let dir = self.dir.below(USERS);
        let text = format!("{cluster} {machine} {}\n", account.text());
        let file = key.text();
        if dir.below(&file).exists() && *dir.read(&file)? == text {
            return Ok(());
        }
        dir.create()?;
        dir.replace(&file, &text)
    }

    /// The users that `machine` of `cluster` was ever given, as far as they were written down.
    ///
    /// # Errors
    /// When a file cannot be read or says something else: a user that is passed over would still be
    /// let in.
    pub(crate) fn users_of(
        &self,
        cluster: &str,
        machine: &str,
    ) -> Result<Vec<MachineUser>, CliError> {
        let dir = self.dir.below(USERS);
        let mut found = Vec::new();
        for file in dir.list("")? {
            let text = dir.read(&file)?;
            let words: Vec<_> = text.split_whitespace().collect();
            let &[its_cluster, its_machine, account] = words.as_slice() else {
                return Err(damaged(&dir, &file, "expected a cluster, a machine and an account"));
            };
            if (its_cluster, its_machine) != (cluster, machine) {
                continue;
            }
            let parse = |text| PublicKey::parse(text).map_err(|error| damaged(&dir, &file, error));
            found.push(MachineUser { key: parse(&file)?, account: parse(account)? });
        }
        Ok(found)
    }

    /// Takes a user back for ever. Servers know it from the next push on.
    ///
    /// # Errors
    /// When it cannot be written; then the user still counts.
    pub(crate) fn take_back(&self, user: &MachineUser) -> Result<(), CliError> {
        let dir = self.dir.below(TAKEN_BACK);
        if self.is_taken_back(&user.key) {
            return Ok(());
        }
        dir.create()?;
        dir.replace(&user.key.text(), &format!("{}\n", user.account.text()))
    }

    /// Whether a user was taken back.
    pub(crate) fn is_taken_back(&self, user: &PublicKey) -> bool {
        self.dir.below(TAKEN_BACK).below(&user.text()).exists()
    }

    /// The users of `account` that were taken back.
    ///
    /// # Errors
    /// As [`Self::users_of`].
    pub(super) fn taken_back(&self, account: &PublicKey) -> Result<Vec<PublicKey>, CliError> {
        let dir = self.dir.below(TAKEN_BACK);
        let mut found = Vec::new();
        for file in dir.list("")? {
            let text = dir.read(&file)?;
            let parse = |text| PublicKey::parse(text).map_err(|error| damaged(&dir, &file, error));
            if parse(text.trim_end())? == *account {
                found.push(parse(&file)?);
            }
        }
        Ok(found)
    }
}

/// The directory of the users that were made.
const USERS: &str = "users";
/// The directory of those that were taken back.
const TAKEN_BACK: &str = "taken-back";
