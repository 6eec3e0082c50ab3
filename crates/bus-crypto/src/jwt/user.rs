//! User claims: an agent, its account, its rights.

use serde::{Deserialize, Serialize};

use super::kind::ClaimKind;
use super::permissions::{Permissions, UserLimits};
use super::permissions_wire::WireRights;
use super::token::{self, Head, check_times, is_default, key_of};
use crate::error::CryptoError;
use crate::nkey::{NkeyKind, PublicKey};
use crate::sign::SigningKey;

/// Who a user is and what it may do, as its account signed it (D21).
///
/// ```
/// use bus_crypto::jwt::{UserClaims, decode_user, encode_user};
/// use bus_crypto::{NkeyKind, SigningKey, SystemEntropy};
///
/// let entropy = SystemEntropy::new();
/// let account = SigningKey::generate(NkeyKind::Account, &entropy)?;
/// let agent = SigningKey::generate(NkeyKind::User, &entropy)?;
///
/// let mut claims = UserClaims::new("writer", *agent.public(), *account.public(), 1_700_000_000);
/// claims.expires_unix_s = Some(1_700_003_600);
/// claims.tags = vec!["role:worker".to_owned()];
/// let token = encode_user(&claims, &account)?;
///
/// let read = decode_user(&token)?;
/// read.verify_at(1_700_000_001)?;
/// read.issued_by(account.public())?;
/// assert_eq!(read.name, "writer");
/// assert!(read.verify_at(1_700_003_600).is_err());
/// # Ok::<(), bus_crypto::CryptoError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserClaims {
    /// The name for people.
    pub name: String,
    /// The user's public key.
    pub subject: PublicKey,
    /// Who signed: the account, or one of its signing keys.
    pub issuer: PublicKey,
    /// The account, when a signing key signed for it.
    pub issuer_account: Option<PublicKey>,
    /// For whom the claims are meant; in an auth callout the name of the account.
    pub audience: Option<String>,
    /// When it was signed, in seconds since 1970.
    pub issued_at_unix_s: i64,
    /// From when on it is no longer valid, in seconds since 1970; `None` for ever.
    pub expires_unix_s: Option<i64>,
    /// Before when it is not yet valid, in seconds since 1970.
    pub not_before_unix_s: Option<i64>,
    /// Free words; NATS writes them in lower case.
    pub tags: Vec<String>,
    /// Which subjects the user may use.
    pub permissions: Permissions,
    /// How much, from where and when.
    pub limits: UserLimits,
    /// Whether the token alone, without proof of the key, lets its holder in.
    pub is_bearer: bool,
    /// Which kinds of connection are allowed (`STANDARD`, `WEBSOCKET`, …); empty means all.
    pub connection_types: Vec<String>,
    /// The token's own id; computed by [`encode_user`], whatever stands here.
    pub jti: String,
}

impl UserClaims {
    /// Starts claims without limits: all subjects, for ever.
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
            issuer_account: None,
            audience: None,
            issued_at_unix_s,
            expires_unix_s: None,
            not_before_unix_s: None,
            tags: Vec::new(),
            permissions: Permissions::default(),
            limits: UserLimits::default(),
            is_bearer: false,
            connection_types: Vec::new(),
            jti: String::new(),
        }
    }

    /// Checks that the claims are valid at this time.
    ///
    /// # Errors
    /// [`CryptoError::NotTrusted`] when expired (the second of `expires_unix_s` is too late) or not
    /// yet valid.
    pub fn verify_at(&self, now_unix_s: i64) -> Result<(), CryptoError> {
        check_times(self.not_before_unix_s, self.expires_unix_s, now_unix_s)
    }

    /// Checks that `account` itself signed. A signing key's word counts only through
    /// [`AccountClaims::check_user`](super::AccountClaims::check_user), because anybody can write
    /// any account into `issuer_account`.
    ///
    /// # Errors
    /// [`CryptoError::NotTrusted`] when another key signed, or when it signed for another account.
    pub fn issued_by(&self, account: &PublicKey) -> Result<(), CryptoError> {
        if self.issuer != *account || self.issuer_account.is_some_and(|named| named != *account) {
            return Err(CryptoError::NotTrusted("issued by another account"));
        }
        Ok(())
    }
}

/// Signs user claims. The claims' issuer must be the signer, an account key.
///
/// # Errors
/// [`CryptoError::BadJwt`] when subject, issuer or issuer account is a key of the wrong kind, the
/// signer is not the issuer, or the token would be longer than 64 KiB.
pub fn encode_user(claims: &UserClaims, signer: &SigningKey) -> Result<String, CryptoError> {
    if claims.issuer_account.is_some_and(|account| account.kind() != NkeyKind::Account) {
        return Err(CryptoError::BadJwt("the issuer account is no account"));
    }
    let head = Head {
        name: claims.name.clone(),
        subject: claims.subject,
        issuer: claims.issuer,
        audience: claims.audience.clone(),
        issued_at_unix_s: claims.issued_at_unix_s,
        expires_unix_s: claims.expires_unix_s,
        not_before_unix_s: claims.not_before_unix_s,
        jti: String::new(),
    };
    let mut rights = WireRights::new(claims.permissions.clone(), claims.limits.clone());
    rights.bearer_token = claims.is_bearer;
    rights.allowed_connection_types.clone_from(&claims.connection_types);
    let body = Body {
        rights,
        issuer_account: claims.issuer_account.map(|key| key.text()).unwrap_or_default(),
        tags: claims.tags.clone(),
        r#type: ClaimKind::User.name().to_owned(),
        version: 2,
    };
    token::encode(&head, ClaimKind::User, &body, signer)
}

/// Reads user claims and checks form and signature, strictly. Trust ([`UserClaims::issued_by`])
/// and time ([`UserClaims::verify_at`]) are separate questions.
///
/// # Errors
/// [`CryptoError::BadJwt`] when the token is malformed, of another kind or of version 1,
/// [`CryptoError::BadSignature`] when the issuer it names did not sign it.
pub fn decode_user(token: &str) -> Result<UserClaims, CryptoError> {
    let (head, body) = token::decode::<Body>(token, ClaimKind::User)?;
    let issuer_account = match body.issuer_account.as_str() {
        "" => None,
        text => Some(key_of(text, NkeyKind::Account)?),
    };
    let is_bearer = body.rights.bearer_token;
    let connection_types = body.rights.allowed_connection_types.clone();
    let (permissions, limits) = body.rights.into_parts();
    Ok(UserClaims {
        name: head.name,
        subject: head.subject,
        issuer: head.issuer,
        issuer_account,
        audience: head.audience,
        issued_at_unix_s: head.issued_at_unix_s,
        expires_unix_s: head.expires_unix_s,
        not_before_unix_s: head.not_before_unix_s,
        tags: body.tags,
        permissions,
        limits,
        is_bearer,
        connection_types,
        jti: head.jti,
    })
}

#[derive(Serialize, Deserialize)]
struct Body {
    #[serde(flatten)]
    rights: WireRights,
    #[serde(default, skip_serializing_if = "is_default")]
    issuer_account: String,
    #[serde(default, skip_serializing_if = "is_default")]
    tags: Vec<String>,
    r#type: String,
    version: u8,
}
