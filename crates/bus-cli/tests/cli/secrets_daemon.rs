//! Secrets and files while a daemon works: nothing that is told or kept holds one (S0.68, C09).

use std::process::Command;

use rustix::process::Signal;

use crate::{
    daemon_support::Daemon,
    secrets::searched,
    support::{Place, Running, run},
};

const JWT: &str = "canary-jwt-0a1b2c3d4e5f60718293a4b5c6d7e8f9";
const SEED: &str = "canary-seed-1a1b2c3d4e5f60718293a4b5c6d7e8f9";
const SECRET: &str = "canary-secret-2a1b2c3d4e5f60718293a4b5c6d7e8f9";

/// A command with every secret of the bus in its environment.
fn secretly(place: &Place, args: &[&str]) -> Command {
    let mut command = place.command();
    command.args(args).env("VAK_BUS_NATS_CREDENTIALS_JWT", JWT);
    command.env("VAK_BUS_NATS_NKEY_SEED", SEED).env("VAKBUS_WORKSPACE_SECRET", SECRET);
    command
}

#[test]
fn bus_credentials_never_written_to_a_file() {
    let place = Place::new();
    place.write("task", "payload");
    let daemon = Daemon::of(secretly(&place, &["up", "--json", "-vvv"]));
    let worker = ["worker", "-vvv", "--role", "r", "--max-retries", "0", "--"];
    let script = ["sh", "-c", "env; env >&2; test -n \"$OWN\""];
    let mut worker = Running::start(secretly(&place, &[&worker[..], &script].concat()));
    worker.says("serving r");
    let told = [
        (3, &["task", "send", "-vvv", "--role", "r", "--file", "task", "--wait"][..]),
        (0, &["pub", "-vvv", "--session", "s", "tokens", "token"]),
        (0, &["inbox", "send", "-vvv", "boss", "mail"]),
        (0, &["config", "show", "-vvv", "--origin", "--json"]),
        (0, &["config", "set", "worker.max_retries", "1"]),
        (0, &["keys", "ls", "--json"]),
        (
            3,
            &[
                "swarm",
                "-vvv",
                "--max-retries",
                "0",
                "--evidence",
                "run",
                "--",
                "sh",
                "-c",
                "env; exit 1",
            ],
        ),
    ];
    let mut said = Vec::new();
    for (code, args) in told {
        let outcome = run(secretly(&place, args), "task\n");
        assert_eq!(outcome.code, Some(code), "{outcome:?}");
        said.push(outcome);
    }
    worker.signal(Signal::TERM);
    said.extend([worker.ended(), daemon.stop()]);
    for outcome in &said {
        for secret in [JWT, SEED, SECRET] {
            assert!(!outcome.stdout.contains(secret) && !outcome.stderr.contains(secret));
        }
    }
    let files = searched(&place.path(""), &[JWT.into(), SEED.into(), SECRET.into()]);
    assert!(files >= 15, "{files}");
}
