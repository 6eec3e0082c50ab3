//! `vakbus up --on-dead-letter --on-approval`: what a hook hears, how often, and never does.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    sync::mpsc,
    thread,
};

use serde_json::Value;

use crate::{
    daemon_support::Daemon,
    support::{LIMIT, Place, run},
};

/// A web server that keeps what is posted to it.
struct Web {
    address: SocketAddr,
    posted: mpsc::Receiver<Value>,
}

impl Web {
    /// Answers with each of `statuses` once, and with 200 from then on.
    fn answering(statuses: &'static [u16]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, posted) = mpsc::channel();
        thread::spawn(move || {
            let mut statuses = statuses.iter().copied().chain(std::iter::repeat(200));
            while let Ok((mut stream, _peer)) = listener.accept() {
                let body = body_of(&mut stream);
                let status = statuses.next().unwrap();
                let answer = format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes()).unwrap();
                if tell.send(serde_json::from_slice(&body).unwrap()).is_err() {
                    return;
                }
            }
        });
        Self { address, posted }
    }

    fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    fn next(&self) -> Value {
        self.posted.recv_timeout(LIMIT).unwrap()
    }
}

/// The body of one request.
fn body_of(stream: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "broken off");
        bytes.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        let Some(end) = text.find("\r\n\r\n") else { continue };
        let length = text.split("content-length: ").nth(1).unwrap();
        let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
        if bytes.len() >= end + 4 + length {
            return bytes[end + 4..].to_vec();
        }
    }
}

/// Has a task called `id` be given up.
fn give_up(place: &Place, id: &str) {
    give_up_in(place, "default", id);
}

fn give_up_in(place: &Place, workspace: &str, id: &str) {
    let sent = place.run(&["task", "send", "--workspace", workspace, "--id", id, "x"]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let within = ["worker", "--workspace", workspace, "--until-empty", "--max-retries", "0", "--"];
    let command = ["sh", "-c", "echo no way >&2; exit 9"];
    let worked = place.run(&[&within[..], &command].concat());
    assert_eq!(worked.code, Some(3), "{worked:?}");
}

#[test]
fn a_dead_letter_is_posted_with_its_reason() {
    let (place, web) = (Place::new(), Web::answering(&[]));
    let daemon = Daemon::with(&place, &["--on-dead-letter", &web.url()]);
    give_up(&place, "one");
    let heard = web.next();
    assert_eq!(heard["hook"], "dead-letter");
    assert_eq!(heard["workspace"], "default");
    assert_eq!((&heard["task"], &heard["attempts"]), (&Value::from("one"), &Value::from(1)));
    assert_eq!(heard["kind"], "exhausted");
    let reason = heard["reason"].as_str().unwrap();
    assert!(reason.contains("no way"), "{heard}");
    daemon.stop();
}

#[test]
fn an_approval_that_is_asked_for_is_posted_with_what_it_is_for() {
    let (place, web) = (Place::new(), Web::answering(&[]));
    let daemon = Daemon::with(&place, &["--on-approval", &web.url()]);
    let ask = ["--action", "deploy", "--target", "web-1", "--question", "now?", "--json"];
    let asked = place.run(&[&["approvals", "request"][..], &ask].concat());
    assert_eq!(asked.code, Some(0), "{asked:?}");
    let heard = web.next();
    assert_eq!((&heard["hook"], &heard["asker"]), (&"approval".into(), &"cli-worker".into()));
    assert_eq!((&heard["action"], &heard["target"]), (&"deploy".into(), &"web-1".into()));
    assert_eq!((&heard["question"], &heard["approvalChoice"]), (&"now?".into(), &"yes".into()));
    assert_eq!(heard["approval"], asked.json()["approval"]);
    daemon.stop();
}

#[test]
fn a_command_gets_the_letter_on_its_stdin_and_none_of_the_bus_s_secrets() {
    let place = Place::new();
    let told = place.pipe("told");
    let hook = format!("(cat; env; echo end) > {}", told.display());
    let mut command = place.command();
    command.args(["up", "--json", "--on-dead-letter", &hook]);
    command.env("VAK_BUS_NATS_NKEY_SEED", "canary-of-a-seed");
    let daemon = Daemon::of(command);
    let (tell, heard) = mpsc::channel();
    thread::spawn(move || tell.send(std::fs::read_to_string(told).unwrap()));
    give_up(&place, "one");
    let heard = heard.recv_timeout(LIMIT).unwrap();
    assert!(heard.contains(r#""task":"one""#), "{heard}");
    assert!(heard.contains("VAKBUS_HOOK=dead-letter") && heard.contains("VAKBUS_TASK=one"));
    assert!(!heard.contains("canary-of-a-seed"), "{heard}");
    daemon.stop();
}

#[test]
fn what_came_before_a_hook_was_named_is_not_told() {
    let (place, web) = (Place::new(), Web::answering(&[]));
    give_up(&place, "before");
    let daemon = Daemon::with(&place, &["--on-dead-letter", &web.url()]);
    give_up(&place, "after");
    assert_eq!(web.next()["task"], "after");
    let ended = daemon.stop();
    assert!(ended.stderr.contains("those that are kept already are not"), "{ended:?}");
}

#[test]
fn a_restart_repeats_no_letter_and_tells_what_came_meanwhile() {
    let (place, web) = (Place::new(), Web::answering(&[]));
    let daemon = Daemon::with(&place, &["--on-dead-letter", &web.url()]);
    give_up(&place, "one");
    assert_eq!(web.next()["task"], "one");
    daemon.stop();
    give_up(&place, "two");
    let daemon = Daemon::with(&place, &["--on-dead-letter", &web.url()]);
    assert_eq!(web.next()["task"], "two");
    daemon.stop();
}

#[test]
fn a_hook_that_fails_is_told_again_before_the_next_letter() {
    let (place, web) = (Place::new(), Web::answering(&[500, 302]));
    let daemon = Daemon::with(&place, &["--on-dead-letter", &web.url()]);
    give_up(&place, "one");
    give_up(&place, "two");
    let heard: Vec<Value> = (0..4).map(|_| web.next()["task"].clone()).collect();
    assert_eq!(heard, ["one", "one", "one", "two"]);
    daemon.stop();
}

#[test]
fn a_hook_that_hangs_stops_neither_the_work_nor_the_end_of_the_daemon() {
    let place = Place::new();
    let begun = place.pipe("begun");
    let hook = format!("echo x > {}; exec sleep 600", begun.display());
    let daemon = Daemon::with(&place, &["--on-dead-letter", &hook]);
    give_up(&place, "one");
    let (tell, heard) = mpsc::channel();
    thread::spawn(move || tell.send(std::fs::read_to_string(begun).unwrap()));
    assert_eq!(heard.recv_timeout(LIMIT).unwrap(), "x\n");
    give_up(&place, "two");
    let ended = daemon.stop();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn a_hook_that_hangs_for_one_workspace_is_heard_for_another() {
    let place = Place::new();
    let (begun, told) = (place.pipe("begun"), place.pipe("told"));
    let hook = format!(
        "case $VAKBUS_WORKSPACE in slow) echo x > {}; exec sleep 600;; esac; echo $VAKBUS_TASK > {}",
        begun.display(),
        told.display()
    );
    assert_eq!(place.run(&["workspace", "new", "slow"]).code, Some(0));
    let daemon = Daemon::with(&place, &["--on-dead-letter", &hook]);
    give_up_in(&place, "slow", "one");
    let heard = |path: std::path::PathBuf| {
        let (tell, heard) = mpsc::channel();
        thread::spawn(move || tell.send(std::fs::read_to_string(path).unwrap()));
        heard.recv_timeout(LIMIT).unwrap()
    };
    assert_eq!(heard(begun), "x\n");
    give_up(&place, "two");
    assert_eq!(heard(told), "two\n");
    daemon.stop();
}

#[test]
fn a_stranger_s_project_runs_no_hook() {
    let (place, web) = (Place::new(), Web::answering(&[]));
    std::fs::create_dir_all(place.path("project")).unwrap();
    let hook = format!("[hooks]\non_dead_letter = \"touch {}\"\n", place.path("ran").display());
    place.write("project/vakbus.toml", &hook);
    let mut command = place.command();
    command.current_dir(place.path("project")).args(["up", "--json"]);
    let daemon = Daemon::of(command);
    give_up(&place, "one");
    let ended = daemon.stop();
    assert!(ended.stderr.contains("ignored are hooks.on_dead_letter"), "{ended:?}");
    // Its cursor would be there if it had been looked at.
    assert!(!place.path("data/run/hook-dead-letter.json").exists());
    assert!(!place.path("ran").exists());
    drop(web);
}

#[test]
fn a_hook_of_the_settings_is_heard_as_one_of_the_options_is() {
    let (place, web) = (Place::new(), Web::answering(&[]));
    let set = place.run(&["config", "set", "hooks.on_dead_letter", &web.url()]);
    assert_eq!(set.code, Some(0), "{set:?}");
    let daemon = Daemon::start(&place);
    give_up(&place, "one");
    assert_eq!(web.next()["task"], "one");
    daemon.stop();
}

#[test]
fn what_is_no_hook_is_a_wrong_call_that_tells_no_secret() {
    let place = Place::new();
    for hook in ["", "  ", "https://user:canary@host/", "http://example.com/"] {
        let mut command = place.command();
        command.args(["up", "--on-approval", hook]);
        let refused = run(command, "");
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(!refused.stderr.contains("canary"), "{refused:?}");
    }
}
