//! Work that is shared over a NATS server: queues with workers on several machines, and swarms that
//! others join.

use bus_testserver::TestServer;
use serde_json::Value;

use crate::{
    daemon_support::lines,
    nats_support::Machine,
    support::{Gate, Lines, adds_up, run},
};

#[test]
fn a_task_goes_through_a_server_and_its_result_comes_back() {
    let server = TestServer::start();
    let here = Machine::new(&server);
    here.does(&["task", "send", "--role", "r", "--id", "t-1", "hello"]);
    let there = here.copy();
    there.does(&["worker", "--role", "r", "--until-empty", "--", "cat"]);
    assert_eq!(here.does(&["task", "result", "t-1"]), "hello");
}

#[test]
fn a_command_emits_over_a_server_as_its_worker() {
    let server = TestServer::start();
    let machine = Machine::new(&server);
    let mut listener =
        machine.start(&["sub", "--count", "1", "--json", "vak.events.default.*.tokens"]);
    listener.says("listening on");
    machine.does(&["task", "send", "--role", "r", "hello"]);
    let script = concat!("'", env!("CARGO_BIN_EXE_vakbus"), "' emit tokens -");
    machine.does(&["worker", "--role", "r", "--until-empty", "--", "sh", "-c", script]);
    let heard = listener.ended().json();
    assert_eq!((&heard["payload"], &heard["from"]), (&"hello".into(), &"cli-worker".into()));
}

#[test]
fn two_machines_share_a_queue_and_no_task_is_done_twice() {
    let server = TestServer::start();
    let here = Machine::new(&server);
    for n in 0..12 {
        here.does(&["task", "send", "--role", "r", "--id", &format!("t-{n}"), "x"]);
    }
    let there = here.copy();
    let pipe = here.place.pipe("gate");
    // Each has one task in its hands before any of them ends.
    let mut gate = Gate::at(&pipe);
    let said = here.place.pipe("said");
    let begun = Lines::through(&said);
    let script = format!("echo begun >{}; read x <{}", said.display(), pipe.display());
    let args = ["worker", "--role", "r", "--until-empty", "--json", "--", "sh", "-c", &script];
    let workers = [here.start(&args), there.start(&args)];
    for _ in 0..2 {
        begun.next().unwrap();
    }
    gate.open_for(12);
    let mut done: Vec<String> = Vec::new();
    for worker in workers {
        let outcome = worker.ended();
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let completed = lines(&outcome).into_iter().filter(|line| line["event"] == "completed");
        let tasks: Vec<String> =
            completed.map(|line| line["task"].as_str().unwrap().to_owned()).collect();
        assert!(!tasks.is_empty(), "{outcome:?}");
        done.extend(tasks);
    }
    done.sort();
    let mut expected: Vec<String> = (0..12).map(|n| format!("t-{n}")).collect();
    expected.sort();
    assert_eq!(done, expected);
}

#[test]
fn a_swarm_on_a_server_leaves_evidence_that_verifies() {
    let server = TestServer::start();
    let machine = Machine::new(&server);
    let mut args = vec!["swarm", "--json", "--workers", "2", "--max-retries", "0"];
    args.extend(["--evidence", "run-1", "--", "test", "{}", "=", "good"]);
    let outcome = run(machine.command(&args), "good\nbad\ngood\n");
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    let summary = outcome.json();
    adds_up(&summary);
    assert_eq!((&summary["completed"], &summary["dead_lettered"]), (&2.into(), &1.into()));
    let verified = machine.run(&["verify", "run-1", "--json"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

#[test]
fn a_worker_of_another_machine_joins_a_swarm_and_its_evidence() {
    let server = TestServer::start();
    let here = Machine::new(&server);
    here.does(&["task", "ls"]);
    let there = here.copy();
    // An agent that the swarm's machine has never heard of.
    there.does(&["agent", "add", "bob", "--role", "worker"]);
    let pipe = here.place.pipe("gate");
    let mut gate = Gate::at(&pipe);
    here.place.write("tasks", "hold\na\nb\nbad\n");
    let script = format!("read x <{}", pipe.display());
    let mut args = vec!["swarm", "--json", "--workers", "1", "--max-retries", "0"];
    args.extend(["--tasks", "tasks", "--evidence", "run-1", "--", "sh", "-c", &script]);
    let mut swarm = here.start(&args);
    let run_id = swarm.hears_after("vakbus worker --join ");
    let joined = ["--as", "bob", "worker", "--join", &run_id, "--max-retries", "0", "--json"];
    let command = ["--", "test", "{}", "!=", "bad"];
    let mut worker = there.start(&[&joined[..], &command[..]].concat());
    let told = Lines::of(worker.take_stdout());
    let events: Vec<Value> =
        (0..3).map(|_| serde_json::from_str(&told.next().unwrap()).unwrap()).collect();
    let of = |name: &str| events.iter().filter(|event| event["event"] == name).count();
    assert_eq!((of("completed"), of("dead-lettered")), (2, 1), "{events:?}");
    gate.open_for(1);
    let outcome = swarm.ended();
    let summary = outcome.json();
    adds_up(&summary);
    assert_eq!((&summary["completed"], &summary["receipts"]), (&3.into(), &3.into()), "{summary}");
    assert_eq!((outcome.code, &summary["dead_lettered"]), (Some(3), &1.into()), "{summary}");
    let verified = here.run(&["verify", "run-1", "--json"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
    worker.signal(rustix::process::Signal::TERM);
    assert_eq!(worker.ended().code, Some(0));
}

#[test]
fn a_swarm_outlives_its_server() {
    let mut server = TestServer::start();
    let machine = Machine::new(&server);
    let pipe = machine.place.pipe("gate");
    let mut gate = Gate::at(&pipe);
    let said = machine.place.pipe("said");
    let begun = Lines::through(&said);
    machine.place.write("tasks", "a\nb\n");
    let script = format!("echo begun >{}; read x <{}", said.display(), pipe.display());
    let args = ["swarm", "--json", "--workers", "1", "--tasks", "tasks", "--evidence", "run-1"];
    let swarm = machine.start(&[&args[..], &["--", "sh", "-c", &script]].concat());
    begun.next().unwrap();
    server.kill();
    server.restart().unwrap();
    // What was in hand may be handed out once more.
    gate.open_for(4);
    let outcome = swarm.ended();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(outcome.json()["completed"], 2, "{outcome:?}");
    assert_eq!(machine.run(&["verify", "run-1"]).code, Some(0));
}

#[test]
fn a_run_that_is_joined_is_named_by_its_id() {
    let server = TestServer::start();
    let machine = Machine::new(&server);
    machine.run(&["worker", "--join", "r", "--", "true"]).is_wrong_call("--join");
}

#[test]
fn a_worker_outlives_its_server() {
    let mut server = TestServer::start();
    let machine = Machine::new(&server);
    let mut worker = machine.start(&["worker", "--role", "r", "--", "cat"]);
    worker.says("serving r");
    assert_eq!(machine.does(&["task", "send", "--role", "r", "--wait", "first"]), "first");
    server.kill();
    server.restart().unwrap();
    assert_eq!(machine.does(&["task", "send", "--role", "r", "--wait", "second"]), "second");
    worker.signal(rustix::process::Signal::TERM);
    assert_eq!(worker.ended().code, Some(0));
}

#[test]
fn live_events_and_requests_go_through_a_server() {
    let server = TestServer::start();
    let here = Machine::new(&server);
    here.does(&["task", "ls"]);
    let there = here.copy();
    let mut listener = there.start(&["sub", "vak.events.default.>", "--count", "1"]);
    listener.says("listening on");
    here.does(&["pub", "--session", "s1", "tokens", "hello"]);
    assert!(listener.ended().stdout.contains("hello"));
    let mut judge = there.start(&["reply", "judge.review", "--", "cat"]);
    judge.says("answering judge.review");
    assert_eq!(here.does(&["request", "judge.review", "is it good?"]), "is it good?");
    judge.signal(rustix::process::Signal::TERM);
    assert_eq!(judge.ended().code, Some(0));
}
