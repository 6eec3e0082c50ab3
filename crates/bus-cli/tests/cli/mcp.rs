//! `vakbus mcp`, spoken to by a client that nobody here wrote.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    daemon_support::Daemon,
    mcp_support::story,
    nats_up::Up,
    support::{Place, run},
};

/// The handshake of older clients, and the newer way without one.
const MODES: [&str; 2] = ["legacy", "auto"];

/// A daemon, and the agents of the stories.
fn with_agents() -> (Place, Daemon) {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    add_agents(&place);
    (place, daemon)
}

fn add_agents(place: &Place) {
    for (name, role) in [("ada", "orchestrator"), ("bob", "worker")] {
        let added = place.run(&["agent", "add", name, "--role", role]);
        assert_eq!(added.code, Some(0), "{added:?}");
    }
}

/// `vakbus mcp` with a stdin that stays open.
fn open_ended(place: &Place) -> Child {
    let mut command = place.command();
    command.args(["mcp", "--as", "bob"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn hello() -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" },
    }})
}

#[test]
fn two_agents_talk_through_a_client_nobody_here_wrote() {
    let (place, _daemon) = with_agents();
    let mut versions = Vec::new();
    for mode in MODES {
        let told = story(&place, "talk", mode);
        let tools = |at: usize| told["tools"][at].as_array().unwrap().clone();
        assert!(tools(0).contains(&json!("task_send")) && !tools(0).contains(&json!("task_claim")));
        assert!(tools(1).contains(&json!("task_claim")) && !tools(1).contains(&json!("task_send")));
        assert_eq!(told["task"]["body"]["text"], "add 2 and 3");
        assert_eq!(told["task"]["from"]["agent"], "ada");
        assert_eq!(told["task"]["from"]["verified"], true);
        assert_eq!(told["answer"]["body"]["text"], "5");
        assert_eq!(told["answer"]["from"], json!({ "agent": "bob", "verified": true }));
        assert_eq!(told["message"]["body"]["text"], "thanks");
        let error = &told["error"];
        assert_eq!((&error["kind"], &error["outcome"]), (&json!("lease-lost"), &json!("not-done")));
        versions.push(told["version"].clone());
    }
    assert_ne!(versions[0], versions[1], "both ways of the protocol are spoken");
}

#[test]
fn on_a_nats_server_agents_talk_and_no_worker_is_left_waiting_for_a_queue_it_may_not_see() {
    let place = Place::new();
    let _up = Up::start(&place);
    add_agents(&place);
    assert_eq!(story(&place, "talk", "auto")["answer"]["body"]["text"], "5");
    let told = story(&place, "guarded", "legacy");
    assert_eq!(told["inbox"]["messages"][0]["body"]["text"], "wake up");
    assert_eq!(told["refused"]["kind"], "denied");
    assert_eq!(story(&place, "approve", "auto")["used"]["allowed"], true);
}

#[test]
fn what_an_agent_gives_as_result_is_shown_and_verified_as_a_commands_is() {
    let (place, _daemon) = with_agents();
    let told = story(&place, "talk", "auto");
    let id = told["task"]["id"].as_str().unwrap();
    let result = place.run(&["task", "result", id]);
    assert_eq!((result.code, result.stdout.trim()), (Some(0), "5"), "{result:?}");
}

#[test]
fn an_approval_is_asked_by_an_agent_and_answered_by_a_person() {
    let (place, _daemon) = with_agents();
    for mode in MODES {
        let told = story(&place, "approve", mode);
        assert_eq!(told["used"]["approval"], told["approval"]);
        assert_eq!(
            (&told["used"]["allowed"], &told["used"]["note"]),
            (&json!(true), &json!("go on"))
        );
        assert_eq!(told["again"]["kind"], "decision-consumed");
    }
}

#[test]
fn a_message_and_a_task_each_wake_a_client_that_waits() {
    for mode in MODES {
        // A bus of its own: what another mode left there would wake it too.
        let (place, _daemon) = with_agents();
        let told = story(&place, "wake", mode);
        let messages = told["inbox"]["messages"].as_array().unwrap();
        assert_eq!(messages.last().unwrap()["body"]["text"], "wake up", "{mode}");
        assert_eq!(told["task"]["body"]["text"], "work", "{mode}");
    }
}

#[test]
fn a_task_that_a_killed_server_held_comes_again_after_its_lease() {
    let (place, _daemon) = with_agents();
    assert_eq!(story(&place, "killed", "auto")["attempts"], json!([1, 2]));
}

#[test]
fn what_a_client_leaves_is_there_for_the_next_and_uses_up_no_attempt() {
    let (place, _daemon) = with_agents();
    assert_eq!(story(&place, "left", "auto")["seen"], json!([[1, 1], [1, 1]]));
}

#[test]
fn stdout_carries_the_protocol_alone_and_a_closed_stdin_ends_it_well() {
    let (place, _daemon) = with_agents();
    let mut command = place.command();
    command.args(["mcp", "--as", "bob", "-vv"]);
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let ended = run(command, &format!("{}\n{ready}\n", hello()));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let lines: Vec<Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]["id"]), (1, &json!(1)), "{ended:?}");
    assert!(ended.stderr.contains("speaking MCP as bob"), "{ended:?}");
}

#[test]
fn a_signal_ends_it_well_though_its_client_stays() {
    let (place, _daemon) = with_agents();
    for signal in [Signal::INT, Signal::TERM] {
        let mut server = open_ended(&place);
        writeln!(server.stdin.as_mut().unwrap(), "{}", hello()).unwrap();
        let mut answer = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut answer).unwrap();
        kill_process(Pid::from_child(&server), signal).unwrap();
        assert_eq!(server.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn no_secret_of_the_agent_is_in_what_a_client_is_told() {
    let (place, _daemon) = with_agents();
    let told = story(&place, "talk", "auto").to_string();
    let creds = place.read("data/workspaces/default/agents/bob.creds");
    let seed = creds.lines().find(|line| line.starts_with("SU")).unwrap();
    assert!(!told.contains(seed));
}

#[test]
fn without_a_daemon_it_says_how_to_start_one() {
    let place = Place::new();
    let refused = place.run(&["mcp"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(5), ""), "{refused:?}");
    assert!(refused.stderr.contains("next: start one: vakbus up"), "{refused:?}");
    place.run(&["mcp", "--memory"]).is_wrong_call("this process is alone");
}

#[test]
fn a_worker_that_is_none_is_refused() {
    let (place, _daemon) = with_agents();
    let refused = place.run(&["mcp", "--as", "bob", "--worker", "ada"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(4), ""), "{refused:?}");
    assert!(refused.stderr.contains("ada is no worker"), "{refused:?}");
}
