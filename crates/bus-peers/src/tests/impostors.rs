//! Case C17: one registered instance cannot pass for another.

use super::support::{Peer, Stage, chat, definition, instance, unread};
use crate::{BusError, CallerIdentity, InstanceSecret};

async fn three(stage: &Stage) -> [Peer; 3] {
    [stage.peer("worker").await, stage.peer("chief").await, stage.peer("coder").await]
}

#[tokio::test]
async fn an_instance_cannot_publish_as_another() {
    let stage = Stage::new();
    let [worker, chief, coder] = three(&stage).await;
    let mut inbox = stage.inbox(&coder).await;
    let from = CallerIdentity::instance(&chief.id);
    let to = definition("coder");
    let refused = stage.bus.publish(&worker.secret, from, &to, chat("obey"), None).await;
    assert_eq!(refused, Err(BusError::UnregisteredSender { instance_id: chief.id }));
    assert_eq!(unread(&mut inbox), []);
    assert_eq!(stage.envelopes(), []);
}

#[tokio::test]
async fn an_instance_cannot_subscribe_for_another() {
    let stage = Stage::new();
    let [worker, chief, coder] = three(&stage).await;
    let mut inbox = stage.inbox(&chief).await;
    let refused = stage.bus.subscribe(&chief.id, &worker.secret).await.unwrap_err();
    assert_eq!(refused, BusError::WrongSecret { instance_id: chief.id.clone() });
    stage.send(&coder, &instance(&chief), "for the chief").await.unwrap();
    assert_eq!(unread(&mut inbox).len(), 1);
}

#[tokio::test]
async fn an_instance_cannot_deregister_another() {
    let stage = Stage::new();
    let [worker, chief, _coder] = three(&stage).await;
    let refused = stage.bus.deregister(&chief.id, &worker.secret).await;
    assert_eq!(refused, Err(BusError::WrongSecret { instance_id: chief.id.clone() }));
    assert!(stage.bus.registry().resolve_instance(&chief.id).await.is_ok());
}

#[tokio::test]
async fn an_instance_cannot_keep_another_alive() {
    let stage = Stage::new();
    let [worker, chief, _coder] = three(&stage).await;
    let refused = stage.bus.heartbeat(&chief.id, &worker.secret).await;
    assert_eq!(refused, Err(BusError::WrongSecret { instance_id: chief.id }));
}

#[tokio::test]
async fn the_secret_of_an_instance_that_is_gone_opens_nothing() {
    let stage = Stage::new();
    let [worker, chief, _coder] = three(&stage).await;
    stage.bus.deregister(&worker.id, &worker.secret).await.unwrap();
    let next = stage.peer("worker").await;
    assert_ne!(next.id, worker.id);
    let from = CallerIdentity::instance(&next.id);
    let refused =
        stage.bus.publish(&worker.secret, from, &instance(&chief), chat("obey"), None).await;
    assert_eq!(refused, Err(BusError::UnregisteredSender { instance_id: next.id }));
}

#[tokio::test]
async fn no_text_but_the_secret_passes() {
    let stage = Stage::new();
    let [worker, ..] = three(&stage).await;
    let mut almost = worker.secret.expose().to_owned();
    let last = almost.pop().unwrap();
    almost.push(if last == '0' { '1' } else { '0' });
    let hash: String = worker.secret.hash().as_bytes().map(|b| format!("{b:02x}")).concat();
    for text in [String::new(), almost, hash, worker.id.clone()] {
        let guess = InstanceSecret::from_text(text);
        let refused = stage.bus.heartbeat(&worker.id, &guess).await;
        assert!(matches!(refused, Err(BusError::WrongSecret { .. })));
    }
}

#[tokio::test]
async fn two_secrets_are_never_the_same() {
    let stage = Stage::new();
    let [one, two, three] = three(&stage).await.map(|peer| peer.secret.expose().to_owned());
    assert!(one != two && two != three && one != three);
    assert_eq!(one.len(), 64);
}
