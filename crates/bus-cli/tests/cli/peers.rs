//! `vakbus up --http-listen`: agents of another language come to the peer bus by HTTP.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::Value;

use crate::{
    daemon_support::Daemon,
    support::{Place, run},
};

const FREE: [&str; 2] = ["--http-listen", "127.0.0.1:0"];

/// An agent in Python: it has the secret of the door from its file, and that of its instance from
/// its registration.
const AGENT: &str = r#"
import json, ssl, sys, urllib.request
base, secret = sys.argv[1], open("data/http.secret").read().strip()

def ask(method, path, body=None, instance=None, door=secret, context=None):
    request = urllib.request.Request(base + path, method=method)
    if door: request.add_header("Authorization", "Bearer " + door)
    if instance: request.add_header("Vakbus-Instance-Secret", instance["secret"])
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    try:
        return urllib.request.urlopen(request, timeout=60, context=context)
    except urllib.error.HTTPError as error:
        return error

def register(definition):
    answer = ask("POST", "/api/v1/bus/instances", {"definition_id": definition})
    assert answer.status == 201, answer.read()
    return json.load(answer)
"#;

/// Runs `story` after the definitions of [`AGENT`] and returns the JSON that it prints.
fn agent(place: &Place, http: &str, story: &str) -> Value {
    place.write("agent.py", &format!("{AGENT}{story}"));
    let mut command = place.shell(r#"exec python3 agent.py "$1""#);
    command.arg(http);
    let outcome = run(command, "");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    outcome.json()
}

#[test]
fn two_agents_of_another_language_talk_and_it_is_recorded() {
    let place = Place::new();
    let daemon = Daemon::with(&place, &FREE);
    let http = daemon.ready["http"].as_str().unwrap();
    let story = r#"
chief, worker = register("chief"), register("worker")
events = ask("GET", "/api/v1/bus/subscribe/" + worker["instance_id"], instance=worker)
body = {"from": {"kind": "assistant_instance", "instance_id": chief["instance_id"]},
        "to": {"definition_id": "worker"}, "payload": {"type": "peer_request", "text": "canary"}}
sent = json.load(ask("POST", "/api/v1/bus/publish", body, chief))
line = b""
while not line.startswith(b"data: "): line = events.readline()
print(json.dumps({"sent": sent, "heard": json.loads(line[6:]), "secret": chief["secret"]}))
"#;
    let said = agent(&place, http, story);
    assert_eq!(said["sent"], said["heard"]);
    let outcome = daemon.stop();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let journal = place.shell("cat data/logs/bus/*.jsonl");
    let journal = run(journal, "").json();
    assert_eq!(journal, said["sent"]);
}

#[test]
fn the_secret_of_the_door_is_its_owners_alone_stays_and_is_said_by_nobody() {
    let place = Place::new();
    let daemon = Daemon::with(&place, &FREE);
    let secret = place.read("data/http.secret");
    let mode = fs::metadata(place.path("data/http.secret")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut said = daemon.ready.to_string() + &place.read("data/run/daemon.json");
    let outcome = daemon.stop();
    said += &format!("{outcome:?}");
    assert!(said.contains("http.secret"), "it says where it is: {said}");
    assert!(!said.contains(secret.trim()), "{said}");
    let again = Daemon::with(&place, &FREE);
    assert_eq!(place.read("data/http.secret"), secret);
    again.stop();
}

#[test]
fn without_the_secret_nothing_is_done_and_probes_are_answered() {
    let place = Place::new();
    let daemon = Daemon::with(&place, &FREE);
    let http = daemon.ready["http"].as_str().unwrap();
    let story = r#"
said = [ask("POST", "/api/v1/bus/instances", {"definition_id": "x"}, door=door).status
        for door in (None, "guess")]
said += [ask("GET", path, door=None).status for path in ("/readyz", "/api/v1/openapi.json")]
said += [json.load(ask("GET", "/api/v1/bus/instances"))]
print(json.dumps(said))
"#;
    let said = agent(&place, http, story);
    assert_eq!(said.to_string(), r#"[401,401,200,200,{"instances":[]}]"#);
    daemon.stop();
}

#[test]
fn beyond_this_machine_the_door_has_tls_or_is_not_opened() {
    let place = Place::new();
    let refused = place.run(&["up", "--http-listen", "0.0.0.0:0"]);
    refused.is_wrong_call("not an address of this machine alone");
    place.write("server.pem", include_str!("tls/server.pem"));
    place.write("ca.pem", include_str!("tls/ca.pem"));
    place.write("server.key", include_str!("tls/server.key"));
    let args = ["--http-listen", "0.0.0.0:0", "--http-name", "127.0.0.1"];
    let files = ["--http-cert", "server.pem", "--http-key", "server.key"];
    let args = [&args[..], &files[..]].concat();
    let private = |mode| fs::Permissions::from_mode(mode);
    fs::set_permissions(place.path("server.key"), private(0o644)).unwrap();
    let refused = place.run(&[&["up"], &args[..]].concat());
    assert!(refused.stderr.contains("other users can reach it"), "{refused:?}");
    fs::set_permissions(place.path("server.key"), private(0o600)).unwrap();
    let daemon = Daemon::with(&place, &args);
    let http = daemon.ready["http"].as_str().unwrap();
    assert!(http.starts_with("https://127.0.0.1:"), "{http}");
    let story = r#"
trusting = ssl.create_default_context(cafile="ca.pem")
said = [ask("GET", path, door=door, context=trusting).status for path, door in
        (("/healthz", None), ("/metrics", None), ("/metrics", secret),
         ("/api/v1/bus/instances", None), ("/api/v1/bus/instances", secret))]
base = base.replace("https", "http")
try: said += [ask("GET", "/healthz").status]
except Exception: said += ["nothing"]
print(json.dumps(said))
"#;
    let said = agent(&place, http, story);
    assert_eq!(said.to_string(), r#"[200,401,200,401,200,"nothing"]"#);
    daemon.stop();
}

#[test]
fn a_door_for_agents_and_one_for_scrapers_are_one() {
    let place = Place::new();
    let both = ["up", "--http-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"];
    place.run(&both).is_wrong_call("cannot be used with");
}

#[test]
fn what_was_answered_is_in_the_journal_of_a_daemon_that_was_killed() {
    let place = Place::new();
    let daemon = Daemon::with(&place, &FREE);
    let http = daemon.ready["http"].as_str().unwrap();
    let story = r#"
import glob, os, threading
chief, worker = register("chief"), register("worker")
events = ask("GET", "/api/v1/bus/subscribe/" + worker["instance_id"], instance=worker)
body = {"from": {"kind": "assistant_instance", "instance_id": chief["instance_id"]},
        "to": {"definition_id": "worker"}, "payload": {"type": "chat_text", "text": "x" * 1000}}
answered, enough = [], threading.Event()

def publish():
    while True:
        try: answered.append(json.load(ask("POST", "/api/v1/bus/publish", body, chief))["message_id"])
        except Exception: return
        if len(answered) >= 200: enough.set()

burst = [threading.Thread(target=publish) for _ in range(8)]
for one in burst: one.start()
assert enough.wait(120)
os.kill(json.load(open("data/run/daemon.json"))["pid"], 9)
for one in burst: one.join()
lines = [line for file in glob.glob("data/logs/bus/*.jsonl") for line in open(file)]
written = {json.loads(line)["message_id"] for line in lines if line.endswith("\n")}
print(json.dumps({"answered": len(answered), "missing": [m for m in answered if m not in written]}))
"#;
    let said = agent(&place, http, story);
    assert!(said["answered"].as_u64().unwrap() >= 200, "{said}");
    assert_eq!(said["missing"], serde_json::json!([]), "{said}");
    // What is left of a line is mended by the next daemon, whose own lines stand apart.
    assert_eq!(daemon.running.ended().code, None);
    let again = Daemon::with(&place, &FREE);
    let http = again.ready["http"].as_str().unwrap();
    let story = r#"
import glob
chief = register("chief")
body = {"from": {"kind": "assistant_instance", "instance_id": chief["instance_id"]},
        "to": {"definition_id": "nobody"}, "payload": {"type": "chat_text", "text": "x"}}
status = ask("POST", "/api/v1/bus/publish", body, chief).status
lines = [line for file in glob.glob("data/logs/bus/*.jsonl") for line in open(file)]
last = json.loads(lines[-1])
print(json.dumps([status, last["delivery_state"], last["to"]]))
"#;
    let said = agent(&place, http, story);
    assert_eq!(said.to_string(), r#"[404,"dropped",{"definition_id":"nobody"}]"#);
    again.stop();
}
