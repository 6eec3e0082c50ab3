//! The users that an operator and its workspaces make for themselves, each for a while.

use std::time::Duration;

use bus_crypto::{
    Credentials, NkeyKind, SigningKey, SystemEntropy,
    jwt::{UserClaims, encode_user},
};

use super::{Operator, now_unix_s};
use crate::error::CliError;

/// How long a user may log in, and stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lifetime(pub(crate) Duration);

impl Lifetime {
    /// That of a login that its process makes for itself and makes again before it ends.
    pub(crate) const OWN: Self = Self(Duration::from_secs(3_600));
}

impl Operator {
    /// Somebody who sees what the servers say of themselves and gives them tokens.
    ///
    /// # Errors
    /// When there is no randomness.
    pub(crate) fn system_user(&self, lifetime: Lifetime) -> Result<Credentials, CliError> {
        user(&self.system, "vakbus-system", lifetime)
    }
}

/// A user of `account` who may do everything there.
pub(crate) fn user(
    account: &SigningKey,
    name: &str,
    Lifetime(valid_for): Lifetime,
) -> Result<Credentials, CliError> {
    let key = SigningKey::generate(NkeyKind::User, &SystemEntropy::new())?;
    let now = now_unix_s();
    let mut claims = UserClaims::new(name, *key.public(), *account.public(), now);
    let seconds = i64::try_from(valid_for.as_secs()).unwrap_or(i64::MAX);
    claims.expires_unix_s = Some(now.saturating_add(seconds));
    claims.connection_types = vec!["STANDARD".to_owned()];
    let token = encode_user(&claims, account)?;
    Ok(Credentials::from_parts(&token, &key.seed_text())?)
}
