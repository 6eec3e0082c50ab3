//! `--metrics-listen`: what scrapers and probes of the same machine are told, and by whom.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
};

use serde_json::Value;

use crate::{
    daemon_support::Daemon,
    nats_up::Up,
    support::{Gate, LIMIT, Lines, Place, Running},
};

const FREE: [&str; 2] = ["--metrics-listen", "127.0.0.1:0"];

/// What a process answers: its status and its body.
fn ask(http: &str, path: &str) -> (u16, String) {
    let host = http.strip_prefix("http://").unwrap();
    let address: SocketAddr = host.parse().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// What it answers once it is not ready any more; what it heard a second ago is good until then.
fn unready(http: &str) -> String {
    const TRIES: usize = 100_000;
    let mut answers = (0..TRIES).map(|_| ask(http, "/readyz"));
    answers.find(|(status, _)| *status == 503).expect("it stays ready").1
}

/// The value of a sample on a page.
fn value(page: &str, sample: &str) -> Option<f64> {
    let line =
        page.lines().find(|line| line.strip_prefix(sample).is_some_and(|l| l.starts_with(' ')));
    line.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

fn sends(place: &Place, role: &str) {
    let sent = place.run(&["task", "send", "--role", role, "hello"]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
}

#[test]
fn a_daemon_answers_scrapers_and_says_where() {
    let place = Place::new();
    let daemon = Daemon::with(&place, &FREE);
    let http = daemon.ready["http"].as_str().unwrap();
    let told: Value = serde_json::from_str(&place.read("data/run/daemon.json")).unwrap();
    assert_eq!(told["http"], http);
    assert_eq!(ask(http, "/healthz"), (200, "{\"ok\":true}\n".to_owned()));
    let (status, ready) = ask(http, "/readyz");
    assert_eq!(status, 200);
    let ready: Value = serde_json::from_str(&ready).unwrap();
    assert_eq!((&ready["engine"], &ready["workspaces"]), (&"disk".into(), &1.into()));
    daemon.stop();
}

#[test]
fn what_goes_through_the_daemon_and_waits_in_it_is_on_its_page() {
    let place = Place::new();
    let daemon = Daemon::with(&place, &FREE);
    let http = daemon.ready["http"].as_str().unwrap();
    sends(&place, "coder");
    let worked = place.run(&["worker", "--role", "coder", "--until-empty", "--", "true"]);
    assert_eq!(worked.code, Some(0), "{worked:?}");
    sends(&place, "coder");
    let (status, page) = ask(http, "/metrics");
    assert_eq!(status, 200);
    // Two tasks and a receipt were stored, one task was handed out.
    let of = |name: &str| value(&page, &format!("{name}{{workspace=\"default\"}}")).unwrap();
    assert!(of("vakbus_published_total") >= 3.0 && of("vakbus_received_total") >= 1.0, "{page}");
    assert!(of("vakbus_published_bytes_total") > 100.0, "{page}");
    let coder = "vakbus_queue_waiting{workspace=\"default\",queue=\"coder\"}";
    assert_eq!(value(&page, coder), Some(1.0), "{page}");
    assert!(page.contains("vakbus_build_info{version=\""), "{page}");
    assert!(page.ends_with("# EOF\n"), "{page}");
    daemon.stop();
}

/// Waits until a page has this sample with this value.
#[track_caller]
fn shows(http: &str, sample: &str, wanted: f64) {
    const TRIES: usize = 100_000;
    let mut page = String::new();
    for _ in 0..TRIES {
        page = ask(http, "/metrics").1;
        if value(&page, sample) == Some(wanted) {
            return;
        }
    }
    panic!("{sample} is never {wanted}: {page}");
}

#[test]
fn what_a_daemon_does_beside_serving_is_on_its_page() {
    let place = Place::new();
    let daemon = Daemon::with(&place, &[&FREE[..], &["--on-dead-letter", "exit 0"]].concat());
    let http = daemon.ready["http"].as_str().unwrap();
    shows(http, "vakbus_approvals_waiting{workspace=\"default\"}", 0.0);
    let request = ["approvals", "request", "--action", "deploy", "--target", "web-1"];
    assert_eq!(place.run(&request).code, Some(0));
    shows(http, "vakbus_approvals_waiting{workspace=\"default\"}", 1.0);
    sends(&place, "coder");
    let worker =
        ["worker", "--role", "coder", "--until-empty", "--max-retries", "0", "--", "false"];
    assert_eq!(place.run(&worker).code, Some(3));
    let letters = "vakbus_dead_letters_total{workspace=\"default\",reason=\"exhausted\"}";
    shows(http, letters, 1.0);
    shows(http, "vakbus_hook_news_total{hook=\"dead-letter\",outcome=\"heard\"}", 1.0);
    sends(&place, "coder");
    let worker = ["worker", "--role", "coder", "--until-empty", "--", "true"];
    assert_eq!(place.run(&worker).code, Some(0));
    // The request for the approval, and the receipt.
    shows(http, "vakbus_audit_records_total{workspace=\"default\"}", 2.0);
    shows(http, "vakbus_audit_behind_seconds{workspace=\"default\"}", 0.0);
    let page = ask(http, "/metrics").1;
    let age = value(&page, "vakbus_approvals_oldest_seconds{workspace=\"default\"}");
    assert!(age.is_some_and(|age| age > 0.0), "{page}");
    daemon.stop();
}

#[test]
fn without_the_option_nothing_is_said_of_it() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    assert_eq!(daemon.ready["http"], Value::Null);
    assert!(!place.read("data/run/daemon.json").contains("http"));
    daemon.stop();
}

#[test]
fn a_supervised_server_is_told_of_as_well() {
    let place = Place::new();
    let up = Up::with(&place, &FREE);
    let http = up.ready["http"].as_str().unwrap().to_owned();
    assert!(place.read("data/run/nats.json").contains(&http));
    sends(&place, "coder");
    let worked = place.run(&["worker", "--role", "coder", "--until-empty", "--", "true"]);
    assert_eq!(worked.code, Some(0), "{worked:?}");
    sends(&place, "coder");
    let (status, ready) = ask(&http, "/readyz");
    assert_eq!((status, ready.contains("\"engine\":\"nats\"")), (200, true), "{ready}");
    let page = ask(&http, "/metrics").1;
    let coder = "vakbus_queue_waiting{workspace=\"default\",queue=\"coder\"}";
    assert_eq!(value(&page, coder), Some(1.0), "{page}");
    assert!(!page.contains("vakbus_published"), "no message goes through it: {page}");
    // Who keeps house on that server is ready with it, and not without it.
    let url = up.ready["url"].as_str().unwrap();
    let house = Daemon::with(&place, &["--nats-url", url, FREE[0], FREE[1]]);
    let other = house.ready["http"].as_str().unwrap().to_owned();
    assert_eq!(ask(&other, "/readyz").0, 200);
    up.stop();
    let why = unready(&other);
    assert!(why.contains("\"ready\":false"), "{why}");
    house.stop();
}

#[test]
fn a_worker_shows_how_its_tasks_ended() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    sends(&place, "coder");
    let mut command = place.command();
    command.args(["worker", "--json", "--role", "coder"]).args(FREE).args(["--", "true"]);
    let mut worker = Running::start(command);
    let events = Lines::of(worker.take_stdout());
    let event = |name: &str| loop {
        let line: Value = serde_json::from_str(&events.next().unwrap()).unwrap();
        if line["event"] == name {
            return line;
        }
    };
    let http = event("listening")["http"].as_str().unwrap().to_owned();
    event("completed");
    assert_eq!(ask(&http, "/readyz").0, 200);
    let page = ask(&http, "/metrics").1;
    let of = |labels: &str| {
        value(&page, &format!("vakbus_tasks_total{{workspace=\"default\",{labels}}}"))
    };
    assert_eq!(of("outcome=\"completed\""), Some(1.0), "{page}");
    assert_eq!(of("outcome=\"dead-lettered\""), Some(0.0), "{page}");
    assert_eq!(value(&page, "vakbus_step_seconds_count{step=\"claim\"}"), Some(1.0), "{page}");
    daemon.stop();
    assert!(unready(&http).contains("\"engine\":\"link\""));
    assert_eq!(ask(&http, "/healthz").0, 200);
    worker.signal(rustix::process::Signal::TERM);
    assert_eq!(worker.ended().code, Some(0));
}

#[test]
fn a_swarm_in_its_own_memory_shows_its_queue_while_it_runs() {
    let place = Place::new();
    let mut gate = Gate::at(&place.pipe("gate"));
    place.write("tasks", "one\ntwo\n");
    let mut command = place.command();
    command.args(["swarm", "--workers", "1", "--tasks", "tasks"]).args(FREE);
    command.args(["--", "sh", "-c", "read x <gate"]);
    let mut swarm = Running::start(command);
    let metrics = swarm.hears_after("metrics at ");
    let http = metrics.strip_suffix("/metrics").unwrap();
    assert_eq!(ask(http, "/readyz").0, 200);
    assert!(ask(http, "/metrics").1.contains("vakbus_tasks_total"));
    gate.open_for(2);
    assert_eq!(swarm.ended().code, Some(0));
}

#[test]
fn an_address_that_others_reach_is_a_wrong_call() {
    let place = Place::new();
    let commands: [&[&str]; 3] = [&["up"], &["worker", "--", "true"], &["swarm", "--", "true"]];
    for command in commands {
        let (name, rest) = command.split_first().unwrap();
        let mut args = vec![*name, "--metrics-listen", "0.0.0.0:9100"];
        args.extend(rest);
        place.run(&args).is_wrong_call("nobody has to log in");
    }
}

#[test]
fn a_taken_port_is_told_with_what_to_do() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    place.run(&["up", "--metrics-listen", &address]).failed_with(&address, "127.0.0.1:0");
}
