//! NATS JWTs of version 2: who an agent is, which account vouches for it, what it may do.

mod account;
mod account_wire;
mod callout;
mod exchange;
mod exchange_wire;
mod kind;
mod operator;
mod permissions;
mod permissions_wire;
mod strict;
mod subject_rules;
mod token;
mod user;

#[cfg(test)]
mod tests;

pub use account::{
    AccountClaims, AccountLimits, AccountSigner, Authorization, JetStreamLimits, SigningScope,
    decode_account, encode_account,
};
pub use callout::{
    AuthRequest, AuthResponse, ConnectOptions, decode_auth_request, decode_auth_response,
    encode_auth_request, encode_auth_response,
};
pub use exchange::{Answers, Export, ExportKind, Import, ImportKind};
pub use kind::ClaimKind;
pub use operator::{OperatorClaims, decode_operator, encode_operator};
pub use permissions::{Permissions, ResponsePermission, SubjectPermission, TimeRange, UserLimits};
pub(crate) use token::claimed_subject;
pub use token::{TOKEN_BYTES_MAX, TokenInfo, inspect};
pub use user::{UserClaims, decode_user, encode_user};
