//! The protocol itself, spoken by hand: what goes over the wire, updates of resources, the end.

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::stage::{Stage, call, said};
use crate::{ServeError, Server};

struct Client {
    input: WriteHalf<DuplexStream>,
    output: BufReader<ReadHalf<DuplexStream>>,
    served: JoinHandle<Result<(), ServeError>>,
    stop: CancellationToken,
}

impl Client {
    fn start(server: &Server) -> Self {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (input, output) = tokio::io::split(theirs);
        let (server, stop) = (server.clone(), CancellationToken::new());
        let told = stop.clone();
        #[expect(clippy::disallowed_methods, reason = "the client and the server run side by side")]
        let served = tokio::spawn(async move { server.serve(input, output, &told).await });
        let (output, input) = tokio::io::split(ours);
        Self { input, output: BufReader::new(output), served, stop }
    }

    /// One that has shaken hands.
    async fn of(server: &Server) -> Self {
        let mut client = Self::start(server);
        let hello = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        });
        let answer = client.ask("initialize", hello).await;
        assert_eq!(answer["result"]["serverInfo"]["name"], "vakbus");
        client.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        client
    }

    async fn send(&mut self, message: Value) {
        self.input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).await.unwrap() > 0, "it has ended");
        serde_json::from_str(&line).unwrap()
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        let ask = json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params });
        self.send(ask).await;
        self.until(|message| message["id"] == method).await
    }

    /// The next message of this kind; others are passed over.
    async fn until(&mut self, is_meant: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.next().await;
            if is_meant(&message) {
                return message;
            }
        }
    }
}

fn is_update(message: &Value, uri: &str) -> bool {
    message["method"] == "notifications/resources/updated" && message["params"]["uri"] == uri
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_tool_is_a_result_that_says_so() {
    let stage = Stage::new().await;
    let mut client = Client::of(&stage.worker()).await;
    let call = json!({ "name": "task_extend", "arguments": { "lease": "none" } });
    let answer = client.ask("tools/call", call).await;
    let result = &answer["result"];
    assert_eq!(result["isError"], true);
    assert_eq!(result["structuredContent"]["error"]["kind"], "lease-lost");
    let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text, result["structuredContent"]);
}

#[tokio::test(start_paused = true)]
async fn a_message_wakes_a_client_that_subscribed_to_its_mailbox() {
    let stage = Stage::new().await;
    let (ada, bob) = (stage.sender(), stage.worker());
    let mut client = Client::of(&bob).await;
    let uri = "vakbus://inbox";
    client.ask("resources/subscribe", json!({ "uri": uri })).await;
    said(call(&ada, "message_send", json!({ "to": "bob", "text": "wake up" })).await);
    client.until(|message| is_update(message, uri)).await;
    let read = client.ask("resources/read", json!({ "uri": uri })).await;
    let contents = &read["result"]["contents"][0];
    assert_eq!(contents["mimeType"], "application/json");
    let held: Value = serde_json::from_str(contents["text"].as_str().unwrap()).unwrap();
    assert_eq!(held["messages"][0]["body"]["text"], "wake up");
    assert_eq!(held["messages"][0]["from"]["verified"], true);
}

#[tokio::test(start_paused = true)]
async fn a_task_wakes_a_client_that_subscribed_to_its_queue() {
    let stage = Stage::new().await;
    let (ada, bob) = (stage.sender(), stage.worker());
    let mut client = Client::of(&bob).await;
    let uri = "vakbus://queue/reviewer";
    client.ask("resources/subscribe", json!({ "uri": uri })).await;
    said(call(&ada, "task_send", json!({ "role": "other", "text": "not this" })).await);
    said(call(&ada, "task_send", json!({ "role": "reviewer", "text": "this" })).await);
    client.until(|message| is_update(message, uri)).await;
    let read = client.ask("resources/read", json!({ "uri": uri })).await;
    let text = read["result"]["contents"][0]["text"].as_str().unwrap();
    let held: Value = serde_json::from_str(text).unwrap();
    assert_eq!(held, json!({ "role": "reviewer", "tasks": 1, "is_more": false }));
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_nobody_here_may_look_into_is_refused_and_not_waited_for() {
    let stage = Stage::new().await;
    let mut client = Client::of(&stage.sender()).await;
    for method in ["resources/read", "resources/subscribe"] {
        let answer = client.ask(method, json!({ "uri": "vakbus://queue/worker" })).await;
        assert_eq!(answer["error"]["data"]["error"]["kind"], "denied", "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_does_not_exist_is_an_error_of_the_protocol() {
    let stage = Stage::new().await;
    let mut client = Client::of(&stage.worker()).await;
    for method in ["resources/read", "resources/subscribe"] {
        let answer = client.ask(method, json!({ "uri": "vakbus://nothing" })).await;
        assert_eq!(answer["error"]["data"]["error"]["kind"], "not-found", "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_hands_back_what_it_held() {
    let stage = Stage::new().await;
    let (ada, bob) = (stage.sender(), stage.worker());
    said(call(&ada, "task_send", json!({ "role": "worker", "text": "x" })).await);
    let mut client = Client::of(&bob).await;
    let claim = json!({ "name": "task_claim", "arguments": {} });
    let answer = client.ask("tools/call", claim).await;
    assert_eq!(answer["result"]["structuredContent"]["task"]["attempt"], 1);
    let Client { input, output, served, .. } = client;
    drop((input, output));
    served.await.unwrap().unwrap();
    let again = said(call(&stage.worker(), "task_claim", json!({})).await);
    assert_eq!(again["task"]["attempt"], 1);
}

#[tokio::test(start_paused = true)]
async fn it_ends_when_it_is_told_though_a_call_waits() {
    let stage = Stage::new().await;
    let mut client = Client::of(&stage.worker()).await;
    let params = json!({ "name": "task_claim", "arguments": { "wait_seconds": 3600 } });
    client
        .send(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }))
        .await;
    client.ask("ping", json!({})).await;
    client.stop.cancel();
    client.served.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_its_client_cancels_takes_no_task() {
    let stage = Stage::new().await;
    let (ada, bob) = (stage.sender(), stage.worker());
    let mut client = Client::of(&bob).await;
    let params = json!({ "name": "task_claim", "arguments": { "wait_seconds": 3600 } });
    client
        .send(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }))
        .await;
    client.ask("ping", json!({})).await;
    let cancel = json!({ "requestId": 1 });
    let method = "notifications/cancelled";
    client.send(json!({ "jsonrpc": "2.0", "method": method, "params": cancel })).await;
    client.ask("ping", json!({})).await;
    said(call(&ada, "task_send", json!({ "role": "worker", "text": "x" })).await);
    let claim = json!({ "name": "task_claim", "arguments": { "wait_seconds": 60 } });
    let answer = client.ask("tools/call", claim).await;
    assert_eq!(answer["result"]["structuredContent"]["task"]["attempt"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_before_it_began_is_no_error() {
    let stage = Stage::new().await;
    let Client { input, output, served, .. } = Client::start(&stage.worker());
    drop((input, output));
    served.await.unwrap().unwrap();
}
