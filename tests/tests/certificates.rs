//! Whose word counts: certificates that are taken in, and those that are not.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use bus_core::{Certificate, ErrorKind, Identity, Issue, certify};
use bus_crypto::{
    NkeyKind, PublicKey, SigningKey, SystemEntropy,
    jwt::{UserClaims, decode_user, encode_user},
};
use bus_stories::Stage;
use bus_subjects::Role;

fn account() -> SigningKey {
    SigningKey::generate(NkeyKind::Account, &SystemEntropy::new()).unwrap()
}

fn user() -> SigningKey {
    SigningKey::generate(NkeyKind::User, &SystemEntropy::new()).unwrap()
}

/// Claims of a worker as the stage's account would sign them.
fn claims(stage: &Stage, nkey: &PublicKey) -> UserClaims {
    let issue: Issue = stage.issue("coder-1", Role::Worker).unwrap();
    decode_user(&certify(stage.account(), nkey, &issue).unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_certificate_that_would_let_anybody_in_is_refused() {
    let stage = Stage::new().await.unwrap();
    let mut bearer = claims(&stage, user().public());
    bearer.is_bearer = true;
    let token = encode_user(&bearer, stage.account()).unwrap();
    assert_eq!(stage.roster.admit(&token).unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn a_certificate_that_names_a_foreign_account_is_refused() {
    let stage = Stage::new().await.unwrap();
    let mut foreign = claims(&stage, user().public());
    foreign.issuer_account = Some(*account().public());
    let token = encode_user(&foreign, stage.account()).unwrap();
    assert!(Certificate::parse(&token).is_err());
    assert_eq!(stage.roster.admit(&token).unwrap_err().kind(), ErrorKind::Denied);
}

#[tokio::test(start_paused = true)]
async fn another_account_cannot_speak_for_this_one() {
    let stage = Stage::new().await.unwrap();
    let (rogue, key) = (account(), user());
    let issue = stage.issue("coder-1", Role::Worker).unwrap();
    let own_name = certify(&rogue, key.public(), &issue).unwrap();
    assert_eq!(stage.roster.admit(&own_name).unwrap_err().kind(), ErrorKind::Denied);

    // A signing key of a stranger that says it signs for this account.
    let mut borrowed = decode_user(&own_name).unwrap();
    borrowed.issuer_account = Some(*stage.roster.account());
    let token = encode_user(&borrowed, &rogue).unwrap();
    assert!(stage.roster.admit(&token).is_err());
    assert!(stage.roster.get(&key.public().text()).is_none());
}

#[tokio::test(start_paused = true)]
async fn admitting_the_same_certificate_twice_is_fine_and_another_one_is_a_conflict() {
    let stage = Stage::new().await.unwrap();
    let key = user();
    let mut issue = stage.issue("coder-1", Role::Worker).unwrap();
    let token = certify(stage.account(), key.public(), &issue).unwrap();
    stage.roster.admit(&token).unwrap();
    stage.roster.admit(&token).unwrap();

    issue.roles.push(Role::Operator);
    let wider = certify(stage.account(), key.public(), &issue).unwrap();
    let refused = stage.roster.admit(&wider).unwrap_err();

    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert_eq!(stage.roster.get(&key.public().text()).unwrap().roles, [Role::Worker]);
}

#[tokio::test(start_paused = true)]
async fn a_certificate_with_one_byte_changed_is_refused() {
    let stage = Stage::new().await.unwrap();
    let issue = stage.issue("coder-1", Role::Worker).unwrap();
    let token = certify(stage.account(), user().public(), &issue).unwrap();
    for at in 0..token.len() {
        let mut bytes = token.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(bytes).unwrap();
        assert!(stage.roster.admit(&changed).is_err(), "byte {at} was changed unnoticed");
    }
}

#[tokio::test(start_paused = true)]
async fn an_identity_needs_the_key_that_its_certificate_names() {
    let stage = Stage::new().await.unwrap();
    let issue = stage.issue("coder-1", Role::Worker).unwrap();
    let token = certify(stage.account(), user().public(), &issue).unwrap();
    assert_eq!(Identity::from_parts(user(), &token).unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn an_agent_without_a_role_gets_no_certificate() {
    let stage = Stage::new().await.unwrap();
    let mut issue = stage.issue("coder-1", Role::Worker).unwrap();
    issue.roles.clear();
    let refused = certify(stage.account(), user().public(), &issue).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
}
