//! Commands on a NATS server that somebody else runs: who gets in, what is shared, what is refused.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use bus_nats::server::{ServerConfig, ServerTls};
use bus_testserver::TestServer;
use rustix::process::Signal;
use serde_json::Value;

use crate::{
    daemon_support::{ids, lines},
    nats_support::{Machine, guarded_server, login, server_that_denies, server_with_accounts},
    support::{Lines, Outcome, run},
};

const SEED: &str = "VAK_BUS_NATS_NKEY_SEED";
const TOKEN: &str = "VAK_BUS_NATS_CREDENTIALS_JWT";

/// Asserts exit code, and that the error says `what` and to do `next`.
fn fails(outcome: &Outcome, code: i32, what: &str, next: &str) {
    assert_eq!(outcome.code, Some(code), "{outcome:?}");
    let (said, then) = outcome.stderr.split_once("\n  next: ").unwrap_or_default();
    assert!(said.contains(what) && then.contains(next), "{outcome:?}");
}

#[test]
fn what_one_machine_sends_the_other_sees() {
    let server = TestServer::start();
    let here = Machine::new(&server);
    let first = here.does(&["task", "send", "--role", "r", "from here"]);
    let there = here.copy();
    let second = there.does(&["task", "send", "--role", "r", "from there"]);
    for machine in [&here, &there] {
        assert_eq!(ids(&machine.run(&["task", "ls", "--json"])), [&*first, &*second]);
    }
}

#[test]
fn what_is_acknowledged_is_there_after_a_kill_of_the_server() {
    let mut server = TestServer::start();
    let machine = Machine::new(&server);
    let sent: Vec<String> =
        (0..5).map(|n| machine.does(&["task", "send", &format!("task {n}")])).collect();
    server.kill();
    fails(&machine.run(&["task", "ls"]), 5, "no server can be reached", "no other engine");
    server.restart().unwrap();
    assert_eq!(ids(&machine.run(&["task", "ls", "--json"])), sent);
}

#[test]
fn a_login_that_the_server_does_not_know_is_refused_with_what_to_set() {
    let (known, stranger) = (login(), login());
    let server = guarded_server(&known);
    let machine = Machine::new(&server);
    let with = |seed: &str| {
        let mut command = machine.command(&["task", "ls", "--json"]);
        command.env(SEED, seed);
        run(command, "")
    };
    fails(&machine.run(&["task", "ls"]), 4, "knows no such user", SEED);
    fails(&with(&stranger.seed_text()), 4, "knows no such user", "of this server");
    let known = known.seed_text();
    assert_eq!(with(&known).code, Some(0));
    // As a file gives it (D10).
    assert_eq!(with(&format!("{}\n", known.as_str())).code, Some(0));
}

#[test]
fn a_login_of_the_secrets_file_counts() {
    let known = login();
    let server = guarded_server(&known);
    let machine = Machine::new(&server);
    fails(&machine.run(&["task", "ls"]), 4, "knows no such user", SEED);
    machine.place.write("data/secrets.env", &format!("{SEED}={}\n", known.seed_text().as_str()));
    let file = machine.place.path("data/secrets.env");
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(ids(&machine.run(&["task", "ls", "--json"])).is_empty());
}

#[test]
fn a_login_that_is_none_is_a_wrong_call_and_is_not_shown() {
    let server = TestServer::start();
    let machine = Machine::new(&server);
    for (name, canary, what) in [
        (SEED, "canary-seed", "VAK_BUS_NATS_NKEY_SEED: "),
        (TOKEN, "canary-token", "VAK_BUS_NATS_NKEY_SEED is not"),
    ] {
        let mut command = machine.command(&["task", "ls"]);
        command.env(name, canary);
        let outcome = run(command, "");
        outcome.is_wrong_call(what);
        assert!(!outcome.stderr.contains(canary), "{outcome:?}");
    }
}

#[test]
fn a_workspace_of_another_account_is_refused_before_anything_is_stored() {
    let server = TestServer::start();
    let here = Machine::new(&server);
    here.does(&["task", "send", "x"]);
    let stranger = Machine::new(&server);
    let refused = stranger.run(&["task", "send", "y"]);
    fails(&refused, 4, "belongs to another account", "DATA_DIR/workspaces");
    assert_eq!(ids(&here.run(&["task", "ls", "--json"])).len(), 1);
    stranger.does(&["--workspace", "own", "task", "send", "y"]);
}

#[test]
fn a_login_that_may_not_use_the_directory_of_agents_works_all_the_same() {
    let known = login();
    let server = server_that_denies(&known, "$KV.VAK_AGENTS_default.>");
    let machine = Machine::new(&server);
    let mut command = machine.command(&["task", "send", "x"]);
    command.env(SEED, known.seed_text().as_str());
    let sent = run(command, "");
    assert_eq!(sent.code, Some(0), "{sent:?}");
}

/// The error with which the task of `line` cannot be opened.
fn unreadable(outcome: &Outcome) -> Vec<Value> {
    lines(outcome).iter().map(|line| line["unreadable"].clone()).collect()
}

#[test]
fn an_agent_that_was_certified_on_one_machine_is_known_on_the_others() {
    let server = TestServer::start();
    let here = Machine::new(&server);
    here.does(&["task", "ls"]);
    let there = here.copy();
    there.does(&["agent", "add", "ann", "--role", "operator"]);
    there.does(&["--as", "ann", "task", "send", "by ann"]);
    let listed = here.run(&["task", "ls", "--json"]);
    assert_eq!(unreadable(&listed), [Value::Null], "{listed:?}");
}

#[test]
fn a_key_that_is_revoked_on_one_machine_counts_on_none() {
    let server = TestServer::start();
    let here = Machine::new(&server);
    here.does(&["agent", "add", "ann", "--role", "operator"]);
    let there = here.copy();
    there.does(&["--as", "ann", "task", "send", "by ann"]);
    here.does(&["agent", "revoke", "ann", "--yes"]);
    let listed = there.run(&["task", "ls", "--json"]);
    let refusals = unreadable(&listed);
    assert!(refusals[0].as_str().unwrap().contains("revoked"), "{listed:?}");
}

#[test]
fn a_revocation_that_the_bus_did_not_hear_of_is_said_and_told_by_the_next_command() {
    let mut server = TestServer::start();
    let here = Machine::new(&server);
    here.does(&["agent", "add", "ann", "--role", "operator"]);
    let there = here.copy();
    there.does(&["--as", "ann", "task", "send", "by ann"]);
    server.kill();
    let revoked = here.run(&["agent", "revoke", "ann", "--yes"]);
    fails(&revoked, 5, "others are not told yet", "reaches the bus");
    assert!(revoked.stdout.contains("ann  revoked"), "{revoked:?}");
    server.restart().unwrap();
    let listed = || unreadable(&there.run(&["task", "ls", "--json"]));
    assert_eq!(listed(), [Value::Null]);
    here.does(&["task", "ls"]);
    assert!(listed()[0].as_str().unwrap().contains("revoked"));
}

#[test]
fn who_keeps_house_on_a_server_starts_none_and_serves_no_socket() {
    let server = TestServer::start();
    let machine = Machine::new(&server);
    let mut keeper = machine.start(&["up", "--json"]);
    let ready = Lines::of(keeper.take_stdout()).next().unwrap();
    let ready: Value = serde_json::from_str(&ready).unwrap();
    assert_eq!((&ready["ready"], &ready["url"]), (&true.into(), &server.url().into()));
    assert!(!machine.place.path("data/run/bus.sock").exists());
    machine.does(&["task", "send", "x"]);
    keeper.signal(Signal::TERM);
    let ended = keeper.ended();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn a_login_with_a_token_is_that_of_its_account() {
    let (server, token, user) = server_with_accounts();
    let machine = Machine::new(&server);
    let with = |token: &str, seed: &str| {
        let mut command = machine.command(&["task", "send", "x"]);
        command.env(TOKEN, token).env(SEED, seed);
        run(command, "")
    };
    let sent = with(&token, &user.seed_text());
    assert_eq!(sent.code, Some(0), "{sent:?}");
    fails(&machine.run(&["task", "ls"]), 4, "knows no such user", TOKEN);
    with(&token, &login().seed_text()).is_wrong_call(TOKEN);
}

#[test]
fn an_encrypted_server_is_reached_by_who_trusts_its_authority() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/tls");
    let tls = ServerTls {
        cert: dir.join("server.pem"),
        key: dir.join("server.key"),
        ca: None,
        verify: false,
    };
    let server = TestServer::start_with(ServerConfig { tls: Some(tls), ..ServerConfig::default() });
    let machine = Machine::new(&server);
    fails(&machine.run(&["task", "ls"]), 5, "certificate", "no other engine");
    let mut command = machine.command(&["task", "ls"]);
    command.env("VAKBUS_NATS_TLS_CA", dir.join("ca.pem"));
    assert_eq!(run(command, "").code, Some(0));
}

#[test]
fn encryption_that_is_required_is_not_done_without() {
    let server = TestServer::start();
    let machine = Machine::new(&server);
    let mut command = machine.command(&["task", "ls"]);
    command.env("VAKBUS_NATS_TLS", "required");
    let refused = run(command, "");
    assert_eq!(refused.code, Some(5), "{refused:?}");
}

#[test]
fn more_copies_than_the_servers_give_are_refused() {
    let server = TestServer::start();
    let machine = Machine::new(&server);
    let mut command = machine.command(&["task", "send", "x"]);
    command.env("VAKBUS_NATS_PROFILE", "replicated");
    let refused = run(command, "");
    assert!(![Some(0), None].contains(&refused.code), "{refused:?}");
    assert!(refused.stdout.is_empty() && refused.stderr.contains("error: "), "{refused:?}");
}

#[test]
fn the_status_says_which_engine_it_is_and_what_it_promises() {
    let server = TestServer::start();
    let machine = Machine::new(&server);
    let mut command = machine.command(&["status", "--json"]);
    command.env("VAKBUS_NATS_PROFILE", "synced");
    let outcome = run(command, "");
    let status = outcome.json();
    assert_eq!((outcome.code, &status["running"]), (Some(0), &Value::Bool(true)), "{status}");
    assert_eq!((&status["engine"], &status["durability"]), (&"nats".into(), &"synced".into()));
    assert_eq!((&status["shared"], &status["url"]), (&true.into(), &server.url().into()));
    let text = machine.does(&["status"]);
    assert!(text.contains("engine      nats, shared by processes"), "{text}");
    assert!(text.contains("not a power cut") && text.contains("VAKBUS_NATS_URL"), "{text}");
}

#[test]
fn the_status_of_a_server_that_is_away_is_told_to_programs() {
    let mut server = TestServer::start();
    let machine = Machine::new(&server);
    server.kill();
    let status = machine.run(&["status", "--json"]);
    assert_eq!((status.code, &status.json()["running"]), (Some(5), &Value::Bool(false)));
}
