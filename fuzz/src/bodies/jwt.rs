//! NATS tokens: whole ones, and claims that are signed here so that the readers behind the
//! signature are reached, too.

use bus_crypto::jwt::{
    AccountClaims, AuthResponse, ClaimKind, OperatorClaims, UserClaims, decode_account,
    decode_auth_request, decode_auth_response, decode_operator, decode_user, encode_account,
    encode_auth_response, encode_operator, encode_user, inspect,
};
use bus_crypto::{CryptoError, NkeyKind, PublicKey, SigningKey};
use data_encoding::BASE64URL_NOPAD;

use crate::{golden, laws};

/// A token is of one kind at most; claims that are read are written and read again as the same.
///
/// Input without a dot is taken as claims and signed with the golden key that they name as issuer.
pub fn body(data: &[u8]) -> bool {
    let whole = std::str::from_utf8(data).is_ok_and(|token| judge(data, token));
    let Some(signer) = issuer(data) else { return whole };
    judge(data, &golden::token(data, signer)) || whole
}

fn issuer(claims: &[u8]) -> Option<&'static SigningKey> {
    let claims: serde_json::Value = serde_json::from_slice(claims).ok()?;
    golden::signer(&PublicKey::parse(claims.get("iss")?.as_str()?).ok()?)
}

fn judge(data: &[u8], token: &str) -> bool {
    let info = laws::bounded(data, || inspect(token));
    let user = laws::bounded(data, || decode_user(token));
    let account = laws::bounded(data, || decode_account(token));
    let operator = laws::bounded(data, || decode_operator(token));
    let request = laws::bounded(data, || decode_auth_request(token));
    let response = laws::bounded(data, || decode_auth_response(token));
    let kinds = [
        (ClaimKind::User, user.as_ref().err()),
        (ClaimKind::Account, account.as_ref().err()),
        (ClaimKind::Operator, operator.as_ref().err()),
        (ClaimKind::AuthorizationRequest, request.as_ref().err()),
        (ClaimKind::AuthorizationResponse, response.as_ref().err()),
    ];
    let mut taken = None;
    for (kind, refused) in kinds {
        match refused {
            Some(error) => laws::error_is_brief(error),
            None => assert_eq!(taken.replace(kind), None, "a token of two kinds"),
        }
    }
    if let Some(kind) = taken {
        let info = info.as_ref().expect("what is read in full can be inspected");
        assert_eq!((info.kind, info.version), (kind, 2), "inspected as another kind");
    }
    let _checked = user.is_ok_and(|claims| user_again(&claims))
        || account.is_ok_and(|claims| account_again(&claims))
        || operator.is_ok_and(|claims| operator_again(&claims))
        || response.is_ok_and(|claims| response_again(&claims));
    taken.is_some()
}

fn user_again(claims: &UserClaims) -> bool {
    again(
        claims.issuer,
        |signer| encode_user(claims, signer),
        |token| {
            let mut read = decode_user(token).expect("user claims that were written are read");
            // The id is computed anew, whatever stood there.
            read.jti.clone_from(&claims.jti);
            assert_eq!(read, *claims);
        },
    )
}

fn account_again(claims: &AccountClaims) -> bool {
    again(
        claims.issuer,
        |signer| encode_account(claims, signer),
        |token| {
            let mut read =
                decode_account(token).expect("account claims that were written are read");
            // The id is computed anew, whatever stood there.
            read.jti.clone_from(&claims.jti);
            assert_eq!(read, *claims);
        },
    )
}

fn operator_again(claims: &OperatorClaims) -> bool {
    again(
        claims.issuer,
        |signer| encode_operator(claims, signer),
        |token| {
            let mut read =
                decode_operator(token).expect("operator claims that were written are read");
            // The id is computed anew, whatever stood there.
            read.jti.clone_from(&claims.jti);
            assert_eq!(read, *claims);
        },
    )
}

fn response_again(claims: &AuthResponse) -> bool {
    again(
        claims.issuer,
        |signer| encode_auth_response(claims, signer),
        |token| {
            let read = decode_auth_response(token).expect("an answer that was written is read");
            assert_eq!(read, *claims);
        },
    )
}

/// Writes the claims again where the issuer is one of ours; the writing, too, must be stable.
fn again(
    issuer: PublicKey,
    write: impl Fn(&SigningKey) -> Result<String, CryptoError>,
    read: impl Fn(&str),
) -> bool {
    if issuer.kind() == NkeyKind::Curve {
        panic!("a key that cannot sign has signed");
    }
    if let Some(signer) = golden::signer(&issuer) {
        match write(signer) {
            Ok(token) => read(&token),
            // Escapes may make the token longer than what was read.
            Err(error) => assert!(error.to_string().contains("64 KiB"), "refused: {error}"),
        }
    }
    true
}

/// The claims of a token, as this body takes them; `None` when it is no token.
#[must_use]
pub fn claims_of(token: &str) -> Option<Vec<u8>> {
    BASE64URL_NOPAD.decode(token.split('.').nth(1)?.as_bytes()).ok()
}
