//! What a server is told: signed, and sealed for it alone.

use bus_core::{Error, ErrorKind, Result};
use bus_crypto::{
    CryptoError, Entropy,
    jwt::{AuthResponse, encode_auth_response},
};
use bus_envelope::Timestamp;

use super::{
    CalloutKeys, OP,
    question::{Question, unix_s},
};

/// The answer to a question.
pub(super) struct Answer<'a> {
    pub(super) question: &'a Question,
    /// The token that lets the user in; none: it is refused.
    pub(super) token: Option<String>,
    pub(super) now: Timestamp,
}

impl Answer<'_> {
    /// The answer as it is sent.
    ///
    /// # Errors
    /// `TooLarge` when the token does not fit, `Unavailable` when the random source fails.
    pub(super) fn seal(self, keys: &CalloutKeys, entropy: &dyn Entropy) -> Result<Vec<u8>> {
        let request = self.question.request();
        let responder = *keys.responder.public();
        let response = AuthResponse {
            user: request.user,
            server: request.server,
            issuer: responder,
            issued_at_unix_s: unix_s(self.now),
            // The reason stands in our own log: whoever is kept out learns nothing from it.
            verdict: self.token.ok_or_else(|| REFUSED.to_owned()),
            issuer_account: (responder != keys.account).then_some(keys.account),
        };
        let text = encode_auth_response(&response, &keys.responder).map_err(failed)?;
        keys.xkey.seal(entropy, self.question.sealed_for(), text.as_bytes()).map_err(failed)
    }
}

fn failed(error: CryptoError) -> Error {
    let kind = match error {
        CryptoError::Entropy => ErrorKind::Unavailable,
        _ => ErrorKind::TooLarge,
    };
    Error::new(kind, OP, "the answer cannot be made").because(error)
}

const REFUSED: &str = "not admitted";
