//! Who signed, who vouched for the signer, and who may vouch for the whole.

use bus_crypto::{
    NkeyKind,
    jwt::{UserClaims, encode_user},
};
use bus_subjects::Role;

use super::support::{World, agent, bound_to, edit, found, guest, judge, key, receipt, sign};
use crate::{FindingKind, Options, certificate, verify_files};

const RECEIPTS: &str = "receipts.jsonl";
const CERTIFICATES: &str = "certificates.jsonl";

#[test]
fn a_receipt_signed_by_somebody_else_is_found() {
    let world = World::new();
    let mut story = world.story(3);
    story.receipts[1] = sign(&world.ann, story.receipts[1].clone());
    let files = story.files(&world.boss);
    assert_eq!(found(&world, &files), (FindingKind::WrongAgent, RECEIPTS.into(), Some(2)));
}

#[test]
fn a_receipt_with_a_foreign_signature_under_the_right_name_is_found() {
    let world = World::new();
    let mut story = world.story(3);
    let foreign = sign(&world.ann, story.receipts[1].clone()).signature.unwrap();
    story.receipts[1].signature.as_mut().unwrap().bytes = foreign.bytes;
    let files = story.files(&world.boss);
    assert_eq!(found(&world, &files), (FindingKind::BadSignature, RECEIPTS.into(), Some(2)));
}

#[test]
fn an_unsigned_receipt_is_found() {
    let world = World::new();
    let mut story = world.story(3);
    story.receipts[0].signature = None;
    let files = story.files(&world.boss);
    assert_eq!(found(&world, &files), (FindingKind::Unsigned, RECEIPTS.into(), Some(1)));
}

#[test]
fn a_receipt_by_an_agent_without_certificate_is_found() {
    let world = World::new();
    let mut story = world.story(3);
    story.certificates.remove(2);
    let files = story.files(&world.boss);
    assert_eq!(found(&world, &files), (FindingKind::UnknownSigner, RECEIPTS.into(), Some(2)));
}

#[test]
fn a_receipt_by_an_agent_whose_role_may_not_send_it_is_found() {
    let world = World::new();
    let mut story = world.story(3);
    story.certificates.push(world.watcher.certificate().token().to_owned());
    story.receipts.push(receipt(&world.watcher, &story.tasks[2], story.receipts.last()));
    let files = story.files(&world.boss);
    assert_eq!(found(&world, &files), (FindingKind::NotPermitted, RECEIPTS.into(), Some(3)));
}

#[test]
fn a_receipt_outside_the_session_of_the_certificate_is_found() {
    let world = World::new();
    for (session, expected) in [("s1", None), ("s2", Some(FindingKind::NotPermitted))] {
        let guest = bound_to(&world.account, session);
        let mut story = world.story(3);
        story.certificates.push(guest.certificate().token().to_owned());
        story.receipts.push(receipt(&guest, &story.tasks[2], story.receipts.last()));
        let judged = judge(&world, &story.files(&world.boss));
        assert_eq!(judged.err().map(|finding| finding.kind), expected, "{session}");
    }
}

#[test]
fn a_task_by_a_worker_is_found() {
    let world = World::new();
    let mut story = world.story(3);
    story.add_task(&world.ann);
    let files = story.files(&world.boss);
    assert_eq!(found(&world, &files), (FindingKind::NotPermitted, "tasks.jsonl".into(), Some(4)));
}

#[test]
fn a_receipt_made_after_the_certificate_ended_is_found() {
    let world = World::new();
    let guest = guest(&world.account, "guest", Role::Worker, 8, 0..62);
    let mut story = world.story(3);
    story.certificates.push(guest.certificate().token().to_owned());
    story.receipts.push(receipt(&guest, &story.tasks[2], story.receipts.last()));
    let files = story.files(&world.boss);
    assert_eq!(found(&world, &files), (FindingKind::Expired, RECEIPTS.into(), Some(3)));
}

#[test]
fn a_receipt_in_the_name_of_another_source_is_found() {
    let world = World::new();
    let mut story = world.story(3);
    let mut other = story.receipts[1].clone();
    other.source = "vak://w1/ann".to_owned();
    story.receipts[1] = sign(&world.bob, other);
    let files = story.files(&world.boss);
    assert_eq!(found(&world, &files), (FindingKind::WrongSource, RECEIPTS.into(), Some(2)));
}

#[test]
fn a_certificate_by_another_account_is_found() {
    let world = World::new();
    let stranger = agent(&key(NkeyKind::Account, 99), "w1", "stranger", Role::Worker, 8);
    let mut story = world.story(3);
    story.certificates.push(stranger.certificate().token().to_owned());
    let files = story.files(&world.boss);
    let expected = (FindingKind::CertificateUntrusted, CERTIFICATES.into(), Some(4));
    assert_eq!(found(&world, &files), expected);
}

#[test]
fn one_bundle_has_one_account_even_when_none_is_trusted() {
    let world = World::new();
    let stranger = agent(&key(NkeyKind::Account, 99), "w1", "stranger", Role::Worker, 8);
    let mut story = world.story(3);
    story.certificates.push(stranger.certificate().token().to_owned());
    let finding = verify_files(&story.files(&world.boss), &Options::default()).unwrap_err();
    assert_eq!(finding.kind, FindingKind::CertificateUntrusted);
}

#[test]
fn a_bundle_of_a_whole_other_account_is_not_verified_under_ours() {
    let world = World::new();
    let files = world.story(3).files(&world.boss);
    let trust = Some(*key(NkeyKind::Account, 99).public());
    let finding = verify_files(&files, &Options { trust, ..Options::default() }).unwrap_err();
    assert_eq!(finding.kind, FindingKind::CertificateUntrusted);
}

#[test]
fn a_certificate_that_only_names_our_account_does_not_count() {
    let world = World::new();
    let (other, own) = (key(NkeyKind::Account, 99), key(NkeyKind::User, 8));
    let mut claims = UserClaims::new("forger", *own.public(), *other.public(), 1_767_225_600);
    claims.issuer_account = Some(*world.account.public());
    claims.tags = vec!["workspace:w1".to_owned(), "role:worker".to_owned()];
    let token = encode_user(&claims, &other).unwrap();
    let mut files = world.story(3).files(&world.boss);
    let line = String::from_utf8(certificate::encode(&token)).unwrap();
    edit(&mut files, CERTIFICATES, |lines| lines.push(line));
    let expected = (FindingKind::CertificateInvalid, CERTIFICATES.into(), Some(4));
    assert_eq!(found(&world, &files), expected);
}

#[test]
fn a_second_certificate_of_one_key_is_found() {
    let world = World::new();
    let double = agent(&world.account, "w1", "ann-too", Role::Operator, 3);
    let mut story = world.story(3);
    story.certificates.push(double.certificate().token().to_owned());
    let files = story.files(&world.boss);
    let expected = (FindingKind::CertificateInvalid, CERTIFICATES.into(), Some(4));
    assert_eq!(found(&world, &files), expected);
}

#[test]
fn a_removed_certificate_is_a_truncated_log() {
    let world = World::new();
    let mut files = world.story(3).files(&world.boss);
    edit(&mut files, CERTIFICATES, |lines| drop(lines.remove(1)));
    assert_eq!(found(&world, &files), (FindingKind::Truncated, CERTIFICATES.into(), None));
}

#[test]
fn an_agent_may_have_a_certificate_for_each_of_its_keys() {
    let world = World::new();
    let renewed = agent(&world.account, "w1", "bob", Role::Worker, 8);
    let mut story = world.story(3);
    story.certificates.push(renewed.certificate().token().to_owned());
    story.receipts.push(receipt(&renewed, &story.tasks[2], story.receipts.last()));
    story.dead_letters.clear();
    assert!(judge(&world, &story.files(&world.boss)).is_ok());
}

#[test]
fn a_checkpoint_signed_by_a_worker_is_found() {
    let world = World::new();
    let story = world.story(3);
    let mut files = story.files(&world.boss);
    let own = crate::Checkpoint::parse(std::str::from_utf8(&files["receipts.checkpoint"]).unwrap())
        .unwrap();
    let (origin, size, root) = (own.origin(), own.size(), *own.root());
    let forged = crate::Checkpoint::sign(origin, size, root, "ann", world.ann.key()).unwrap();
    files.insert("receipts.checkpoint".into(), forged.text().as_bytes().to_vec());
    let expected = (FindingKind::CheckpointRole, "receipts.checkpoint".into(), None);
    assert_eq!(found(&world, &files), expected);
}

#[test]
fn a_checkpoint_of_another_log_is_found() {
    let world = World::new();
    let mut files = world.story(3).files(&world.boss);
    files.insert("receipts.checkpoint".into(), files["tasks.checkpoint"].clone());
    let expected = (FindingKind::CheckpointOrigin, "receipts.checkpoint".into(), None);
    assert_eq!(found(&world, &files), expected);
}
