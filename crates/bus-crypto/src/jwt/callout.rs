//! Auth callout: a server asks whether a client may connect, a service answers.

use std::fmt;

use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::kind::ClaimKind;
use super::token::{self, Head, check_times, is_default, key_of, non_empty};
use crate::error::CryptoError;
use crate::nkey::{NkeyKind, PublicKey};
use crate::sign::SigningKey;

/// A server's question, signed by the server.
///
/// The server signs with a key of its own that nobody vouches for: take questions only from the
/// subject and account that servers alone may publish to.
#[derive(Debug, PartialEq, Eq)]
pub struct AuthRequest {
    /// The server: the audience of the answer.
    pub server: PublicKey,
    /// The name of the server.
    pub server_name: String,
    /// The server's curve key, when it wants the answer sealed.
    pub server_xkey: Option<PublicKey>,
    /// Who is asked: the account of the service. The NATS libraries write the user here.
    pub subject: PublicKey,
    /// The key under which the client will be a user: the subject of the answer.
    pub user: PublicKey,
    /// When it was asked, in seconds since 1970.
    pub issued_at_unix_s: i64,
    /// Until when an answer is taken, in seconds since 1970.
    pub expires_unix_s: Option<i64>,
    /// Where the client connects from.
    pub client_host: String,
    /// The number of the connection at the server, by which it can be ended.
    pub client_id: u64,
    /// For whom the server takes the client before it asks: the sentinel's key.
    pub client_user: String,
    /// What the server calls the client.
    pub client_name: String,
    /// `Client`, `Leafnode`, …
    pub client_kind: String,
    /// `nats`, `websocket`, `mqtt`.
    pub client_type: String,
    /// The nonce the client had to sign.
    pub nonce: String,
    /// What the client presented.
    pub connect: ConnectOptions,
    /// The token's own id.
    pub jti: String,
}

impl AuthRequest {
    /// Checks that an answer is still taken.
    ///
    /// # Errors
    /// [`CryptoError::NotTrusted`] when it is too late.
    pub fn verify_at(&self, now_unix_s: i64) -> Result<(), CryptoError> {
        check_times(None, self.expires_unix_s, now_unix_s)
    }
}

/// What a client presented; its secrets are wiped on drop and never printed.
#[derive(Default, PartialEq, Eq)]
pub struct ConnectOptions {
    /// The user name.
    pub user: Option<String>,
    /// The password.
    pub password: Option<Zeroizing<String>>,
    /// The bearer token.
    pub token: Option<Zeroizing<String>>,
    /// The user JWT; a bearer JWT is a secret.
    pub jwt: Option<Zeroizing<String>>,
    /// The public nkey, unchecked.
    pub nkey: Option<String>,
    /// The signature over the nonce, base64, unchecked.
    pub signature: Option<String>,
    /// The connection's name.
    pub name: Option<String>,
}

impl fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectOptions")
            .field("user", &self.user)
            .field("has_password", &self.password.is_some())
            .field("has_token", &self.token.is_some())
            .field("has_jwt", &self.jwt.is_some())
            .field("nkey", &self.nkey)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A service's answer, signed by the account that the callout is configured with.
///
/// The token in it is not printed: it may be one that lets its bearer in.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthResponse {
    /// The user key of the question.
    pub user: PublicKey,
    /// The server of the question.
    pub server: PublicKey,
    /// Who signs.
    pub issuer: PublicKey,
    /// When it was signed, in seconds since 1970.
    pub issued_at_unix_s: i64,
    /// The user token that lets the client in, or the reason why it is kept out.
    pub verdict: Result<String, String>,
    /// The account, when a signing key signs for it.
    pub issuer_account: Option<PublicKey>,
}

impl fmt::Debug for AuthResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthResponse")
            .field("user", &self.user)
            .field("server", &self.server)
            .field("issuer", &self.issuer)
            .field("issued_at_unix_s", &self.issued_at_unix_s)
            .field("verdict", &self.verdict.as_ref().map(|_| ".."))
            .field("issuer_account", &self.issuer_account)
            .finish()
    }
}

/// Reads a server's question and checks form and signature, strictly.
///
/// # Errors
/// [`CryptoError::BadJwt`] when it is malformed or the server named inside is not the signer,
/// [`CryptoError::BadSignature`] when the issuer did not sign it.
pub fn decode_auth_request(token: &str) -> Result<AuthRequest, CryptoError> {
    let (head, body) = token::decode::<RequestBody>(token, ClaimKind::AuthorizationRequest)?;
    if head.audience.as_deref() != Some(REQUEST_AUDIENCE) {
        return Err(CryptoError::BadJwt("not meant for an auth callout"));
    }
    let server = key_of(&body.server_id.id, NkeyKind::Server)?;
    if server != head.issuer {
        return Err(CryptoError::BadJwt("the server is not the signer"));
    }
    let mut options = body.connect_opts;
    let secret = |text: &mut String| non_empty(std::mem::take(text)).map(Zeroizing::new);
    Ok(AuthRequest {
        server,
        server_name: body.server_id.name,
        server_xkey: non_empty(body.server_id.xkey)
            .map(|key| key_of(&key, NkeyKind::Curve))
            .transpose()?,
        subject: head.subject,
        user: key_of(&body.user_nkey, NkeyKind::User)?,
        issued_at_unix_s: head.issued_at_unix_s,
        expires_unix_s: head.expires_unix_s,
        client_host: body.client_info.host,
        client_id: body.client_info.id,
        client_user: body.client_info.user,
        client_name: body.client_info.name,
        client_kind: body.client_info.kind,
        client_type: body.client_info.r#type,
        nonce: body.client_info.nonce,
        connect: ConnectOptions {
            password: secret(&mut options.pass),
            token: secret(&mut options.auth_token),
            jwt: secret(&mut options.jwt),
            user: non_empty(std::mem::take(&mut options.user)),
            nkey: non_empty(std::mem::take(&mut options.nkey)),
            signature: non_empty(std::mem::take(&mut options.sig)),
            name: non_empty(std::mem::take(&mut options.name)),
        },
        jti: head.jti,
    })
}

/// Signs a question, as a server does: what the tests of a callout service need.
///
/// # Errors
/// [`CryptoError::BadJwt`] when the server is not the signer or a key is of the wrong kind, or the
/// token would be longer than 64 KiB.
pub fn encode_auth_request(
    request: &AuthRequest,
    signer: &SigningKey,
) -> Result<String, CryptoError> {
    if request.server != *signer.public() || request.server.kind() != NkeyKind::Server {
        return Err(CryptoError::BadJwt("the server is not the signer"));
    }
    if request.user.kind() != NkeyKind::User {
        return Err(CryptoError::BadJwt("the question is about no user"));
    }
    let head = Head {
        name: String::new(),
        subject: request.subject,
        issuer: request.server,
        audience: Some(REQUEST_AUDIENCE.to_owned()),
        issued_at_unix_s: request.issued_at_unix_s,
        expires_unix_s: request.expires_unix_s,
        not_before_unix_s: None,
        jti: String::new(),
    };
    let body = RequestBody::of(request);
    token::encode(&head, ClaimKind::AuthorizationRequest, &body, signer)
}

/// Signs an answer. The issuer must be the signer, an account key.
///
/// # Errors
/// [`CryptoError::BadJwt`] when a key is of the wrong kind, the signer is not the issuer, the
/// verdict is an empty text, or the token would be longer than 64 KiB.
pub fn encode_auth_response(
    response: &AuthResponse,
    signer: &SigningKey,
) -> Result<String, CryptoError> {
    if response.server.kind() != NkeyKind::Server {
        return Err(CryptoError::BadJwt("the audience is no server"));
    }
    let (jwt, error) = match &response.verdict {
        Ok(token) => (token.clone(), String::new()),
        Err(reason) => (String::new(), reason.clone()),
    };
    if jwt.is_empty() && error.is_empty() {
        return Err(CryptoError::BadJwt("an answer needs a token or a reason"));
    }
    let body = ResponseBody {
        jwt,
        error,
        issuer_account: response.issuer_account.map(|key| key.text()).unwrap_or_default(),
        r#type: ClaimKind::AuthorizationResponse.name().to_owned(),
        version: 2,
    };
    let head = Head {
        name: String::new(),
        subject: response.user,
        issuer: response.issuer,
        audience: Some(response.server.text()),
        issued_at_unix_s: response.issued_at_unix_s,
        expires_unix_s: None,
        not_before_unix_s: None,
        jti: String::new(),
    };
    token::encode(&head, ClaimKind::AuthorizationResponse, &body, signer)
}

/// Reads an answer and checks form and signature, strictly.
///
/// # Errors
/// [`CryptoError::BadJwt`] when it is malformed, is not for a server, or has both or neither of a
/// token and a reason; [`CryptoError::BadSignature`] when the issuer did not sign it.
pub fn decode_auth_response(token: &str) -> Result<AuthResponse, CryptoError> {
    let (head, body) = token::decode::<ResponseBody>(token, ClaimKind::AuthorizationResponse)?;
    let verdict = match (body.jwt.is_empty(), body.error.is_empty()) {
        (false, true) => Ok(body.jwt),
        (true, false) => Err(body.error),
        _ => return Err(CryptoError::BadJwt("an answer is either a token or a reason")),
    };
    Ok(AuthResponse {
        user: head.subject,
        server: key_of(head.audience.as_deref().unwrap_or_default(), NkeyKind::Server)?,
        issuer: head.issuer,
        issued_at_unix_s: head.issued_at_unix_s,
        verdict,
        issuer_account: non_empty(body.issuer_account)
            .map(|key| key_of(&key, NkeyKind::Account))
            .transpose()?,
    })
}

#[derive(Serialize, Deserialize)]
struct RequestBody {
    server_id: ServerId,
    user_nkey: String,
    #[serde(default)]
    client_info: ClientInfo,
    #[serde(default)]
    connect_opts: WireConnect,
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    version: u8,
}

impl RequestBody {
    fn of(request: &AuthRequest) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let secret = |text: &Option<Zeroizing<String>>| {
            text.as_ref().map(|text| text.as_str().to_owned()).unwrap_or_default()
        };
        let connect = &request.connect;
        Self {
            server_id: ServerId {
                name: request.server_name.clone(),
                id: request.server.text(),
                xkey: request.server_xkey.map(|key| key.text()).unwrap_or_default(),
            },
            user_nkey: request.user.text(),
            client_info: ClientInfo {
                host: request.client_host.clone(),
                id: request.client_id,
                user: request.client_user.clone(),
                name: request.client_name.clone(),
                kind: request.client_kind.clone(),
                r#type: request.client_type.clone(),
                nonce: request.nonce.clone(),
            },
            connect_opts: WireConnect {
                jwt: secret(&connect.jwt),
                nkey: text(&connect.nkey),
                sig: text(&connect.signature),
                auth_token: secret(&connect.token),
                user: text(&connect.user),
                pass: secret(&connect.password),
                name: text(&connect.name),
            },
            r#type: ClaimKind::AuthorizationRequest.name().to_owned(),
            version: 2,
        }
    }
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct ServerId {
    name: String,
    id: String,
    #[serde(skip_serializing_if = "is_default")]
    xkey: String,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct ClientInfo {
    #[serde(skip_serializing_if = "is_default")]
    host: String,
    #[serde(skip_serializing_if = "is_default")]
    id: u64,
    #[serde(skip_serializing_if = "is_default")]
    user: String,
    #[serde(skip_serializing_if = "is_default")]
    name: String,
    #[serde(skip_serializing_if = "is_default")]
    kind: String,
    #[serde(skip_serializing_if = "is_default")]
    r#type: String,
    #[serde(skip_serializing_if = "is_default")]
    nonce: String,
}

/// Its secrets are wiped on drop.
#[derive(Default, Serialize, Deserialize, Zeroize, ZeroizeOnDrop)]
struct WireConnect {
    #[serde(default, skip_serializing_if = "is_default")]
    jwt: String,
    #[serde(default, skip_serializing_if = "is_default")]
    nkey: String,
    #[serde(default, skip_serializing_if = "is_default")]
    sig: String,
    #[serde(default, skip_serializing_if = "is_default")]
    auth_token: String,
    #[serde(default, skip_serializing_if = "is_default")]
    user: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pass: String,
    #[serde(default, skip_serializing_if = "is_default")]
    name: String,
}

#[derive(Serialize, Deserialize)]
struct ResponseBody {
    #[serde(default, skip_serializing_if = "is_default")]
    jwt: String,
    #[serde(default, skip_serializing_if = "is_default")]
    error: String,
    #[serde(default, skip_serializing_if = "is_default")]
    issuer_account: String,
    r#type: String,
    version: u8,
}

const REQUEST_AUDIENCE: &str = "nats-authorization-request";
