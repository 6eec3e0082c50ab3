//! Backups on a disk that fails: one that was answered is good, and a bad one says what is bad.

use std::path::PathBuf;

use bus_core::{Bus, Expect, Frame, FrameId, Retention, StreamSpec};
use bus_subjects::{Filter, StreamName, Subject};

use super::{
    blobs::{Content, all, put},
    world::{bus_in, bus_on, state_of},
    *,
};
use crate::{
    Backup, DiskBus,
    backup::{restore_on, verify},
    files::faulty::Fault,
};

const COPY: &str = "/backups/monday";

/// A bus with messages in several segments and a blob, on a disk.
async fn filled() -> (FaultyFiles, DiskBus) {
    let files = FaultyFiles::default();
    let (bus, _said) = bus_on(&files, SIZES).unwrap();
    let filters = vec![Filter::parse("s.>").unwrap()];
    let spec = StreamSpec::new(StreamName::parse("S").unwrap(), filters, Retention::Kept);
    bus.declare(spec).await.unwrap();
    for number in 0..40 {
        let id = FrameId::parse(&number.to_string()).unwrap();
        let frame = Frame::new(Subject::parse("s.a").unwrap(), id, vec![b'x'; 900]);
        bus.append(frame, Expect::Any).await.unwrap();
    }
    put(&bus, "one", &[1; 70_000]).await.unwrap();
    (files, bus)
}

/// What the backup in `files` restores to.
async fn restored(files: &FaultyFiles) -> (Vec<String>, Content) {
    restore_on(files, Path::new(COPY), Path::new("/again")).unwrap();
    let (bus, _said) = bus_in(files, "/again", SIZES).unwrap();
    (state_of(bus.mem()), all(&bus).await)
}

#[tokio::test]
async fn a_stop_at_any_step_leaves_a_good_backup_or_none() {
    let (files, bus) = filled().await;
    let before = files.steps();
    bus.backup(COPY).await.unwrap();
    let steps = files.steps() - before;
    let (mut good, mut none) = (0, 0);
    for step in 0..=steps {
        for keep in [Keep::All, Keep::Synced, Keep::Some(step), Keep::Some(step + 1_000)] {
            let (files, bus) = filled().await;
            let stored = (state_of(bus.mem()), all(&bus).await);
            files.set(Fault::StopAt { step: files.steps() + step, bytes: 1_000 });
            let made = bus.backup(COPY).await;
            let left = files.restarted(keep);
            match verify(&left, Path::new(COPY)) {
                Ok(found) => {
                    good += 1;
                    assert!(made.is_err() || made.is_ok_and(|made| made == found));
                    assert!(restored(&left).await == stored, "step {step}, {keep:?}");
                }
                Err(error) => {
                    none += 1;
                    assert!(made.is_err(), "{error}: step {step}, {keep:?}");
                    let kinds = [ErrorKind::NotFound, ErrorKind::Corrupt];
                    assert!(kinds.contains(&error.kind()), "{error}");
                }
            }
            let (bus, _said) = bus_on(&left, SIZES).unwrap();
            assert!((state_of(bus.mem()), all(&bus).await) == stored, "step {step}, {keep:?}");
        }
    }
    assert!(good > 0 && none > 0, "{good} good ones, {none} none");
}

#[tokio::test]
async fn a_restore_that_was_answered_survives_a_power_cut() {
    let (files, bus) = filled().await;
    bus.backup(COPY).await.unwrap();
    let before = restored(&files).await;
    let left = files.restarted(Keep::Synced);
    let (again, _said) = bus_in(&left, "/again", SIZES).unwrap();
    assert_eq!((state_of(again.mem()), all(&again).await), before);
}

/// A backup, and the files in it.
async fn backed_up() -> (FaultyFiles, Backup, Vec<PathBuf>) {
    let (files, bus) = filled().await;
    let made = bus.backup(COPY).await.unwrap();
    let paths = files.paths().into_iter().filter(|path| path.starts_with(COPY));
    let paths: Vec<_> = paths.filter(|path| !path.ends_with("manifest")).collect();
    assert_eq!(paths.len() as u64, made.files);
    (files, made, paths)
}

fn complaint(files: &FaultyFiles) -> String {
    let error = verify(files, Path::new(COPY)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    error.to_string()
}

#[tokio::test]
async fn a_damaged_file_of_a_backup_is_named() {
    let (files, _made, paths) = backed_up().await;
    assert!(paths.len() >= 4, "{paths:?}");
    for path in paths {
        for place in 0..3 {
            let copy = files.restarted(Keep::All);
            copy.damage(&path, |content| {
                let at = (content.len() - 1) * place / 2;
                content[at] ^= 1;
            });
            assert!(complaint(&copy).contains(path.to_str().unwrap()));
        }
        let copy = files.restarted(Keep::All);
        copy.damage(&path, |content| content.truncate(content.len() - 1));
        assert!(complaint(&copy).contains(path.to_str().unwrap()));
    }
}

#[tokio::test]
async fn a_missing_file_of_a_backup_is_named() {
    let (files, _made, paths) = backed_up().await;
    for path in paths {
        let copy = files.restarted(Keep::All);
        copy.remove(&path).unwrap();
        assert!(complaint(&copy).contains(&format!("{} is missing", path.display())));
    }
}

#[tokio::test]
async fn a_file_that_was_added_to_a_backup_is_named() {
    let (files, _made, _paths) = backed_up().await;
    let added = Path::new(COPY).join("journal/00000000000000ff.seg");
    files.create(&added).unwrap();
    assert!(complaint(&files).contains(added.to_str().unwrap()));
}

#[tokio::test]
async fn a_manifest_that_was_cut_or_changed_is_named() {
    let (files, made, _paths) = backed_up().await;
    let manifest = Path::new(COPY).join("manifest");
    let mut bytes = 0;
    files.damage(&manifest, |content| bytes = content.len());
    for left in 0..bytes - 1 {
        let copy = files.restarted(Keep::All);
        copy.damage(&manifest, |content| content.truncate(left));
        assert!(verify(&copy, Path::new(COPY)).is_err(), "{left} bytes");
    }
    for byte in 0..bytes {
        let copy = files.restarted(Keep::All);
        copy.damage(&manifest, |content| content[byte] ^= 4);
        let found = verify(&copy, Path::new(COPY)).ok();
        assert!(found.is_none_or(|found| found == made), "byte {byte}");
    }
}
