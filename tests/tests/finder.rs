//! A roster that looks for the certificates of signers it does not know.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, Ordering},
};

use bus_core::{Endpoint, ErrorKind, Identity, Roster};
use bus_crypto::{NkeyKind, SigningKey, SystemEntropy};
use bus_stories::{Stage, task};
use bus_subjects::Role;

/// What is found, and how often somebody looked.
#[derive(Default)]
struct Files {
    tokens: Mutex<Vec<(String, String)>>,
    looks: AtomicU32,
}

/// An operator whose roster knows nobody and looks into `files`.
fn reader(stage: &Stage, files: &Arc<Files>) -> Endpoint {
    let looked_into = Arc::clone(files);
    let roster = Roster::new(*stage.account().public()).finding(move |signer| {
        looked_into.looks.fetch_add(1, Ordering::Relaxed);
        let tokens = looked_into.tokens.lock().unwrap();
        let found = tokens.iter().find(|(nkey, _)| nkey == signer);
        Ok::<_, String>(found.map(|(_, token)| token.clone()))
    });
    let identity = stage.certified("reader", Role::Operator).unwrap();
    let mut parts = stage.parts(identity);
    parts.roster = Arc::new(roster);
    Endpoint::new(parts).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_signer_that_is_found_is_known_from_then_on() {
    let stage = Stage::new().await.unwrap();
    let files = Arc::new(Files::default());
    let reader = reader(&stage, &files);
    let sender = stage.agent("boss", Role::Orchestrator).unwrap();
    let sent = sender.send(task(&stage, "x")).await.unwrap();
    assert_eq!(reader.open(&sent.frame).unwrap_err().kind(), ErrorKind::Denied);
    let certificate = sender.identity().certificate();
    let found = (certificate.nkey.text(), certificate.token().to_owned());
    files.tokens.lock().unwrap().push(found);
    for _ in 0..3 {
        assert_eq!(&reader.open(&sent.frame).unwrap().payload[..], b"x");
    }
    assert_eq!(files.looks.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn a_certificate_of_another_account_is_not_taken_wherever_it_is_found() {
    let stage = Stage::new().await.unwrap();
    let files = Arc::new(Files::default());
    let reader = reader(&stage, &files);
    let other = SigningKey::generate(NkeyKind::Account, &SystemEntropy::new()).unwrap();
    let issue = stage.issue("boss", Role::Orchestrator).unwrap();
    let stranger = Identity::issue(&other, &issue, &SystemEntropy::new()).unwrap();
    let token = stranger.certificate().token().to_owned();
    files.tokens.lock().unwrap().push((stranger.certificate().nkey.text(), token));
    let sender = stage.endpoint(stranger).unwrap();
    let sent = sender.send(task(&stage, "x")).await.unwrap();
    assert_eq!(reader.open(&sent.frame).unwrap_err().kind(), ErrorKind::Denied);
}
