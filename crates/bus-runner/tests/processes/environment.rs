//! The environment of a command: inherited, but for the secrets of the bus (D10).

use std::collections::BTreeMap;

use bus_runner::{CommandSpec, SECRET_VARIABLES};

use crate::support::{AGAIN, again_with, finished, is_again};

async fn environment_of(spec: &CommandSpec) -> BTreeMap<String, String> {
    let (report, kept) = finished(spec, "").await;
    assert!(report.is_success(), "{report:?}");
    let text = String::from_utf8(kept.stdout).unwrap();
    let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn print_environment() -> CommandSpec {
    CommandSpec::new("env", ["-0"])
}

#[tokio::test]
async fn the_secrets_of_the_bus_are_never_inherited() {
    if !is_again() {
        let secrets = SECRET_VARIABLES.map(|name| (name, "secret-value"));
        return again_with("environment::the_secrets_of_the_bus_are_never_inherited", secrets);
    }
    for name in SECRET_VARIABLES {
        assert_eq!(std::env::var(name).unwrap(), "secret-value");
    }
    let environment = environment_of(&print_environment()).await;
    assert!(environment.contains_key("PATH") && environment.contains_key(AGAIN));
    assert!(!environment.values().any(|value| value == "secret-value"), "{environment:?}");
}

#[tokio::test]
async fn removed_variables_are_not_inherited() {
    if !is_again() {
        let variables = [("OWN_SECRET", "x"), ("OWN_SETTING", "y")];
        return again_with("environment::removed_variables_are_not_inherited", variables);
    }
    let mut spec = print_environment();
    spec.env_removed.push("OWN_SECRET".into());
    let environment = environment_of(&spec).await;
    assert_eq!(environment.get("OWN_SETTING").map(String::as_str), Some("y"));
    assert!(!environment.contains_key("OWN_SECRET"));
}

#[tokio::test]
async fn variables_that_are_set_win() {
    let mut spec = print_environment();
    spec.env_removed.push("HOME".into());
    spec.env.push(("HOME".into(), "/set".into()));
    spec.env.push(("NEW".into(), "a=b\nc".into()));
    let environment = environment_of(&spec).await;
    assert_eq!(environment["HOME"], "/set");
    assert_eq!(environment["NEW"], "a=b\nc");
}
