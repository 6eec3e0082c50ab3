//! Account claims: a workspace's key, who may sign for it, what it may use, who was revoked.

use std::collections::BTreeMap;

use super::account_wire::{Body, Kept};
use super::exchange::{Export, Import};
use super::kind::ClaimKind;
use super::permissions::{Permissions, UserLimits};
use super::token::{self, Head, check_times};
use super::user::UserClaims;
use crate::error::CryptoError;
use crate::nkey::{NkeyKind, PublicKey};
use crate::sign::SigningKey;

/// What an account is and may use, signed by itself or by an operator.
///
/// Subject mappings and other members that this type does not show are kept as they were read and
/// written again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountClaims {
    /// The name for people.
    pub name: String,
    /// The account's public key.
    pub subject: PublicKey,
    /// Who signed: the account itself, an operator or an operator's signing key.
    pub issuer: PublicKey,
    /// When it was signed, in seconds since 1970.
    pub issued_at_unix_s: i64,
    /// From when on it is no longer valid, in seconds since 1970; `None` for ever.
    pub expires_unix_s: Option<i64>,
    /// Before when it is not yet valid, in seconds since 1970.
    pub not_before_unix_s: Option<i64>,
    /// Free words; NATS writes them in lower case.
    pub tags: Vec<String>,
    /// A sentence for people.
    pub description: Option<String>,
    /// Where people read more.
    pub info_url: Option<String>,
    /// How much the account may use.
    pub limits: AccountLimits,
    /// Other keys that may sign users of this account.
    pub signing_keys: Vec<AccountSigner>,
    /// Per user key (or `*` for all): users whose token was issued then or before are out.
    pub revocations: BTreeMap<String, i64>,
    /// The rights of users whose token names none.
    pub default_permissions: Permissions,
    /// Which service decides about connections (auth callout).
    pub authorization: Authorization,
    /// What other accounts may import; no subject inside another of the same kind.
    pub exports: Vec<Export>,
    /// What this account uses of others; of services of one account none inside another here.
    pub imports: Vec<Import>,
    /// The token's own id; computed by [`encode_account`], whatever stands here.
    pub jti: String,
    pub(super) kept: Kept,
}

impl AccountClaims {
    /// Starts claims without limits, but also without `JetStream`: its limits start at nothing.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        subject: PublicKey,
        issuer: PublicKey,
        issued_at_unix_s: i64,
    ) -> Self {
        Self {
            name: name.into(),
            subject,
            issuer,
            issued_at_unix_s,
            expires_unix_s: None,
            not_before_unix_s: None,
            tags: Vec::new(),
            description: None,
            info_url: None,
            limits: AccountLimits::default(),
            signing_keys: Vec::new(),
            revocations: BTreeMap::new(),
            default_permissions: Permissions::default(),
            authorization: Authorization::default(),
            exports: Vec::new(),
            imports: Vec::new(),
            jti: String::new(),
            kept: Kept::default(),
        }
    }

    /// Checks that the claims are valid at this time.
    ///
    /// # Errors
    /// [`CryptoError::NotTrusted`] when expired or not yet valid.
    pub fn verify_at(&self, now_unix_s: i64) -> Result<(), CryptoError> {
        check_times(self.not_before_unix_s, self.expires_unix_s, now_unix_s)
    }

    /// Checks that exactly `key` signed these claims.
    ///
    /// # Errors
    /// [`CryptoError::NotTrusted`] when another key did.
    pub fn issued_by(&self, key: &PublicKey) -> Result<(), CryptoError> {
        if self.issuer != *key {
            return Err(CryptoError::NotTrusted("issued by another key"));
        }
        Ok(())
    }

    /// Checks that `user` belongs to this account: signed by its key, or for it by one of its
    /// signing keys within that key's scope, and not revoked. Times are a separate question, and
    /// so is whether these claims themselves are to be trusted.
    ///
    /// # Errors
    /// [`CryptoError::NotTrusted`] with the reason.
    pub fn check_user(&self, user: &UserClaims) -> Result<(), CryptoError> {
        if user.issuer == self.subject {
            user.issued_by(&self.subject)?;
        } else {
            let signer = self
                .signing_keys
                .iter()
                .find(|signer| signer.key == user.issuer)
                .ok_or(CryptoError::NotTrusted("issued by another account"))?;
            if user.issuer_account != Some(self.subject) {
                return Err(CryptoError::NotTrusted("a signing key signed for another account"));
            }
            if signer.scope.is_some() && !has_no_rights_of_its_own(user) {
                return Err(CryptoError::NotTrusted("a scoped key cannot give other rights"));
            }
        }
        self.check_not_revoked(user)
    }

    /// Lets the owner of `user` in no more, with whatever token: also with one that is made later,
    /// or by a machine whose clock is ahead.
    pub fn revoke(&mut self, user: &PublicKey) {
        self.revocations.insert(user.text(), Self::FOR_EVER_UNIX_S);
    }

    /// The time of a revocation that no token is younger than: the year 2100.
    pub const FOR_EVER_UNIX_S: i64 = 4_102_444_800;

    fn check_not_revoked(&self, user: &UserClaims) -> Result<(), CryptoError> {
        let subject = user.subject.text();
        let until = [subject.as_str(), EVERY_USER]
            .into_iter()
            .filter_map(|key| self.revocations.get(key))
            .max();
        if until.is_some_and(|until| user.issued_at_unix_s <= *until) {
            return Err(CryptoError::NotTrusted("revoked"));
        }
        Ok(())
    }
}

/// How much an account may use. -1 means no limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountLimits {
    /// Subscriptions per connection.
    pub subscriptions_max: i64,
    /// Bytes in all.
    pub data_bytes_max: i64,
    /// Bytes of one message.
    pub payload_bytes_max: i64,
    /// Imports from other accounts.
    pub imports_max: i64,
    /// Exports to other accounts.
    pub exports_max: i64,
    /// Whether exports may have wildcards.
    pub has_wildcard_exports: bool,
    /// Whether bearer tokens are refused.
    pub refuses_bearer: bool,
    /// Client connections.
    pub connections_max: i64,
    /// Leaf node connections.
    pub leaf_connections_max: i64,
    /// What `JetStream` may use.
    pub jetstream: JetStreamLimits,
}

impl Default for AccountLimits {
    /// No limits, no `JetStream`.
    fn default() -> Self {
        Self {
            subscriptions_max: -1,
            data_bytes_max: -1,
            payload_bytes_max: -1,
            imports_max: -1,
            exports_max: -1,
            has_wildcard_exports: true,
            refuses_bearer: false,
            connections_max: -1,
            leaf_connections_max: -1,
            jetstream: JetStreamLimits::default(),
        }
    }
}

/// What an account may use of `JetStream`. Zero storage means no `JetStream`, -1 no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JetStreamLimits {
    /// Bytes in memory.
    pub memory_bytes_max: i64,
    /// Bytes on disk.
    pub disk_bytes_max: i64,
    /// Streams.
    pub streams_max: i64,
    /// Consumers.
    pub consumers_max: i64,
    /// Messages given out and not yet acknowledged, per consumer.
    pub acks_pending_max: i64,
    /// Bytes of one stream in memory.
    pub memory_stream_bytes_max: i64,
    /// Bytes of one stream on disk.
    pub disk_stream_bytes_max: i64,
    /// Whether every stream must name a limit.
    pub requires_max_bytes: bool,
}

impl JetStreamLimits {
    /// Everything without limit.
    #[must_use]
    pub fn unlimited() -> Self {
        Self {
            memory_bytes_max: -1,
            disk_bytes_max: -1,
            streams_max: -1,
            consumers_max: -1,
            ..Self::default()
        }
    }
}

/// A key that may sign users of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountSigner {
    /// The public key, of kind account.
    pub key: PublicKey,
    /// When given, its users have exactly these rights and name none themselves.
    pub scope: Option<SigningScope>,
}

/// The rights that a scoped signing key gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningScope {
    /// The name of the role.
    pub role: String,
    /// A sentence for people.
    pub description: Option<String>,
    /// The subjects that its users may use.
    pub permissions: Permissions,
    /// How much, from where and when.
    pub limits: UserLimits,
    /// Which kinds of connection are allowed; empty means all.
    pub connection_types: Vec<String>,
}

/// The service that decides about connections to an account (auth callout).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Authorization {
    /// Users of the deciding service itself.
    pub users: Vec<PublicKey>,
    /// Accounts into which it may place clients, as keys or `*`.
    pub allowed_accounts: Vec<String>,
    /// The curve key that questions are sealed for.
    pub xkey: Option<PublicKey>,
}

/// Signs account claims. The claims' issuer must be the signer: the account's own key, an
/// operator's, or one of the operator's signing keys.
///
/// # Errors
/// [`CryptoError::BadJwt`] when a key is of the wrong kind, the signer is not the issuer, an export
/// or import is none, or the token would be longer than 64 KiB.
pub fn encode_account(claims: &AccountClaims, signer: &SigningKey) -> Result<String, CryptoError> {
    if claims.issuer.kind() == NkeyKind::Account && claims.issuer != claims.subject {
        return Err(CryptoError::BadJwt("an account cannot sign another account"));
    }
    let head = Head {
        name: claims.name.clone(),
        subject: claims.subject,
        issuer: claims.issuer,
        audience: None,
        issued_at_unix_s: claims.issued_at_unix_s,
        expires_unix_s: claims.expires_unix_s,
        not_before_unix_s: claims.not_before_unix_s,
        jti: String::new(),
    };
    token::encode(&head, ClaimKind::Account, &Body::write(claims)?, signer)
}

/// Reads account claims and checks form and signature, strictly. Trust
/// ([`AccountClaims::issued_by`]) and time are separate questions.
///
/// # Errors
/// [`CryptoError::BadJwt`] when the token is malformed, of another kind or of version 1, or one
/// account signed another; [`CryptoError::BadSignature`] when the issuer did not sign it.
pub fn decode_account(token: &str) -> Result<AccountClaims, CryptoError> {
    let (head, body) = token::decode::<Body>(token, ClaimKind::Account)?;
    if head.issuer.kind() == NkeyKind::Account && head.issuer != head.subject {
        return Err(CryptoError::BadJwt("an account cannot sign another account"));
    }
    let mut claims =
        AccountClaims::new(head.name, head.subject, head.issuer, head.issued_at_unix_s);
    claims.expires_unix_s = head.expires_unix_s;
    claims.not_before_unix_s = head.not_before_unix_s;
    claims.jti = head.jti;
    body.read_into(&mut claims)?;
    Ok(claims)
}

/// Under a scoped key a user's own rights and limits are all left out.
fn has_no_rights_of_its_own(user: &UserClaims) -> bool {
    let nothing = UserLimits {
        subscriptions_max: 0,
        data_bytes_max: 0,
        payload_bytes_max: 0,
        ..UserLimits::default()
    };
    user.permissions == Permissions::default()
        && user.limits == nothing
        && !user.is_bearer
        && user.connection_types.is_empty()
}

const EVERY_USER: &str = "*";
