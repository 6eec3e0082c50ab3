//! Who may connect to a server that we start, and where it keeps the tokens of accounts.

use std::time::Duration;

use bus_crypto::{NkeyKind, PublicKey, jwt::Permissions};

use super::ServerError;

/// Who may connect.
#[derive(Debug, Clone)]
pub enum Authorization {
    /// Everybody who reaches the address.
    Open,
    /// These users, each proving that it has the key.
    Nkeys(Vec<NkeyUser>),
    /// The users of these accounts, by tokens.
    Jwt {
        /// The operator's token.
        operator: String,
        /// The account that sees the server's own events; must be one of `accounts`.
        system_account: PublicKey,
        /// The accounts and their tokens. A server with [`Resolver::Full`] begins with them and
        /// takes others later; what it has on its disk is not overwritten by an older one here.
        accounts: Vec<(PublicKey, String)>,
    },
}

/// A user that is known by its key.
#[derive(Debug, Clone)]
pub struct NkeyUser {
    /// The user's public key (`U…`).
    pub key: PublicKey,
    /// What it may do; `None` means everything.
    pub permissions: Option<Permissions>,
}

/// Where a server with [`Authorization::Jwt`] has the tokens of accounts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolver {
    /// From its configuration alone: another token needs a reload.
    Memory,
    /// From its own disk, the folder `jwt` of its directory: it takes tokens that are pushed to it
    /// and never deletes one.
    Full {
        /// How often it asks the other servers what it has missed. 10 s in [`Resolver::FULL`]: for
        /// so long after its return it lets in who was revoked while it was away.
        interval: Duration,
        /// How long it looks for an unknown account before the user is refused. 1 s in
        /// [`Resolver::FULL`].
        timeout: Duration,
    },
}

impl Resolver {
    /// On disk, with the times that our promises about revocation are made with.
    pub const FULL: Self =
        Self::Full { interval: Duration::from_secs(10), timeout: Duration::from_secs(1) };
}

impl Authorization {
    pub(super) fn check(&self) -> Result<(), ServerError> {
        let refuse = |reason: &str| Err(ServerError::config("authorization", reason));
        match self {
            Self::Open => Ok(()),
            // The server takes an empty list for no authorization at all.
            Self::Nkeys(users) if users.is_empty() => refuse("expected at least one user"),
            Self::Nkeys(users) => {
                let is_user = |user: &NkeyUser| user.key.kind() == NkeyKind::User;
                if !users.iter().all(is_user) {
                    return refuse("expected public keys of users (`U…`)");
                }
                Ok(())
            }
            Self::Jwt { system_account, accounts, .. } => {
                if !accounts.iter().any(|(key, _)| key == system_account) {
                    return refuse("expected the system account among the accounts");
                }
                if !accounts.iter().all(|(key, _)| key.kind() == NkeyKind::Account) {
                    return refuse("expected public keys of accounts (`A…`)");
                }
                Ok(())
            }
        }
    }

    pub(super) fn is_by_tokens(&self) -> bool {
        matches!(self, Self::Jwt { .. })
    }

    pub(super) fn knows(&self, account: &PublicKey) -> bool {
        matches!(self, Self::Jwt { accounts, .. } if accounts.iter().any(|(key, _)| key == account))
    }
}
