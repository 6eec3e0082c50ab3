//! Which directories a backup may go to.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, symlink},
};

use super::*;

/// A data home and a place beside it.
struct Ground(tempfile::TempDir);

impl Ground {
    fn new() -> Self {
        let ground = Self(tempfile::tempdir().unwrap());
        ground.make("home", 0o700);
        ground
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn make(&self, name: &str, mode: u32) {
        fs::create_dir(self.path(name)).unwrap();
        fs::set_permissions(self.path(name), Permissions::from_mode(mode)).unwrap();
    }

    fn check(&self, name: &str) -> Result<()> {
        check(&self.path(name), &self.path("home"))
    }

    /// Asserts that it is refused and says why.
    fn refuses(&self, name: &str, why: &str) {
        let error = self.check(name).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn a_new_directory_may_be_made_with_those_above_it() {
    Ground::new().check("backups/monday").unwrap();
}

#[test]
fn an_empty_private_directory_is_taken() {
    let ground = Ground::new();
    ground.make("backup", 0o700);
    ground.check("backup").unwrap();
}

#[test]
fn a_path_that_is_not_absolute_is_refused() {
    let error = check(Path::new("backup"), Path::new("/home")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn a_directory_that_holds_something_is_refused() {
    let ground = Ground::new();
    ground.make("backup", 0o700);
    fs::write(ground.path("backup/file"), "").unwrap();
    ground.refuses("backup", "is not empty");
}

#[test]
fn a_directory_that_others_can_enter_is_refused() {
    let ground = Ground::new();
    ground.make("backup", 0o710);
    ground.refuses("backup", "expected mode 0700");
}

#[test]
fn a_link_to_a_directory_is_refused() {
    let ground = Ground::new();
    ground.make("backup", 0o700);
    symlink(ground.path("backup"), ground.path("link")).unwrap();
    ground.refuses("link", "is no directory");
}

#[test]
fn the_data_directory_itself_is_refused() {
    Ground::new().refuses("home", "inside of the data directory");
}

#[test]
fn a_new_directory_in_the_data_directory_is_refused() {
    Ground::new().refuses("home/deep/backup", "inside of the data directory");
}

#[test]
fn a_way_into_the_data_directory_through_a_link_is_refused() {
    let ground = Ground::new();
    symlink(ground.path("home"), ground.path("link")).unwrap();
    ground.refuses("link/backup", "inside of the data directory");
}

#[test]
fn a_way_back_through_what_is_not_there_is_refused() {
    Ground::new().refuses("new/../home/backup", "without ..");
}

#[test]
fn a_directory_whose_name_begins_like_the_data_directory_is_taken() {
    Ground::new().check("home-backup").unwrap();
}
