//! One process at a time, and nobody else's directory.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn now() -> Timestamp {
    Timestamp::from_unix_ns(0)
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().mode() & 0o777
}

#[test]
fn a_second_opener_is_refused_and_told_who_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::take(&dir.path().join("d"), now()).unwrap();
    let refused = Home::take(&dir.path().join("d"), now()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    let pid = format!("in use by pid {} on ", std::process::id());
    assert!(refused.to_string().contains(&pid), "{refused}");
    drop(home);
    assert!(Home::take(&dir.path().join("d"), now()).is_ok());
}

#[test]
fn a_lock_that_a_dead_process_left_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("d");
    drop(Home::take(&home, now()).unwrap());
    std::fs::write(home.join("lock"), "pid 1 on elsewhere, vakbus, since long ago\n").unwrap();
    assert!(Home::take(&home, now()).is_ok());
}

#[test]
fn everything_is_for_its_owner_alone() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("d");
    let home = Home::take(&dir, now()).unwrap();
    for part in [dir.clone(), home.journal(), home.snapshots(), home.blobs(), home.uploads()] {
        assert_eq!(mode(&part), 0o700, "{}", part.display());
    }
    assert_eq!(mode(&dir.join("lock")), 0o600);
}

#[test]
fn a_directory_that_others_can_write_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("d");
    drop(Home::take(&home, now()).unwrap());
    std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o770)).unwrap();
    assert_eq!(Home::take(&home, now()).unwrap_err().kind(), ErrorKind::Denied);
}

#[test]
fn links_are_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (real, link) = (dir.path().join("real"), dir.path().join("link"));
    drop(Home::take(&real, now()).unwrap());
    symlink(&real, &link).unwrap();
    assert_eq!(Home::take(&link, now()).unwrap_err().kind(), ErrorKind::Denied);
    std::fs::rename(real.join("journal"), dir.path().join("away")).unwrap();
    symlink(dir.path().join("away"), real.join("journal")).unwrap();
    assert_eq!(Home::take(&real, now()).unwrap_err().kind(), ErrorKind::Denied);
    std::fs::remove_file(real.join("lock")).unwrap();
    symlink(dir.path().join("target"), real.join("lock")).unwrap();
    assert_eq!(Home::take(&real, now()).unwrap_err().kind(), ErrorKind::Unavailable);
}
