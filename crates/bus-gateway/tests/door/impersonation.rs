//! Case C17: a registered instance that poses as another one.

use serde_json::json;

use crate::client::{Instance, Peers, SECRET, message};

/// Three instances of a door: who poses, as whom, and to whom.
async fn three(peers: &Peers) -> [Instance; 3] {
    [peers.instance("worker").await, peers.instance("chief").await, peers.instance("coder").await]
}

#[tokio::test]
async fn an_instance_cannot_publish_as_another() {
    let peers = Peers::open().await;
    let [worker, chief, coder] = three(&peers).await;
    let _events = peers.listen(&coder).await;
    let body = message(&chief.id, json!({ "instance_id": coder.id }), "obey").to_string();
    let mut client = peers.client().await;
    for secret in [worker.secret.as_str(), "", &chief.secret[1..], "0"] {
        let reply = client.post("/api/v1/bus/publish", &[(SECRET, secret)], &body).await;
        assert_eq!((reply.status, reply.code().as_str()), (403, "unregistered-sender"));
    }
    let without = client.post("/api/v1/bus/publish", &[], &body).await;
    assert_eq!(without.status, 403);
    let two = [(SECRET, worker.secret.as_str()), (SECRET, chief.secret.as_str())];
    let reply = client.post("/api/v1/bus/publish", &two, &body).await;
    assert_eq!(reply.status, 400, "one of two secrets may be right: {reply:?}");
    assert_eq!(peers.journal(), "", "nothing is recorded in its name");
}

#[tokio::test]
async fn what_a_sender_says_of_its_definition_does_not_count() {
    let peers = Peers::open().await;
    let [worker, _, coder] = three(&peers).await;
    let _events = peers.listen(&coder).await;
    let mut body = message(&worker.id, json!({ "instance_id": coder.id }), "x");
    body["from"]["definition_id"] = json!("chief");
    let secret = [(SECRET, worker.secret.as_str())];
    let reply = peers.client().await.post("/api/v1/bus/publish", &secret, &body.to_string()).await;
    assert_eq!(reply.json()["from"]["definition_id"], json!("worker"));
    assert!(!peers.journal().contains("chief"));
}

#[tokio::test]
async fn route_publish_unregistered_sender_is_403() {
    let peers = Peers::open().await;
    let [worker, ..] = three(&peers).await;
    let body = message("worker~00000000", json!({ "definition_id": "coder" }), "x").to_string();
    let secret = [(SECRET, worker.secret.as_str())];
    let reply = peers.client().await.post("/api/v1/bus/publish", &secret, &body).await;
    assert_eq!((reply.status, reply.code().as_str()), (403, "unregistered-sender"));
}

#[tokio::test]
async fn route_publish_forged_user_kind_is_400() {
    let peers = Peers::open().await;
    let [worker, _, coder] = three(&peers).await;
    let _events = peers.listen(&coder).await;
    let mut body = message(&worker.id, json!({ "instance_id": coder.id }), "x");
    let secret = [(SECRET, worker.secret.as_str())];
    let channel = json!({
        "connector": "chat", "human_sender": "ada", "channel": "c", "workspace": "w",
    });
    for from in [
        json!({ "kind": "user" }),
        json!({ "kind": "user", "instance_id": worker.id }),
        json!({ "kind": "channel", "channel_origin": channel }),
    ] {
        body["from"] = from;
        let text = body.to_string();
        let reply = peers.client().await.post("/api/v1/bus/publish", &secret, &text).await;
        assert_eq!((reply.status, reply.code().as_str()), (400, "caller-kind-not-permitted"));
    }
    assert_eq!(peers.journal(), "");
}

#[tokio::test]
async fn an_instance_cannot_listen_for_another() {
    let peers = Peers::open().await;
    let [worker, chief, _] = three(&peers).await;
    let posing = Instance { id: chief.id.clone(), secret: worker.secret.clone() };
    let mut client = peers.client().await;
    client.send(peers.listening(&posing, "").as_bytes()).await;
    let reply = client.reply().await;
    assert_eq!((reply.status, reply.code().as_str()), (403, "wrong-secret"));
}

#[tokio::test]
async fn an_instance_cannot_deregister_another_or_keep_it_alive() {
    let peers = Peers::open().await;
    let [worker, chief, _] = three(&peers).await;
    let mut client = peers.client().await;
    let reply = client.deregister(&chief.id, &worker.secret).await;
    assert_eq!((reply.status, reply.code().as_str()), (403, "wrong-secret"));
    let path = format!("/api/v1/bus/instances/{}/heartbeat", chief.id);
    assert_eq!(client.post(&path, &[(SECRET, &worker.secret)], "{}").await.status, 403);
    assert!(client.get("/api/v1/bus/instances").await.body.contains(&chief.id));
}

#[tokio::test]
async fn who_is_gone_has_no_secret_any_more_and_its_id_is_no_ones() {
    let peers = Peers::open().await;
    let [worker, chief, _] = three(&peers).await;
    let mut client = peers.client().await;
    client.deregister(&chief.id, &chief.secret).await;
    let reply = client.publish(&chief, json!({ "instance_id": worker.id }), "x").await;
    assert_eq!((reply.status, reply.code().as_str()), (403, "unregistered-sender"));
    // An id cannot be asked for, and a registration never names one again.
    let named = json!({ "definition_id": "chief", "instance_id": chief.id }).to_string();
    assert_eq!(client.post("/api/v1/bus/instances", &[], &named).await.status, 400);
    assert_ne!(peers.instance("chief").await.id, chief.id);
}

#[tokio::test]
async fn no_answer_but_the_registration_shows_a_secret() {
    let peers = Peers::open().await;
    let [worker, chief, coder] = three(&peers).await;
    let mut events = peers.listen(&coder).await;
    let mut client = peers.client().await;
    let mut said = client.get("/api/v1/bus/instances").await.body;
    said += &client.publish(&chief, json!({ "instance_id": coder.id }), "x").await.body;
    said += &events.next().await.unwrap().data;
    said += &client.deregister(&chief.id, &worker.secret).await.body;
    said += &client.get("/metrics").await.body;
    said += &peers.journal();
    for instance in [worker, chief, coder] {
        assert!(!said.contains(&instance.secret), "{said}");
    }
    assert!(!said.contains(crate::client::DOOR), "{said}");
}
