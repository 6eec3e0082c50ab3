//! `vakbus receipts prove|export` where servers keep the bus.

use bus_testserver::TestServer;
use serde_json::Value;

use crate::{
    nats_support::Machine,
    nats_up::Up,
    receipts::{listed, work},
    support::{Place, run},
};

/// A machine on which two tasks were done, and their session.
fn worked(server: &TestServer) -> (Machine, String) {
    let machine = Machine::new(server);
    for task in ["t-1", "t-2"] {
        machine.does(&["task", "send", "--id", task, "hello"]);
    }
    machine.does(&["worker", "--until-empty", "--", "cat"]);
    let listed = machine.does(&["receipts", "ls", "--json"]);
    let first: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    let session = first["session"].as_str().unwrap().to_owned();
    (machine, session)
}

fn account(machine: &Machine) -> String {
    let shown: Value =
        serde_json::from_str(&machine.does(&["workspace", "show", "--json"])).unwrap();
    shown["account"].as_str().unwrap().to_owned()
}

/// Proves, exports and verifies everything on `there`, for who trusts `account`.
#[track_caller]
fn is_all_shown(there: &Machine, session: &str, account: &str) {
    there.does(&["receipts", "prove", "t-2", "-o", "t-2.proof"]);
    there.does(&["receipts", "checkpoint", "--session", session, "-o", "kept"]);
    there.does(&["receipts", "prove", "--since", "kept", "-o", "grown.proof"]);
    there.does(&["receipts", "export", "out", "--session", session]);
    let one = there.does(&["verify", "t-2.proof", "--trust", account]);
    assert!(one.starts_with("verified; entry 2 of 2 is in the log"), "{one}");
    for what in ["grown.proof", "out"] {
        let args = ["verify", what, "--trust", account, "--checkpoint", "kept"];
        let checked = there.does(&args);
        assert!(checked.starts_with("verified"), "{checked}");
    }
}

#[test]
fn receipts_on_a_server_of_others_are_proved_and_exported() {
    let server = TestServer::start();
    let (machine, session) = worked(&server);
    is_all_shown(&machine, &session, &account(&machine));
}

#[test]
fn another_machine_proves_what_an_agent_signed_that_it_never_had() {
    let server = TestServer::start();
    let first = Machine::new(&server);
    first.does(&["workspace", "new", "default"]);
    let second = first.copy();
    for task in ["t-1", "t-2"] {
        first.does(&["task", "send", "--id", task, "hello"]);
    }
    first.does(&["worker", "--until-empty", "--", "cat"]);
    let listed = first.does(&["receipts", "ls", "--json"]);
    let line: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    let session = line["session"].as_str().unwrap();
    is_all_shown(&second, session, &account(&first));
}

#[test]
fn receipts_of_an_agent_that_was_revoked_later_are_proved_and_exported() {
    let server = TestServer::start();
    let (machine, session) = worked(&server);
    machine.run(&["agent", "revoke", "cli-worker", "--yes"]);
    machine.place.write("revoked", &machine.does(&["agent", "ls", "--revocations"]));
    is_all_shown(&machine, &session, &account(&machine));
    let args = ["verify", "out", "--trust", &account(&machine), "--revoked", "revoked"];
    assert_eq!(machine.run(&args).code, Some(1));
    let trusting = [&args[..], &["--trust-recorder"]].concat();
    assert!(machine.does(&trusting).contains("revoked since"));
}

#[test]
fn receipts_on_a_server_of_this_home_are_proved_and_exported() {
    let place = Place::new();
    let up = Up::start(&place);
    work(&place, &["t-1", "t-2"]);
    let session = listed(&place, &[])[0]["session"].as_str().unwrap().to_owned();
    for args in [
        &["receipts", "prove", "t-1", "-o", "one.proof"][..],
        &["receipts", "export", "out", "--session", &session],
        &["verify", "one.proof"],
        &["verify", "out"],
    ] {
        let mut command = place.command();
        command.args(args);
        let done = run(command, "");
        assert_eq!(done.code, Some(0), "{args:?}: {done:?}");
    }
    up.stop();
}
