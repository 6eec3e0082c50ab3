//! What the service needs that decides about users without tokens: its keys, and its login.

use bus_crypto::{
    Credentials, NkeyKind, SigningKey, XKey,
    jwt::{UserClaims, encode_user},
};
use bus_nats::callout::{Callout, CalloutKeys};

use super::{CALLOUT_FILE, CALLOUT_XKEY_FILE, Lifetime, Operator, damaged, now_unix_s, read_key};
use crate::error::CliError;

impl Operator {
    /// The name of the service's user, and of its inbox.
    pub(crate) const CALLOUT_USER: &str = "callout";

    /// The keys with which questions are opened and answered.
    ///
    /// # Errors
    /// When their files cannot be read or are damaged.
    pub(crate) fn callout_keys(&self) -> Result<CalloutKeys, CliError> {
        let seed = self.dir.read(CALLOUT_XKEY_FILE)?;
        let xkey = XKey::from_seed_text(seed.trim_end())
            .map_err(|error| damaged(&self.dir, CALLOUT_XKEY_FILE, error))?;
        let responder = SigningKey::from_seed_text(&self.auth.seed_text())?;
        Ok(CalloutKeys { xkey, responder, account: *self.auth.public() })
    }

    /// The service's own user, which the account of the callout names.
    ///
    /// # Errors
    /// When its key cannot be read.
    pub(crate) fn callout_user(
        &self,
        Lifetime(valid_for): Lifetime,
    ) -> Result<Credentials, CliError> {
        let key = read_key(&self.dir, CALLOUT_FILE, NkeyKind::User)?;
        let (name, now) = (Self::CALLOUT_USER, now_unix_s());
        let mut claims = UserClaims::new(name, *key.public(), *self.auth.public(), now);
        let seconds = i64::try_from(valid_for.as_secs()).unwrap_or(i64::MAX);
        claims.expires_unix_s = Some(now.saturating_add(seconds));
        claims.connection_types = vec!["STANDARD".to_owned()];
        claims.permissions = Callout::permissions(name);
        let token = encode_user(&claims, &self.auth)?;
        Ok(Credentials::from_parts(&token, &key.seed_text())?)
    }
}
