//! What a project may set, and what it may set only when its user trusts the file as it is.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

use serde_json::Value;

use crate::support::{Outcome, Place, run};

const PRIVILEGED: &str = "workspace = \"w\"\ndata_dir = \"theirs\"\n[daemon]\nsync = \"1h\"\n";

/// A place in whose directory `project` a project has this settings file.
fn with_project(text: &str) -> Place {
    let place = Place::new();
    fs::create_dir_all(place.path("project/deep/down")).unwrap();
    place.write("project/vakbus.toml", text);
    place
}

/// Runs `vakbus` deep in the project.
fn run_in(place: &Place, args: &[&str]) -> Outcome {
    let mut command = place.command();
    command.args(args).current_dir(place.path("project/deep/down"));
    run(command, "")
}

fn value(place: &Place, setting: &str) -> Value {
    let outcome = run_in(place, &["config", "show", "--json"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let lines = outcome.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.into_iter().find(|line| line["setting"] == setting).unwrap()["value"].clone()
}

fn trust(place: &Place) {
    let outcome = run_in(place, &["config", "trust"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

#[test]
fn a_stranger_s_project_sets_nothing_that_needs_trust() {
    let place = with_project(PRIVILEGED);
    assert_eq!(value(&place, "daemon.sync"), "always");
    assert_eq!(value(&place, "workspace"), "w");
    let outcome = run_in(&place, &["workspace", "ls"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let said = "vakbus.toml is not trusted: ignored are data_dir, daemon.sync\n  next: look at it";
    assert!(outcome.stderr.contains(said), "{outcome:?}");
    assert!(!place.path("project/theirs").exists());
}

#[test]
fn a_stranger_s_server_is_not_used() {
    let place = with_project("[server.bus]\nnats_url = \"nats://h\"\n");
    let outcome = run_in(&place, &["swarm", "--tasks", "/dev/null", "--", "true"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stderr.contains("ignored are server.bus.nats_url"), "{outcome:?}");
}

#[test]
fn a_trusted_project_sets_everything() {
    let place = with_project(PRIVILEGED);
    trust(&place);
    assert_eq!(value(&place, "daemon.sync"), "1h");
    let outcome = run_in(&place, &["workspace", "ls"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
}

#[test]
fn trusting_says_what_is_trusted() {
    let place = with_project(PRIVILEGED);
    let outcome = run_in(&place, &["config", "trust"]);
    assert!(outcome.stdout.contains("  daemon.sync = 1h\n"), "{outcome:?}");
    assert_eq!(outcome.stderr, "", "what is being trusted is not called untrusted");
    let json = run_in(&place, &["config", "trust", "--json"]).json();
    assert_eq!((&json["trusted"], json["sets"].as_array().unwrap().len()), (&true.into(), 2));
}

#[test]
fn a_trusted_file_that_changed_is_refused_until_it_is_trusted_again() {
    let place = with_project(PRIVILEGED);
    trust(&place);
    place.write("project/vakbus.toml", &format!("{PRIVILEGED}# changed\n"));
    let outcome = run_in(&place, &["workspace", "ls"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(4), ""), "{outcome:?}");
    assert!(
        outcome.stderr.contains("changed since it was trusted, and sets data_dir, daemon.sync")
    );
    trust(&place);
    assert_eq!(value(&place, "daemon.sync"), "1h");
}

#[test]
fn a_trusted_file_that_needs_no_trust_any_more_may_change() {
    let place = with_project(PRIVILEGED);
    trust(&place);
    place.write("project/vakbus.toml", "workspace = \"other\"\n");
    assert_eq!(value(&place, "workspace"), "other");
}

#[test]
fn trust_can_be_taken_back() {
    let place = with_project(PRIVILEGED);
    trust(&place);
    let outcome = run_in(&place, &["config", "trust", "--revoke"]);
    assert!(outcome.stdout.starts_with("no longer trusted: "), "{outcome:?}");
    assert_eq!(value(&place, "daemon.sync"), "always");
    let again = run_in(&place, &["config", "trust", "--revoke"]);
    assert!(again.stdout.starts_with("was not trusted: "), "{again:?}");
}

#[test]
fn trust_is_for_one_place_only() {
    let place = with_project(PRIVILEGED);
    trust(&place);
    fs::create_dir(place.path("copy")).unwrap();
    fs::copy(place.path("project/vakbus.toml"), place.path("copy/vakbus.toml")).unwrap();
    let mut command = place.command();
    command.args(["workspace", "ls"]).current_dir(place.path("copy"));
    let outcome = run(command, "");
    assert!(outcome.stderr.contains("copy/vakbus.toml is not trusted"), "{outcome:?}");
}

#[test]
fn a_link_to_a_trusted_file_is_another_file() {
    let place = with_project("data_dir = \"theirs\"\n");
    trust(&place);
    fs::create_dir(place.path("stranger")).unwrap();
    symlink(place.path("project/vakbus.toml"), place.path("stranger/vakbus.toml")).unwrap();
    let mut command = place.command();
    command.args(["workspace", "new", "w"]).current_dir(place.path("stranger"));
    let outcome = run(command, "");
    // What it names would be taken from the stranger's directory.
    assert!(outcome.stderr.contains("stranger/vakbus.toml is not trusted"), "{outcome:?}");
    assert!(!place.path("stranger/theirs").exists());
}

#[test]
fn a_link_can_be_trusted_and_stays_trusted_when_its_user_changes_it() {
    let place = with_project("");
    place.write("real.toml", PRIVILEGED);
    fs::remove_file(place.path("project/vakbus.toml")).unwrap();
    symlink(place.path("real.toml"), place.path("project/vakbus.toml")).unwrap();
    trust(&place);
    let outcome = run_in(&place, &["config", "set", "--project", "daemon.sync", "2s"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
    assert_eq!(value(&place, "daemon.sync"), "2s");
}

#[test]
fn a_project_has_no_say_in_where_trust_is_recorded() {
    let place = with_project("data_dir = \"theirs\"\n");
    // The project brings a record along that trusts it.
    trust(&place);
    fs::rename(place.path("data"), place.path("project/theirs")).unwrap();
    let outcome = run_in(&place, &["workspace", "ls"]);
    assert!(outcome.stderr.contains("is not trusted"), "{outcome:?}");
}

#[test]
fn a_damaged_record_trusts_nothing() {
    let place = with_project(PRIVILEGED);
    trust(&place);
    let record = fs::read_dir(place.path("data/trusted")).unwrap().next().unwrap().unwrap();
    fs::write(record.path(), "{}").unwrap();
    let outcome = run_in(&place, &["workspace", "ls"]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.stderr.contains("is damaged"), "{outcome:?}");
}

#[test]
fn a_file_that_everybody_can_write_sets_nothing_at_all() {
    let place = with_project(PRIVILEGED);
    let file = place.path("project/vakbus.toml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(value(&place, "workspace"), "default");
    let outcome = run_in(&place, &["workspace", "ls"]);
    assert!(outcome.stderr.contains("can be written by other users: it is ignored"));
    trust(&place);
    assert_eq!(value(&place, "workspace"), "w");
}

#[test]
fn a_stranger_s_file_that_cannot_be_read_stops_nobody() {
    let place = with_project("");
    let file = place.path("project/vakbus.toml");
    fs::write(&file, [0xff]).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let outcome = run_in(&place, &["workspace", "ls"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stderr.contains("can be written by other users: it is ignored"));
}

#[test]
fn a_trusted_file_that_cannot_be_read_any_more_is_refused() {
    let place = with_project(PRIVILEGED);
    trust(&place);
    let file = place.path("project/vakbus.toml");
    fs::write(&file, [0xff]).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let outcome = run_in(&place, &["workspace", "ls"]);
    outcome.is_wrong_call("vakbus.toml is not UTF-8 text");
}

#[test]
fn a_stranger_s_file_is_still_held_to_the_rules() {
    let place = with_project("[server.bus]\nnkey_seed = \"canary\"\n");
    let outcome = run_in(&place, &["workspace", "ls"]);
    outcome.is_wrong_call("server.bus.nkey_seed holds a secret");
    let trusted = run_in(&place, &["config", "trust"]);
    trusted.is_wrong_call("server.bus.nkey_seed holds a secret");
}

#[test]
fn a_project_s_setting_is_changed_in_the_nearest_file() {
    let place = with_project("workspace = \"w\"\n");
    let outcome = run_in(&place, &["config", "set", "worker.max_retries", "4", "--project"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let text = "workspace = \"w\"\n\n[worker]\nmax_retries = 4\n";
    assert_eq!(place.read("project/vakbus.toml"), text);
    assert!(!place.path("config").exists());
}

#[test]
fn a_project_s_setting_that_needs_trust_is_told_so() {
    let place = with_project("");
    let outcome = run_in(&place, &["config", "set", "--project", "daemon.sync", "1s"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stderr.contains("next: vakbus config trust"), "{outcome:?}");
    assert_eq!(value(&place, "daemon.sync"), "always");
}

#[test]
fn a_trusted_file_stays_trusted_when_its_user_changes_it() {
    let place = with_project(PRIVILEGED);
    trust(&place);
    let outcome = run_in(&place, &["config", "set", "--project", "daemon.sync", "2s"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
    assert_eq!(value(&place, "daemon.sync"), "2s");
}

#[test]
fn a_file_that_changed_unseen_is_not_trusted_by_changing_it() {
    let place = with_project(PRIVILEGED);
    trust(&place);
    place.write("project/vakbus.toml", &format!("{PRIVILEGED}# changed\n"));
    run_in(&place, &["config", "set", "--project", "daemon.sync", "2s"]);
    assert_eq!(run_in(&place, &["workspace", "ls"]).code, Some(4));
}

#[test]
fn a_home_directory_is_no_project() {
    let place = with_project("");
    let home = place.path("project");
    let mut command = place.command();
    command.args(["config", "set", "--project", "workspace", "w"]);
    command.current_dir(&home).env("HOME", &home);
    let outcome = run(command, "");
    outcome.is_wrong_call("the home directory is no project");
    assert_eq!(place.read("project/vakbus.toml"), "");
    let mut below = place.command();
    below.args(["config", "path", "--json"]).env("HOME", &home);
    below.current_dir(place.path("project/deep/down"));
    assert!(!run(below, "").stdout.contains("\"what\":\"project\""));
}
