//! A server does not outlive the process that started it, however that process dies.

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use bus_nats::server::NatsServer;

use crate::wire::Wire;

#[test]
fn a_killed_process_takes_its_server_with_it() {
    let home = tempfile::tempdir().unwrap();
    let (mut holder, url) = hold(home.path());
    let mut wire = Wire::to(&url).unwrap();
    wire.ping().unwrap();
    holder.kill().unwrap();
    holder.wait().unwrap();
    wire.until_closed();
}

#[test]
fn the_directory_of_a_killed_process_can_be_used_again() {
    let home = tempfile::tempdir().unwrap();
    let (mut holder, url) = hold(home.path());
    let mut wire = Wire::to(&url).unwrap();
    holder.kill().unwrap();
    holder.wait().unwrap();
    wire.until_closed();
    // The connection closes a moment before the process ends, and with it the lock.
    let options = bus_testserver::options(home.path());
    let lock = std::fs::File::open(options.dir.join("lock")).unwrap();
    lock.lock().unwrap();
    lock.unlock().unwrap();
    NatsServer::start(options).unwrap();
}

/// Another process that holds a server, and the server's URL.
fn hold(home: &std::path::Path) -> (Child, String) {
    let options = bus_testserver::options(home);
    let mut command = Command::new(holder());
    command.arg(options.binary.path()).arg(&options.dir);
    let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut url = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut url).unwrap();
    (holder, url.trim().to_owned())
}

fn holder() -> PathBuf {
    let deps = std::env::current_exe().unwrap();
    let build = deps.ancestors().nth(2).unwrap();
    let holder = build.join("examples").join("hold_server");
    assert!(holder.exists(), "{} is not there: cargo builds it with the tests", holder.display());
    holder
}
