//! `vakbus auth` and the identities of agents on servers that this data directory's operator has.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use bus_core::Bus;
use bus_nats::{
    ConnectionState,
    server::{NatsServer, ServerOptions},
};
use rustix::process::Signal;

use crate::{
    auth_support::Operated,
    daemon_support::{ids, lines},
    nats_support::{Machine, program, server_with_accounts},
    nats_up::Up,
    support::{LIMIT, Place, Running, run},
};

#[test]
fn the_rendered_configuration_is_taken_by_the_server() {
    let place = Place::new();
    let args = ["auth", "server-config", "--out", "server", "--domain", "hub", "--callout"];
    let made = place.run(&[&args[..], &["--websocket", "127.0.0.1:8443"]].concat());
    assert_eq!(made.code, Some(0), "{made:?}");
    let mut check = Command::new(program());
    check.arg("-t").arg("-c").arg(place.path("server/server.conf"));
    let checked = check.output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn no_secret_stands_in_a_server_configuration() {
    let place = Place::new();
    place.run(&["auth", "server-config", "--out", "server", "--callout"]);
    let text = place.read("server/server.conf");
    let mut keys = 0;
    for dir in ["data/operator", "data/workspaces/default"] {
        for file in fs::read_dir(place.path(dir)).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "nk" || ending == "xk") {
                let seed = fs::read_to_string(&path).unwrap();
                assert!(!text.contains(seed.trim_end()), "{}", path.display());
                assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
                keys += 1;
            }
        }
    }
    assert_eq!(keys, 8);
    let mode = fs::metadata(place.path("server/server.conf")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn writing_a_configuration_again_changes_nothing() {
    let place = Place::new();
    let write = || place.run(&["auth", "server-config", "--out", "server"]);
    assert_eq!(write().code, Some(0));
    let text = place.read("server/server.conf");
    assert_eq!(write().code, Some(0));
    assert_eq!(place.read("server/server.conf"), text);
    place.run(&["workspace", "new", "two"]);
    write().is_wrong_call("says something else");
    assert_eq!(place.read("server/server.conf"), text);
}

#[test]
fn an_agent_whose_login_cannot_be_written_is_not_made() {
    let place = Place::new();
    place.write("bob.creds", "mine");
    let add = ["agent", "add", "bob", "--role", "worker", "--out", "bob.creds"];
    place.run(&add).failed_with("bob.creds", "not there yet");
    assert_eq!(place.read("bob.creds"), "mine");
    assert_eq!(place.run(&["agent", "ls"]).stdout, "");
    // And none is left where the agent cannot be made.
    assert_eq!(place.run(&["agent", "add", "ann", "--role", "worker"]).code, Some(0));
    let twice = ["agent", "add", "ann", "--role", "worker", "--out", "ann.creds"];
    assert_ne!(place.run(&twice).code, Some(0));
    assert!(!place.path("ann.creds").exists());
}

#[test]
fn a_server_for_other_machines_needs_a_certificate() {
    let place = Place::new();
    let args = ["auth", "server-config", "--out", "server", "--listen", "0.0.0.0:4222"];
    place.run(&args).is_wrong_call("nothing is encrypted");
    assert!(!place.path("server").exists());
}

#[test]
fn a_workspace_that_is_made_later_is_known_to_the_running_server() {
    let operated = Operated::start();
    let made = operated.does(&["workspace", "new", "two"]);
    assert!(made.contains("two  taken by vakbus"), "{made}");
    let sent = operated.does(&["task", "send", "x", "--workspace", "two"]);
    let listed = operated.run(&["task", "ls", "--json", "--workspace", "two"]);
    assert_eq!(ids(&listed), [sent]);
    assert!(ids(&operated.run(&["task", "ls", "--json"])).is_empty());
}

#[test]
fn a_workspace_that_nobody_told_of_is_told_when_it_is_used() {
    let operated = Operated::start();
    let sent = operated.does(&["task", "send", "x", "--workspace", "fresh"]);
    assert_eq!(ids(&operated.run(&["task", "ls", "--json", "--workspace", "fresh"])), [sent]);
}

#[test]
fn what_servers_do_not_hold_yet_is_told_and_pushed() {
    let mut operated = Operated::start();
    operated.does(&["auth", "status"]);
    operated.kill_server();
    let made = operated.run(&["workspace", "new", "two"]);
    assert_eq!(made.code, Some(5), "{made:?}");
    assert!(made.stderr.contains("vakbus auth push"), "{made:?}");
    operated.start_server();
    let stands = operated.run(&["auth", "status"]);
    assert_eq!(stands.code, Some(5), "{stands:?}");
    assert!(stands.stderr.contains("two: give it to the servers"), "{stands:?}");
    operated.does(&["auth", "push"]);
    operated.does(&["auth", "status"]);
}

#[test]
fn a_server_of_another_operator_is_told_as_that() {
    let (operated, stranger) = (Operated::start(), Place::new());
    stranger.run(&["auth", "server-config", "--out", "server"]);
    let refused = run(operated.command(&stranger, &["auth", "push"]), "");
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert!(refused.stderr.contains("not of this data directory's operator"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_agent_is_cut_off_while_it_is_connected() {
    let operated = Operated::start();
    operated.does(&["agent", "add", "bob", "--role", "worker", "--out", "bob.creds"]);
    let bob = operated.log_in("bob.creds").await.unwrap();
    let told = operated.does(&["agent", "revoke", "bob", "-y"]);
    assert!(told.contains("default  taken by vakbus"), "{told}");
    let mut states = bob.states();
    let cut_off = states.wait_for(|state| *state == ConnectionState::Denied);
    tokio::time::timeout(LIMIT, cut_off).await.unwrap().unwrap();
    assert!(operated.refuses("bob.creds").await);
    bob.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_machines_that_revoke_at_once_lose_neither() {
    let operated = Operated::start();
    for name in ["ann", "bob"] {
        let file = format!("{name}.creds");
        operated.does(&["agent", "add", name, "--role", "worker", "--out", &file]);
    }
    let other = operated.copy();
    let here = operated.command(&operated.place, &["agent", "revoke", "ann", "-y"]);
    let there = operated.command(&other, &["agent", "revoke", "bob", "-y"]);
    let [here, there] = std::thread::scope(|scope| {
        let at_once = [here, there].map(|command| scope.spawn(move || run(command, "")));
        at_once.map(|ended| ended.join().unwrap())
    });
    assert_eq!((here.code, there.code), (Some(0), Some(0)), "{here:?} {there:?}");
    assert!(operated.refuses("ann.creds").await && operated.refuses("bob.creds").await);
    // What the other one said is kept, whoever pushes next.
    operated.does(&["auth", "push"]);
    assert!(operated.refuses("ann.creds").await && operated.refuses("bob.creds").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_that_reached_no_server_is_told_and_pushed_later() {
    let mut operated = Operated::start();
    operated.does(&["agent", "add", "bob", "--role", "worker", "--out", "bob.creds"]);
    operated.kill_server();
    let told = operated.run(&["agent", "revoke", "bob", "-y"]);
    assert_eq!(told.code, Some(5), "{told:?}");
    assert!(told.stderr.contains("others are not told yet"), "{told:?}");
    operated.start_server();
    operated.log_in("bob.creds").await.unwrap();
    operated.does(&["auth", "push"]);
    assert!(operated.refuses("bob.creds").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_that_no_server_is_told_of_does_not_pass_in_silence() {
    let operated = Operated::start();
    operated.does(&["agent", "add", "bob", "--role", "worker", "--out", "bob.creds"]);
    let untold = operated.place.run(&["agent", "revoke", "bob", "-y"]);
    assert_eq!(untold.code, Some(5), "{untold:?}");
    assert!(untold.stderr.contains("they let it in"), "{untold:?}");
    operated.log_in("bob.creds").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_is_pushed_whoever_logs_in() {
    let operated = Operated::start();
    for name in ["ann", "bob"] {
        let file = format!("{name}.creds");
        operated.does(&["agent", "add", name, "--role", "worker", "--out", &file]);
    }
    let told = operated.run(&["agent", "revoke", "bob", "-y", "--creds", "ann.creds"]);
    assert!(told.stdout.contains("default  taken by vakbus"), "{told:?}");
    let refused = operated.log_in("bob.creds").await.map(drop).map_err(|error| error.kind());
    assert_eq!(refused, Err(bus_core::ErrorKind::Denied), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keeper_pushes_what_a_machine_without_the_operator_revokes() {
    let operated = Operated::start();
    operated.does(&["agent", "add", "bob", "--role", "worker", "--out", "bob.creds"]);
    let other = operated.copy();
    fs::remove_dir_all(other.path("data/operator")).unwrap();
    let keeper =
        crate::daemon_support::Daemon::of(operated.command(&operated.place, &["up", "--json"]));
    let bob = operated.log_in("bob.creds").await.unwrap();
    let told = run(operated.command(&other, &["agent", "revoke", "bob", "-y"]), "");
    assert_eq!(told.code, Some(5), "{told:?}");
    let mut states = bob.states();
    let cut_off = states.wait_for(|state| *state == ConnectionState::Denied);
    tokio::time::timeout(LIMIT, cut_off).await.unwrap().unwrap();
    assert!(operated.refuses("bob.creds").await);
    bob.close().await.unwrap();
    assert_eq!(keeper.stop().code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keeper_tells_a_server_that_comes_back_of_what_it_missed() {
    let mut operated = Operated::start();
    operated.does(&["agent", "add", "bob", "--role", "worker", "--out", "bob.creds"]);
    let keeper =
        crate::daemon_support::Daemon::of(operated.command(&operated.place, &["up", "--json"]));
    operated.log_in("bob.creds").await.unwrap().close().await.unwrap();
    operated.kill_server();
    operated.run(&["agent", "revoke", "bob", "-y"]);
    operated.start_server();
    let told = async {
        while !operated.refuses("bob.creds").await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, told).await.unwrap();
    assert_eq!(keeper.stop().code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_of_one_workspace_hears_nothing_of_its_namesake() {
    let operated = Operated::start();
    operated.does(&["workspace", "new", "two"]);
    operated.does(&["agent", "add", "bob", "--role", "observer", "--out", "bob.creds"]);
    operated.does(&[
        "agent",
        "add",
        "bob",
        "--role",
        "observer",
        "--workspace",
        "two",
        "--out",
        "bob2.creds",
    ]);
    let one = operated.log_in("bob.creds").await.unwrap();
    let filter = "vak.events.two.>".parse().unwrap();
    let overflow = bus_core::Overflow::DropOldest { capacity: 8.try_into().unwrap() };
    let refused = one.subscribe(filter, overflow).await.err();
    assert!(refused.is_some_and(|error| error.kind() == bus_core::ErrorKind::Denied));
}

#[test]
fn a_worker_of_another_machine_works_with_its_own_credentials_alone() {
    let operated = Operated::start();
    let add = ["agent", "add", "bob", "--role", "worker", "--queue", "coder", "--out", "bob.creds"];
    operated.does(&add);
    operated.does(&["task", "send", "x", "--role", "coder"]);
    operated.does(&["task", "send", "y", "--role", "judge"]);
    let other = operated.copy();
    fs::remove_dir_all(other.path("data/operator")).unwrap();
    fs::remove_file(other.path("data/workspaces/default/store.nk")).unwrap();
    fs::copy(operated.place.path("bob.creds"), other.path("bob.creds")).unwrap();
    let work = |role: &str| {
        let args = ["worker", "--role", role, "--as", "bob", "--creds", "bob.creds"];
        operated.command(&other, &[&args[..], &["--", "true"]].concat())
    };
    let mut worker = Running::start(work("coder"));
    worker.says("completed");
    worker.signal(Signal::INT);
    assert_eq!(worker.ended().code, Some(0));
    // It tried nothing that it may not.
    assert!(!operated.log().contains("Violation"), "{}", operated.log());
    // Its server knows what it may not.
    assert_eq!(run(work("judge"), "").code, Some(4));
    let as_other = ["task", "ls", "--creds", "bob.creds"];
    let refused = run(operated.command(&other, &as_other), "");
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert!(refused.stderr.contains("those of bob, not of cli"), "{refused:?}");
}

#[test]
fn a_copy_of_a_workspace_logs_in_without_the_operator() {
    let operated = Operated::start();
    let sent = operated.does(&["task", "send", "x"]);
    let other = operated.copy();
    fs::remove_dir_all(other.path("data/operator")).unwrap();
    assert_eq!(ids(&run(operated.command(&other, &["task", "ls", "--json"]), "")), [sent]);
}

#[test]
fn the_status_of_accounts_has_a_form_for_programs() {
    let operated = Operated::start();
    operated.does(&["agent", "add", "bob", "--role", "worker", "--valid-for", "1d"]);
    let stands = operated.run(&["auth", "status", "--json"]);
    assert_eq!(stands.code, Some(0), "{stands:?}");
    let rows = lines(&stands);
    assert_eq!((&rows[0]["server"], &rows[0]["lacks"]), (&"vakbus".into(), &serde_json::json!([])));
    let names: Vec<_> = rows[1..].iter().map(|row| row["account"].as_str().unwrap()).collect();
    assert_eq!(names, ["system", "callout", "default (store)", "default"]);
    assert!(rows[1..].iter().all(|row| row["as_here"] == 1), "{rows:?}");
    assert!(stands.stderr.contains("the certificate of bob ends at"), "{stands:?}");
}

#[test]
fn two_workspaces_with_one_agent_name_never_meet() {
    let operated = Operated::start();
    operated.does(&["workspace", "new", "two"]);
    for workspace in ["default", "two"] {
        operated.does(&["agent", "add", "bob", "--role", "operator", "--workspace", workspace]);
        operated.does(&["task", "send", workspace, "--as", "bob", "--workspace", workspace]);
    }
    for workspace in ["default", "two"] {
        let listed = operated.does(&["task", "ls", "--as", "bob", "--workspace", workspace]);
        assert!(listed.ends_with(workspace) && listed.lines().count() == 1, "{listed}");
    }
}

#[test]
fn credentials_from_a_file_and_from_the_environment_are_the_same_login() {
    let (server, token, user) = server_with_accounts();
    let machine = Machine::new(&server);
    let text = bus_crypto::creds::render(&token, &user);
    machine.place.write("u.creds", &text);
    let private = |mode| {
        let file = machine.place.path("u.creds");
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
    };
    private(0o600);
    let sent = machine.does(&["task", "send", "x", "--creds", "u.creds"]);
    let mut command = machine.command(&["task", "ls", "--json"]);
    command.env("VAK_BUS_NATS_CREDENTIALS_JWT", &token);
    command.env("VAK_BUS_NATS_NKEY_SEED", user.seed_text().as_str());
    assert_eq!(ids(&run(command, "")), std::slice::from_ref(&sent));
    let mut command = machine.command(&["task", "ls", "--json"]);
    command.env("VAKBUS_NATS_CREDS", machine.place.path("u.creds"));
    assert_eq!(ids(&run(command, "")), [sent]);
    private(0o644);
    let refused = machine.run(&["task", "ls", "--creds", "u.creds"]);
    refused.failed_with("other users can reach it", "chmod 600");
}

/// A data directory whose server knew no accounts, with one task in it.
fn from_before() -> (Place, String) {
    let place = Place::new();
    let options = ServerOptions::new(bus_testserver::binary(), place.path("data/nats"));
    place.run(&["workspace", "new", "default"]);
    let mut server = NatsServer::start(options).unwrap();
    let sent = place.run(&["task", "send", "x", "--nats-url", server.url()]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    server.stop();
    (place, sent.stdout.trim().to_owned())
}

#[test]
fn the_store_of_before_becomes_that_of_the_one_workspace() {
    let (place, sent) = from_before();
    let up = Up::start(&place);
    assert_eq!(ids(&place.run(&["task", "ls", "--json"])), [sent]);
    assert_eq!(up.stop().code, Some(0));
}

#[test]
fn a_store_of_before_that_several_workspaces_shared_is_left_as_it_is() {
    let (place, _sent) = from_before();
    place.run(&["workspace", "new", "two"]);
    let mut command = place.command();
    command.args(["up", "--nats"]).env("NATS_SERVER", program());
    run(command, "").failed_with("when all workspaces shared it", "move that directory away");
    assert!(place.path("data/nats/jetstream/$G").exists());
}
