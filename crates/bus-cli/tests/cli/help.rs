//! The help texts, word for word.

use crate::support::Place;

fn help(args: &[&str]) -> String {
    let place = Place::new();
    let mut command = place.command();
    // The variables' values are shown too; the texts must not depend on them.
    command.args(args).env_remove("VAKBUS_DATA_DIR");
    let outcome = crate::support::run(command, "");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    outcome.stdout
}

#[test]
fn the_help_of_vakbus() {
    insta::assert_snapshot!(help(&["--help"]));
}

#[test]
fn the_help_of_swarm() {
    insta::assert_snapshot!(help(&["swarm", "--help"]));
}

#[test]
fn the_help_of_verify() {
    insta::assert_snapshot!(help(&["verify", "--help"]));
}

#[test]
fn the_help_of_backup() {
    insta::assert_snapshot!(help(&["backup", "--help"]));
}

#[test]
fn the_help_of_restore() {
    insta::assert_snapshot!(help(&["restore", "--help"]));
}

#[test]
fn the_version_is_that_of_the_package() {
    assert_eq!(help(&["--version"]), concat!("vakbus ", env!("CARGO_PKG_VERSION"), "\n"));
}
