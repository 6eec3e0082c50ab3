//! Into which workspace a key lets its owner.

use bus_core::{Clock, Identity, Issue, certify};
use bus_crypto::{NkeyKind, SigningKey, SystemEntropy};
use bus_subjects::Role;

use super::*;

fn issue(workspace: &str) -> Issue {
    let (workspace, agent) = (workspace.parse().unwrap(), "ann".parse().unwrap());
    Issue::new(workspace, agent, vec![Role::Worker], SystemClock::new().now())
}

#[test]
fn a_key_that_two_workspaces_certify_lets_into_neither() {
    let entropy = SystemEntropy::new();
    let accounts = [(); 2].map(|()| SigningKey::generate(NkeyKind::Account, &entropy).unwrap());
    let rosters = accounts.each_ref().map(|account| Arc::new(Roster::new(*account.public())));
    let ann = Identity::issue(&accounts[0], &issue("w1"), &entropy).unwrap();
    let nkey = ann.key().public();
    rosters[0].admit(ann.certificate().token()).unwrap();
    let found = only_certificate(&rosters, nkey);
    assert_eq!(found.as_deref(), Some(ann.certificate().token()));
    rosters[1].admit(&certify(&accounts[1], nkey, &issue("w2")).unwrap()).unwrap();
    assert_eq!(only_certificate(&rosters, nkey), None);
}
