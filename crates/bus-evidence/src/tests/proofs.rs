//! Proofs of one entry, and of a log that goes on: honest ones, and every way to spoil one.

use bus_core::Identity;
use bus_subjects::Role;
use data_encoding::BASE64;

use super::support::{Story, World, agent, guest, read};
use crate::{
    Checkpoint, Finding, FindingKind, Options, Proof, ProofError, ProofReport, ProofShown,
    SessionLog, verify_proof,
};

fn log(story: &Story) -> SessionLog {
    let mut log = SessionLog::receipts(&"w1".parse().unwrap(), &"s1".parse().unwrap());
    for (receipt, index) in story.receipts.iter().zip(0..) {
        assert_eq!(log.append(receipt).unwrap(), index);
    }
    log
}

/// The proof of the receipt with this index, which is by ann or bob in turn.
fn proof(world: &World, story: &Story, index: u64, recorder: &Identity) -> String {
    let receipt = &story.receipts[usize::try_from(index).unwrap()];
    let signer = if index.is_multiple_of(2) { &world.ann } else { &world.bob };
    let proof = log(story).inclusion(index, receipt, signer.certificate(), recorder).unwrap();
    Proof::Inclusion(proof).to_string()
}

fn judge(world: &World, text: &str) -> Result<ProofReport, Finding> {
    verify_proof(text, &world.trusting())
}

fn kind(world: &World, text: &str) -> FindingKind {
    judge(world, text).unwrap_err().kind
}

#[test]
fn a_proof_of_one_receipt_verifies_offline() {
    let world = World::new();
    for receipts in 1..=9 {
        let story = world.story(receipts + 1);
        for index in 0..receipts as u64 {
            let report = judge(&world, &proof(&world, &story, index, &world.boss)).unwrap();
            assert_eq!((report.verdict(), report.entries), ("verified", receipts as u64));
            let ProofShown::Inclusion { entry, task, .. } = report.shown else { unreachable!() };
            assert_eq!((entry, task), (index + 1, Some(format!("task-{}", index + 1))));
        }
    }
}

#[test]
fn a_proof_has_one_text() {
    let world = World::new();
    let text = proof(&world, &world.story(6), 2, &world.boss);
    assert!(text.starts_with("c2sp.org/tlog-proof@v1\nextra "), "{text}");
    assert_eq!(Proof::parse(&text).unwrap().to_string(), text);
}

#[test]
fn a_proof_for_another_line_is_refused() {
    let world = World::new();
    let text = proof(&world, &world.story(6), 2, &world.boss);
    for other in ["index 0\n", "index 1\n", "index 3\n", "index 4\n", "index 5\n"] {
        let changed = text.replace("index 2\n", other);
        assert_eq!(kind(&world, &changed), FindingKind::ProofMismatch, "{other}");
    }
}

#[test]
fn a_proof_with_another_receipt_of_the_same_log_is_refused() {
    let world = World::new();
    let story = world.story(6);
    let Proof::Inclusion(mut own) = Proof::parse(&proof(&world, &story, 2, &world.boss)).unwrap()
    else {
        unreachable!()
    };
    let Proof::Inclusion(other) = Proof::parse(&proof(&world, &story, 4, &world.boss)).unwrap()
    else {
        unreachable!()
    };
    own.entry = other.entry;
    let text = Proof::Inclusion(own).to_string();
    assert_eq!(kind(&world, &text), FindingKind::ProofMismatch);
}

#[test]
fn no_byte_of_a_proof_can_be_changed() {
    let world = World::new();
    let text = proof(&world, &world.story(3), 1, &world.boss);
    // Every byte is as good as any other; each costs several signatures.
    for at in (0..text.len()).step_by(19).chain(text.len() - 2..text.len()) {
        let mut changed = text.clone().into_bytes();
        changed[at] ^= 1;
        if let Ok(changed) = String::from_utf8(changed) {
            assert!(judge(&world, &changed).is_err(), "byte {at}");
        }
    }
}

#[test]
fn without_an_account_the_signer_of_a_proof_is_unknown() {
    let world = World::new();
    let text = proof(&world, &world.story(3), 1, &world.boss);
    let report = verify_proof(&text, &Options::default()).unwrap();
    assert_eq!(report.verdict(), "consistent, signer unknown");
}

#[test]
fn a_proof_under_another_account_is_refused() {
    let world = World::new();
    let text = proof(&world, &world.story(3), 1, &world.boss);
    let other = super::support::key(bus_crypto::NkeyKind::Account, 77);
    let options = Options { trust: Some(*other.public()), ..Options::default() };
    let finding = verify_proof(&text, &options).unwrap_err();
    assert_eq!(finding.kind, FindingKind::CertificateUntrusted);
}

#[test]
fn a_worker_makes_no_proof_and_none_of_its_making_counts() {
    let world = World::new();
    let story = world.story(3);
    let refused = log(&story).checkpoint(&world.ann);
    assert!(matches!(refused, Err(ProofError::Recorder(_))), "{refused:?}");
    let honest = Proof::parse(&proof(&world, &story, 0, &world.boss)).unwrap();
    let Proof::Inclusion(mut forged) = honest else { unreachable!() };
    let head = &forged.checkpoint;
    let forged_head =
        Checkpoint::sign(head.origin(), head.size(), *head.root(), "ann", world.ann.key());
    forged.checkpoint = forged_head.unwrap();
    let text = Proof::Inclusion(forged).to_string();
    assert_eq!(kind(&world, &text), FindingKind::CheckpointRole);
}

#[test]
fn a_recorder_whose_certificate_had_ended_vouches_for_no_later_receipt() {
    let world = World::new();
    let ended = guest(&world.account, "aud", Role::Auditor, 30, 0..50);
    let text = proof(&world, &world.story(3), 1, &ended);
    assert_eq!(kind(&world, &text), FindingKind::CheckpointExpired);
}

#[test]
fn a_proof_fits_the_checkpoint_of_a_bundle_and_of_an_auditor() {
    let world = World::new();
    let story = world.story(5);
    let auditor = agent(&world.account, "w1", "cli-auditor", Role::Auditor, 31);
    let text = proof(&world, &story, 3, &auditor);
    let own = log(&story).checkpoint(&auditor).unwrap();
    let options = Options { kept: vec![own.text().to_owned()], ..world.trusting() };
    assert_eq!(verify_proof(&text, &options).unwrap().kept.len(), 1);
    // The lines are the same as in a bundle, and so is the root.
    let dir = tempfile::tempdir().unwrap();
    story.write(&dir.path().join("b"), &world.boss);
    let files = read(&dir.path().join("b"));
    let bundled = Checkpoint::parse(std::str::from_utf8(&files["receipts.checkpoint"]).unwrap());
    assert_eq!(bundled.unwrap().root(), own.root());
}

#[test]
fn a_proof_beside_a_kept_checkpoint_of_another_log_of_its_size_is_refused() {
    let world = World::new();
    let (one, mut other) = (world.story(5), world.story(5));
    other.receipts.swap(0, 1);
    let kept = log(&other).checkpoint(&world.boss).unwrap();
    let options = Options { kept: vec![kept.text().to_owned()], ..world.trusting() };
    let text = proof(&world, &one, 2, &world.boss);
    assert_eq!(verify_proof(&text, &options).unwrap_err().kind, FindingKind::Rewritten);
}

/// A proof that goes on from the first `old` receipts of `story`, and the checkpoint over them.
fn grown(world: &World, story: &Story, old: usize) -> (String, String) {
    let mut before = world.story(1);
    before.receipts = story.receipts[..old].to_vec();
    let earlier = log(&before).checkpoint(&world.boss).unwrap();
    let signers = [world.boss.certificate()];
    let proof = log(story).consistency(&earlier, signers, &world.boss).unwrap();
    (Proof::Consistency(proof).to_string(), earlier.text().to_owned())
}

#[test]
fn a_log_that_goes_on_is_shown_to_do_so() {
    let world = World::new();
    let story = world.story(9);
    for old in 1..=8 {
        let (text, kept) = grown(&world, &story, old);
        assert_eq!(Proof::parse(&text).unwrap().to_string(), text);
        let options = Options { kept: vec![kept], ..world.trusting() };
        let report = verify_proof(&text, &options).unwrap();
        assert_eq!(report.shown, ProofShown::Consistency { from: old as u64 });
        assert_eq!((report.entries, report.kept.len()), (8, 1));
    }
}

#[test]
fn a_proof_that_goes_on_needs_the_checkpoint_that_was_kept() {
    let world = World::new();
    let (text, _) = grown(&world, &world.story(9), 5);
    assert_eq!(kind(&world, &text), FindingKind::KeptMissing);
}

#[test]
fn a_log_that_was_rewritten_has_no_proof_and_takes_none_of_another() {
    let world = World::new();
    let (story, mut other) = (world.story(9), world.story(9));
    other.receipts.swap(1, 2);
    let (text, _) = grown(&world, &story, 5);
    other.receipts.truncate(5);
    let foreign = log(&other).checkpoint(&world.boss).unwrap();
    let options = Options { kept: vec![foreign.text().to_owned()], ..world.trusting() };
    assert_eq!(verify_proof(&text, &options).unwrap_err().kind, FindingKind::ProofMismatch);
    let none = log(&story).consistency(&foreign, [], &world.boss);
    assert!(matches!(none, Err(ProofError::Rewritten { old: 5 })), "{none:?}");
}

#[test]
fn a_log_whose_end_is_gone_has_no_proof() {
    let world = World::new();
    let (story, mut cut) = (world.story(9), world.story(9));
    cut.receipts.truncate(3);
    let earlier = log(&story).checkpoint(&world.boss).unwrap();
    let none = log(&cut).consistency(&earlier, [], &world.boss);
    assert!(matches!(none, Err(ProofError::Shorter { size: 3, old: 8 })), "{none:?}");
}

#[test]
fn there_is_nothing_to_go_on_from_before_the_first_receipt_or_in_another_log() {
    let world = World::new();
    let log = log(&world.story(3));
    let sign = |origin: &str, size| {
        Checkpoint::sign(origin, size, [0; 32], "boss", world.boss.key()).unwrap()
    };
    let empty = log.consistency(&sign("vakbus/w1/s1/receipts", 0), [], &world.boss);
    assert!(matches!(empty, Err(ProofError::Empty)), "{empty:?}");
    let foreign = log.consistency(&sign("vakbus/w1/s2/receipts", 1), [], &world.boss);
    assert!(matches!(foreign, Err(ProofError::OtherLog { .. })), "{foreign:?}");
}

#[test]
fn a_kept_checkpoint_of_another_size_says_nothing_of_a_proof() {
    let world = World::new();
    let story = world.story(9);
    let (text, _) = grown(&world, &story, 5);
    let (_, kept) = grown(&world, &story, 4);
    let options = Options { kept: vec![kept], ..world.trusting() };
    assert_eq!(verify_proof(&text, &options).unwrap_err().kind, FindingKind::KeptForeign);
}

#[test]
fn a_task_is_no_entry_of_the_receipts() {
    let world = World::new();
    let story = world.story(3);
    let refused = log(&story).append(&story.tasks[0]);
    assert!(matches!(refused, Err(ProofError::Misplaced(_))), "{refused:?}");
}

#[test]
fn a_text_that_breaks_the_form_is_no_proof() {
    let world = World::new();
    let text = proof(&world, &world.story(6), 2, &world.boss);
    let hash = format!("{}\n", BASE64.encode(&[7; 32]));
    let many = format!("index 2\n{}", hash.repeat(65));
    let changes: [(&str, &str); 9] = [
        ("c2sp.org/tlog-proof@v1", "c2sp.org/tlog-proof@v2"),
        ("extra ", "extras "),
        ("extra ", "extra  "),
        ("index 2", "index 02"),
        ("index 2", "index +2"),
        ("index 2\n", "index 2\n\n"),
        ("index 2\n", "index 2\nAAAA\n"),
        ("index 2\n", &many),
        ("\n\n", "\n"),
    ];
    for (old, new) in changes {
        let changed = text.replacen(old, new, 1);
        assert_eq!(kind(&world, &changed), FindingKind::ProofForm, "{old:?} {new:?}");
    }
}
