//! The document of the routes holds: what is answered is what it says, to a stranger's reader.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use bus_gateway::{Limits, Rate};
use serde_json::{Value, json};

use crate::client::{DOOR, Peers, SECRET};

const DOCUMENT: &str = include_str!("../../openapi.json");

fn document() -> Value {
    serde_json::from_str(DOCUMENT).unwrap()
}

/// The operations of the document: method, path and what it says of them.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            all.push((method.to_uppercase(), path.clone(), operation.clone()));
        }
    }
    all
}

/// Holds `value` against a schema of the document.
#[track_caller]
fn holds(schema: &str, value: &Value) {
    let mut whole = document();
    whole["$ref"] = json!(format!("#/components/schemas/{schema}"));
    let schema = jsonschema::validator_for(&whole).unwrap();
    let wrong: Vec<_> = schema.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(wrong.is_empty(), "{wrong:?}: {value}");
}

#[tokio::test]
async fn every_route_of_the_document_is_there_and_needs_the_secret_of_the_door() {
    let peers = Peers::at("127.0.0.1:0", patient()).await;
    let operations = operations(&document());
    assert_eq!(operations.len(), 6, "a route is documented here when it is added");
    for (method, path, operation) in operations {
        let path = path.replace("{instance_id}", "worker~00000000");
        let line = format!("{method} {path}");
        let refused = peers.client().await.ask_plainly(&line, &[], None).await;
        assert_eq!(refused.status, 401, "{line}");
        let body = operation.get("requestBody").map(|_| "{}");
        let answer = peers.client().await.ask(&line, &[(SECRET, "0")], body).await;
        let told = answer.status.to_string();
        assert_ne!(told, "405", "{line}");
        assert!(operation["responses"].get(&told).is_some(), "{line}: {answer:?}");
    }
}

#[tokio::test]
async fn a_method_that_is_not_in_the_document_is_not_there() {
    let peers = Peers::open().await;
    let document = document();
    let known: BTreeSet<_> =
        operations(&document).into_iter().map(|(method, path, _)| (method, path)).collect();
    for path in document["paths"].as_object().unwrap().keys() {
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH"] {
            if known.contains(&(method.to_owned(), path.clone())) {
                continue;
            }
            let path = path.replace("{instance_id}", "worker~00000000");
            let reply = peers.client().await.ask(&format!("{method} {path}"), &[], None).await;
            assert_eq!(reply.status, 405, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn the_document_is_answered_to_everybody_as_it_is() {
    let peers = Peers::open().await;
    let reply = peers.client().await.ask_plainly("GET /api/v1/openapi.json", &[], None).await;
    assert_eq!((reply.status, reply.body.as_str()), (200, DOCUMENT));
}

#[tokio::test]
async fn what_is_answered_has_the_form_that_the_document_says() {
    let peers = Peers::open().await;
    let mut client = peers.client().await;
    let body = json!({ "definition_id": "chief", "project": "apollo" }).to_string();
    let registered = client.post("/api/v1/bus/instances", &[], &body).await.json();
    holds("Registered", &registered);
    let worker = peers.instance("worker").await;
    let mut events = peers.listen(&worker).await;
    let chief = crate::client::Instance {
        id: registered["instance_id"].as_str().unwrap().to_owned(),
        secret: registered["secret"].as_str().unwrap().to_owned(),
    };
    let sent = client.publish(&chief, json!({ "definition_id": "worker" }), "x").await;
    holds("BusEnvelope", &sent.json());
    holds("BusEnvelope", &serde_json::from_str(&events.next().await.unwrap().data).unwrap());
    holds("Instances", &client.get("/api/v1/bus/instances").await.json());
    let path = format!("/api/v1/bus/instances/{}/heartbeat", chief.id);
    holds("LiveInstance", &client.post(&path, &[(SECRET, &chief.secret)], "{}").await.json());
    let refused = client.publish(&chief, json!({ "definition_id": "nobody" }), "x").await;
    holds("Refusal", &refused.json());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemathesis_finds_nothing_that_the_document_does_not_say() {
    let peers = Peers::at("127.0.0.1:0", patient()).await;
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("schemathesis.toml");
    // 410 is what an instance gets that is not there, and 413 a text whose characters are long.
    let text = format!(
        "[headers]\nAuthorization = \"Bearer {DOOR}\"\n\
         [checks.positive_data_acceptance]\n\
         expected-statuses = [\"2xx\", \"400\", \"403\", \"404\", \"409\", \"410\", \"413\"]\n\
         [checks.negative_data_rejection]\n\
         expected-statuses = [\"400\", \"403\", \"404\", \"405\", \"410\", \"413\", \"415\"]\n\
         [checks.missing_required_header]\n\
         expected-statuses = [\"400\", \"401\", \"403\", \"404\", \"410\", \"415\"]\n"
    );
    fs::write(&settings, text).unwrap();
    let url = format!("http://{}", peers.open.address);
    let said = tokio::task::block_in_place(|| {
        let mut command = Command::new("python3");
        command.env("PYTHONPATH", schemathesis()).env("COLUMNS", "100");
        command.current_dir(folder.path()).args(["-m", "schemathesis.cli", "--config-file"]);
        command.arg(&settings).args(["--no-color", "run", "--url", &url]);
        command.arg("--generation-deterministic");
        command.args(["--max-examples", "15", "--request-timeout", "10"]);
        command.arg(format!("{url}/api/v1/openapi.json"));
        command.output().unwrap()
    });
    let out = String::from_utf8_lossy(&said.stdout);
    let err = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{out}{err}");
    assert!(out.contains("6 selected / 6 total"), "all operations were asked: {out}");
}

/// Limits that nobody meets.
fn patient() -> Limits {
    let rate = Rate { one_each: Duration::from_nanos(1), burst: 1_000_000.try_into().unwrap() };
    Limits { instance: rate, bearer: rate, strangers: rate }
}

/// The folder with what is fetched of schemathesis. The first to come fetches, others wait.
fn schemathesis() -> PathBuf {
    let tools = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("tools");
    fs::create_dir_all(&tools).unwrap();
    // Parts of it are made for one version of Python.
    let tag = said(Command::new("python3").args(["-c", TAG]));
    let place = tools.join(format!("{}-{}", RELEASE.replace("==", "-"), tag.trim()));
    let lock = File::create(tools.join("schemathesis.lock")).unwrap();
    lock.lock().unwrap();
    if !place.is_dir() {
        let work = tempfile::tempdir_in(&tools).unwrap();
        let packages = work.path().join("packages");
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        let known = work.path().join("constraints.txt");
        fs::write(&known, include_str!("constraints.txt")).unwrap();
        pip.args(["--only-binary", ":all:", "--target"]).arg(&packages);
        pip.arg("--constraint").arg(known).arg(RELEASE);
        said(&mut pip);
        fs::rename(packages, &place).unwrap();
    }
    place
}

/// What a command prints that has to succeed.
fn said(command: &mut Command) -> String {
    const NEEDED: &str = "no schemathesis: it needs python3 with pip, and PyPI";
    let output = command.output().unwrap_or_else(|error| panic!("{NEEDED}: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{NEEDED}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// The release that this was tried with.
const RELEASE: &str = "schemathesis==4.32.5";

const TAG: &str = "import sys; print(sys.implementation.cache_tag)";
