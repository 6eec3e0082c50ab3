//! `vakbus up --nats`: a server of its own, found by all commands, started again, never replaced.

use std::{
    io::{ErrorKind, Read},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::Path,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{
    daemon_support::{Daemon, ids},
    nats_support::program,
    support::{LIMIT, Lines, Outcome, Place, Running, run},
};

/// A running `vakbus up --nats`.
pub(crate) struct Up {
    running: Running,
    pub(crate) ready: Value,
    events: Lines,
}

impl Up {
    pub(crate) fn start(place: &Place) -> Self {
        Self::with(place, &[])
    }

    /// As [`Up::start`], with more arguments.
    pub(crate) fn with(place: &Place, args: &[&str]) -> Self {
        let mut command = place.command();
        command.args(["up", "--nats", "--json"]).args(args).env("NATS_SERVER", program());
        let mut running = Running::start(command);
        let events = Lines::of(running.take_stdout());
        let Some(line) = events.next() else { panic!("never ready: {:?}", running.ended()) };
        Self { running, ready: serde_json::from_str(&line).unwrap(), events }
    }

    fn event(&self) -> Value {
        serde_json::from_str(&self.events.next().unwrap()).unwrap()
    }

    fn server(&self) -> Pid {
        let number = self.ready["server"].as_i64().unwrap();
        Pid::from_raw(number.try_into().unwrap()).unwrap()
    }

    pub(crate) fn stop(self) -> Outcome {
        self.running.signal(Signal::INT);
        self.running.ended()
    }
}

#[test]
fn commands_find_the_server_without_options() {
    let place = Place::new();
    let up = Up::start(&place);
    assert_eq!(up.ready["ready"], true);
    assert_eq!(up.ready["durability"], "synced");
    assert_eq!(up.ready["workspaces"], serde_json::json!(["default"]));
    let sent = place.run(&["task", "send", "x"]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    assert_eq!(ids(&place.run(&["task", "ls", "--json"])), [sent.stdout.trim()]);
    assert!(!place.path("data/bus").exists());
    assert_eq!(up.stop().code, Some(0));
}

#[test]
fn a_server_that_is_killed_is_started_again_at_its_place_with_all_it_had() {
    let place = Place::new();
    let up = Up::start(&place);
    let sent = place.run(&["task", "send", "x"]);
    kill_process(up.server(), Signal::KILL).unwrap();
    // It is away for a moment, and commands wait for it.
    assert_eq!(ids(&place.run(&["task", "ls", "--json"])), [sent.stdout.trim()]);
    let died = up.event();
    assert_eq!((&died["event"], &died["deaths"]), (&"died".into(), &1.into()), "{died}");
    let mut again = up.event();
    if again["event"] == "died" {
        again = up.event();
    }
    assert_eq!((&again["event"], &again["url"]), (&"running".into(), &up.ready["url"]), "{again}");
    assert_ne!(again["server"], up.ready["server"]);
    assert_eq!(up.stop().code, Some(0));
}

#[test]
fn what_the_server_kept_is_there_the_next_time_and_at_the_same_place() {
    let place = Place::new();
    let up = Up::start(&place);
    let (url, sent) = (up.ready["url"].clone(), place.run(&["task", "send", "x"]));
    let stopped = up.stop();
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    let up = Up::start(&place);
    assert_eq!(up.ready["url"], url);
    assert_eq!(ids(&place.run(&["task", "ls", "--json"])), [sent.stdout.trim()]);
    up.stop();
}

#[test]
fn a_bus_whose_server_does_not_run_is_not_replaced_by_another() {
    let place = Place::new();
    Up::start(&place).stop();
    for args in [["task", "send", "x"].as_slice(), &["swarm", "--tasks", "/dev/null", "--", "true"]]
    {
        let refused = place.run(args);
        assert_eq!(refused.code, Some(5), "{refused:?}");
        assert!(refused.stderr.contains("vakbus up --nats"), "{refused:?}");
    }
    assert!(!place.path("data/bus").exists());
    // A daemon is asked for, so the bus is this machine's own from now on.
    let mut daemon = Daemon::start(&place);
    daemon.running.says("own engine from now on");
    assert!(ids(&place.run(&["task", "ls", "--json"])).is_empty());
    daemon.stop();
    assert!(ids(&place.run(&["task", "ls", "--json"])).is_empty());
}

#[test]
fn a_server_ends_with_its_supervisor_however_that_ends() {
    let place = Place::new();
    let up = Up::start(&place);
    let url = up.ready["url"].as_str().unwrap();
    let mut client = TcpStream::connect(url.strip_prefix("nats://").unwrap()).unwrap();
    client.set_read_timeout(Some(LIMIT)).unwrap();
    up.running.signal(Signal::KILL);
    assert_eq!(up.running.ended().code, None);
    // Its connections end with it, one way or another.
    let ended = client.read_to_end(&mut Vec::new());
    assert!(!ended.is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
    assert_eq!(place.run(&["task", "ls"]).code, Some(5));
}

#[test]
fn two_buses_of_one_data_directory_are_refused() {
    let place = Place::new();
    let up = Up::start(&place);
    for args in [["up", "--nats"].as_slice(), &["up"]] {
        let refused = place.run(args);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.stderr.contains("vakbus up --nats runs already"), "{refused:?}");
    }
    up.stop();
    let daemon = Daemon::start(&place);
    let refused = place.run(&["up", "--nats"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("a daemon runs already"), "{refused:?}");
    daemon.stop();
}

#[test]
fn a_stranger_on_the_same_machine_does_not_get_in() {
    let place = Place::new();
    let up = Up::start(&place);
    let stranger = Place::new();
    let refused = stranger.run(&["--nats-url", up.ready["url"].as_str().unwrap(), "task", "ls"]);
    assert_eq!(refused.code, Some(4), "{refused:?}");
    let key = place.path("data/operator/operator.nk");
    assert_eq!(std::fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
    up.stop();
}

#[test]
fn its_connections_are_encrypted_when_it_has_a_certificate() {
    let place = Place::new();
    let tls = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/tls");
    let mut command = place.command();
    command.args(["up", "--nats", "--json", "--tls-cert"]).arg(tls.join("server.pem"));
    command.arg("--tls-key").arg(tls.join("server.key")).env("NATS_SERVER", program());
    command.env("VAKBUS_NATS_TLS_CA", tls.join("ca.pem"));
    let daemon = Daemon::of(command);
    assert!(daemon.ready["url"].as_str().unwrap().starts_with("tls://127.0.0.1:"));
    let mut command = place.command();
    command.args(["task", "send", "x"]).env("VAKBUS_NATS_TLS_CA", tls.join("ca.pem"));
    assert_eq!(run(command, "").code, Some(0));
    assert_eq!(daemon.stop().code, Some(0));
}

#[test]
fn a_server_that_other_machines_reach_needs_a_certificate() {
    let place = Place::new();
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let mut command = place.command();
        command.args(["up", "--nats", "--listen", listen]).env("NATS_SERVER", program());
        run(command, "").is_wrong_call("nothing is encrypted");
    }
    assert!(!place.path("data/nats").exists());
}

#[test]
fn a_missing_nats_server_is_said_with_how_to_get_one() {
    let place = Place::new();
    let mut command = place.command();
    command.args(["up", "--nats"]).env("NATS_SERVER", place.path("nowhere"));
    let refused = run(command, "");
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(5), ""), "{refused:?}");
    assert!(refused.stderr.contains("github.com/nats-io/nats-server/releases"), "{refused:?}");
}

#[test]
fn a_server_that_never_stays_is_given_up() {
    let place = Place::new();
    place.write(
        "nats-server",
        "#!/bin/sh\n[ \"$1\" = --version ] && echo 'nats-server: v2.15.1' && exit 0\nexit 9\n",
    );
    let program = place.path("nats-server");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = place.command();
    command.args(["up", "--nats"]).env("NATS_SERVER", program);
    let given_up = run(command, "");
    assert_eq!((given_up.code, given_up.stdout.as_str()), (Some(5), ""), "{given_up:?}");
    assert!(given_up.stderr.contains("died 6 times in a row"), "{given_up:?}");
}

#[test]
fn a_server_for_others_is_not_started_beside_one_that_is_named() {
    let place = Place::new();
    let named = place.run(&["up", "--nats", "--nats-url", "nats://h"]);
    named.is_wrong_call("cannot be used with");
    let mut command = place.command();
    command.args(["up", "--nats"]).env("VAKBUS_NATS_URL", "nats://h");
    run(command, "").is_wrong_call("names a server");
}

#[test]
fn a_flood_in_a_terminal_goes_on_over_a_restart_of_the_server() {
    let place = Place::new();
    let up = Up::start(&place);
    let began = Lines::through(&place.pipe("began"));
    let script = "echo run >>runs; echo here >began; while [ ! -e enough ]; do seq 1 2000; done; \
                  test -t 1 && echo the end";
    let mut worker = place.start(&["worker", "--role", "coder", "--pty", "--", "sh", "-c", script]);
    worker.says("serving coder");
    assert_eq!(place.run(&["task", "send", "--role", "coder", "--id", "t-1", "x"]).code, Some(0));
    assert_eq!(began.next().as_deref(), Some("here"));
    kill_process(up.server(), Signal::KILL).unwrap();
    while up.event()["event"] != "running" {}
    // The bus takes events again while the command still writes.
    let events = ["sub", "--count", "3", "--json", "vak.events.default.*.terminal"];
    let heard = place.run(&events);
    assert_eq!(heard.code, Some(0), "{heard:?}");
    place.write("enough", "");
    let result = place.run(&["task", "result", "t-1", "--wait"]);
    assert_eq!(result.code, Some(0), "{:?}", result.stderr);
    assert!(result.stderr.contains("task t-1: done"), "{}", result.stderr);
    let peak = worker.peak_mib();
    assert!(peak < 512, "{peak} MiB");
    worker.signal(Signal::INT);
    let ended = worker.ended();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("output is shown again"), "{ended:?}");
    assert_eq!(place.read("runs"), "run\n", "it ran once");
    let letters = place.run(&["dlq", "ls", "--json"]);
    assert_eq!((letters.code, letters.stdout.as_str()), (Some(0), ""), "{letters:?}");
    up.stop();
}
