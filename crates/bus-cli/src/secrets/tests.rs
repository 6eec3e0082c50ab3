//! The secrets file: what it may hold and where it may be.

use std::{fs::Permissions, os::unix::fs::PermissionsExt};

use super::*;

const NAME: &str = "VAK_BUS_NATS_NKEY_SEED";

/// Secrets of a data home whose secrets file holds `text`.
fn with_file(text: &str) -> (tempfile::TempDir, Secrets) {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::locate(Some(&dir.path().join("data"))).unwrap();
    home.create().unwrap();
    home.write_new("secrets.env", text).unwrap();
    (dir, Secrets::new(&Config::default(), &home))
}

fn read(text: &str) -> Option<String> {
    let (_dir, secrets) = with_file(text);
    secrets.bus_secret(NAME).unwrap().map(|found| found.text.to_string())
}

fn refuses(text: &str, what: &str) {
    let (_dir, secrets) = with_file(text);
    let error = secrets.bus_secret(NAME).err().unwrap().to_string();
    assert!(error.contains(what), "{error}");
    assert!(!error.contains("canary"), "{error}");
}

#[test]
fn a_value_is_everything_behind_the_first_equals_sign() {
    assert_eq!(read(&format!("# mine\n\n{NAME}=a b=c \n")).as_deref(), Some("a b=c "));
}

#[test]
fn a_secret_that_is_not_in_the_file_is_not_there() {
    assert_eq!(read("# none\n"), None);
}

#[test]
fn what_is_no_secret_of_the_bus_is_refused_in_the_file() {
    refuses("PATH=canary\n", "secrets.env:1: this name is of no secret of the bus");
    refuses(&format!("\n{NAME}canary\n"), "secrets.env:2: expected NAME=value");
    refuses(&format!("{NAME}=\n"), "expected a value of one line");
    refuses(&format!("{NAME}=canary\t\n"), "expected a value of one line");
}

#[test]
fn a_secret_without_its_name_is_not_told() {
    // The end of base64 looks like the end of a name.
    refuses("canarycanarycanarycanarycanarycanarycanarycan=\n", "this name is of no secret");
    refuses("base64:canarycanarycanarycanarycanarycanarycanarycan=\n", "this name is of no secret");
}

#[test]
fn a_secret_stands_in_the_file_once() {
    refuses(&format!("{NAME}=canary\n{NAME}=canary\n"), "secrets.env:2: ");
}

#[test]
fn a_file_in_a_git_work_tree_is_refused() {
    for (below, is_file) in [("", false), ("data", true)] {
        let (dir, secrets) = with_file(&format!("{NAME}=canary\n"));
        let git = dir.path().join(below).join(".git");
        match is_file {
            true => fs::write(git, "gitdir: elsewhere").unwrap(),
            false => fs::create_dir(git).unwrap(),
        }
        let error = secrets.bus_secret(NAME).err().unwrap();
        assert_eq!(error.code(), Exit::Refused);
        assert!(error.to_string().contains("lies in the git work tree"), "{error}");
    }
}

#[test]
fn a_file_that_others_can_read_is_refused() {
    let (_dir, secrets) = with_file(&format!("{NAME}=canary\n"));
    fs::set_permissions(secrets.file(), Permissions::from_mode(0o640)).unwrap();
    let error = secrets.bus_secret(NAME).err().unwrap().to_string();
    assert!(error.contains("other users can reach it") && !error.contains("canary"), "{error}");
}
