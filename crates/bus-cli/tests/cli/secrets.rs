//! Secrets: used, never inherited, never told (C09, D10).

use std::{fs, path::Path};

use crate::support::{Outcome, Place, run};

const CANARY: &str = "canary-5e3c0d1f-of-at-least-thirty-two-bytes";

fn secretly(place: &Place, secret: &str, args: &[&str], tasks: &str) -> Outcome {
    let mut command = place.command();
    command.args(args).env("VAKBUS_WORKSPACE_SECRET", secret);
    run(command, tasks)
}

#[test]
fn commands_inherit_no_secret_of_the_bus() {
    let place = Place::new();
    let mut command = place.command();
    command.args(["swarm", "--", "sh", "-c", "env >seen"]);
    command.env("VAKBUS_WORKSPACE_SECRET", CANARY).env("VAK_BUS_NATS_NKEY_SEED", CANARY);
    command.env("VAK_BUS_NATS_CREDENTIALS_JWT", CANARY).env("OWN_SETTING", "kept");
    assert_eq!(run(command, "a\n").code, Some(0));
    let seen = place.read("seen");
    assert!(seen.contains("OWN_SETTING=kept"), "{seen}");
    for name in ["VAKBUS_WORKSPACE_SECRET", "VAK_BUS_NATS", CANARY] {
        assert!(!seen.contains(name), "{seen}");
    }
}

#[test]
fn the_secret_of_the_environment_takes_the_place_of_the_file() {
    let place = Place::new();
    place.run(&["workspace", "new", "default"]);
    fs::remove_file(place.workspace().join("secret")).unwrap();
    let without = place.run(&["swarm", "--tasks", "/dev/null", "--", "true"]);
    assert_eq!(without.code, Some(1), "{without:?}");
    let with = secretly(&place, CANARY, &["swarm", "--", "true"], "a\n");
    assert_eq!(with.code, Some(0), "{with:?}");
}

fn refuses(secret: &str) {
    let place = Place::new();
    let outcome = secretly(&place, secret, &["swarm", "-vvv", "--", "touch", "mark"], "a\n");
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains("error: VAKBUS_WORKSPACE_SECRET: "), "{outcome:?}");
    assert!(outcome.stderr.contains("\n  next: "), "{outcome:?}");
    assert!(!outcome.stderr.contains(secret) && !outcome.stdout.contains(secret), "{outcome:?}");
    assert!(!place.path("mark").exists());
}

#[test]
fn a_short_secret_is_refused_without_its_text() {
    refuses("canary-too-short");
}

#[test]
fn a_secret_that_does_not_decode_is_refused_without_its_text() {
    refuses("base64:canary*canary*canary*canary*canary*canary*");
}

#[test]
fn a_secret_stands_in_no_output_and_in_no_file() {
    let place = Place::new();
    // Everything that writes something: all logs, a failing command, its reason, the evidence.
    let args = ["swarm", "-vvv", "--max-retries", "0", "--evidence", "run", "--"];
    let script = ["sh", "-c", "env; env >&2; exit 1"];
    let outcome = secretly(&place, CANARY, &[&args[..], &script].concat(), "a\n");
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    assert!(!outcome.stdout.contains(CANARY) && !outcome.stderr.contains(CANARY));
    assert!(searched(&place.path("run"), &[CANARY.into()]) >= 7);
    assert!(searched(&place.path("data"), &[CANARY.into()]) >= 2);
}

#[test]
fn the_keys_of_a_workspace_stand_in_no_output_and_in_no_evidence() {
    let place = Place::new();
    place.run(&["workspace", "new", "default"]);
    let key = |name: &str| fs::read_to_string(place.workspace().join(name)).unwrap();
    let secrets = ["account.nk", "secret"].map(|name| key(name).trim().to_owned());
    place.write("tasks", "a\n");
    let args = ["swarm", "-vvv", "--tasks", "tasks", "--evidence", "run", "--", "true"];
    let more = [place.run(&args), place.run(&["-vvv", "workspace", "show"])];
    for outcome in more {
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let told = secrets.iter().any(|secret| outcome.stdout.contains(secret));
        assert!(!told && !secrets.iter().any(|secret| outcome.stderr.contains(secret)));
    }
    assert!(searched(&place.path("run"), &secrets) >= 7);
}

/// Asserts that no file below `dir` holds one of the secrets; returns how many files there are.
pub(crate) fn searched(dir: &Path, secrets: &[String]) -> usize {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let count = |path: std::path::PathBuf| {
        if path.is_dir() {
            return searched(&path, secrets);
        }
        let mut bytes = fs::read(&path).unwrap();
        // A segment of a journal is mostly zeros that were written ahead.
        bytes.truncate(bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1));
        for secret in secrets {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{}", path.display());
        }
        1
    };
    entries.map(count).sum()
}
