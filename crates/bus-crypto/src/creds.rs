//! NATS credentials: a user token and the seed it belongs to, in one text.

use std::fmt;

use zeroize::Zeroizing;

use crate::error::CryptoError;
use crate::nkey::{NkeyKind, PublicKey};
use crate::sign::SigningKey;

/// What an agent connects with: its token and its key. Nothing of either is printed.
pub struct Credentials {
    jwt: Zeroizing<String>,
    key: SigningKey,
}

impl Credentials {
    /// The longest text that is looked at.
    pub const TEXT_BYTES_MAX: usize = 128 * 1024;

    /// Puts credentials together from a token and a seed text kept apart.
    ///
    /// # Errors
    /// As [`parse`].
    pub fn from_parts(jwt: &str, seed: &str) -> Result<Self, CryptoError> {
        if seed.starts_with(JWT_START) && jwt.starts_with('S') {
            return Err(CryptoError::BadCreds("the token and the seed are in each other's place"));
        }
        let subject = subject_of(jwt)?;
        let key = SigningKey::from_seed_text(seed)?;
        if key.public().kind() != NkeyKind::User {
            return Err(CryptoError::BadCreds("not the seed of a user"));
        }
        if subject != *key.public() {
            return Err(CryptoError::BadCreds("the seed is not the one of the token's subject"));
        }
        Ok(Self { jwt: Zeroizing::new(jwt.to_owned()), key })
    }

    /// The token, to be shown to a server.
    #[must_use]
    pub fn jwt(&self) -> &str {
        &self.jwt
    }

    /// The key that signs the server's nonce and the agent's envelopes.
    #[must_use]
    pub fn key(&self) -> &SigningKey {
        &self.key
    }

    /// Takes the credentials apart.
    #[must_use]
    pub fn into_parts(self) -> (Zeroizing<String>, SigningKey) {
        (self.jwt, self.key)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({})", self.key.public())
    }
}

/// Reads a credentials file as the NATS tools write it: a block with a JWT, then one with a user
/// seed. Text outside the blocks is skipped, line ends may be CRLF.
///
/// The token's form and subject are checked, not its signature: only its reader, who knows which
/// account to trust, can judge it ([`decode_user`](crate::jwt::decode_user)).
///
/// # Errors
/// [`CryptoError::BadCreds`] when a block is missing, out of order, indented, or does not hold what
/// it should, or when token and seed do not belong together; [`CryptoError::BadNkey`] when the seed
/// is damaged. Nothing is quoted.
pub fn parse(text: &str) -> Result<Credentials, CryptoError> {
    if text.len() > Credentials::TEXT_BYTES_MAX {
        return Err(CryptoError::BadCreds("longer than 128 KiB"));
    }
    let mut lines = text.strip_prefix('\u{feff}').unwrap_or(text).lines();
    let jwt = next_block(&mut lines, JWT_LABEL)?;
    let seed = next_block(&mut lines, SEED_LABEL)?;
    if lines.any(|line| label(line, BEGIN).is_some()) {
        return Err(CryptoError::BadCreds("more than two blocks"));
    }
    Credentials::from_parts(jwt, seed)
}

/// Writes the file text of a token and its key, byte for byte as the NATS tools do: a secret. The
/// token is taken as it is; [`parse`] judges it.
#[must_use]
pub fn render(jwt: &str, key: &SigningKey) -> Zeroizing<String> {
    let seed = key.seed_text();
    let parts = [HEAD, jwt, MIDDLE, &seed, TAIL];
    // Full capacity at once: growing would leave unwiped copies behind.
    let mut text = Zeroizing::new(String::with_capacity(parts.map(str::len).iter().sum()));
    for part in parts {
        text.push_str(part);
    }
    text
}

/// Reads on to the next block, which must be called `wanted`, and gives out its only line.
fn next_block<'a>(lines: &mut std::str::Lines<'a>, wanted: &str) -> Result<&'a str, CryptoError> {
    let found = lines.find_map(|line| label(line, BEGIN));
    match found {
        None => return Err(CryptoError::BadCreds("a block is missing")),
        // A seed where the token belongs must never be taken for one: tokens are sent to servers.
        Some(found) if found != wanted => {
            return Err(CryptoError::BadCreds("not a token block and then a user seed block"));
        }
        Some(_) => {}
    }
    let content = lines.next().ok_or(CryptoError::BadCreds("a block is not closed"))?;
    match lines.next().and_then(|line| label(line, END)) {
        Some(closed) if closed == wanted => Ok(content),
        _ => Err(CryptoError::BadCreds("a block is not one line, closed by its own name")),
    }
}

/// The name in a line of the form `-----BEGIN name-----` with three dashes or more on each side.
fn label<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    let line = line.trim_end();
    let inner = line.strip_prefix("---")?.trim_start_matches('-');
    inner.strip_suffix("---")?.trim_end_matches('-').strip_prefix(word)
}

fn subject_of(jwt: &str) -> Result<PublicKey, CryptoError> {
    crate::jwt::claimed_subject(jwt)
        .map_err(|_| CryptoError::BadCreds("what stands for the token is not a user JWT"))
}

const BEGIN: &str = "BEGIN ";
const END: &str = "END ";
const JWT_LABEL: &str = "NATS USER JWT";
const SEED_LABEL: &str = "USER NKEY SEED";
const JWT_START: &str = "eyJ";

const HEAD: &str = "-----BEGIN NATS USER JWT-----\n";
const MIDDLE: &str = "
------END NATS USER JWT------

************************* IMPORTANT *************************
NKEY Seed printed below can be used to sign and prove identity.
NKEYs are sensitive and should be treated as secrets.

-----BEGIN USER NKEY SEED-----
";
const TAIL: &str = "
------END USER NKEY SEED------

*************************************************************
";
