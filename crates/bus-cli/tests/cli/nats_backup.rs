//! `vakbus backup` and `vakbus restore` of NATS servers: the words and exit codes of this machine's
//! own engine, and nothing that is there is touched.

use std::{fs, sync::mpsc, thread};

use bus_testserver::TestServer;
use rustix::process::Signal;

use crate::{
    daemon_support::ids,
    nats_support::{Machine, login, program, server_that_denies},
    nats_up::Up,
    support::{LIMIT, Outcome, Place, run},
};

/// A server with one task, and a backup of it.
fn backed_up() -> (TestServer, Machine, String) {
    let server = TestServer::start();
    let machine = Machine::new(&server);
    let id = machine.does(&["task", "send", "x"]);
    machine.does(&["backup", "backup"]);
    (server, machine, id)
}

/// Asserts exit code, and that the error says `what` and to do `next`.
fn fails(outcome: &Outcome, code: i32, what: &str, next: &str) {
    assert_eq!(outcome.code, Some(code), "{outcome:?}");
    let (said, then) = outcome.stderr.split_once("\n  next: ").unwrap_or_default();
    assert!(said.contains(what) && then.contains(next), "{outcome:?}");
}

/// `vakbus` on the data of `machine` and another server.
fn on(machine: &Machine, server: &TestServer, args: &[&str]) -> Outcome {
    let mut command = machine.place.command();
    command.args(args).env("VAKBUS_NATS_URL", server.url());
    run(command, "")
}

#[test]
fn a_backup_of_servers_is_told_as_any_other() {
    let (_server, machine, _id) = backed_up();
    let made = machine.run(&["backup", "again", "--json"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let told = made.json();
    assert_eq!(told["files"], told["streams"], "{told}");
    assert!(told["files"].as_u64().unwrap() >= 5 && told["bytes"].as_u64().unwrap() > 0, "{told}");
    let verified = machine.run(&["backup", "verify", "again"]);
    let expected = format!("verified: again, {} files, {} bytes\n", told["files"], told["bytes"]);
    assert_eq!((verified.code, verified.stdout), (Some(0), expected));
}

#[test]
fn what_was_backed_up_is_restored_on_other_servers() {
    let (_server, machine, id) = backed_up();
    let other = TestServer::start();
    let restored = on(&machine, &other, &["restore", "backup", "--json"]);
    assert_eq!(restored.code, Some(0), "{restored:?}");
    let told = restored.json();
    assert_eq!((&told["restored"], &told["knows_ids"]), (&other.url().into(), &false.into()));
    assert!(restored.stderr.contains("start the servers again"), "{restored:?}");
    assert_eq!(ids(&on(&machine, &other, &["task", "ls", "--json"])), [id]);
}

#[test]
fn what_is_there_is_not_restored_over() {
    let (_server, machine, id) = backed_up();
    let later = machine.does(&["task", "send", "y"]);
    fails(&machine.run(&["restore", "backup"]), 1, "is there already", "none of these streams");
    assert_eq!(ids(&machine.run(&["task", "ls", "--json"])), [id, later]);
}

/// Damages a stream of the backup, and returns its file.
fn damage(machine: &Machine) -> String {
    let streams = fs::read_dir(machine.place.path("backup/streams")).unwrap();
    let file = streams.map(|entry| entry.unwrap().path()).min().unwrap();
    let mut bytes = fs::read(&file).unwrap();
    bytes[100] ^= 1;
    fs::write(&file, bytes).unwrap();
    file.file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn a_damaged_backup_of_servers_is_refused_by_the_name_of_the_file() {
    let (_server, machine, _id) = backed_up();
    let file = damage(&machine);
    machine.run(&["backup", "verify", "backup"]).failed_with(&file, "another backup");
    let other = TestServer::start();
    on(&machine, &other, &["restore", "backup"]).failed_with(&file, "another backup");
    assert!(ids(&on(&machine, &other, &["task", "ls", "--json"])).is_empty());
}

/// `backup verify --deep`, with the test's own server and TMPDIR.
fn deep(machine: &Machine) -> Outcome {
    let mut command = machine.command(&["backup", "verify", "backup", "--deep", "--json"]);
    fs::create_dir_all(machine.place.path("scratch")).unwrap();
    command.env("NATS_SERVER", program()).env("TMPDIR", machine.place.path("scratch"));
    run(command, "")
}

#[test]
fn a_deep_look_restores_it_on_a_server_of_its_own_and_leaves_nothing() {
    let (_server, machine, _id) = backed_up();
    let tried = deep(&machine);
    assert_eq!(tried.code, Some(0), "{tried:?}");
    assert_eq!(tried.json()["deep"], true);
    assert_eq!(fs::read_dir(machine.place.path("scratch")).unwrap().count(), 0);
    damage(&machine);
    assert_eq!(deep(&machine).code, Some(1));
}

#[test]
fn a_deep_look_without_a_server_says_how_to_get_one() {
    let (_server, machine, _id) = backed_up();
    let mut command = machine.command(&["backup", "verify", "backup", "--deep"]);
    command.env("NATS_SERVER", "/nowhere/nats-server");
    let refused = run(command, "");
    assert!(refused.code != Some(0) && refused.stderr.contains("NATS_SERVER"), "{refused:?}");
}

#[test]
fn a_server_that_is_supervised_is_backed_up_and_made_again() {
    let place = Place::new();
    let up = Up::start(&place);
    let sent = place.run(&["task", "send", "x"]);
    let made = place.run(&["backup", "backup"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    assert_eq!(up.stop().code, Some(0));
    let restore = || {
        let mut command = place.command();
        command.args(["restore", "backup", "--data-dir", "again"]).env("NATS_SERVER", program());
        run(command, "")
    };
    restore().failed_with("there is no workspace default", "put the directory workspaces back");
    fs::create_dir(place.path("again")).unwrap();
    let mut copy = std::process::Command::new("cp");
    copy.arg("-a").arg(place.path("data/workspaces")).arg(place.path("again"));
    assert!(copy.status().unwrap().success());
    let restored = restore();
    assert_eq!(restored.code, Some(0), "{restored:?}");
    assert!(restored.stderr.contains("vakbus up --nats"), "{restored:?}");
    // No other engine takes its place.
    let alone = place.run(&["task", "ls", "--data-dir", "again"]);
    assert_eq!(alone.code, Some(5), "{alone:?}");
    let up = Up::with(&place, &["--data-dir", "again"]);
    let kept = ids(&place.run(&["task", "ls", "--json", "--data-dir", "again"]));
    assert_eq!(kept, [sent.stdout.trim()]);
    assert_eq!(up.stop().code, Some(0));
}

#[test]
fn nothing_is_restored_where_a_supervised_server_has_its_store() {
    let place = Place::new();
    let up = Up::start(&place);
    assert_eq!(place.run(&["backup", "backup"]).code, Some(0));
    place.run(&["restore", "backup"]).failed_with("a nats-server works in", "stop it first");
    assert_eq!(up.stop().code, Some(0));
    place.run(&["restore", "backup"]).failed_with("is there already", "--data-dir");
}

#[test]
fn a_copy_of_the_other_engine_is_of_no_use() {
    let place = Place::new();
    assert_eq!(place.run(&["task", "send", "x"]).code, Some(0));
    assert_eq!(place.run(&["backup", "backup"]).code, Some(0));
    let server = TestServer::start();
    let mut command = place.command();
    command.args(["restore", "backup", "--data-dir", "again"]).env("VAKBUS_NATS_URL", server.url());
    fails(&run(command, ""), 2, "is no backup of servers", "--data-dir");
    let deep = place.run(&["backup", "verify", "backup", "--deep", "--json"]);
    assert_eq!((deep.code, deep.json()["messages"].clone()), (Some(0), 1.into()));
}

#[test]
fn a_worker_makes_no_backup_of_servers() {
    let (_server, machine, _id) = backed_up();
    machine.does(&["agent", "add", "bob", "--role", "worker"]);
    let refused = machine.run(&["backup", "mine", "--as", "bob"]);
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert!(!machine.place.path("mine").exists());
}

#[test]
fn a_login_that_the_server_lets_make_none_is_told_what_it_takes() {
    let known = login();
    let server = server_that_denies(&known, "$JS.API.STREAM.SNAPSHOT.>");
    let machine = Machine::new(&server);
    let with = |args: &[&str]| {
        let mut command = machine.command(args);
        command.env("VAK_BUS_NATS_NKEY_SEED", known.seed_text().as_str());
        run(command, "")
    };
    assert_eq!(with(&["task", "send", "x"]).code, Some(0));
    fails(&with(&["backup", "backup"]), 4, "refuses the subject", "$JS.API.STREAM.SNAPSHOT.*");
    assert!(!machine.place.path("backup").exists());
}

#[test]
fn a_signal_ends_a_backup_and_leaves_nothing() {
    let server = TestServer::start();
    let machine = Machine::new(&server);
    machine.does(&["task", "send", "x"]);
    // Some are done before the server stands still.
    for round in 0..50 {
        let name = format!("backup-{round}");
        let dir = machine.place.path(&name);
        let (sender, begun) = mpsc::channel();
        let streams = dir.join("streams");
        thread::spawn(move || {
            while !streams.exists() {
                thread::yield_now();
            }
            sender.send(())
        });
        let backup = machine.start(&["backup", &name]);
        begun.recv_timeout(LIMIT).unwrap();
        server.freeze().unwrap();
        backup.signal(Signal::TERM);
        let ended = backup.ended();
        server.thaw().unwrap();
        if ended.code != Some(0) {
            fails(&ended, 1, "stopped by a signal", "run it again");
            assert!(!dir.exists());
            return;
        }
    }
    panic!("no backup was under way");
}
