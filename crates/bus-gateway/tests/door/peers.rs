//! What agents do through the routes of the peer bus.

use serde_json::json;

use crate::client::{Client, Peers, SECRET, message};

const INSTANCES: &str = "/api/v1/bus/instances";

async fn registers(client: &mut Client, body: &str) -> crate::client::Reply {
    client.post(INSTANCES, &[], body).await
}

#[tokio::test]
async fn route_register_returns_instance_id() {
    let peers = Peers::open().await;
    let body = r#"{"definition_id":"chief","project":"apollo"}"#;
    let reply = registers(&mut peers.client().await, body).await;
    assert_eq!(reply.status, 201);
    let told = reply.json();
    assert!(told["instance_id"].as_str().unwrap().starts_with("chief~"), "{told}");
    assert_eq!((&told["definition_id"], &told["project"]), (&json!("chief"), &json!("apollo")));
    assert_eq!(told["secret"].as_str().unwrap().len(), 64);
}

#[tokio::test]
async fn route_register_rejects_bad_definition() {
    let peers = Peers::open().await;
    let mut client = peers.client().await;
    for bad in ["", "a b", "a~b", "a/b", "a?b", "a#b", "ä:b"] {
        let reply = registers(&mut client, &json!({ "definition_id": bad }).to_string()).await;
        assert_eq!((reply.status, reply.code().as_str()), (400, "invalid-definition-id"), "{bad}");
    }
}

#[tokio::test]
async fn route_list_instances() {
    let peers = Peers::open().await;
    let (chief, worker) = (peers.instance("chief").await, peers.instance("worker").await);
    let reply = peers.client().await.get(INSTANCES).await;
    assert_eq!(reply.status, 200);
    let listed = reply.json();
    let ids: Vec<_> = listed["instances"].as_array().unwrap().iter().collect();
    let ids: Vec<_> = ids.iter().map(|live| live["instance_id"].as_str().unwrap()).collect();
    assert_eq!(ids, [chief.id.as_str(), worker.id.as_str()]);
    assert!(!reply.body.contains(&chief.secret), "a secret is told once");
}

#[tokio::test]
async fn route_deregister_removes_instance() {
    let peers = Peers::open().await;
    let worker = peers.instance("worker").await;
    let mut client = peers.client().await;
    let gone = client.deregister(&worker.id, &worker.secret).await;
    assert_eq!((gone.status, gone.body.as_str()), (204, ""));
    let again = client.deregister(&worker.id, &worker.secret).await;
    assert_eq!((again.status, again.body.as_str()), (404, ""));
    assert_eq!(client.get(INSTANCES).await.json()["instances"], json!([]));
}

#[tokio::test]
async fn a_heartbeat_says_until_when_an_instance_lives() {
    let peers = Peers::open().await;
    let worker = peers.instance("worker").await;
    let path = format!("{INSTANCES}/{}/heartbeat", worker.id);
    let mut client = peers.client().await;
    let line = format!("POST {path}");
    let reply = client.ask(&line, &[(SECRET, &worker.secret)], None).await;
    assert_eq!(reply.status, 200);
    assert!(reply.json()["expires"].as_str().unwrap().ends_with('Z'), "{reply:?}");
    assert_eq!(client.post(&path, &[(SECRET, "0")], "{}").await.status, 403);
    assert_eq!(client.deregister(&worker.id, &worker.secret).await.status, 204);
    assert_eq!(client.post(&path, &[(SECRET, &worker.secret)], "{}").await.status, 410);
}

#[tokio::test]
async fn route_publish_delivers_and_returns_envelope() {
    let peers = Peers::open().await;
    let (chief, worker) = (peers.instance("chief").await, peers.instance("worker").await);
    let mut events = peers.listen(&worker).await;
    let to = json!({ "definition_id": "worker" });
    let reply = peers.client().await.publish(&chief, to, "hello\nworld").await;
    assert_eq!(reply.status, 202, "{reply:?}");
    let envelope = reply.json();
    assert_eq!(envelope["to"]["instance_id"], json!(worker.id));
    assert_eq!(envelope["from"]["definition_id"], json!("chief"));
    assert_eq!(envelope["delivery_state"], json!("delivered"));
    let event = events.next().await.unwrap();
    assert_eq!(event.data, reply.body, "the receiver reads what the sender was told");
    assert_eq!((event.name.as_str(), &json!(event.id)), ("", &envelope["message_id"]));
    assert_eq!(peers.journal(), format!("{}\n", reply.body));
}

#[tokio::test]
async fn a_connection_carries_one_request_after_the_other() {
    let peers = Peers::open().await;
    let (chief, worker) = (peers.instance("chief").await, peers.instance("worker").await);
    let mut events = peers.listen(&worker).await;
    let mut client = peers.client().await;
    let to = json!({ "instance_id": worker.id });
    for n in 0..20 {
        assert_eq!(client.publish(&chief, to.clone(), &n.to_string()).await.status, 202);
        assert!(events.next().await.unwrap().data.contains(&format!("\"text\":\"{n}\"")));
    }
    // A refusal that was understood ends nothing.
    let nobody = client.publish(&chief, json!({ "definition_id": "nobody" }), "x").await;
    assert_eq!((nobody.status, client.get(INSTANCES).await.status), (404, 200));
}

#[tokio::test]
async fn route_publish_to_dead_instance_is_410() {
    let peers = Peers::open().await;
    let (chief, dead) = (peers.instance("chief").await, peers.instance("worker").await);
    let sibling = peers.instance("worker").await;
    let _events = peers.listen(&sibling).await;
    let mut client = peers.client().await;
    client.deregister(&dead.id, &dead.secret).await;
    let reply = client.publish(&chief, json!({ "instance_id": dead.id }), "x").await;
    assert_eq!((reply.status, reply.code().as_str()), (410, "instance-gone"));
    assert!(!peers.journal().contains(&sibling.id), "nobody else gets it");
}

#[tokio::test]
async fn route_publish_to_unknown_definition_is_404() {
    let peers = Peers::open().await;
    let chief = peers.instance("chief").await;
    let to = json!({ "definition_id": "nobody" });
    let reply = peers.client().await.publish(&chief, to, "x").await;
    assert_eq!((reply.status, reply.code().as_str()), (404, "no-live-instance"));
}

#[tokio::test]
async fn a_message_that_nobody_listens_for_is_409() {
    let peers = Peers::open().await;
    let (chief, worker) = (peers.instance("chief").await, peers.instance("worker").await);
    let to = json!({ "instance_id": worker.id });
    let reply = peers.client().await.publish(&chief, to, "x").await;
    assert_eq!((reply.status, reply.code().as_str()), (409, "no-subscriber"));
    assert!(peers.journal().contains("\"delivery_state\":\"dropped\""));
}

#[tokio::test]
async fn route_publish_absent_sender_ids_is_400() {
    let peers = Peers::open().await;
    let chief = peers.instance("chief").await;
    let mut body = message(&chief.id, json!({ "definition_id": "chief" }), "x");
    body["from"] = json!({ "kind": "assistant_instance" });
    let secret = [(SECRET, chief.secret.as_str())];
    let reply = peers.client().await.post("/api/v1/bus/publish", &secret, &body.to_string()).await;
    assert_eq!((reply.status, reply.code().as_str()), (400, "invalid-caller"));
    assert_eq!(peers.journal(), "");
}

#[tokio::test]
async fn what_is_no_message_is_400_and_told_why() {
    let peers = Peers::open().await;
    let chief = peers.instance("chief").await;
    let (mut client, secret) = (peers.client().await, [(SECRET, chief.secret.as_str())]);
    let whole = message(&chief.id, json!({ "definition_id": "chief" }), "x");
    let mut odd = whole.clone();
    odd["edge"] = json!("user_assistant");
    let nobody = message(&chief.id, json!({}), "x").to_string();
    let odd = odd.to_string();
    for (body, why) in [
        ("", "a JSON object"),
        ("{", "EOF"),
        ("[1]", "a JSON object"),
        (odd.as_str(), "unknown field `edge`"),
        (nobody.as_str(), "to.instance_id or to.definition_id"),
        ("{} {}", "missing field"),
    ] {
        let reply = client.post("/api/v1/bus/publish", &secret, body).await;
        assert_eq!(reply.status, 400, "{body}: {reply:?}");
        assert!(reply.json()["error"].as_str().unwrap().contains(why), "{body}: {reply:?}");
    }
    assert_eq!(peers.journal(), "");
}

#[tokio::test]
async fn route_subscribe_to_dead_instance_is_410() {
    let peers = Peers::open().await;
    let worker = peers.instance("worker").await;
    let mut client = peers.client().await;
    client.deregister(&worker.id, &worker.secret).await;
    client.send(peers.listening(&worker, "").as_bytes()).await;
    let reply = client.reply().await;
    assert_eq!((reply.status, reply.code().as_str()), (410, "instance-gone"));
}

#[tokio::test]
async fn a_subscription_ends_when_its_instance_goes() {
    let peers = Peers::open().await;
    let (chief, worker) = (peers.instance("chief").await, peers.instance("worker").await);
    let mut events = peers.listen(&worker).await;
    let mut client = peers.client().await;
    client.publish(&chief, json!({ "instance_id": worker.id }), "last").await;
    client.deregister(&worker.id, &worker.secret).await;
    assert!(events.next().await.unwrap().data.contains("last"), "what was sent is read first");
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn subscribe_stream_reports_lag_instead_of_swallowing_it() {
    let peers = Peers::open().await;
    let (chief, worker) = (peers.instance("chief").await, peers.instance("worker").await);
    let mut events = peers.listen(&worker).await;
    let mut client = peers.client().await;
    let (to, long) = (json!({ "instance_id": worker.id }), "x".repeat(200 * 1024));
    // More than the buffers of a connection hold.
    for _ in 0..200 {
        assert_eq!(client.publish(&chief, to.clone(), &long).await.status, 202);
    }
    let (mut read, mut missed) = (0, 0);
    while read + missed < 200 {
        let event = events.next().await.unwrap();
        if event.name == "lagged" {
            let told: serde_json::Value = serde_json::from_str(&event.data).unwrap();
            assert_eq!(told["instance_id"], json!(worker.id));
            assert!(told["durable_log"].as_str().unwrap().ends_with(".jsonl"), "{told}");
            missed += told["missed"].as_u64().unwrap();
        } else {
            read += 1;
        }
    }
    // As many as an inbox holds of so long ones, at least.
    assert!(missed > 0 && read >= 5, "{read} were read, {missed} were missed");
}

#[tokio::test]
async fn who_comes_again_is_sent_what_came_meanwhile_and_is_told_so() {
    let peers = Peers::open().await;
    let (chief, worker) = (peers.instance("chief").await, peers.instance("worker").await);
    let (mut events, mut client) = (peers.listen(&worker).await, peers.client().await);
    let to = json!({ "instance_id": worker.id });
    for text in ["one", "two", "three"] {
        client.publish(&chief, to.clone(), text).await;
    }
    let seen = events.next().await.unwrap();
    drop(events);
    let mut events = peers.listen_again(&worker, &format!("Last-Event-ID: {}\r\n", seen.id)).await;
    client.publish(&chief, to, "four").await;
    let told = events.next().await.unwrap();
    assert_eq!(told.name, "resumed");
    let told: serde_json::Value = serde_json::from_str(&told.data).unwrap();
    assert_eq!((&told["complete"], &told["last_event_id"]), (&json!(true), &json!(seen.id)));
    let mut texts = Vec::new();
    while texts.len() < 3 {
        let event = events.next().await.unwrap();
        let envelope: serde_json::Value = serde_json::from_str(&event.data).unwrap();
        texts.push(envelope["payload"]["text"].as_str().unwrap().to_owned());
    }
    assert_eq!(texts, ["two", "three", "four"], "each once, whatever is in the journal by then");
}

#[tokio::test]
async fn who_comes_again_with_an_event_that_is_not_found_is_told_so() {
    let peers = Peers::open().await;
    let worker = peers.instance("worker").await;
    let mut events = peers.listen_again(&worker, "Last-Event-ID: 1-2-3\r\n").await;
    let told = events.next().await.unwrap();
    let told: serde_json::Value = serde_json::from_str(&told.data).unwrap();
    assert_eq!((&told["complete"], &told["replayed"]), (&json!(false), &json!(0)));
}

#[tokio::test]
async fn asking_for_the_head_of_a_subscription_opens_none() {
    let peers = Peers::open().await;
    let worker = peers.instance("worker").await;
    let mut client = peers.client().await;
    let line = format!("HEAD /api/v1/bus/subscribe/{}", worker.id);
    let reply = client.ask(&line, &[(SECRET, &worker.secret)], None).await;
    assert_eq!(reply.status, 405);
    assert!(peers.bus.registry().live().await.unwrap()[0].subscriptions == 0);
}

#[tokio::test]
async fn ten_thousand_register_one_after_the_other() {
    let peers = Peers::open().await;
    let mut client = peers.client().await;
    for _ in 0..10_000 {
        let reply = registers(&mut client, r#"{"definition_id":"worker"}"#).await;
        assert_eq!(reply.status, 201, "{reply:?}");
    }
    let listed = client.get(INSTANCES).await.json();
    assert_eq!(listed["instances"].as_array().unwrap().len(), 10_000);
}

#[tokio::test]
async fn a_door_that_is_closed_has_ended_its_connections_first() {
    use std::sync::Arc;
    let (process, logs) = (crate::world::Process::new().await, tempfile::tempdir().unwrap());
    let bus = Arc::new(bus_peers::PeerBus::new(logs.path()));
    let secret = bus_gateway::DoorSecret::parse(crate::client::DOOR).unwrap();
    let gateway = bus_gateway::Gateway::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let gateway = gateway.with_api(bus_gateway::Api::new(secret, Arc::clone(&bus)));
    let (address, cancel) = (gateway.address(), tokio_util::sync::CancellationToken::new());
    let mut served = Box::pin(gateway.serve(Arc::new(process), cancel.clone()));
    let mut client = tokio::select! {
        () = &mut served => panic!("it ended"),
        client = async {
            let mut client = Client::connect(address).await;
            assert_eq!(client.get(INSTANCES).await.status, 200);
            client
        } => client,
    };
    cancel.cancel();
    served.as_mut().await;
    drop(served);
    assert_eq!(Arc::strong_count(&bus), 1, "a connection still has it");
    assert!(client.is_closed().await);
}
