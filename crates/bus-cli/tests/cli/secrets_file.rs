//! The secrets file and the variable that the settings name: used, private, never inherited.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::support::{Outcome, Place, run};

const CANARY: &str = "canary-5e3c0d1f-of-at-least-thirty-two-bytes";

/// A place whose workspace has lost its own secret, so that one from outside is needed.
fn without_secret() -> Place {
    let place = Place::new();
    assert_eq!(place.run(&["workspace", "new", "default"]).code, Some(0));
    fs::remove_file(place.workspace().join("secret")).unwrap();
    place
}

fn write_private(place: &Place, name: &str, text: &str) {
    place.write(name, text);
    fs::set_permissions(place.path(name), fs::Permissions::from_mode(0o600)).unwrap();
}

fn swarm(place: &Place, variables: &[(&str, &str)]) -> Outcome {
    let mut command = place.command();
    command.args(["swarm", "-vvv", "--", "sh", "-c", "env >seen"]);
    command.envs(variables.iter().copied());
    let outcome = run(command, "a\n");
    assert!(!outcome.stdout.contains(CANARY) && !outcome.stderr.contains(CANARY), "{outcome:?}");
    if place.path("seen").exists() {
        assert!(!place.read("seen").contains(CANARY), "{}", place.read("seen"));
    }
    outcome
}

#[test]
fn the_secrets_file_of_the_data_home_is_used() {
    let place = without_secret();
    write_private(&place, "data/secrets.env", &format!("VAKBUS_WORKSPACE_SECRET={CANARY}\n"));
    assert_eq!(swarm(&place, &[]).code, Some(0));
}

#[test]
fn a_named_secrets_file_is_used_and_has_to_be_there() {
    let place = without_secret();
    let named = [("VAKBUS_SECRETS_FILE", "mine.env")];
    let outcome = swarm(&place, &named);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains("cannot read mine.env"), "{outcome:?}");
    write_private(&place, "mine.env", &format!("VAKBUS_WORKSPACE_SECRET={CANARY}\n"));
    assert_eq!(swarm(&place, &named).code, Some(0));
}

#[test]
fn a_secrets_file_in_a_repository_is_refused() {
    let place = without_secret();
    write_private(&place, "data/secrets.env", &format!("VAKBUS_WORKSPACE_SECRET={CANARY}\n"));
    fs::create_dir(place.path(".git")).unwrap();
    let outcome = swarm(&place, &[]);
    assert_eq!(outcome.code, Some(4), "{outcome:?}");
    assert!(outcome.stderr.contains("secrets.env lies in the git work tree"), "{outcome:?}");
}

#[test]
fn a_secrets_file_that_others_can_read_is_refused() {
    let place = without_secret();
    write_private(&place, "data/secrets.env", &format!("VAKBUS_WORKSPACE_SECRET={CANARY}\n"));
    let file = place.path("data/secrets.env");
    fs::set_permissions(file, fs::Permissions::from_mode(0o644)).unwrap();
    let outcome = swarm(&place, &[]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.stderr.contains("chmod 600 "), "{outcome:?}");
}

#[test]
fn the_variable_that_the_settings_name_is_used_and_not_inherited() {
    let place = without_secret();
    let named = ("VAKBUS_WORKSPACE_SECRET_ENV", "SHOP_SECRET");
    let outcome = swarm(&place, &[named, ("SHOP_SECRET", CANARY), ("OTHER", "kept")]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let seen = place.read("seen");
    assert!(seen.contains("OTHER=kept") && !seen.contains("SHOP_SECRET=canary"), "{seen}");
    assert!(!seen.lines().any(|line| line.starts_with("SHOP_SECRET=")), "{seen}");
}

#[test]
fn a_named_variable_that_is_not_set_is_an_error_and_no_other_secret_is_taken() {
    let place = Place::new();
    let outcome = swarm(&place, &[("VAKBUS_WORKSPACE_SECRET_ENV", "SHOP_SECRET")]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains("SHOP_SECRET is not set"), "{outcome:?}");
    assert!(!place.path("seen").exists());
}

#[test]
fn the_environment_comes_before_the_secrets_file() {
    let place = without_secret();
    write_private(&place, "data/secrets.env", "VAKBUS_WORKSPACE_SECRET=short\n");
    assert_eq!(swarm(&place, &[]).code, Some(2));
    assert_eq!(swarm(&place, &[("VAKBUS_WORKSPACE_SECRET", CANARY)]).code, Some(0));
}

#[test]
fn settings_tell_which_secrets_are_there_and_never_what_they_are() {
    let place = Place::new();
    let mut command = place.command();
    command.args(["config", "show", "--json"]).env("VAK_BUS_NATS_NKEY_SEED", CANARY);
    let outcome = run(command, "");
    assert!(!outcome.stdout.contains(CANARY), "{outcome:?}");
    let line = "{\"secret\":\"VAK_BUS_NATS_NKEY_SEED\",\"source\":\"environment\"}";
    assert!(outcome.stdout.lines().any(|found| found == line), "{outcome:?}");
    let line = "{\"secret\":\"VAKBUS_WORKSPACE_SECRET\",\"source\":null}";
    assert!(outcome.stdout.lines().any(|found| found == line), "{outcome:?}");
}
