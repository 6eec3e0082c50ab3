//! What commands emit beside their output: within a run and outside of any.

use std::{
    fs::OpenOptions,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    path::Path,
    thread,
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    daemon_support::{Daemon, lines},
    support::{LIMIT, Lines, Outcome, Place, Running, run},
};

/// A shell script in which `$VAKBUS` is the program, as the command of a swarm over one task.
fn swarm(place: &Place, args: &[&str], script: &str) -> Outcome {
    let mut command = place.command();
    command.env("VAKBUS", env!("CARGO_BIN_EXE_vakbus")).arg("swarm").args(args);
    command.args(["--max-retries", "0", "--", "sh", "-c", script]);
    run(command, "{\"id\":\"t-1\",\"payload\":\"x\"}\n")
}

/// Hears `count` events of tokens.
fn listener(place: &Place, count: &str) -> Running {
    let mut listener =
        place.start(&["sub", "--count", count, "--json", "vak.events.default.*.tokens"]);
    listener.says("listening on");
    listener
}

fn heard(listener: Running) -> Vec<(Value, Value)> {
    let heard = listener.ended();
    assert_eq!(heard.code, Some(0), "{heard:?}");
    lines(&heard).iter().map(|line| (line["type"].clone(), line["payload"].clone())).collect()
}

#[test]
fn a_command_emits_without_keys_and_without_any_daemon() {
    let place = Place::new();
    let script = "echo own; echo 'of another' | \"$VAKBUS\" emit terminal --json >said; \
                  echo $? >code";
    let outcome = swarm(&place, &["--follow"], script);
    assert!(outcome.stdout.contains("[t-1] own\n"), "{outcome:?}");
    assert!(outcome.stdout.contains("[t-1] of another\n"), "{outcome:?}");
    assert_eq!(place.read("code"), "0\n", "{outcome:?}");
    let said: Value = serde_json::from_str(&place.read("said")).unwrap();
    assert_eq!(said["bytes"], 11, "{said}");
}

#[test]
fn what_a_model_writes_is_heard_while_it_writes() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let mut listener = place.start(&["sub", "--json", "vak.events.default.*.tokens"]);
    listener.says("listening on");
    let events = Lines::of(listener.take_stdout());
    let next = || {
        let line: Value = serde_json::from_str(&events.next().unwrap()).unwrap();
        line["payload"].as_str().unwrap().to_owned()
    };
    let pipe = place.pipe("model");
    let mut model = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let mut command = place.command();
    command.env("VAKBUS", env!("CARGO_BIN_EXE_vakbus"));
    command.args(["worker", "--", "sh", "-c", "\"$VAKBUS\" emit tokens --end - <model"]);
    let worker = Running::start(command);
    assert_eq!(place.run(&["task", "send", "--id", "t-1", "x"]).code, Some(0));
    model.write_all(b"caf\xc3").unwrap();
    assert_eq!(next(), "caf");
    model.write_all(b"\xa9").unwrap();
    assert_eq!(next(), "\u{e9}");
    drop(model);
    assert!(next().contains("\"reason\":\"stop\""));
    assert_eq!(place.run(&["task", "result", "t-1", "--wait"]).code, Some(0));
    for running in [worker, listener] {
        running.signal(Signal::TERM);
        assert_eq!(running.ended().code, Some(0));
    }
    daemon.stop();
}

#[test]
fn the_end_of_a_stream_is_told_with_its_reason() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let listener = listener(&place, "2");
    let script = "\"$VAKBUS\" emit tokens hello; \"$VAKBUS\" emit tokens --end=length";
    assert_eq!(swarm(&place, &[], script).code, Some(0));
    let end = r#"{"reason":"length","text_bytes":5,"thinking_bytes":0}"#;
    let expected = [("vak.tokens.text", "hello"), ("vak.tokens.end", end)];
    assert_eq!(
        heard(listener),
        expected.map(|(event_type, text)| (json!(event_type), json!(text)))
    );
    daemon.stop();
}

#[test]
fn tokens_of_a_session_are_emitted_from_anywhere_too() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let listener = listener(&place, "1");
    let mut command = place.command();
    command.args(["emit", "tokens", "--session", "chat-1", "--json"]);
    let outcome = run(command, "from stdin");
    assert_eq!((outcome.code, outcome.json()["bytes"].as_u64()), (Some(0), Some(10)));
    assert_eq!(heard(listener), [(json!("vak.tokens.text"), json!("from stdin"))]);
    daemon.stop();
}

#[test]
fn emitted_text_that_is_no_utf8_has_marks() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let listener = listener(&place, "1");
    let mut command = place.shell("printf 'a\\377b\\303' | \"$0\" emit tokens --session chat-1");
    command.stdin(std::process::Stdio::null());
    assert_eq!(run(command, "").code, Some(0));
    assert_eq!(heard(listener), [(json!("vak.tokens.text"), json!("a\u{fffd}b\u{fffd}"))]);
    daemon.stop();
}

#[test]
fn a_stranger_to_the_run_is_refused_by_its_code() {
    let place = Place::new();
    let script = "VAKBUS_EMIT_TOKEN=00 \"$VAKBUS\" emit tokens x 2>said; echo $? >code";
    let outcome = swarm(&place, &[], script);
    assert_eq!(place.read("code"), "4\n", "{outcome:?}");
    assert!(place.read("said").contains("the run is not known, or has ended"));
}

#[test]
fn a_command_emits_for_no_other_session_than_its_own() {
    let place = Place::new();
    let script = "\"$VAKBUS\" emit tokens --session other x 2>said; echo $? >code";
    let outcome = swarm(&place, &[], script);
    assert_eq!(place.read("code"), "2\n", "{outcome:?}");
    assert!(place.read("said").contains("--session"), "{}", place.read("said"));
}

#[test]
fn a_runner_that_is_gone_is_told_with_what_to_do() {
    let place = Place::new();
    let mut command = place.command();
    command.args(["emit", "tokens", "--session", "s", "x"]);
    command
        .env("VAKBUS_SESSION", "s")
        .env("VAKBUS_EMIT", place.path("no"))
        .env("VAKBUS_EMIT_TOKEN", "0");
    let outcome = run(command, "");
    assert_eq!(outcome.code, Some(5), "{outcome:?}");
    assert!(outcome.stderr.contains("still runs"), "{outcome:?}");
}

#[test]
fn outside_of_a_run_a_session_and_a_bus_are_needed() {
    let place = Place::new();
    place.run(&["emit", "tokens", "x"]).is_wrong_call("no session is named");
    let outcome = place.run(&["emit", "tokens", "--session", "s", "x"]);
    assert_eq!(outcome.code, Some(5), "{outcome:?}");
    assert!(outcome.stderr.contains("vakbus up"), "{outcome:?}");
}

#[test]
fn nothing_is_left_of_the_socket_when_the_run_has_ended() {
    let place = Place::new();
    let outcome = swarm(&place, &[], "printf %s \"$VAKBUS_EMIT\" >path");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let path = place.read("path");
    assert!(!path.is_empty() && !Path::new(&path).exists(), "{path}");
}

#[test]
fn a_signal_ends_an_emission_after_what_it_read() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let listener = listener(&place, "1");
    let pipe = place.pipe("model");
    let mut model = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let mut command = place.shell("exec \"$0\" emit tokens --session chat-1 <model");
    command.current_dir(place.path("."));
    let emitting = Running::start(command);
    model.write_all(b"half").unwrap();
    assert_eq!(heard(listener), [(json!("vak.tokens.text"), json!("half"))]);
    emitting.signal(Signal::TERM);
    assert_eq!(emitting.ended().code, Some(0));
    daemon.stop();
}

#[test]
fn an_end_that_a_signal_brings_says_so() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let (begun, whole) = (listener(&place, "1"), listener(&place, "2"));
    let pipe = place.pipe("model");
    let mut model = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let mut command = place.shell("exec \"$0\" emit tokens --session chat-1 --end - <model");
    command.current_dir(place.path("."));
    let emitting = Running::start(command);
    model.write_all(b"half").unwrap();
    assert_eq!(heard(begun).len(), 1);
    emitting.signal(Signal::TERM);
    let outcome = emitting.ended();
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(heard(whole)[1].1.as_str().unwrap().contains("\"reason\":\"cancelled\""));
    daemon.stop();
}

/// A server that answers one question as a language model does; its address.
fn model(chunks: &'static [&'static str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/v1/chat/completions", listener.local_addr().unwrap());
    thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
        let mut stream = stream;
        let head =
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        for chunk in chunks {
            stream.write_all(format!("data: {chunk}\n\n").as_bytes()).unwrap();
        }
        stream.write_all(b"data: [DONE]\n\n").unwrap();
    });
    address
}

#[test]
fn the_agent_of_the_examples_streams_what_its_model_writes() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let mut listener = place.start(&["sub", "--json", "vak.events.default.*.tokens"]);
    listener.says("listening on");
    let events = Lines::of(listener.take_stdout());
    let address = model(&[
        r#"{"choices":[{"delta":{"reasoning_content":"hm"}}]}"#,
        r#"{"choices":[{"delta":{"content":"bl\u00fc"}}]}"#,
        r#"{"choices":[{"delta":{"content":"e"},"finish_reason":"length"}]}"#,
    ]);
    let program = Path::new(env!("CARGO_BIN_EXE_vakbus"));
    let (own, path) = (program.parent().unwrap(), std::env::var("PATH").unwrap());
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/llm_agent.py");
    let mut command = place.command();
    command.env("PATH", format!("{}:{path}", own.display())).env("LLM_URL", address);
    command.env("no_proxy", "*").args(["worker", "--role", "r", "--", "python3", example]);
    let worker = Running::start(command);
    let sent = place.run(&["task", "send", "--role", "r", "--wait", "Which colour is the sky?"]);
    assert_eq!((sent.code, sent.stdout.as_str()), (Some(0), "bl\u{fc}e"), "{sent:?}");
    // How many events the answer is in is a matter of time.
    let (mut said, mut thought) = (String::new(), String::new());
    let end = loop {
        let line: Value = serde_json::from_str(&events.next().unwrap()).unwrap();
        let payload = line["payload"].as_str().unwrap();
        match line["type"].as_str().unwrap() {
            "vak.tokens.text" => said.push_str(payload),
            "vak.tokens.thinking" => thought.push_str(payload),
            _ => break payload.to_owned(),
        }
    };
    assert_eq!((said.as_str(), thought.as_str()), ("bl\u{fc}e", "hm"));
    assert!(end.contains("\"reason\":\"length\""), "{end}");
    listener.signal(Signal::TERM);
    assert_eq!(listener.ended().code, Some(0));
    worker.signal(Signal::TERM);
    assert_eq!(worker.ended().code, Some(0));
    daemon.stop();
}

#[test]
fn tokens_are_taken_while_the_daemon_is_gone_and_heard_when_it_is_back() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let pipe = place.pipe("model");
    let mut model = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let heard_first = listener(&place, "1");
    let script = "exec \"$0\" emit tokens --session chat-1 <model";
    let mut emitting = Running::start(place.shell(script));
    model.write_all(b"one").unwrap();
    heard(heard_first);
    daemon.kill();
    model.write_all(b"two").unwrap();
    emitting.says("tokens are not published now");
    // Far more than a pipe holds: whoever did not read would have the model wait.
    let (told, written) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let all = model.write_all(&b"0123456789abcde\n".repeat(64 * 1024));
        told.send(all.map(|()| model))
    });
    let mut model = written.recv_timeout(LIMIT).expect("the model does not wait").unwrap();

    let daemon = Daemon::start(&place);
    emitting.says("tokens are published again");
    let heard_last = listener(&place, "1");
    model.write_all(b"three").unwrap();
    let (_, last) = heard(heard_last).remove(0);
    assert!("three".contains(last.as_str().unwrap()) || last.as_str().unwrap().contains("de\n"));
    drop(model);
    let ended = emitting.ended();
    assert_eq!(ended.code, Some(5), "{ended:?}");
    assert!(ended.stderr.contains("bytes of tokens were not published"), "{ended:?}");
    assert_eq!(ended.stderr.matches("not published now").count(), 1, "{ended:?}");
    daemon.stop();
}
