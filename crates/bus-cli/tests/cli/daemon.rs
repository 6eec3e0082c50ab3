//! `vakbus up`: readiness, one at a time, graceful and other ends, and nothing lost in between.

use std::{
    fs::{self, File},
    os::unix::net::UnixDatagram,
    process::Command,
};

use rustix::process::Signal;
use serde_json::Value;

use crate::{
    daemon_support::{Daemon, ids, lines},
    support::{Place, Running, run},
};

#[test]
fn readiness_is_one_line_with_socket_and_workspace() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let ready = &daemon.ready;
    assert_eq!(ready["ready"], true);
    assert_eq!(ready["durability"], "synced");
    assert_eq!(ready["workspaces"], serde_json::json!(["default"]));
    let socket = place.path("data/run/bus.sock").display().to_string();
    assert_eq!(ready["socket"], socket);
    assert_eq!(daemon.stop().code, Some(0));
    assert!(!place.path("data/run/bus.sock").exists());
}

#[test]
fn readiness_is_told_to_the_service_manager() {
    let place = Place::new();
    let manager = UnixDatagram::bind(place.path("notify")).unwrap();
    manager.set_read_timeout(Some(crate::support::LIMIT)).unwrap();
    let mut command = place.command();
    command.args(["up"]).env("NOTIFY_SOCKET", place.path("notify"));
    let daemon = Running::start(command);
    let told = || {
        let mut bytes = [0; 64];
        let count = manager.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..count].to_vec()).unwrap()
    };
    assert_eq!(told(), "READY=1");
    daemon.signal(Signal::TERM);
    assert_eq!(told(), "STOPPING=1");
    assert_eq!(daemon.ended().code, Some(0));
}

#[test]
fn a_second_daemon_is_refused_with_the_pid_of_the_first() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let pid = daemon.ready["pid"].as_u64().unwrap();
    let second = place.run(&["up"]);
    second.failed_with(&format!("pid {pid}"), "vakbus status");
    daemon.stop();
}

#[test]
fn the_status_tells_whether_one_runs() {
    let place = Place::new();
    let none = place.run(&["status", "--json"]);
    assert_eq!((none.code, none.json()["running"].clone()), (Some(5), Value::Bool(false)));
    let daemon = Daemon::start(&place);
    for args in [["status", "--json"].as_slice(), &["up", "--check", "--json"]] {
        let status = place.run(args);
        assert_eq!(status.code, Some(0), "{status:?}");
        let status = status.json();
        assert_eq!(status["pid"], daemon.ready["pid"]);
        assert_eq!(status["durability"], "synced");
        assert_eq!(status["tasks"]["pending"], 0);
        let streams = status["streams"].as_array().unwrap();
        assert!(streams.contains(&Value::from("VAK_WORK_default")), "{streams:?}");
    }
    daemon.stop();
    assert_eq!(place.run(&["status"]).code, Some(5));
}

#[test]
fn the_status_is_waited_for_until_the_daemon_answers() {
    let place = Place::new();
    let waiting = place.start(&["status", "--wait", "60s", "--json"]);
    let daemon = Daemon::start(&place);
    let status = waiting.ended();
    assert_eq!(status.code, Some(0), "{status:?}");
    assert_eq!(status.json()["pid"], daemon.ready["pid"]);
    daemon.stop();
}

#[test]
fn a_status_that_nobody_gives_in_time_is_that_of_no_engine() {
    let place = Place::new();
    let status = place.run(&["status", "--wait", "200ms", "--json"]);
    assert_eq!((status.code, status.json()["running"].clone()), (Some(5), Value::Bool(false)));
    assert_eq!(place.run(&["status", "--wait", "0s"]).code, Some(2));
    assert_eq!(place.run(&["status", "--wait", "1s", "--memory"]).code, Some(2));
}

#[test]
fn what_was_sent_before_a_kill_is_there_after_it_once() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let mut sent: Vec<String> = (0..10)
        .map(|n| place.run(&["task", "send", &format!("task {n}")]).stdout.trim().to_owned())
        .collect();
    // Its socket stays behind, and the next one takes its place.
    daemon.kill();
    assert!(place.path("data/run/bus.sock").exists());
    let daemon = Daemon::start(&place);
    let mut found = ids(&place.run(&["task", "ls", "--json"]));
    sent.sort();
    found.sort();
    assert_eq!(found, sent);
    let worked = place.run(&["worker", "--until-empty", "--json", "--", "cat"]);
    assert_eq!(worked.code, Some(0), "{worked:?}");
    assert_eq!(lines(&worked).last().unwrap()["completed"], 10, "{worked:?}");
    let result = place.run(&["task", "result", &sent[0]]);
    assert!(result.stdout.starts_with("task "), "{result:?}");
    daemon.stop();
}

#[test]
fn a_worker_outlives_its_daemon() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let mut worker = place.start(&["worker", "--role", "r", "--", "cat"]);
    worker.says("serving r");
    let first = place.run(&["task", "send", "--role", "r", "--wait", "first"]);
    assert_eq!(first.stdout, "first", "{first:?}");
    daemon.kill();
    let daemon = Daemon::start(&place);
    let second = place.run(&["task", "send", "--role", "r", "--wait", "second"]);
    assert_eq!(second.stdout, "second", "{second:?}");
    worker.signal(Signal::TERM);
    assert_eq!(worker.ended().code, Some(0));
    daemon.stop();
}

#[test]
fn a_daemon_that_is_told_to_stop_ends_well_while_a_worker_is_connected() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let mut worker = place.start(&["worker", "--role", "r", "--", "cat"]);
    worker.says("serving r");
    let outcome = daemon.stop();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    worker.signal(Signal::TERM);
    assert_eq!(worker.ended().code, Some(0));
}

#[test]
fn a_workspace_that_is_made_while_the_daemon_runs_is_served() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let sent = place.run(&["--workspace", "later", "task", "send", "x"]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let listed = place.run(&["--workspace", "later", "task", "ls", "--json"]);
    assert_eq!(ids(&listed), [sent.stdout.trim()]);
    assert!(ids(&place.run(&["task", "ls", "--json"])).is_empty());
    daemon.stop();
}

#[test]
fn a_revoked_agent_is_shut_out_at_once_after_a_hangup() {
    let place = Place::new();
    assert_eq!(place.run(&["agent", "add", "bob", "--role", "operator"]).code, Some(0));
    let mut daemon = Daemon::start(&place);
    // Somebody who kept a copy of the key, and knows of no revocation.
    let kept = place.path("kept");
    fs::create_dir(&kept).unwrap();
    let copied =
        Command::new("cp").arg("-a").arg(place.path("data/workspaces")).arg(&kept).status();
    assert!(copied.unwrap().success());
    // A workspace that is new would be tried again for a while.
    let workspace = File::open(kept.join("workspaces/default")).unwrap();
    workspace.set_modified(std::time::UNIX_EPOCH).unwrap();
    let as_bob = || {
        let mut command = place.command();
        command.args(["--as", "bob", "task", "ls"]).env("VAKBUS_DATA_DIR", &kept);
        command.env("VAKBUS_SOCKET", place.path("data/run/bus.sock"));
        run(command, "")
    };
    assert_eq!(as_bob().code, Some(0));
    assert_eq!(place.run(&["agent", "revoke", "bob", "--yes"]).code, Some(0));
    daemon.running.signal(Signal::HUP);
    daemon.running.says("read again");
    let refused = as_bob();
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert!(refused.stderr.contains("the key was revoked"), "{refused:?}");
    daemon.stop();
}

#[test]
fn a_data_home_that_is_no_place_for_a_bus_is_refused_with_a_next_step() {
    let place = Place::new();
    assert_eq!(place.run(&["workspace", "new", "default"]).code, Some(0));
    place.write("data/bus", "a file");
    let refused = place.run(&["up"]);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(refused.stderr.contains("\n  next: "), "{refused:?}");
    assert!(refused.stdout.is_empty(), "{refused:?}");
}

#[test]
fn without_a_daemon_a_command_uses_the_data_home_itself() {
    let place = Place::new();
    let sent = place.run(&["task", "send", "--role", "r", "alone"]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let worked = place.run(&["worker", "--role", "r", "--until-empty", "--", "cat"]);
    assert_eq!(worked.code, Some(0), "{worked:?}");
    let result = place.run(&["task", "result", sent.stdout.trim()]);
    assert_eq!((result.code, result.stdout.as_str()), (Some(0), "alone"), "{result:?}");
}

#[test]
fn waiting_without_a_daemon_is_refused_before_anything_is_sent() {
    let place = Place::new();
    let refused = place.run(&["task", "send", "--wait", "x"]);
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert!(refused.stderr.contains("vakbus up"), "{refused:?}");
    assert!(ids(&place.run(&["task", "ls", "--json"])).is_empty());
}

#[test]
fn swarms_through_a_daemon_leave_evidence_that_verifies_each_for_itself() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    for dir in ["run-1", "run-2"] {
        let args = ["--max-retries", "0", "--evidence", dir, "--", "test", "{}", "=", "good"];
        let (outcome, summary) = place.swarm("good\nbad\n", &args);
        assert_eq!((outcome.code, summary["receipts"].as_u64()), (Some(3), Some(1)), "{summary}");
        let verified = place.run(&["verify", dir, "--json"]);
        assert_eq!(verified.code, Some(0), "{verified:?}");
    }
    assert_eq!(ids(&place.run(&["task", "ls", "--state", "dead", "--json"])).len(), 2);
    daemon.stop();
}

#[test]
fn nobody_is_waited_for_in_memory() {
    let place = Place::new();
    for args in [["task", "send", "--wait", "x"].as_slice(), &["sub", "vak.events.default.>"]] {
        let refused = place.run(&[&["--memory"], args].concat());
        refused.is_wrong_call("with --memory this process is alone");
    }
}

#[test]
fn a_daemon_may_keep_nothing() {
    let place = Place::new();
    let daemon = Daemon::with(&place, &["--memory"]);
    assert_eq!(daemon.ready["durability"], "memory");
    assert_eq!(place.run(&["task", "send", "--id", "t-1", "x"]).code, Some(0));
    assert_eq!(ids(&place.run(&["task", "ls", "--json"])), ["t-1"]);
    daemon.stop();
    let daemon = Daemon::with(&place, &["--sync", "50ms"]);
    assert_eq!(daemon.ready["durability"], "written");
    assert!(ids(&place.run(&["task", "ls", "--json"])).is_empty());
    daemon.stop();
}

#[test]
fn a_swarm_uses_the_daemon_and_its_tasks_are_seen_there() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let (outcome, summary) = place.swarm("one\ntwo\n", &["--", "cat"]);
    assert_eq!((outcome.code, summary["completed"].as_u64()), (Some(0), Some(2)));
    let done = place.run(&["task", "ls", "--state", "done", "--json"]);
    assert_eq!(ids(&done).len(), 2, "{done:?}");
    daemon.stop();
}
