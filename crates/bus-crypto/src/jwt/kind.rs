//! The kinds of claims, and which keys they join.

use crate::error::CryptoError;
use crate::nkey::{NkeyKind, PublicKey};

/// What a token makes claims about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClaimKind {
    /// An operator, who signs accounts.
    Operator,
    /// An account, who signs users.
    Account,
    /// A user: an agent or a person that connects.
    User,
    /// Leave to import from another account.
    Activation,
    /// A server asks whether a client may connect.
    AuthorizationRequest,
    /// The answer to such a question.
    AuthorizationResponse,
}

impl ClaimKind {
    /// The value of the `type` member.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Account => "account",
            Self::User => "user",
            Self::Activation => "activation",
            Self::AuthorizationRequest => "authorization_request",
            Self::AuthorizationResponse => "authorization_response",
        }
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        [
            Self::Operator,
            Self::Account,
            Self::User,
            Self::Activation,
            Self::AuthorizationRequest,
            Self::AuthorizationResponse,
        ]
        .into_iter()
        .find(|kind| kind.name() == name)
    }

    /// Who may sign such claims.
    fn issuers(self) -> &'static [NkeyKind] {
        match self {
            Self::Operator => &[NkeyKind::Operator],
            Self::Account | Self::Activation => &[NkeyKind::Account, NkeyKind::Operator],
            Self::User | Self::AuthorizationResponse => &[NkeyKind::Account],
            Self::AuthorizationRequest => &[NkeyKind::Server],
        }
    }

    /// Whom such claims may be about.
    fn subjects(self) -> &'static [NkeyKind] {
        match self {
            Self::Operator => &[NkeyKind::Operator],
            Self::Account | Self::Activation => &[NkeyKind::Account],
            Self::User | Self::AuthorizationResponse => &[NkeyKind::User],
            // The server puts the account of the service here, the libraries a user.
            Self::AuthorizationRequest => &[NkeyKind::Account, NkeyKind::User],
        }
    }

    /// Checks that such claims may be about this subject and signed by this issuer.
    pub(super) fn check_keys(
        self,
        subject: &PublicKey,
        issuer: &PublicKey,
    ) -> Result<(), CryptoError> {
        if !self.issuers().contains(&issuer.kind()) {
            return Err(CryptoError::BadJwt("such a key may not issue such claims"));
        }
        if !self.subjects().contains(&subject.kind()) {
            return Err(CryptoError::BadJwt("such claims cannot be about such a key"));
        }
        Ok(())
    }
}
