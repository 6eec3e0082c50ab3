//! Revocations: one form, one signer, and a roster that keeps them.

use bus_crypto::SystemEntropy;
use bus_envelope::{Draft, Lineage, MessageEnvelope, Signature, TraceContext};
use bus_subjects::{Role, Subject};
use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::{Identity, Issue, Roster, SignerError};

struct World {
    account: SigningKey,
    alice: Identity,
}

fn world() -> World {
    let entropy = SystemEntropy::new();
    let account = SigningKey::generate(NkeyKind::Account, &entropy).unwrap();
    let workspace = WorkspaceId::parse("w1").unwrap();
    let agent = AgentId::parse("alice").unwrap();
    let issue = Issue::new(workspace, agent, vec![Role::Orchestrator], time(0));
    let alice = Identity::issue(&account, &issue, &entropy).unwrap();
    World { account, alice }
}

fn time(unix_s: i128) -> Timestamp {
    Timestamp::from_unix_ns(unix_s * 1_000_000_000)
}

impl World {
    fn line(&self) -> String {
        Revocation::of(self.alice.certificate(), time(7)).sign(&self.account).unwrap()
    }

    fn revocation(&self) -> Revocation {
        Revocation::of(self.alice.certificate(), time(7))
    }

    fn refuses(&self, line: &str, kind: ErrorKind) {
        assert_eq!(
            Revocation::parse(line, self.account.public()).unwrap_err().kind(),
            kind,
            "{line}"
        );
    }

    fn roster(&self) -> Roster {
        let roster = Roster::new(*self.account.public());
        roster.admit(self.alice.certificate().token()).unwrap();
        roster
    }

    /// A message that alice signed at `at`.
    fn message(&self, at: Timestamp) -> MessageEnvelope {
        let certificate = self.alice.certificate();
        let draft =
            Draft::new(Subject::parse("vak.work.w1.builder.task").unwrap(), "t", Bytes::new());
        let mut envelope = MessageEnvelope {
            id: "1".to_owned(),
            source: "vak://w1/alice".to_owned(),
            event_type: draft.event_type,
            time: at,
            content_type: None,
            subject: draft.subject,
            trace: TraceContext::new([1; 16], [2; 8], 1).unwrap(),
            lineage: Lineage {
                workspace: certificate.workspace.clone(),
                session: None,
                agent: certificate.agent.clone(),
                incarnation: uuid::Uuid::from_u128(1),
                seq_num: 1,
                prev_event_hash: bus_envelope::EventHash::of(b"genesis"),
                cause: None,
            },
            seal: None,
            signature: Some(Signature { signer: certificate.nkey.text(), bytes: [0; 64] }),
            extensions: std::collections::BTreeMap::new(),
            payload: Bytes::new(),
        };
        let input = envelope.signature_input(&envelope.compute_hash());
        let bytes = self.alice.key().sign(&input);
        envelope.signature = Some(Signature { signer: certificate.nkey.text(), bytes });
        envelope
    }
}

#[test]
fn a_line_is_read_back_as_what_was_signed() {
    let world = world();
    let read = Revocation::parse(&world.line(), world.account.public()).unwrap();
    assert_eq!(read, world.revocation());
}

#[test]
fn every_changed_character_of_a_line_is_refused() {
    let world = world();
    let line = world.line();
    for place in 0..line.len() {
        let mut bytes = line.clone().into_bytes();
        bytes[place] = if bytes[place] == b'x' { b'y' } else { b'x' };
        let changed = String::from_utf8(bytes).unwrap();
        assert!(Revocation::parse(&changed, world.account.public()).is_err(), "{changed}");
    }
}

#[test]
fn another_account_cannot_revoke() {
    let (world, other) = (world(), world());
    let signed = world.revocation().sign(&other.account);
    assert_eq!(signed.unwrap_err().kind(), ErrorKind::Denied);
    world.refuses(&other.line(), ErrorKind::Denied);
}

#[test]
fn a_line_of_another_form_is_refused() {
    let world = world();
    let line = world.line();
    for wrong in ["", "x", &line[1..], &format!("{line} "), &format!("{line}=")] {
        world.refuses(wrong, ErrorKind::Invalid);
    }
    world.refuses(&"x ".repeat(Revocation::LINE_BYTES_MAX), ErrorKind::Invalid);
}

#[test]
fn an_account_key_cannot_be_revoked_by_itself() {
    let world = world();
    let mut revocation = world.revocation();
    revocation.nkey = *world.account.public();
    let line = revocation.sign(&world.account).unwrap();
    world.refuses(&line, ErrorKind::Invalid);
}

#[test]
fn what_a_revoked_key_signed_is_refused() {
    let world = world();
    let roster = world.roster();
    assert!(roster.verify(&world.message(time(9))).is_ok());
    roster.revoke(&world.revocation()).unwrap();
    assert_eq!(roster.verify(&world.message(time(9))), Err(SignerError::Revoked));
}

#[test]
fn a_time_before_the_revocation_is_no_excuse() {
    let world = world();
    let roster = world.roster();
    roster.revoke(&world.revocation()).unwrap();
    assert_eq!(roster.verify(&world.message(time(1))), Err(SignerError::Revoked));
}

#[test]
fn a_revocation_counts_for_a_certificate_that_comes_after_it() {
    let world = world();
    let roster = Roster::new(*world.account.public());
    roster.revoke(&world.revocation()).unwrap();
    roster.admit(world.alice.certificate().token()).unwrap();
    assert_eq!(roster.verify(&world.message(time(9))), Err(SignerError::Revoked));
    assert_eq!(roster.revoked(&world.alice.certificate().nkey.text()), Some(time(7)));
}

#[test]
fn the_earliest_time_of_a_revocation_is_told() {
    let world = world();
    let roster = world.roster();
    for at in [8, 3, 5] {
        let revocation = Revocation::of(world.alice.certificate(), time(at));
        roster.revoke(&revocation).unwrap();
    }
    assert_eq!(roster.revoked(&world.alice.certificate().nkey.text()), Some(time(3)));
}

#[test]
fn other_agents_go_on() {
    let world = world();
    let roster = world.roster();
    let mut other = world.revocation();
    other.nkey = *SigningKey::generate(NkeyKind::User, &SystemEntropy::new()).unwrap().public();
    roster.revoke(&other).unwrap();
    assert!(roster.verify(&world.message(time(9))).is_ok());
}

#[test]
fn a_roster_takes_no_revocation_of_another_account() {
    let (world, other) = (world(), world());
    let roster = world.roster();
    assert_eq!(roster.revoke(&other.revocation()).unwrap_err().kind(), ErrorKind::Denied);
}

proptest! {
    #[test]
    fn what_is_read_was_written_that_way_and_nothing_panics(
        text in "(vak-bus/revocation/v1 )?[ -~é]{0,200}",
        at in 0..1_i128 << 62,
    ) {
        let world = world();
        prop_assert!(Revocation::parse(&text, world.account.public()).is_err());
        let at = Timestamp::from_unix_ns(at);
        let line = Revocation::of(world.alice.certificate(), at).sign(&world.account).unwrap();
        let read = Revocation::parse(&line, world.account.public()).unwrap();
        prop_assert_eq!(read.sign(&world.account).unwrap(), line);
    }
}
