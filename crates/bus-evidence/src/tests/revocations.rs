//! Keys that the account took back: nothing that they signed counts, unless the recorder is trusted
//! for what says an earlier time.

use bus_core::{Identity, Revocation};
use bus_crypto::NkeyKind;
use bus_envelope::Timestamp;

use super::support::{Files, World, key, time};
use crate::{Checkpoint, Finding, FindingKind, Options, Report, verify_files};

/// Verifies with the key of `who` revoked, long after all that it signed.
fn judged(world: &World, files: &Files, who: &Identity) -> Result<Report, Finding> {
    let late = Timestamp::from_unix_ns(4_000_000_000 * 1_000_000_000);
    judged_at(world, files, who, late)
}

fn judged_at(
    world: &World,
    files: &Files,
    who: &Identity,
    at: Timestamp,
) -> Result<Report, Finding> {
    let revoked = vec![Revocation::of(who.certificate(), at)];
    verify_files(files, &Options { revoked, trust_recorder: true, ..world.trusting() })
}

#[test]
fn a_receipt_of_a_revoked_key_is_refused_where_the_recorder_is_not_trusted_for_its_age() {
    let world = World::new();
    let files = world.story(3).files(&world.boss);
    let late = Timestamp::from_unix_ns(4_000_000_000 * 1_000_000_000);
    let revoked = vec![Revocation::of(world.bob.certificate(), late)];
    let finding = verify_files(&files, &Options { revoked, ..world.trusting() }).unwrap_err();
    let place = (finding.kind, finding.file.as_str(), finding.entry);
    assert_eq!(place, (FindingKind::Revoked, "receipts.jsonl", Some(2)));
    assert!(judged_at(&world, &files, &world.bob, late).is_ok());
}

#[test]
fn a_receipt_of_a_key_that_was_revoked_later_counts_and_the_report_says_since_when() {
    let world = World::new();
    let report = judged(&world, &world.story(3).files(&world.boss), &world.bob).unwrap();
    let bob = report.signers.iter().find(|signer| signer.agent == "bob").unwrap();
    assert_eq!(bob.revoked.as_deref(), Some("2096-10-02T07:06:40.000000000Z"));
    let ann = report.signers.iter().find(|signer| signer.agent == "ann").unwrap();
    assert_eq!(ann.revoked, None);
    let line = "signed by bob (worker): 1 envelope, revoked since 2096-10-02T07:06:40.000000000Z";
    assert!(report.to_string().contains(line), "{report}");
}

#[test]
fn a_receipt_of_a_key_that_was_revoked_before_is_found() {
    let world = World::new();
    let files = world.story(3).files(&world.boss);
    // Bob's is the second receipt, of second 62.
    for (at, is_good) in [(61, false), (62, false), (63, true)] {
        let judged = judged_at(&world, &files, &world.bob, time(at));
        let place = judged.map(drop).map_err(|it| (it.kind, it.file, it.entry));
        let found = Err((FindingKind::Revoked, "receipts.jsonl".to_owned(), Some(2)));
        assert_eq!(place, if is_good { Ok(()) } else { found }, "{at}");
    }
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
