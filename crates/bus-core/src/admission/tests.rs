//! Who is let in by which proof, at which door, and for how long.

use std::time::Duration;

use bus_crypto::{NkeyKind, SigningKey};
use bus_subjects::AgentId;
use futures_util::FutureExt as _;

use super::*;
use crate::{Identity, Issue};

/// A clock that stands still.
struct Stopped(Timestamp);

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        self.0
    }

    fn coarse(&self) -> Timestamp {
        self.0
    }
}

/// A workspace, its account, and the admission that trusts it.
struct Site {
    account: SigningKey,
    admission: Admission,
}

impl Site {
    fn new() -> Self {
        let account = SigningKey::generate(NkeyKind::Account, &SystemEntropy::new()).unwrap();
        let admission = Admission::new(Arc::new(Stopped(START)));
        admission.trust("w1".parse().unwrap(), *account.public());
        Self { account, admission }
    }

    fn issue(&self, roles: &[Role]) -> Issue {
        let agent = AgentId::parse("a1").unwrap();
        let valid_for = Some(Duration::from_secs(600));
        let (workspace, roles) = ("w1".parse().unwrap(), roles.to_vec());
        Issue { valid_for, ..Issue::new(workspace, agent, roles, START) }
    }

    fn identity(&self, roles: &[Role]) -> Identity {
        Identity::issue(&self.account, &self.issue(roles), &SystemEntropy::new()).unwrap()
    }

    fn ticket(&self, roles: &[Role]) -> String {
        let (issue, issuer) = (self.issue(roles), self.account.public());
        let ticket = EntryTicket::new(&issue, issuer, &SystemEntropy::new()).unwrap();
        ticket.sign(&self.account).unwrap().to_string()
    }

    /// Finds the certificate of `identity`, whatever key is asked for.
    fn knowing(mut self, identity: &Identity) -> Self {
        let token = identity.certificate().token().to_owned();
        self.admission = self.admission.finding(move |_| Some(token.clone()));
        self
    }

    fn certificate(&self, identity: &Identity, door: Door) -> Result<Admitted> {
        let signature = identity.key().sign(b"nonce");
        let token = identity.certificate().token();
        let proof = Proof::Certificate { token, signed: b"nonce", signature: &signature };
        self.admission.admit(&proof, door, START)
    }

    fn key(&self, identity: &Identity, door: Door) -> Result<Admitted> {
        let signature = identity.key().sign(b"nonce");
        let nkey = identity.key().public();
        let proof = Proof::Key { nkey, signed: b"nonce", signature: &signature };
        self.admission.admit(&proof, door, START)
    }
}

fn is_denied<T>(outcome: &Result<T>) -> bool {
    outcome.as_ref().err().is_some_and(|error| error.kind() == ErrorKind::Denied)
}

#[test]
fn a_key_and_its_certificate_give_the_same() {
    let site = Site::new();
    let identity = site.identity(&[Role::Worker]);
    let site = site.knowing(&identity);
    let by_certificate = site.certificate(&identity, Door::Link).unwrap();
    let by_key = site.key(&identity, Door::Nats).unwrap();
    assert_eq!(by_key.entrant, by_certificate.entrant);
    assert_eq!(by_key.policy, by_certificate.policy);
    assert_eq!(by_key.until, by_certificate.until);
    assert_eq!(by_key.policy, identity.certificate().policy());
}

#[test]
fn a_bound_certificate_gives_the_same_at_every_door() {
    let site = Site::new();
    let mut issue = site.issue(&[Role::Worker, Role::Observer]);
    issue.session = Some("s1".parse().unwrap());
    issue.role_name = Some("coder".parse().unwrap());
    let identity = Identity::issue(&site.account, &issue, &SystemEntropy::new()).unwrap();
    let site = site.knowing(&identity);
    for door in [Door::Link, Door::Nats] {
        assert_eq!(site.certificate(&identity, door).unwrap().policy, issue.policy(), "{door:?}");
        assert_eq!(site.key(&identity, door).unwrap().policy, issue.policy(), "{door:?}");
    }
    assert_ne!(issue.policy(), site.issue(&[Role::Worker, Role::Observer]).policy());
}

#[test]
fn a_key_without_a_known_certificate_is_refused() {
    let site = Site::new();
    assert!(is_denied(&site.key(&site.identity(&[Role::Worker]), Door::Nats)));
}

#[test]
fn a_certificate_that_is_found_for_another_key_lets_nobody_in() {
    let site = Site::new();
    let (owner, thief) = (site.identity(&[Role::Operator]), site.identity(&[Role::Worker]));
    let site = site.knowing(&owner);
    assert!(is_denied(&site.key(&thief, Door::Nats)));
}

#[test]
fn nobody_is_looked_for_before_the_key_is_proved() {
    let mut site = Site::new();
    site.admission = site.admission.finding(|_| panic!("was looked for"));
    let nkey = *site.identity(&[Role::Worker]).key().public();
    let proof = Proof::Key { nkey: &nkey, signed: b"nonce", signature: &[7; 64] };
    assert!(is_denied(&site.admission.admit(&proof, Door::Nats, START)));
}

#[test]
fn a_ticket_lets_its_bearer_in_until_its_end() {
    let site = Site::new();
    let text = site.ticket(&[Role::Observer]);
    let admitted = site.admission.admit(&Proof::Ticket(&text), Door::Nats, START).unwrap();
    assert_eq!(admitted.entrant.agent().as_str(), "a1");
    assert_eq!(admitted.policy, site.issue(&[Role::Observer]).policy());
    assert_eq!(admitted.until, Some(START.plus(Duration::from_secs(600))));
    let late = START.plus(Duration::from_secs(600));
    assert!(is_denied(&site.admission.admit(&Proof::Ticket(&text), Door::Nats, late)));
}

#[test]
fn a_ticket_of_a_workspace_that_is_not_served_is_refused() {
    let site = Site::new();
    let text = site.ticket(&[Role::Observer]);
    site.admission.distrust(&"w1".parse().unwrap());
    assert!(is_denied(&site.admission.admit(&Proof::Ticket(&text), Door::Nats, START)));
}

#[test]
fn a_websocket_takes_tickets_and_views_alone() {
    let site = Site::new();
    let text = site.ticket(&[Role::Operator]);
    assert!(site.admission.admit(&Proof::Ticket(&text), Door::WebSocket, START).is_ok());
    assert!(site.certificate(&site.identity(&[Role::View]), Door::WebSocket).is_ok());
    for roles in [&[Role::Worker][..], &[Role::View, Role::Operator]] {
        let identity = site.identity(roles);
        assert!(is_denied(&site.certificate(&identity, Door::WebSocket)), "{roles:?}");
        assert!(site.certificate(&identity, Door::Nats).is_ok(), "{roles:?}");
    }
}

#[tokio::test]
async fn the_right_of_a_bearer_ends_with_its_ticket() {
    let site = Site::new();
    let text = site.ticket(&[Role::Observer]);
    let admitted = site.admission.admit(&Proof::Ticket(&text), Door::Nats, START).unwrap();
    assert!(site.admission.ends(&admitted.entrant).now_or_never().is_none());
    let over = Arc::new(Stopped(START.plus(Duration::from_secs(600))));
    let later = Admission { clock: over, ..site.admission };
    assert!(later.ends(&admitted.entrant).now_or_never().is_some());
}

#[tokio::test]
async fn the_right_of_a_bearer_ends_with_the_trust_in_its_workspace() {
    let site = Site::new();
    let text = site.ticket(&[Role::Observer]);
    let admitted = site.admission.admit(&Proof::Ticket(&text), Door::Nats, START).unwrap();
    site.admission.distrust(&"w1".parse().unwrap());
    assert!(site.admission.ends(&admitted.entrant).now_or_never().is_some());
}

#[test]
fn a_revoked_key_is_refused_at_every_door() {
    let site = Site::new();
    let identity = site.identity(&[Role::View]);
    let site = site.knowing(&identity);
    site.admission.revoke(&"w1".parse().unwrap(), *identity.key().public());
    for door in [Door::Link, Door::Nats, Door::WebSocket] {
        assert!(is_denied(&site.certificate(&identity, door)), "{door:?}");
        assert!(is_denied(&site.key(&identity, door)), "{door:?}");
    }
}

#[test]
fn a_key_that_another_workspace_revoked_is_let_in() {
    let site = Site::new();
    let identity = site.identity(&[Role::Worker]);
    site.admission.revoke(&"w2".parse().unwrap(), *identity.key().public());
    assert!(site.certificate(&identity, Door::Link).is_ok());
}

#[test]
fn no_proof_shows_its_secret() {
    let proof = Proof::Ticket("vakt1.canary.canary");
    assert!(!format!("{proof:?}").contains("canary"));
}

const START: Timestamp = Timestamp::from_unix_ns(1_800_000_000_000_000_000);
