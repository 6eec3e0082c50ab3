//! The frame around every kind of claims: three parts, a header, a signature by the issuer.

use data_encoding::{BASE32_NOPAD, BASE64URL_NOPAD};
use ring::digest::{SHA512_256, digest};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::kind::ClaimKind;
use super::strict;
use crate::error::CryptoError;
use crate::nkey::{NkeyKind, PublicKey};
use crate::sign::SigningKey;

/// The longest token that is looked at.
pub const TOKEN_BYTES_MAX: usize = 64 * 1024;

/// What every token says, whatever its kind; read by [`inspect`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenInfo {
    /// What the claims are about.
    pub kind: ClaimKind,
    /// 2, or 1 for tokens of the first generation, which only [`inspect`] reads.
    pub version: u8,
    /// The name for people; may be empty.
    pub name: String,
    /// Whom the claims are about.
    pub subject: PublicKey,
    /// Who signed.
    pub issuer: PublicKey,
    /// For whom the claims are meant.
    pub audience: Option<String>,
    /// When it was signed, in seconds since 1970.
    pub issued_at_unix_s: i64,
    /// From when on it is no longer valid, in seconds since 1970.
    pub expires_unix_s: Option<i64>,
    /// Before when it is not yet valid, in seconds since 1970.
    pub not_before_unix_s: Option<i64>,
    /// The token's own id.
    pub jti: String,
}

/// Checks form and signature of a token of any kind and tells what is common to all.
///
/// Says nothing about trust: the issuer may be anybody, and the times are not compared with now.
///
/// # Errors
/// [`CryptoError::BadJwt`] when the token is malformed, [`CryptoError::BadSignature`] when its
/// issuer did not sign it.
pub fn inspect(token: &str) -> Result<TokenInfo, CryptoError> {
    let payload = payload_of(token)?;
    let claims: Claims<AnyBody> = read(&payload)?;
    let (kind, version) = kind_of(&claims.r#type, &claims.nats)?;
    let head = claims.head.checked(kind)?;
    Ok(TokenInfo {
        kind,
        version,
        name: head.name,
        subject: head.subject,
        issuer: head.issuer,
        audience: head.audience,
        issued_at_unix_s: head.issued_at_unix_s,
        expires_unix_s: head.expires_unix_s,
        not_before_unix_s: head.not_before_unix_s,
        jti: head.jti,
    })
}

/// The members common to all claims, typed.
pub(super) struct Head {
    pub(super) name: String,
    pub(super) subject: PublicKey,
    pub(super) issuer: PublicKey,
    pub(super) audience: Option<String>,
    pub(super) issued_at_unix_s: i64,
    pub(super) expires_unix_s: Option<i64>,
    pub(super) not_before_unix_s: Option<i64>,
    pub(super) jti: String,
}

/// Reads a version 2 token of one kind: form, signature, who may sign for whom.
pub(super) fn decode<B: DeserializeOwned>(
    token: &str,
    kind: ClaimKind,
) -> Result<(Head, B), CryptoError> {
    let payload = payload_of(token)?;
    let outline: Claims<AnyBody> = read(&payload)?;
    match kind_of(&outline.r#type, &outline.nats)? {
        (found, 2) if found == kind => {}
        (_, 2) => return Err(CryptoError::BadJwt("claims of another kind")),
        _ => return Err(CryptoError::BadJwt("not version 2")),
    }
    let claims: Claims<B> = read(&payload)?;
    Ok((claims.head.checked(kind)?, claims.nats))
}

/// Writes and signs a version 2 token exactly as the NATS libraries do. The issuer is the signer;
/// the id is computed.
pub(super) fn encode<B: Serialize>(
    head: &Head,
    kind: ClaimKind,
    body: &B,
    signer: &SigningKey,
) -> Result<String, CryptoError> {
    if head.issuer != *signer.public() {
        return Err(CryptoError::BadJwt("the issuer is not the signer"));
    }
    kind.check_keys(&head.subject, &head.issuer)?;
    let mut wire = WireHead {
        aud: head.audience.clone().unwrap_or_default(),
        exp: head.expires_unix_s.unwrap_or_default(),
        jti: String::new(),
        iat: head.issued_at_unix_s,
        iss: head.issuer.text(),
        name: head.name.clone(),
        nbf: head.not_before_unix_s.unwrap_or_default(),
        sub: head.subject.text(),
    };
    // The id covers the head alone: that is how NATS computes it.
    wire.jti = BASE32_NOPAD.encode(digest(&SHA512_256, write(&wire)?.as_bytes()).as_ref());
    let claims = WrittenClaims { head: &wire, nats: body };
    let mut token = format!(
        "{}.{}",
        BASE64URL_NOPAD.encode(HEADER.as_bytes()),
        BASE64URL_NOPAD.encode(write(&claims)?.as_bytes())
    );
    let signature = signer.sign(token.as_bytes());
    token.push('.');
    BASE64URL_NOPAD.encode_append(&signature, &mut token);
    if token.len() > TOKEN_BYTES_MAX {
        return Err(CryptoError::BadJwt("longer than 64 KiB"));
    }
    Ok(token)
}

/// Compares the times of a token with now: valid from `not_before` on, no longer at `expires`.
pub(super) fn check_times(
    not_before_unix_s: Option<i64>,
    expires_unix_s: Option<i64>,
    now_unix_s: i64,
) -> Result<(), CryptoError> {
    if expires_unix_s.is_some_and(|expires| now_unix_s >= expires) {
        return Err(CryptoError::NotTrusted("expired"));
    }
    if not_before_unix_s.is_some_and(|not_before| now_unix_s < not_before) {
        return Err(CryptoError::NotTrusted("not yet valid"));
    }
    Ok(())
}

/// Reads a public key of one kind from a member.
pub(super) fn key_of(text: &str, kind: NkeyKind) -> Result<PublicKey, CryptoError> {
    PublicKey::parse(text)
        .ok()
        .filter(|key| key.kind() == kind)
        .ok_or(CryptoError::BadJwt("a key is not of the kind its place needs"))
}

pub(super) fn non_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The user that a token claims to be about: its form is checked, its signature is not.
pub(crate) fn claimed_subject(token: &str) -> Result<PublicKey, CryptoError> {
    let parts = Parts::split(token)?;
    decode_part(parts.signature)?;
    key_of(&read::<Subject>(&parts.payload)?.sub, NkeyKind::User)
}

/// A token in its parts; header and payload are sound JSON.
struct Parts<'a> {
    algorithm: HeaderAlgorithm,
    signed: &'a str,
    body: &'a str,
    signature: &'a str,
    payload: Vec<u8>,
}

impl<'a> Parts<'a> {
    fn split(token: &'a str) -> Result<Self, CryptoError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(CryptoError::BadJwt("longer than 64 KiB"));
        }
        let not_three = CryptoError::BadJwt("not three parts");
        let (signed, signature) = token.rsplit_once('.').ok_or(not_three.clone())?;
        let (header, body) = signed.split_once('.').ok_or(not_three.clone())?;
        if body.contains('.') {
            return Err(not_three);
        }
        let header_json = decode_part(header)?;
        strict::check(&header_json)?;
        let algorithm = read::<Header>(&header_json)?.algorithm()?;
        let payload = decode_part(body)?;
        strict::check(&payload)?;
        Ok(Self { algorithm, signed, body, signature, payload })
    }
}

/// Takes a token apart and gives its claims out once the issuer's signature holds.
fn payload_of(token: &str) -> Result<Vec<u8>, CryptoError> {
    let Parts { algorithm, signed, body, signature, payload } = Parts::split(token)?;
    let issuer = read::<Issuer>(&payload)?.iss;
    let issuer =
        PublicKey::parse(&issuer).map_err(|_| CryptoError::BadJwt("the issuer is no nkey"))?;
    let signature: [u8; 64] =
        decode_part(signature)?.try_into().map_err(|_| CryptoError::BadSignature)?;
    let covered = match algorithm {
        HeaderAlgorithm::Second => signed,
        HeaderAlgorithm::First => body,
    };
    issuer.verify(covered.as_bytes(), &signature)?;
    // The first generation's signature does not cover the header: it must not carry new claims.
    let outline: Claims<AnyBody> = read(&payload)?;
    let (_, version) = kind_of(&outline.r#type, &outline.nats)?;
    if (version == 2) != (algorithm == HeaderAlgorithm::Second) {
        return Err(CryptoError::BadJwt("the algorithm is not the one of this version"));
    }
    Ok(payload)
}

fn decode_part(part: &str) -> Result<Vec<u8>, CryptoError> {
    BASE64URL_NOPAD
        .decode(part.as_bytes())
        .map_err(|_| CryptoError::BadJwt("not canonical base64url without padding"))
}

fn read<T: DeserializeOwned>(json: &[u8]) -> Result<T, CryptoError> {
    serde_json::from_slice(json).map_err(|_| CryptoError::BadJwt("a member is missing or wrong"))
}

/// Writes JSON as Go does: the characters that matter to HTML are escaped.
fn write<T: Serialize>(value: &T) -> Result<String, CryptoError> {
    let json = serde_json::to_string(value)
        .map_err(|_| CryptoError::BadJwt("the claims cannot be written"))?;
    // None of these occurs in JSON outside a string, so plain replacement is exact.
    Ok(json
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029"))
}

fn kind_of(outer: &str, body: &AnyBody) -> Result<(ClaimKind, u8), CryptoError> {
    let (name, version) = match (outer, body.version) {
        ("", 2) => (body.r#type.as_str(), 2),
        // In the first generation `nats.type` meant something else (the kind of an import).
        (outer, 0) if !outer.is_empty() => (outer, 1),
        _ => return Err(CryptoError::BadJwt("claims of no known version")),
    };
    let kind = ClaimKind::parse(name).ok_or(CryptoError::BadJwt("claims of no known kind"))?;
    Ok((kind, version))
}

#[derive(Deserialize)]
struct Header {
    typ: String,
    alg: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HeaderAlgorithm {
    First,
    Second,
}

impl Header {
    fn algorithm(&self) -> Result<HeaderAlgorithm, CryptoError> {
        if !self.typ.eq_ignore_ascii_case("JWT") {
            return Err(CryptoError::BadJwt("the header's typ is not JWT"));
        }
        match self.alg.as_str() {
            "ed25519-nkey" => Ok(HeaderAlgorithm::Second),
            "ed25519" => Ok(HeaderAlgorithm::First),
            _ => Err(CryptoError::BadJwt("the header's alg is not ed25519-nkey")),
        }
    }
}

#[derive(Deserialize)]
struct Issuer {
    iss: String,
}

#[derive(Deserialize)]
struct Subject {
    sub: String,
}

#[derive(Deserialize)]
struct Claims<B> {
    #[serde(flatten)]
    head: WireHead,
    #[serde(default)]
    r#type: String,
    nats: B,
}

#[derive(Serialize)]
struct WrittenClaims<'a, B> {
    #[serde(flatten)]
    head: &'a WireHead,
    nats: &'a B,
}

#[derive(Deserialize)]
struct AnyBody {
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    version: u8,
}

/// The head as it is written, in the order in which NATS writes it.
#[derive(Serialize, Deserialize)]
struct WireHead {
    #[serde(default, skip_serializing_if = "is_default")]
    aud: String,
    #[serde(default, skip_serializing_if = "is_default")]
    exp: i64,
    #[serde(default, skip_serializing_if = "is_default")]
    jti: String,
    #[serde(default, skip_serializing_if = "is_default")]
    iat: i64,
    iss: String,
    #[serde(default, skip_serializing_if = "is_default")]
    name: String,
    #[serde(default, skip_serializing_if = "is_default")]
    nbf: i64,
    sub: String,
}

impl WireHead {
    fn checked(self, kind: ClaimKind) -> Result<Head, CryptoError> {
        let key = |text: &str| {
            PublicKey::parse(text).map_err(|_| CryptoError::BadJwt("a key is no nkey"))
        };
        let (subject, issuer) = (key(&self.sub)?, key(&self.iss)?);
        kind.check_keys(&subject, &issuer)?;
        let time = |unix_s: i64| (unix_s != 0).then_some(unix_s);
        Ok(Head {
            name: self.name,
            subject,
            issuer,
            audience: non_empty(self.aud),
            issued_at_unix_s: self.iat,
            expires_unix_s: time(self.exp),
            not_before_unix_s: time(self.nbf),
            jti: self.jti,
        })
    }
}

const HEADER: &str = r#"{"typ":"JWT","alg":"ed25519-nkey"}"#;
