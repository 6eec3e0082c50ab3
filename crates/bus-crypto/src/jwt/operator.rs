//! Operator claims: who signs accounts.

use serde::{Deserialize, Serialize};

use super::account::AccountClaims;
use super::kind::ClaimKind;
use super::token::{self, Head, check_times, is_default, key_of, non_empty};
use crate::error::CryptoError;
use crate::nkey::{NkeyKind, PublicKey};
use crate::sign::SigningKey;

/// What an operator is, signed by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorClaims {
    /// The name for people.
    pub name: String,
    /// The operator's public key.
    pub subject: PublicKey,
    /// Who signed: the operator itself or one of its signing keys.
    pub issuer: PublicKey,
    /// When it was signed, in seconds since 1970.
    pub issued_at_unix_s: i64,
    /// From when on it is no longer valid, in seconds since 1970; `None` for ever.
    pub expires_unix_s: Option<i64>,
    /// Before when it is not yet valid, in seconds since 1970.
    pub not_before_unix_s: Option<i64>,
    /// Free words.
    pub tags: Vec<String>,
    /// Other keys that may sign accounts.
    pub signing_keys: Vec<PublicKey>,
    /// Where account tokens are fetched from.
    pub account_server_url: Option<String>,
    /// Where clients connect.
    pub service_urls: Vec<String>,
    /// The account that sees the servers' own events.
    pub system_account: Option<PublicKey>,
    /// The oldest server that may be used.
    pub server_version_min: Option<String>,
    /// Whether the main key may not sign accounts.
    pub requires_signing_keys: bool,
    /// The token's own id; computed by [`encode_operator`], whatever stands here.
    pub jti: String,
}

impl OperatorClaims {
    /// Starts the claims of an operator who signs for itself.
    #[must_use]
    pub fn new(name: impl Into<String>, subject: PublicKey, issued_at_unix_s: i64) -> Self {
        Self {
            name: name.into(),
            subject,
            issuer: subject,
            issued_at_unix_s,
            expires_unix_s: None,
            not_before_unix_s: None,
            tags: Vec::new(),
            signing_keys: Vec::new(),
            account_server_url: None,
            service_urls: Vec::new(),
            system_account: None,
            server_version_min: None,
            requires_signing_keys: false,
            jti: String::new(),
        }
    }

    /// Checks that the claims are valid at this time.
    ///
    /// # Errors
    /// [`CryptoError::NotTrusted`] when expired or not yet valid.
    pub fn verify_at(&self, now_unix_s: i64) -> Result<(), CryptoError> {
        check_times(self.not_before_unix_s, self.expires_unix_s, now_unix_s)
    }

    /// Checks that this operator vouches for `account`.
    ///
    /// # Errors
    /// [`CryptoError::NotTrusted`] when neither its key (unless it forbids that) nor one of its
    /// signing keys signed.
    pub fn check_account(&self, account: &AccountClaims) -> Result<(), CryptoError> {
        let is_own = account.issuer == self.subject && !self.requires_signing_keys;
        if is_own || self.signing_keys.contains(&account.issuer) {
            return Ok(());
        }
        Err(CryptoError::NotTrusted("issued by another operator"))
    }
}

/// Signs operator claims. The claims' issuer must be the signer.
///
/// # Errors
/// [`CryptoError::BadJwt`] when a key is of the wrong kind, the signer is neither the operator nor
/// one of the signing keys it names, or the token would be longer than 64 KiB.
pub fn encode_operator(
    claims: &OperatorClaims,
    signer: &SigningKey,
) -> Result<String, CryptoError> {
    check_signer(claims)?;
    let body = Body {
        signing_keys: claims.signing_keys.iter().map(PublicKey::text).collect(),
        account_server_url: claims.account_server_url.clone().unwrap_or_default(),
        operator_service_urls: claims.service_urls.clone(),
        system_account: claims.system_account.map(|key| key.text()).unwrap_or_default(),
        assert_server_version: claims.server_version_min.clone().unwrap_or_default(),
        strict_signing_key_usage: claims.requires_signing_keys,
        tags: claims.tags.clone(),
        r#type: ClaimKind::Operator.name().to_owned(),
        version: 2,
    };
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
    token::encode(&head, ClaimKind::Operator, &body, signer)
}

/// Reads operator claims and checks form and signature, strictly.
///
/// # Errors
/// [`CryptoError::BadJwt`] when the token is malformed, of another kind or of version 1, or not
/// signed by the operator or a signing key it names; [`CryptoError::BadSignature`] when the issuer
/// did not sign it.
pub fn decode_operator(token: &str) -> Result<OperatorClaims, CryptoError> {
    let (head, body) = token::decode::<Body>(token, ClaimKind::Operator)?;
    let keys = body.signing_keys.iter().map(|key| key_of(key, NkeyKind::Operator));
    let claims = OperatorClaims {
        name: head.name,
        subject: head.subject,
        issuer: head.issuer,
        issued_at_unix_s: head.issued_at_unix_s,
        expires_unix_s: head.expires_unix_s,
        not_before_unix_s: head.not_before_unix_s,
        tags: body.tags,
        signing_keys: keys.collect::<Result<_, _>>()?,
        account_server_url: non_empty(body.account_server_url),
        service_urls: body.operator_service_urls,
        system_account: non_empty(body.system_account)
            .map(|key| key_of(&key, NkeyKind::Account))
            .transpose()?,
        server_version_min: non_empty(body.assert_server_version),
        requires_signing_keys: body.strict_signing_key_usage,
        jti: head.jti,
    };
    check_signer(&claims)?;
    Ok(claims)
}

fn check_signer(claims: &OperatorClaims) -> Result<(), CryptoError> {
    if claims.issuer == claims.subject || claims.signing_keys.contains(&claims.issuer) {
        return Ok(());
    }
    Err(CryptoError::BadJwt("an operator cannot sign another operator"))
}

#[derive(Serialize, Deserialize)]
struct Body {
    #[serde(default, skip_serializing_if = "is_default")]
    signing_keys: Vec<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    account_server_url: String,
    #[serde(default, skip_serializing_if = "is_default")]
    operator_service_urls: Vec<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    system_account: String,
    #[serde(default, skip_serializing_if = "is_default")]
    assert_server_version: String,
    #[serde(default, skip_serializing_if = "is_default")]
    strict_signing_key_usage: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    tags: Vec<String>,
    r#type: String,
    version: u8,
}
