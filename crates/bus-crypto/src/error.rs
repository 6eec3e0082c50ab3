//! What can go wrong with keys, seals, signatures and tokens.
//!
//! No variant ever holds secret text: reasons are fixed sentences, key ids are public.

/// Everything that this crate refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CryptoError {
    /// The payload is sealed already; sealing twice would hide which key opens it.
    #[error("the payload is encrypted already")]
    AlreadyEncrypted,
    /// The payload is not sealed, so there is nothing to open.
    #[error("the payload is not encrypted")]
    NotEncrypted,
    /// Data, tag, associated data, nonce or key do not belong together; no plaintext is given out.
    #[error("decryption failed")]
    DecryptionFailed,
    /// The key ring holds no secret for this key id; the message may be intact.
    #[error("no secret is known for key id {key_id}")]
    UnknownKey {
        /// The key id that was asked for.
        key_id: String,
    },
    /// The key id, or the name it belongs to, was withdrawn.
    #[error("key id {key_id} was withdrawn")]
    WithdrawnKey {
        /// The key id or the withdrawn prefix.
        key_id: String,
    },
    /// The key has sealed as many messages as it may; a new incarnation or name is needed.
    #[error("key id {key_id} has sealed as many messages as one key may")]
    KeyExhausted {
        /// The worn key.
        key_id: String,
    },
    /// A workspace already has another secret under this name.
    #[error("another secret is already known as {prefix}")]
    NameTaken {
        /// `<workspace>.<name>`.
        prefix: String,
    },
    /// The key ring counts the seals of as many keys as it can.
    #[error("the key ring counts the seals of at most {keys_max} keys")]
    KeyringFull {
        /// The limit.
        keys_max: usize,
    },
    /// The secret is too short to be a key.
    #[error("a secret needs at least {bytes_min} bytes, this one has {bytes}")]
    SecretTooShort {
        /// How many bytes there are.
        bytes: usize,
        /// How many there must be.
        bytes_min: usize,
    },
    /// The text is not a secret in one of the known encodings.
    #[error("bad secret text: {0}")]
    BadSecretText(&'static str),
    /// The key id is not `<workspace>.<name>.<incarnation>`.
    #[error("a key id has the form <workspace>.<name>.<incarnation>")]
    BadKeyId,
    /// The data is longer than one seal may cover.
    #[error("the data is too long for one seal")]
    DataTooLong,
    /// A derivation was asked for more bytes than HKDF gives.
    #[error("key derivation gives at most {bytes_max} bytes")]
    DerivationTooLong {
        /// The limit of HKDF with SHA-256.
        bytes_max: usize,
    },
    /// The algorithm is not one of those that this crate speaks.
    #[error("the algorithm is not known")]
    UnknownAlgorithm,
    /// The source of randomness failed; nothing was sealed or generated.
    #[error("the source of randomness failed")]
    Entropy,
    /// An X25519 public key of small order: everybody knows the secret that is agreed with it.
    #[error("the public key has a small order, so nothing agreed with it is secret")]
    ZeroSharedSecret,
    /// The signature does not belong to this message and key.
    #[error("the signature does not verify")]
    BadSignature,
    /// The text is not an nkey of the kind that is needed.
    #[error("bad nkey: {0}")]
    BadNkey(&'static str),
    /// The token is not a well-formed NATS JWT.
    #[error("bad jwt: {0}")]
    BadJwt(&'static str),
    /// The token is well formed but not one to rely on here and now.
    #[error("jwt not trusted: {0}")]
    NotTrusted(&'static str),
    /// The text is not a usable credentials file.
    #[error("bad credentials file: {0}")]
    BadCreds(&'static str),
}
