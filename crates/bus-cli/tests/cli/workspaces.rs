//! Workspaces and agents on disk: made once, private, and refused when others could reach them.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use crate::support::{Outcome, Place, run};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn with_workspace() -> Place {
    let place = Place::new();
    assert_eq!(place.run(&["workspace", "new", "default"]).code, Some(0));
    place
}

/// A run that needs the secret and the account's key.
fn swarm(place: &Place) -> Outcome {
    let mut command = place.command();
    command.args(["swarm", "--", "touch", "mark"]);
    let outcome = run(command, "a\n");
    assert_eq!(outcome.code == Some(0), place.path("mark").exists(), "{outcome:?}");
    outcome
}

#[test]
fn a_workspace_is_made_once() {
    let place = with_workspace();
    let before = fs::read(place.workspace().join("account.nk")).unwrap();
    let again = place.run(&["workspace", "new", "default"]);
    again.is_wrong_call("workspace default exists already\n  next: vakbus workspace show");
    assert_eq!(fs::read(place.workspace().join("account.nk")).unwrap(), before);
}

#[test]
fn a_name_that_leaves_the_directory_is_refused() {
    Place::new().run(&["workspace", "new", "../x"]).is_wrong_call("invalid value '../x'");
}

#[test]
fn a_workspace_shows_its_public_key_and_its_place() {
    let place = with_workspace();
    let shown = place.run(&["workspace", "show", "--json"]).json();
    let account = shown["account"].as_str().unwrap();
    assert!(account.starts_with('A') && account.len() == 56, "{shown}");
    assert_eq!((&shown["workspace"], &shown["agents"]), (&"default".into(), &0.into()));
    assert_eq!(shown["path"], place.workspace().to_str().unwrap());
    let text = place.run(&["workspace", "show"]).stdout;
    assert!(text.contains(account) && text.lines().count() == 4, "{text}");
}

#[test]
fn a_workspace_that_is_not_there_is_not_made_by_looking_at_it() {
    let place = Place::new();
    let outcome = place.run(&["workspace", "show"]);
    outcome.failed_with("there is no workspace default", "vakbus workspace new default");
    assert!(!place.path("data").exists());
}

#[test]
fn workspaces_are_listed_by_name() {
    let place = Place::new();
    assert_eq!(place.run(&["workspace", "ls"]).stdout, "");
    for name in ["b", "a"] {
        place.run(&["workspace", "new", name]);
    }
    assert_eq!(place.run(&["workspace", "ls"]).stdout, "a\nb\n");
    let json = place.run(&["workspace", "ls", "--json"]).stdout;
    assert_eq!(json, "{\"workspace\":\"a\"}\n{\"workspace\":\"b\"}\n");
}

#[test]
fn a_swarm_makes_its_workspace_when_there_is_none() {
    let place = Place::new();
    assert_eq!(swarm(&place).code, Some(0));
    assert_eq!(place.run(&["workspace", "ls"]).stdout, "default\n");
}

#[test]
fn swarms_that_start_at_the_same_moment_share_one_new_workspace() {
    let place = Place::new();
    place.write("tasks", "a\n");
    let args = ["swarm", "--json", "--tasks", "tasks", "--", "true"];
    let all: Vec<_> = (0..6).map(|_| place.start(&args)).collect();
    for running in all {
        let outcome = running.ended();
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
    let entries = fs::read_dir(place.path("data/workspaces")).unwrap();
    let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["default"]);
}

#[test]
fn an_agent_is_made_once() {
    let place = Place::new();
    let first = place.run(&["agent", "add", "alice", "--role", "worker"]);
    assert_eq!(first.code, Some(0), "{first:?}");
    let again = place.run(&["agent", "add", "alice", "--role", "operator"]);
    again.is_wrong_call("agent alice exists already in workspace default\n  next: vakbus agent ls");
    assert!(place.run(&["agent", "ls"]).stdout.starts_with("alice  worker  U"));
}

#[test]
fn agents_are_listed_with_their_roles_and_expiry() {
    let place = Place::new();
    place.run(&["agent", "add", "b", "--role", "worker", "--role", "observer"]);
    place.run(&["agent", "add", "a", "--role", "auditor", "--valid-for", "1h"]);
    let listed = place.run(&["agent", "ls", "--json"]).stdout;
    let agents: Vec<serde_json::Value> =
        listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&agents[0]["agent"], &agents[1]["agent"]), (&"a".into(), &"b".into()));
    assert_eq!(agents[0]["roles"], serde_json::json!(["auditor"]));
    assert_eq!(agents[1]["roles"], serde_json::json!(["worker", "observer"]));
    assert!(agents[0]["expires"].is_string() && agents[1]["expires"].is_null(), "{listed}");
    assert_eq!(place.run(&["workspace", "show", "--json"]).json()["agents"], 2);
}

#[test]
fn an_agent_is_bound_to_the_session_and_the_queue_it_was_added_with() {
    let place = Place::new();
    let bound = ["--role", "worker", "--session", "s1", "--queue", "coder"];
    place.run(&[&["agent", "add", "bob"][..], &bound].concat());
    let listed = place.run(&["agent", "ls", "--json"]).json();
    assert_eq!((&listed["session"], &listed["queue"]), (&"s1".into(), &"coder".into()));
    let listed = place.run(&["agent", "ls"]).stdout;
    assert!(listed.trim_end().ends_with("  session s1  queue coder"), "{listed}");
    let refused = place.run(&["worker", "--role", "judge", "--as", "bob", "--", "true"]);
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert!(refused.stderr.contains("vak.work.default.judge.task"), "{refused:?}");
}

#[test]
fn a_role_that_does_not_exist_is_refused() {
    let place = Place::new();
    let outcome = place.run(&["agent", "add", "alice", "--role", "king"]);
    outcome.is_wrong_call("invalid value 'king' for '--role <ROLE>'");
    assert!(!place.path("data").exists());
}

#[test]
fn only_the_owner_can_reach_keys() {
    let place = Place::new();
    // An open umask of the user must not matter.
    let made = run(place.shell("umask 000; exec \"$0\" agent add alice --role worker"), "");
    assert_eq!(made.code, Some(0), "{made:?}");
    let workspace = place.workspace();
    let dirs = ["data", "data/workspaces", "data/workspaces/default/agents"];
    for dir in dirs.map(|dir| place.path(dir)).iter().chain([&workspace]) {
        assert_eq!(mode(dir), 0o700, "{}", dir.display());
    }
    for file in ["account.nk", "secret", "agents/alice.creds"] {
        assert_eq!(mode(&workspace.join(file)), 0o600, "{file}");
    }
}

#[test]
fn a_secret_that_others_can_read_is_refused() {
    let place = with_workspace();
    set_mode(&place.workspace().join("secret"), 0o640);
    swarm(&place).failed_with("secret holds a secret and other users can reach it", "chmod 600 ");
}

#[test]
fn an_account_key_that_others_can_read_is_refused() {
    let place = with_workspace();
    set_mode(&place.workspace().join("account.nk"), 0o604);
    let outcome = place.run(&["workspace", "show"]);
    outcome.failed_with("account.nk holds a secret and other users can reach it", "chmod 600 ");
}

#[test]
fn a_secret_that_is_a_symlink_is_refused() {
    let place = with_workspace();
    let secret = place.workspace().join("secret");
    fs::rename(&secret, place.path("elsewhere")).unwrap();
    symlink(place.path("elsewhere"), &secret).unwrap();
    swarm(&place).failed_with("secret is a symlink", "put the file itself there");
}

#[test]
fn a_pipe_in_the_place_of_a_secret_is_refused_and_not_waited_for() {
    let place = with_workspace();
    fs::remove_file(place.workspace().join("secret")).unwrap();
    set_mode(&place.pipe("data/workspaces/default/secret"), 0o600);
    let outcome = swarm(&place);
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stderr.contains("secret is not a regular file"), "{outcome:?}");
}

#[test]
fn a_workspace_that_others_can_write_is_refused() {
    let place = with_workspace();
    set_mode(&place.workspace(), 0o770);
    swarm(&place).failed_with("can be written by other users", "chmod go-w ");
}

#[test]
fn every_directory_from_the_data_home_down_is_judged() {
    for dir in ["data", "data/workspaces", "data/workspaces/default"] {
        let place = with_workspace();
        set_mode(&place.path(dir), 0o720);
        let shown = format!("{} can be written by other users", place.path(dir).display());
        for command in [["workspace", "show"], ["agent", "ls"]] {
            place.run(&command).failed_with(&shown, "chmod go-w ");
        }
        swarm(&place).failed_with(&shown, "chmod go-w ");
    }
}

#[test]
fn a_data_home_that_others_can_write_is_not_listed() {
    let place = with_workspace();
    set_mode(&place.path("data"), 0o702);
    place.run(&["workspace", "ls"]).failed_with("can be written by other users", "chmod go-w ");
}

#[test]
fn agents_in_a_directory_that_others_can_write_are_not_read() {
    let place = with_agent("alice");
    set_mode(&place.workspace().join("agents"), 0o770);
    let outcome = place.run(&["agent", "ls"]);
    outcome.failed_with("agents can be written by other users", "chmod go-w ");
}

#[test]
fn a_directory_that_is_a_symlink_is_refused() {
    let place = with_workspace();
    fs::rename(place.path("data/workspaces"), place.path("elsewhere")).unwrap();
    symlink(place.path("elsewhere"), place.path("data/workspaces")).unwrap();
    swarm(&place).failed_with("workspaces is a symlink", "the directory itself");
}

/// Runs `vakbus` where no byte can be written to a file.
fn without_room(place: &Place, call: &str) -> Outcome {
    let outcome = run(place.shell(&format!("trap '' XFSZ; ulimit -f 0; exec \"$0\" {call}")), "");
    outcome.failed_with("cannot write ", "--data-dir or VAKBUS_DATA_DIR");
    outcome
}

#[test]
fn a_workspace_that_cannot_be_written_leaves_nothing_behind() {
    let place = Place::new();
    without_room(&place, "workspace new a");
    assert_eq!(fs::read_dir(place.path("data/workspaces")).unwrap().count(), 0);
    assert_eq!(place.run(&["workspace", "new", "a"]).code, Some(0));
}

#[test]
fn an_agent_that_cannot_be_written_leaves_nothing_behind() {
    let place = with_workspace();
    without_room(&place, "agent add alice --role worker");
    assert_eq!(fs::read_dir(place.workspace().join("agents")).unwrap().count(), 0);
    assert_eq!(place.run(&["agent", "add", "alice", "--role", "worker"]).code, Some(0));
}

fn with_agent(name: &str) -> Place {
    let place = with_workspace();
    assert_eq!(place.run(&["agent", "add", name, "--role", "worker"]).code, Some(0));
    place
}

/// Asserts that `alice` is listed and that the file of `bob` is left out with this warning.
fn leaves_bob_out(place: &Place, why: &str) {
    let outcome = place.run(&["agent", "ls"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stdout.starts_with("alice  ") && outcome.stdout.lines().count() == 1);
    let (said, next) = outcome.stderr.split_once("\n  next: ").unwrap_or_default();
    assert!(said.starts_with("warning: ") && said.contains("bob.creds"), "{outcome:?}");
    assert!(said.contains(why) && !next.is_empty(), "{outcome:?}");
    let again = place.run(&["agent", "add", "bob", "--role", "worker"]);
    again.is_wrong_call("agent bob exists already");
}

fn bob(place: &Place) -> std::path::PathBuf {
    place.workspace().join("agents/bob.creds")
}

#[test]
fn a_damaged_credentials_file_does_not_hide_the_other_agents() {
    let place = with_agent("alice");
    fs::write(bob(&place), "canary").unwrap();
    set_mode(&bob(&place), 0o600);
    leaves_bob_out(&place, "is damaged");
    assert_eq!(place.run(&["workspace", "show", "--json"]).json()["agents"], 1);
}

#[test]
fn credentials_of_another_agent_are_left_out() {
    let place = with_agent("alice");
    fs::copy(place.workspace().join("agents/alice.creds"), bob(&place)).unwrap();
    leaves_bob_out(&place, "is for another agent");
}

#[test]
fn credentials_by_another_account_are_left_out() {
    let (place, other) = (with_agent("alice"), with_agent("bob"));
    fs::copy(bob(&other), bob(&place)).unwrap();
    leaves_bob_out(&place, "is signed by another account");
}

#[test]
fn credentials_for_another_workspace_are_left_out() {
    let place = with_agent("alice");
    // The same account key in both, as after a copy by hand.
    place.run(&["workspace", "new", "other"]);
    let other = place.path("data/workspaces/other");
    fs::copy(place.workspace().join("account.nk"), other.join("account.nk")).unwrap();
    place.run(&["agent", "add", "bob", "--role", "worker", "--workspace", "other"]);
    fs::copy(other.join("agents/bob.creds"), bob(&place)).unwrap();
    leaves_bob_out(&place, "is for another workspace");
}

#[test]
fn a_damaged_account_key_is_an_error_without_its_text() {
    let place = with_workspace();
    fs::write(place.workspace().join("account.nk"), "SA-canary").unwrap();
    let outcome = place.run(&["workspace", "show"]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.stderr.contains("account.nk") && !outcome.stderr.contains("canary"));
}

#[test]
fn a_data_home_that_cannot_be_made_is_an_error_with_a_next_step() {
    let place = Place::new();
    place.write("file", "x");
    let mut command = place.command();
    command.args(["workspace", "new", "a", "--data-dir", "file/data"]);
    run(command, "").failed_with("cannot create file/data: ", "--data-dir or VAKBUS_DATA_DIR");
}

#[test]
#[cfg(target_os = "linux")]
fn the_data_home_is_that_of_the_platform_when_none_is_named() {
    let place = Place::new();
    let mut command = place.command();
    command.args(["workspace", "new", "a"]).env_remove("VAKBUS_DATA_DIR");
    command.env("XDG_DATA_HOME", place.path("share"));
    assert_eq!(run(command, "").code, Some(0));
    assert!(place.path("share/vakbus/workspaces/a/account.nk").exists());
}

#[test]
#[cfg(target_os = "linux")]
fn a_data_home_on_a_system_that_takes_no_files_is_an_error_with_a_next_step() {
    let place = Place::new();
    let mut command = place.command();
    command.args(["swarm", "--data-dir", "/proc/vakbus", "--", "touch", "mark"]);
    run(command, "a\n").failed_with("cannot create /proc/vakbus: ", "VAKBUS_DATA_DIR");
    assert!(!place.path("mark").exists());
}
