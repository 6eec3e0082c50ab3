//! Keys that the account took back: nothing that they signed counts, whatever time it carries.

use bus_core::{Identity, Revocation};
use bus_crypto::NkeyKind;
use bus_envelope::Timestamp;

use super::support::{Files, World, key};
use crate::{Checkpoint, Finding, FindingKind, Options, verify_files};

/// Verifies with the key of `who` revoked, long after all that it signed.
fn judged(world: &World, files: &Files, who: &Identity) -> Result<(), Finding> {
    let late = Timestamp::from_unix_ns(4_000_000_000 * 1_000_000_000);
    let revoked = vec![Revocation::of(who.certificate(), late)];
    verify_files(files, &Options { revoked, ..world.trusting() }).map(drop)
}

#[test]
fn a_receipt_of_a_revoked_key_is_found_although_it_is_older() {
    let world = World::new();
    let finding = judged(&world, &world.story(3).files(&world.boss), &world.bob).unwrap_err();
    let place = (finding.kind, finding.file.as_str(), finding.entry);
    assert_eq!(place, (FindingKind::Revoked, "receipts.jsonl", Some(2)));
}

#[test]
fn a_checkpoint_of_a_revoked_key_is_found() {
    let world = World::new();
    let finding = judged(&world, &world.story(3).files(&world.boss), &world.boss).unwrap_err();
    let place = (finding.kind, finding.file.as_str(), finding.entry);
    assert_eq!(place, (FindingKind::Revoked, "certificates.checkpoint", None));
}

#[test]
fn a_kept_checkpoint_of_a_revoked_key_is_found() {
    let world = World::new();
    let mut story = world.story(3);
    story.certificates.push(world.watcher.certificate().token().to_owned());
    let files = story.files(&world.boss);
    let own = Checkpoint::parse(std::str::from_utf8(&files["tasks.checkpoint"]).unwrap()).unwrap();
    let (origin, size, root) = (own.origin(), own.size(), *own.root());
    let kept = Checkpoint::sign(origin, size, root, "watcher", world.watcher.key()).unwrap();
    let late = Timestamp::from_unix_ns(0);
    let options = Options {
        kept: vec![kept.text().to_owned()],
        revoked: vec![Revocation::of(world.watcher.certificate(), late)],
        ..world.trusting()
    };
    let finding = verify_files(&files, &options).unwrap_err();
    assert_eq!((finding.kind, &*finding.file), (FindingKind::Revoked, "kept checkpoint 1"));
}

#[test]
fn a_revoked_key_that_signed_nothing_changes_nothing() {
    let world = World::new();
    let mut story = world.story(3);
    story.certificates.push(world.watcher.certificate().token().to_owned());
    assert!(judged(&world, &story.files(&world.boss), &world.watcher).is_ok());
}

#[test]
fn a_revocation_by_another_account_is_an_error_and_not_passed_over() {
    let world = World::new();
    let mut revocation = Revocation::of(world.bob.certificate(), Timestamp::from_unix_ns(0));
    revocation.issuer = *key(NkeyKind::Account, 99).public();
    let options = Options { revoked: vec![revocation], ..world.trusting() };
    let finding = verify_files(&world.story(3).files(&world.boss), &options).unwrap_err();
    assert_eq!(finding.kind, FindingKind::CertificateUntrusted);
}
