//! When a recorder may sign: its certificate is judged by the newest envelope that it vouches for.

use bus_core::Identity;
use bus_subjects::Role;

use super::support::{Files, World, found, guest, judge, record_anew};
use crate::{BundleError, BundleWriter, Checkpoint, FindingKind, Log, Options, verify_files};

/// A bundle whose newest envelope is of second 63, and its certificates hold kim's.
fn with_certificate_of(world: &World, kim: &Identity) -> Files {
    let mut story = world.story(3);
    story.certificates.push(kim.certificate().token().to_owned());
    story.files(&world.boss)
}

fn keeper(world: &World, valid: std::ops::Range<u64>) -> Identity {
    guest(&world.account, "kim", Role::Keeper, 8, valid)
}

#[test]
fn a_recorder_whose_certificate_had_ended_before_the_newest_envelope_is_found() {
    let world = World::new();
    let kim = keeper(&world, 0..63);
    let mut files = with_certificate_of(&world, &kim);
    record_anew(&mut files, &kim);
    let expected = (FindingKind::CheckpointExpired, "certificates.checkpoint".into(), None);
    assert_eq!(found(&world, &files), expected);
}

#[test]
fn a_recorder_certified_after_the_newest_envelope_is_accepted() {
    let world = World::new();
    let kim = keeper(&world, 64..100);
    let mut files = with_certificate_of(&world, &kim);
    record_anew(&mut files, &kim);
    assert!(judge(&world, &files).is_ok());
}

#[test]
fn a_recorder_whose_certificate_ended_after_the_newest_envelope_is_accepted() {
    let world = World::new();
    let kim = keeper(&world, 63..64);
    let mut files = with_certificate_of(&world, &kim);
    record_anew(&mut files, &kim);
    assert!(judge(&world, &files).is_ok());
}

#[test]
fn one_checkpoint_under_an_ended_certificate_of_the_recorder_is_found() {
    let world = World::new();
    let former = guest(&world.account, "boss", Role::Orchestrator, 8, 0..63);
    let whole = with_certificate_of(&world, &former);
    let (mut files, mut anew) = (whole.clone(), whole);
    record_anew(&mut anew, &former);
    files.insert("receipts.checkpoint".into(), anew["receipts.checkpoint"].clone());
    let expected = (FindingKind::CheckpointExpired, "receipts.checkpoint".into(), None);
    assert_eq!(found(&world, &files), expected);
}

#[test]
fn a_bundle_without_envelopes_has_no_time_to_judge_its_recorder_by() {
    let world = World::new();
    let kim = keeper(&world, 0..1);
    let mut story = world.story(1);
    story.certificates.push(kim.certificate().token().to_owned());
    (story.tasks, story.dead_letters) = (Vec::new(), Vec::new());
    let mut files = story.files(&world.boss);
    record_anew(&mut files, &kim);
    assert!(judge(&world, &files).is_ok());
}

#[test]
fn a_kept_checkpoint_by_a_certificate_that_had_ended_is_refused() {
    let world = World::new();
    let (kind, file) = kept_by(&world, &keeper(&world, 0..62)).unwrap_err();
    assert_eq!((kind, &*file), (FindingKind::CheckpointExpired, "kept checkpoint 1"));
}

#[test]
fn a_kept_checkpoint_is_judged_by_the_envelopes_that_it_covers() {
    let world = World::new();
    assert_eq!(kept_by(&world, &keeper(&world, 0..63)), Ok(()));
}

/// What is found against a kept checkpoint of the two receipts, the newer of second 62.
fn kept_by(world: &World, kim: &Identity) -> Result<(), (FindingKind, String)> {
    let files = with_certificate_of(world, kim);
    let mut anew = files.clone();
    record_anew(&mut anew, kim);
    let text = String::from_utf8(anew["receipts.checkpoint"].clone()).unwrap();
    assert_eq!(Checkpoint::parse(&text).unwrap().size(), 2);
    let judged = verify_files(&files, &Options { kept: vec![text], ..world.trusting() });
    judged.map(drop).map_err(|finding| (finding.kind, finding.file))
}

#[test]
fn a_recorder_whose_certificate_had_ended_may_not_finish_a_bundle() {
    let world = World::new();
    let kim = keeper(&world, 0..61);
    let own = kim.certificate();
    let dir = tempfile::tempdir().unwrap();
    let mut writer =
        BundleWriter::create(dir.path(), &own.workspace, &"s1".parse().unwrap()).unwrap();
    writer.certificate(own.token()).unwrap();
    writer.append(Log::Tasks, &world.story(1).tasks[0]).unwrap();
    let refused = writer.finish(kim.key(), &own.agent);
    assert!(matches!(refused, Err(BundleError::Recorder(_))));
}
