//! `vakbus config`: layers, origins, changes that keep what they do not change, and refusals.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

use serde_json::{Value, json};

use crate::support::{Outcome, Place, run};

const USER: &str = "config/vakbus/vakbus.toml";

/// A place whose user has this settings file.
fn with_user(text: &str) -> Place {
    let place = Place::new();
    fs::create_dir_all(place.path("config/vakbus")).unwrap();
    place.write(USER, text);
    place
}

/// The line of one setting in `config show --json`.
fn shown(outcome: &Outcome, setting: &str) -> Value {
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let lines = outcome.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut found: Vec<Value> = lines.filter(|line| line["setting"] == setting).collect();
    assert_eq!(found.len(), 1, "{outcome:?}");
    found.remove(0)
}

fn show(place: &Place, setting: &str) -> Value {
    shown(&place.run(&["config", "show", "--json"]), setting)
}

#[test]
fn a_later_layer_wins() {
    let place = with_user("workspace = \"of-user\"\nworker.max_retries = 1\ncolor = \"never\"\n");
    place.write("vakbus.toml", "workspace = \"of-project\"\nworker.max_retries = 2\n");
    let mut command = place.command();
    command.args(["config", "show", "--json", "--color", "always"]);
    command.env("VAKBUS_WORKSPACE", "of-environment").env("VAKBUS_COLOR", "auto");
    let outcome = run(command, "");
    for (setting, value, layer) in [
        ("workspace", json!("of-environment"), "environment"),
        ("worker.max_retries", json!(2), "project"),
        ("color", json!("always"), "flag"),
        ("worker.backoff", json!("1s"), "default"),
    ] {
        let held = shown(&outcome, setting);
        assert_eq!((&held["value"], &held["layer"]), (&value, &json!(layer)), "{held}");
    }
}

#[test]
fn an_origin_is_a_file_with_its_line_a_variable_or_an_option() {
    let place = with_user("\nworker.max_retries = 1\n");
    let mut command = place.command();
    command.args(["config", "show", "--origin", "--workspace", "w"]).env("VAKBUS_BACKOFF", "2s");
    let outcome = run(command, "");
    for end in [
        "worker.max_retries                 1  # {USER}:2",
        "worker.backoff                     2s  # VAKBUS_BACKOFF",
        "workspace                          w  # --workspace",
        "color                              auto  # default",
    ] {
        let end = end.replace("{USER}", place.path(USER).to_str().unwrap());
        assert!(outcome.stdout.lines().any(|line| line == end), "{end}: {outcome:?}");
    }
}

#[test]
fn what_nobody_sets_is_shown_as_not_set() {
    let place = Place::new();
    assert_eq!(show(&place, "server.bus.nats_url")["value"], Value::Null);
    let text = place.run(&["config", "show"]).stdout;
    assert!(text.contains("server.bus.nats_url                (not set)\n"), "{text}");
}

#[test]
fn settings_act_on_the_commands() {
    let place = with_user("workspace = \"shop\"\nworker.max_retries = 0\n");
    let (outcome, summary) = place.swarm("a\n", &["--", "false"]);
    assert_eq!((outcome.code, &summary["retries"]), (Some(3), &json!(0)), "{outcome:?}");
    assert_eq!(place.run(&["workspace", "ls"]).stdout, "shop\n");
}

#[test]
fn an_option_of_the_command_wins_over_a_setting() {
    let place = with_user("worker.max_retries = 0\n");
    let args = ["--max-retries", "1", "--backoff", "0s", "--", "false"];
    assert_eq!(place.swarm("a\n", &args).1["retries"], json!(1));
}

#[test]
fn a_limit_of_the_settings_holds_in_the_engine() {
    let place = with_user("limits.streams_max = 1\n");
    let outcome = place.run(&["swarm", "--memory", "--tasks", "/dev/null", "--", "true"]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.stderr.contains("streams"), "{outcome:?}");
}

#[test]
fn the_data_home_of_the_settings_is_used() {
    let place = with_user("data_dir = \"../../elsewhere\"\n");
    let mut command = place.command();
    command.args(["workspace", "new", "a"]).env_remove("VAKBUS_DATA_DIR");
    assert_eq!(run(command, "").code, Some(0));
    assert!(place.path("elsewhere/workspaces/a/account.nk").exists());
}

/// Where nobody listens.
const NOBODY: &str = "nats://127.0.0.1:1";

#[test]
fn a_server_that_is_not_reached_is_an_error_and_no_fallback() {
    for (variable, args) in [
        ("VAKBUS_NATS_URL", &["swarm", "--", "touch", "mark"][..]),
        ("VAK_BUS_NATS_URL", &["swarm", "--", "touch", "mark"]),
        ("UNUSED", &["swarm", "--nats-url", NOBODY, "--", "touch", "mark"]),
        ("VAKBUS_NATS_URL", &["task", "send", "x"]),
        ("VAKBUS_NATS_URL", &["up"]),
    ] {
        let place = Place::new();
        let mut command = place.command();
        command.args(args).env(variable, NOBODY);
        let outcome = run(command, "a\n");
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(5), ""), "{outcome:?}");
        let (said, next) = outcome.stderr.split_once("\n  next: ").unwrap();
        assert!(said.contains(NOBODY) && next.contains("no other engine"), "{outcome:?}");
        assert!(!place.path("mark").exists() && !place.path("data/bus").exists());
    }
}

#[test]
fn an_engine_of_its_own_is_asked_for_and_no_fallback() {
    let place = with_user("server.bus.nats_url = \"nats://h\"\n");
    let outcome = place.run(&["swarm", "--memory", "--tasks", "/dev/null", "--", "true"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    place
        .run(&["swarm", "--memory", "--nats-url", "nats://h", "--", "true"])
        .is_wrong_call("cannot be used with");
}

#[test]
fn a_wrong_file_stops_every_command_that_acts_by_it() {
    let place = with_user("worker.max_retrys = 1\n");
    for args in [&["workspace", "new", "a"][..], &["swarm", "--", "true"], &["config", "show"]] {
        let outcome = place.run(args);
        outcome.is_wrong_call("vakbus.toml:1: unknown setting worker.max_retrys");
        assert!(outcome.stderr.contains("did you mean worker.max_retries?"), "{outcome:?}");
    }
    assert!(!place.path("data").exists());
}

#[test]
fn a_wrong_file_stops_nothing_that_repairs_it_or_needs_no_settings() {
    let place = with_user("worker.max_retrys = 1\ncolour = \"red\"\n");
    for args in [
        &["config", "path"][..],
        &["completions", "bash"],
        &["config", "unset", "worker.max_retrys"],
        &["config", "unset", "colour"],
        &["config", "show"],
    ] {
        let outcome = place.run(args);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
}

#[test]
fn a_secret_in_a_settings_file_stops_everything_and_is_not_told() {
    let place = with_user("[server.bus]\nnkey_seed = \"canary\"\n");
    let outcome = place.run(&["swarm", "-vvv", "--", "true"]);
    outcome.is_wrong_call("vakbus.toml:2: server.bus.nkey_seed holds a secret");
    assert!(!outcome.stderr.contains("canary"), "{outcome:?}");
}

#[test]
fn a_settings_file_that_others_can_write_is_refused() {
    let place = with_user("color = \"never\"\n");
    fs::set_permissions(place.path(USER), fs::Permissions::from_mode(0o666)).unwrap();
    let outcome = place.run(&["workspace", "ls"]);
    assert_eq!(outcome.code, Some(4), "{outcome:?}");
    assert!(outcome.stderr.contains("chmod go-w "), "{outcome:?}");
}

#[test]
fn another_settings_file_can_be_named() {
    let place = with_user("workspace = \"of-user\"\n");
    place.write("other.toml", "workspace = \"of-other\"\n");
    let named = place.run(&["config", "show", "--json", "--config", "other.toml"]);
    assert_eq!(shown(&named, "workspace")["value"], "of-other");
    let mut command = place.command();
    command.args(["config", "show", "--json"]).env("VAKBUS_CONFIG", "other.toml");
    assert_eq!(shown(&run(command, ""), "workspace")["value"], "of-other");
    place
        .run(&["config", "show", "--config", "none.toml"])
        .is_wrong_call("there is no settings file none.toml");
}

#[test]
fn a_change_keeps_comments_order_and_the_other_settings() {
    let place = with_user(
        "# mine\nworkspace = \"a\" # the shop\n\n[worker] # work\nbackoff = \"2s\" # slow\n",
    );
    for args in [["worker.max_retries", "5"], ["worker.backoff", "3s"], ["workspace", "b"]] {
        let outcome = place.run(&[&["config", "set"], &args[..]].concat());
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
    let text = "# mine\nworkspace = \"b\" # the shop\n\n[worker] # work\nbackoff = \"3s\" # slow\n\
                max_retries = 5\n";
    assert_eq!(place.read(USER), text);
    assert_eq!(place.run(&["config", "unset", "worker.max_retries"]).code, Some(0));
    assert_eq!(place.read(USER), text.replace("max_retries = 5\n", ""));
}

#[test]
fn the_first_setting_makes_the_file_for_its_owner_only() {
    let place = Place::new();
    let outcome = place.run(&["config", "set", "server.bus.nats_url", "nats://h:4222"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(place.read(USER), "[server.bus]\nnats_url = \"nats://h:4222\"\n");
    let mode = |name: &str| fs::metadata(place.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(USER), mode("config/vakbus")), (0o600, 0o700));
    assert_eq!(fs::read_dir(place.path("config/vakbus")).unwrap().count(), 1);
}

#[test]
fn a_change_says_what_it_wrote_and_where() {
    let place = Place::new();
    let changed = place.run(&["config", "set", "worker.max_retries", "7", "--json"]).json();
    assert_eq!((&changed["setting"], &changed["value"]), (&json!("worker.max_retries"), &json!(7)));
    assert!(changed["file"].as_str().unwrap().ends_with(USER), "{changed}");
}

#[test]
fn a_wrong_value_is_refused_before_anything_is_written() {
    let place = with_user("color = \"never\"\n");
    for (key, value, what) in [
        ("color", "red", "color: expected \"auto\""),
        ("worker.max_retries", "many", "worker.max_retries: expected a whole number"),
        ("worker.max_retrys", "3", "unknown setting worker.max_retrys"),
        ("worker", "3", "unknown setting worker"),
        ("server.bus.nats_url", "nats://u:canary@h", "without user and password"),
    ] {
        let outcome = place.run(&["config", "set", key, value]);
        outcome.is_wrong_call(what);
        assert!(!outcome.stderr.contains("canary"), "{outcome:?}");
    }
    assert_eq!(place.read(USER), "color = \"never\"\n");
}

#[test]
fn a_secret_is_never_written() {
    let place = Place::new();
    let seed = format!("SU{}", "A".repeat(56));
    for (key, value) in [
        ("VAK_BUS_NATS_NKEY_SEED", "canary"),
        ("server.bus.jwt", "canary"),
        ("workspace", seed.as_str()),
        ("server.bus.workspace_secret_env", seed.as_str()),
    ] {
        let outcome = place.run(&["config", "set", key, value]);
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        assert!(!outcome.stderr.contains(value), "{outcome:?}");
    }
    assert!(!place.path(USER).exists());
}

#[test]
fn a_file_that_is_wrong_already_is_not_changed() {
    for text in ["colour = \"never\"\n", "color = canary\n"] {
        let place = with_user(text);
        let outcome = place.run(&["config", "set", "workspace", "a"]);
        outcome.is_wrong_call("vakbus.toml:1: ");
        assert!(!outcome.stderr.contains("canary"), "{outcome:?}");
        assert_eq!(place.read(USER), text);
    }
}

#[test]
fn a_link_to_the_file_stays_a_link() {
    let place = with_user("");
    fs::rename(place.path(USER), place.path("real.toml")).unwrap();
    symlink(place.path("real.toml"), place.path(USER)).unwrap();
    assert_eq!(place.run(&["config", "set", "workspace", "a"]).code, Some(0));
    assert!(place.path(USER).is_symlink());
    assert_eq!(place.read("real.toml"), "workspace = \"a\"\n");
}

#[test]
fn changes_at_the_same_moment_lose_nothing() {
    let place = Place::new();
    let names =
        ["subscriptions", "streams", "buckets", "watches"].map(|n| format!("limits.{n}_max"));
    let all: Vec<_> = names.iter().map(|name| place.start(&["config", "set", name, "5"])).collect();
    for running in all {
        let outcome = running.ended();
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
    for name in names {
        assert_eq!(show(&place, &name)["value"], 5, "{}", place.read(USER));
    }
}

#[test]
fn taking_out_what_is_not_there_is_no_failure_unless_it_is_unknown() {
    let place = with_user("");
    let outcome = place.run(&["config", "unset", "workspace"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), ""), "{outcome:?}");
    let unknown = place.run(&["config", "unset", "worker.max_retrys"]);
    unknown
        .is_wrong_call("does not set worker.max_retrys\n  next: did you mean worker.max_retries?");
}

#[test]
fn paths_are_told_with_what_is_there() {
    let place = with_user("");
    place.write("vakbus.toml", "");
    let lines = place.run(&["config", "path", "--json"]).stdout;
    let state = |what: &str| {
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut found = lines.filter(|line| line["what"] == what);
        found.next().unwrap()["state"].clone()
    };
    let states = ["user", "project", "secrets", "data"].map(state);
    assert_eq!(states, ["there", "not trusted", "not there", "not there"]);
}
