//! What a server asks: read strictly, because it is all that is known of who wants to come in.

use std::time::Duration;

use bus_core::{Door, Error, ErrorKind, Proof, Result};
use bus_crypto::{
    NkeyKind, PublicKey,
    jwt::{AuthRequest, decode_auth_request},
};
use bus_envelope::Timestamp;
use data_encoding::{BASE64, BASE64URL_NOPAD};

use super::{CalloutKeys, OP, denied};

/// A question of a server.
#[derive(Debug)]
pub(super) struct Question {
    request: AuthRequest,
    /// The key that the answer is sealed for.
    sealed_for: PublicKey,
}

/// What the client showed.
pub(super) enum Shown<'a> {
    Key { nkey: PublicKey, signature: [u8; 64], nonce: &'a [u8] },
    Ticket(&'a str),
}

impl Question {
    /// Opens the sealed `body`; `header` names the key of the server that sealed it.
    ///
    /// # Errors
    /// `Corrupt`, for everything that is not a question to this service which a server asked just
    /// now. It cannot be answered.
    pub(super) fn open(
        keys: &CalloutKeys,
        header: Option<&str>,
        body: &[u8],
        now: Timestamp,
    ) -> Result<Self> {
        let header = header.ok_or_else(|| corrupt("it names no key to seal the answer for"))?;
        let sealed_for = PublicKey::parse(header).ok().filter(|key| key.kind() == NkeyKind::Curve);
        let sealed_for = sealed_for.ok_or_else(|| corrupt("its header holds no curve key"))?;
        let opened = keys.xkey.open(&sealed_for, body);
        let opened = opened.map_err(|_| corrupt("it is not sealed for this service"))?;
        let token = std::str::from_utf8(&opened).map_err(|_| corrupt("it is no text"))?;
        let request = decode_auth_request(token)
            .map_err(|error| corrupt("it is no server's question").because(error))?;
        if request.server_xkey != Some(sealed_for) {
            return Err(corrupt("another key sealed it than its server's"));
        }
        if request.subject != keys.account {
            return Err(corrupt("it is asked of another account"));
        }
        // Their clocks may be apart; an answer that comes too late does no harm.
        let earliest = now.unix_ns() - CLOCKS_APART_MAX.as_nanos() as i128;
        request
            .verify_at(unix_s(Timestamp::from_unix_ns(earliest)))
            .map_err(|_| corrupt("it was asked long ago"))?;
        Ok(Self { request, sealed_for })
    }

    pub(super) fn request(&self) -> &AuthRequest {
        &self.request
    }

    pub(super) fn sealed_for(&self) -> &PublicKey {
        &self.sealed_for
    }

    pub(super) fn server_name(&self) -> &str {
        &self.request.server_name
    }

    pub(super) fn client_host(&self) -> &str {
        &self.request.client_host
    }

    /// Where the client wants to come in.
    ///
    /// # Errors
    /// `Denied` when that is no door of ours: leaf nodes and MQTT come in with tokens, or not.
    pub(super) fn door(&self) -> Result<Door> {
        match (self.request.client_kind.as_str(), self.request.client_type.as_str()) {
            ("Client", "nats") => Ok(Door::Nats),
            ("Client", "websocket") => Ok(Door::WebSocket),
            _ => Err(denied("nobody is admitted by this kind of connection")),
        }
    }

    /// What the client showed: one proof, not several.
    ///
    /// # Errors
    /// `Denied`.
    pub(super) fn shown(&self) -> Result<Shown<'_>> {
        let connect = &self.request.connect;
        if connect.user.is_some() || connect.password.is_some() {
            return Err(denied("nobody is admitted by a name and a password"));
        }
        match (&connect.token, &connect.nkey, &connect.signature) {
            (Some(ticket), None, _) => Ok(Shown::Ticket(ticket)),
            (None, Some(nkey), Some(signature)) => {
                let nonce = self.request.nonce.as_bytes();
                // Such a signature is good for ever, in anybody's hands.
                if nonce.is_empty() {
                    return Err(denied("the client signed nothing"));
                }
                let nkey = PublicKey::parse(nkey).ok().filter(|key| key.kind() == NkeyKind::User);
                let nkey = nkey.ok_or_else(|| denied("the client's key is no user's"))?;
                let signature = signature_of(signature)
                    .ok_or_else(|| denied("the client's signature is not 64 bytes of base64"))?;
                Ok(Shown::Key { nkey, signature, nonce })
            }
            (None, None, None) => Err(denied("the client showed nothing")),
            _ => Err(denied("the client showed too much or too little")),
        }
    }
}

impl Shown<'_> {
    pub(super) fn proof(&self) -> Proof<'_> {
        match self {
            Self::Key { nkey, signature, nonce } => Proof::Key { nkey, signed: nonce, signature },
            Self::Ticket(text) => Proof::Ticket(text),
        }
    }
}

/// Clients write it in one of these two forms, and servers take both.
fn signature_of(text: &str) -> Option<[u8; 64]> {
    let text = text.as_bytes();
    let decoded = BASE64URL_NOPAD.decode(text).or_else(|_| BASE64.decode(text));
    decoded.ok()?.try_into().ok()
}

/// Whole seconds since 1970.
pub(super) fn unix_s(time: Timestamp) -> i64 {
    i64::try_from(time.unix_ns().div_euclid(1_000_000_000)).unwrap_or(i64::MAX)
}

fn corrupt(why: &'static str) -> Error {
    Error::new(ErrorKind::Corrupt, OP, why)
}

const CLOCKS_APART_MAX: Duration = Duration::from_secs(60);
