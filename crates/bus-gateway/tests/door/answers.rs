//! What probes are told.

use std::sync::atomic::Ordering;

use crate::world::{Open, Process};

#[tokio::test]
async fn a_process_that_answers_is_healthy_whatever_its_engine_does() {
    let process = Process { hangs: true, ..Process::new().await };
    let answer = Open::before(process).await.get("/healthz").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "{\"ok\":true}\n"));
    assert!(answer.head.contains("content-type: application/json"), "{}", answer.head);
}

#[tokio::test]
async fn an_engine_that_answers_is_ready() {
    let answer = Open::before(Process::new().await).await.get("/readyz").await;
    let told = "{\"engine\":\"mem\",\"ready\":true,\"workspaces\":1}\n";
    assert_eq!((answer.status, answer.body.as_str()), (200, told));
}

#[tokio::test]
async fn an_engine_that_is_closed_is_not_ready() {
    let process = Process::new().await;
    process.engine.close().await.unwrap();
    let answer = Open::before(process).await.get("/readyz").await;
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("this process is stopping"), "{}", answer.body);
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_hangs_is_not_ready_within_a_second() {
    let open = Open::before(Process { hangs: true, ..Process::new().await }).await;
    let answer = open.get("/readyz").await;
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("does not answer in time"), "{}", answer.body);
}

#[tokio::test]
async fn however_many_ask_the_engine_is_asked_once_a_second() {
    let open = Open::before(Process::new().await).await;
    // The clock stands: no second passes.
    tokio::time::pause();
    open.get("/readyz").await;
    let first = open.process.asked();
    for _ in 0..5 {
        open.get("/readyz").await;
    }
    // Each answer names the engine; only the first asked it.
    assert_eq!((first, open.process.asked()), (2, 7));
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    open.get("/readyz").await;
    assert_eq!(open.process.asked.load(Ordering::Relaxed), 9);
}

#[tokio::test]
async fn a_head_request_has_the_head_alone() {
    let open = Open::before(Process::new().await).await;
    let host = open.address;
    let answer = open.send(&format!("HEAD /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n")).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, ""));
}

#[tokio::test]
async fn another_path_says_what_is_there() {
    let answer = Open::before(Process::new().await).await.get("/").await;
    assert_eq!(answer.status, 404);
    assert!(answer.body.contains("/metrics"), "{}", answer.body);
}

#[tokio::test]
async fn no_answer_is_kept_by_anybody() {
    let answer = Open::before(Process::new().await).await.get("/readyz").await;
    assert!(answer.head.contains("cache-control: no-store"), "{}", answer.head);
    assert!(answer.head.contains("connection: close"), "{}", answer.head);
}
