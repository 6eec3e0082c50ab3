//! C09: no secret shows in what a type prints of itself, nor in the text of any error.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::{fmt::Debug, sync::Arc};

use base64::{Engine as _, engine::general_purpose};
use bus_core::{ConsumerSpec, Endpoint, Frame, Guarded, Job, Worker, WorkerSpec, planes};
use bus_crypto::{Keyring, WorkspaceSecret};
use bus_envelope::Headers;
use bus_stories::{Stage, task};
use bus_subjects::{ConsumerName, Filter, Role};

const CANARY: &str = "canary-secret-that-must-never-be-seen";

/// A text in which no secret may be found in any of the forms that it could take.
struct Secrets(Vec<(String, String)>);

impl Secrets {
    fn add(&mut self, name: &str, bytes: &[u8]) {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let list = format!("{bytes:?}");
        let numbers = list.trim_matches(['[', ']']).to_owned();
        let base64 = general_purpose::STANDARD_NO_PAD.encode(bytes);
        let url_safe = general_purpose::URL_SAFE_NO_PAD.encode(bytes);
        let text = String::from_utf8_lossy(bytes).into_owned();
        for form in [hex.to_uppercase(), hex, numbers, base64, url_safe, text] {
            self.0.push((name.to_owned(), form));
        }
    }

    /// The first secret found in a text, and its form.
    fn find(&self, text: &str) -> Option<&(String, String)> {
        self.0.iter().find(|(_, form)| text.contains(form.as_str()))
    }

    #[track_caller]
    fn are_not_in(&self, text: &str) {
        let found = self.find(text);
        assert!(found.is_none(), "{found:?} shows in: {text}");
    }

    #[track_caller]
    fn are_not_shown_by(&self, value: &impl Debug) {
        self.are_not_in(&format!("{value:?}"));
        self.are_not_in(&format!("{value:#?}"));
    }

    /// An error, its text and what led to it.
    #[track_caller]
    fn are_not_told_by(&self, error: &(dyn std::error::Error + 'static)) {
        let mut error = Some(error);
        while let Some(current) = error {
            self.are_not_in(&current.to_string());
            self.are_not_in(&format!("{current:?}"));
            error = current.source();
        }
    }
}

/// A stage whose secrets are known, and the list of them.
async fn stage_with_canaries() -> (Stage, Secrets) {
    let mut stage = Stage::new().await.unwrap();
    let keyring = Keyring::new();
    keyring.add_secret("w1", "v1", WorkspaceSecret::from_text(CANARY).unwrap()).unwrap();
    stage.keyring = Arc::new(keyring);
    let mut secrets = Secrets(Vec::new());
    secrets.add("workspace secret", CANARY.as_bytes());
    secrets.add("account seed", stage.account().seed_text().as_bytes());
    (stage, secrets)
}

fn agent(stage: &Stage, secrets: &mut Secrets, name: &str, role: Role) -> Endpoint {
    let endpoint = stage.agent(name, role).unwrap();
    secrets.add("agent seed", endpoint.identity().key().seed_text().as_bytes());
    secrets.add("credential", endpoint.identity().certificate().token().as_bytes());
    endpoint
}

#[test]
fn a_secret_is_found_in_whatever_form_it_shows() {
    let mut secrets = Secrets(Vec::new());
    secrets.add("canary", CANARY.as_bytes());
    let bytes = CANARY.as_bytes();
    for leak in [
        format!("text {CANARY}"),
        format!("list {bytes:?}"),
        format!("array {:?}", [b"x".as_slice(), bytes]),
        format!("base64 {}", general_purpose::STANDARD.encode(bytes)),
        bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        bytes.iter().map(|byte| format!("{byte:02X}")).collect(),
    ] {
        assert!(secrets.find(&leak).is_some(), "{leak}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_that_holds_a_secret_prints_it() {
    let (stage, mut secrets) = stage_with_canaries().await;
    let boss = agent(&stage, &mut secrets, "boss", Role::Orchestrator);
    let worker = agent(&stage, &mut secrets, "coder-1", Role::Worker);
    boss.send(task(&stage, "text")).await.unwrap();

    secrets.are_not_shown_by(&boss);
    secrets.are_not_shown_by(boss.identity());
    secrets.are_not_shown_by(boss.identity().certificate());
    secrets.are_not_shown_by(boss.identity().key());
    secrets.are_not_shown_by(&*stage.keyring);
    secrets.are_not_shown_by(&*stage.roster);
    secrets.are_not_shown_by(stage.account());
    let policy = worker.identity().certificate().policy();
    secrets.are_not_shown_by(&Guarded::new(Arc::clone(&stage.engine), policy));
    secrets.are_not_shown_by(&Worker::new(worker, WorkerSpec::new(stage.queue.clone())));
    let key_id = format!("w1.v1.{}", boss.incarnation());
    secrets.are_not_shown_by(&*stage.keyring.opening_key(&key_id).unwrap());
    let sealing = stage.keyring.sealing_key("w1", &boss.incarnation().to_string()).unwrap();
    secrets.are_not_shown_by(&*sealing);
}

#[tokio::test(start_paused = true)]
async fn a_payload_in_plain_is_not_printed_either() {
    let (stage, mut secrets) = stage_with_canaries().await;
    secrets.add("payload", b"the plain words");
    let boss = agent(&stage, &mut secrets, "boss", Role::Orchestrator);
    let worker = agent(&stage, &mut secrets, "coder-1", Role::Worker);
    let sent = boss.send(task(&stage, "the plain words")).await.unwrap();
    let opened = worker.open(&sent.frame).unwrap();

    secrets.are_not_shown_by(&sent);
    secrets.are_not_shown_by(&opened);
    let (message, endpoint) = (&opened, &worker);
    secrets.are_not_shown_by(&Job { message, attempt: 1, endpoint, cancel: Default::default() });
}

#[tokio::test(start_paused = true)]
async fn no_error_of_a_failing_open_tells_a_secret() {
    let (stage, mut secrets) = stage_with_canaries().await;
    secrets.add("payload", b"the plain words");
    let boss = agent(&stage, &mut secrets, "boss", Role::Orchestrator);
    let worker = agent(&stage, &mut secrets, "coder-1", Role::Worker);
    let frame = boss.send(task(&stage, "the plain words")).await.unwrap().frame;

    let mut refusals = 0;
    for at in 0..frame.body.len() {
        let mut body = frame.body.to_vec();
        body[at] ^= 0x80;
        let error = worker.open(&Frame { body: body.into(), ..frame.clone() }).unwrap_err();
        secrets.are_not_told_by(&error);
        refusals += 1;
    }
    for left_out in 0..frame.headers.len() {
        let mut headers = Headers::new();
        for (n, (name, value)) in frame.headers.iter().enumerate() {
            if n != left_out {
                headers.add(name, value).unwrap();
            }
        }
        if let Err(error) = worker.open(&Frame { headers, ..frame.clone() }) {
            secrets.are_not_told_by(&error);
            refusals += 1;
        }
    }
    stage.keyring.withdraw("w1").unwrap();
    secrets.are_not_told_by(&worker.open(&frame).unwrap_err());
    assert!(refusals > 20, "only {refusals} refusals were looked at");
}

#[tokio::test(start_paused = true)]
async fn no_refusal_of_the_bus_tells_a_secret() {
    let (stage, mut secrets) = stage_with_canaries().await;
    let worker = agent(&stage, &mut secrets, "coder-1", Role::Worker);
    secrets.are_not_told_by(&worker.send(task(&stage, "forged")).await.unwrap_err());
    let consumer = ConsumerSpec {
        stream: planes::inbox_stream(&stage.workspace).unwrap(),
        name: ConsumerName::parse("snoop").unwrap(),
        filter: Filter::parse("vak.agent.w1.boss.inbox").unwrap(),
        lease: std::time::Duration::from_secs(1),
    };
    secrets.are_not_told_by(&worker.consume(consumer).await.unwrap_err());
    let token = worker.identity().certificate().token();
    let damaged = format!("{}x", &token[..token.len() - 1]);
    secrets.are_not_told_by(&stage.roster.admit(&damaged).unwrap_err());
    let short = WorkspaceSecret::from_text("short-canary").unwrap_err();
    assert!(!short.to_string().contains("short-canary"));
}
