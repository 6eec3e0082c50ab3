//! An operator, its system account and an account with JetStream, as a server in operator mode
//! needs them.

use bus_crypto::{
    NkeyKind, SigningKey, SystemEntropy,
    jwt::{
        AccountClaims, JetStreamLimits, OperatorClaims, UserClaims, encode_account,
        encode_operator, encode_user,
    },
};
use bus_nats::server::Authorization;

/// The keys, all fresh.
pub(crate) struct Tokens {
    pub(crate) operator: SigningKey,
    pub(crate) system: SigningKey,
    pub(crate) account: SigningKey,
}

impl Tokens {
    pub(crate) fn new() -> Self {
        let new = |kind| SigningKey::generate(kind, &SystemEntropy::new()).unwrap();
        Self {
            operator: new(NkeyKind::Operator),
            system: new(NkeyKind::Account),
            account: new(NkeyKind::Account),
        }
    }

    /// Lets in the users of the account.
    pub(crate) fn authorization(&self) -> Authorization {
        let mut claims = OperatorClaims::new("o", *self.operator.public(), 0);
        claims.system_account = Some(*self.system.public());
        let operator = encode_operator(&claims, &self.operator).unwrap();
        let account_of = |key: &SigningKey, jetstream| {
            let mut claims = AccountClaims::new("a", *key.public(), *self.operator.public(), 0);
            claims.limits.jetstream = jetstream;
            (*key.public(), encode_account(&claims, &self.operator).unwrap())
        };
        Authorization::Jwt {
            operator,
            system_account: *self.system.public(),
            accounts: vec![
                account_of(&self.system, JetStreamLimits::default()),
                account_of(&self.account, JetStreamLimits::unlimited()),
            ],
        }
    }

    /// A user of the account with everything allowed: its token and its key.
    pub(crate) fn user(&self, edit: impl FnOnce(&mut UserClaims)) -> (String, SigningKey) {
        user_of(&self.account, edit)
    }
}

/// A user of any account.
pub(crate) fn user_of(
    account: &SigningKey,
    edit: impl FnOnce(&mut UserClaims),
) -> (String, SigningKey) {
    let user = SigningKey::generate(NkeyKind::User, &SystemEntropy::new()).unwrap();
    let mut claims = UserClaims::new("u", *user.public(), *account.public(), 0);
    edit(&mut claims);
    (encode_user(&claims, account).unwrap(), user)
}
