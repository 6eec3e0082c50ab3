//! What a scraper reads, by a reader of its own.

use std::{sync::Arc, time::Duration};

use bus_core::{BusMetrics, Frame, FrameId, Step, TaskOutcome};
use bus_gateway::{ApprovalsReading, AuditReading, ChoreCounts, HookReading, LettersReading};
use bus_subjects::Subject;

use crate::{
    reader::Page,
    world::{Open, Process, w1},
};

async fn page(process: Process) -> Page {
    let answer = Open::before(process).await.get("/metrics").await;
    let kind = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(answer.head.contains(kind), "{}", answer.head);
    Page::read(&answer.body).unwrap_or_else(|why| panic!("{why}\n{}", answer.body))
}

/// A process whose agents did everything once.
async fn worker() -> Process {
    let metrics = Arc::new(BusMetrics::default());
    metrics.published(5);
    metrics.received(7);
    for outcome in [TaskOutcome::Completed, TaskOutcome::Exhausted, TaskOutcome::KeyWithdrawn] {
        metrics.ended(outcome);
    }
    metrics.letter_failed();
    metrics.took(Step::Append, Duration::from_nanos(1023));
    metrics.took(Step::Append, Duration::from_millis(250));
    metrics.took(Step::Append, Duration::from_secs(3600));
    Process { metrics: Some(metrics), ..Process::new().await }
}

#[tokio::test]
async fn counters_end_in_total_and_the_page_in_eof() {
    let process = worker().await;
    process.task("coder").await;
    let page = page(process).await;
    let counters: Vec<_> = page.families.iter().filter(|(_, kind)| *kind == "counter").collect();
    assert!(counters.len() >= 6, "{counters:?}");
    assert!(page.samples.keys().filter(|key| key.contains("_total{")).count() >= counters.len());
}

#[tokio::test]
async fn every_family_is_ours_and_says_what_it_is() {
    let page = page(worker().await).await;
    for name in page.families.keys() {
        assert!(name.starts_with("vakbus_"), "{name}");
        assert!(page.help.get(name).is_some_and(|help| !help.is_empty()), "{name}");
    }
}

#[tokio::test]
async fn what_a_daemon_does_beside_serving_is_on_the_page() {
    let workspace = w1();
    let chores = ChoreCounts {
        audit: vec![AuditReading {
            workspace: workspace.clone(),
            written: 7,
            failures: 2,
            behind: Duration::from_millis(1500),
        }],
        hooks: vec![HookReading { hook: "dead-letter", heard: 3, given_up: 1, failures: 9 }],
        letters: vec![LettersReading {
            workspace: workspace.clone(),
            reason: "exhausted",
            count: 5,
        }],
        approvals: vec![ApprovalsReading {
            workspace,
            waiting: 2,
            oldest: Some(Duration::from_secs(60)),
        }],
    };
    let page = page(Process { chores: Some(chores), ..Process::new().await }).await;
    for (sample, value) in [
        ("vakbus_audit_records_total{workspace=w1}", 7.0),
        ("vakbus_audit_failures_total{workspace=w1}", 2.0),
        ("vakbus_audit_behind_seconds{workspace=w1}", 1.5),
        ("vakbus_hook_news_total{hook=dead-letter,outcome=heard}", 3.0),
        ("vakbus_hook_news_total{hook=dead-letter,outcome=given-up}", 1.0),
        ("vakbus_hook_failures_total{hook=dead-letter}", 9.0),
        ("vakbus_dead_letters_total{reason=exhausted,workspace=w1}", 5.0),
        ("vakbus_approvals_waiting{workspace=w1}", 2.0),
        ("vakbus_approvals_oldest_seconds{workspace=w1}", 60.0),
    ] {
        assert_eq!(page.value(sample), Some(value), "{sample}: {:?}", page.samples);
    }
}

#[tokio::test]
async fn what_the_engine_carried_is_on_the_page() {
    let process = Process::new().await;
    let subject = Subject::parse("vak.events.w1.s1.tokens").unwrap();
    process.engine.publish(Frame::new(subject, FrameId::parse("1").unwrap(), "123")).await.unwrap();
    process.task("coder").await;
    let page = page(process).await;
    assert_eq!(page.value("vakbus_published_total{workspace=w1}"), Some(2.0));
    assert_eq!(page.value("vakbus_published_bytes_total{workspace=w1}"), Some(8.0));
    assert_eq!(page.value("vakbus_received_total{workspace=w1}"), Some(0.0));
    assert_eq!(page.value("vakbus_live_missed_total{workspace=w1}"), Some(0.0));
}

#[tokio::test]
async fn how_queues_stand_is_on_the_page() {
    let process = Process::new().await;
    process.task("coder").await;
    let page = page(process).await;
    let of = |name: &str| page.value(&format!("vakbus_queue_{name}{{queue=coder,workspace=w1}}"));
    assert_eq!((of("waiting"), of("in_flight")), (Some(1.0), Some(0.0)));
    assert!(of("oldest_seconds").is_some_and(|age| (0.0..60.0).contains(&age)));
    assert_eq!(page.value("vakbus_engine_up{}"), Some(1.0));
    assert_eq!(page.value("vakbus_queues_left_out{}"), Some(0.0));
}

#[tokio::test]
async fn how_tasks_ended_and_why_letters_are_dead_is_on_the_page_of_a_worker() {
    let page = page(worker().await).await;
    let ended = |end| page.value(&format!("vakbus_tasks_total{{outcome={end},workspace=w1}}"));
    assert_eq!((ended("completed"), ended("dead-lettered")), (Some(1.0), Some(2.0)));
    let dead = |why| page.value(&format!("vakbus_dead_letters_total{{reason={why},workspace=w1}}"));
    assert_eq!((dead("exhausted"), dead("key-withdrawn")), (Some(1.0), Some(1.0)));
    assert_eq!(dead("cancelled"), Some(0.0));
}

#[tokio::test]
async fn a_letter_that_could_not_be_stored_is_on_the_page_of_a_worker() {
    let page = page(worker().await).await;
    assert_eq!(page.value("vakbus_dead_letters_failed_total{workspace=w1}"), Some(1.0));
}

#[tokio::test]
async fn a_step_is_a_histogram_with_a_bucket_without_end() {
    let page = page(worker().await).await;
    let bucket =
        |le: &str| page.value(&format!("vakbus_step_seconds_bucket{{le={le},step=append}}"));
    assert_eq!(page.families["vakbus_step_seconds"], "histogram");
    assert_eq!(bucket("+Inf"), Some(3.0));
    assert_eq!(page.value("vakbus_step_seconds_count{step=append}"), Some(3.0));
    assert_eq!(page.value("vakbus_step_seconds_sum{step=append}"), Some(3_600.250_001_023));
    assert_eq!(page.value("vakbus_step_seconds_count{step=settle}"), Some(0.0));
    let below_a_microsecond: Vec<_> = page
        .samples
        .iter()
        .filter(|(key, n)| key.contains("le=0.000001023,step=append") && **n == 1.0)
        .collect();
    assert_eq!(below_a_microsecond.len(), 1, "{:?}", page.samples.keys());
}

#[tokio::test]
async fn what_agents_sent_and_received_is_on_the_page_of_a_worker() {
    let page = page(worker().await).await;
    assert_eq!(page.value("vakbus_published_bytes_total{workspace=w1}"), Some(5.0));
    assert_eq!(page.value("vakbus_received_bytes_total{workspace=w1}"), Some(7.0));
    assert!(!page.families.contains_key("vakbus_live_missed"), "nobody counts them here");
}

#[tokio::test]
async fn what_a_process_does_not_count_is_not_on_its_page() {
    let page = page(Process::new().await).await;
    for family in [
        "vakbus_tasks",
        "vakbus_step_seconds",
        "vakbus_dead_letters",
        "vakbus_dead_letters_failed",
        "vakbus_published",
    ] {
        assert!(!page.families.contains_key(family), "{family}");
    }
}

#[tokio::test]
async fn a_page_of_an_engine_that_is_away_says_so_and_shows_no_queue() {
    let process = worker().await;
    process.task("coder").await;
    process.engine.close().await.unwrap();
    let page = page(process).await;
    assert_eq!(page.value("vakbus_engine_up{}"), Some(0.0));
    assert!(!page.families.contains_key("vakbus_queue_waiting"));
    assert!(page.families.contains_key("vakbus_tasks"), "what it counted itself is still there");
}

#[tokio::test]
async fn no_id_and_no_session_is_a_label() {
    let process = worker().await;
    process.task("swarm-01a22b8f-de51-7ad5-ada0-081fe20357f1").await;
    let page = page(process).await;
    assert!(page.value("vakbus_queue_waiting{queue=swarm-*,workspace=w1}").is_some());
    assert!(page.samples.keys().all(|key| !key.contains("01a22b8f")));
    let known = ["workspace", "queue", "reason", "outcome", "step", "le", "version", "engine"];
    for key in page.samples.keys() {
        let labels = key.split_once('{').unwrap().1.trim_end_matches('}');
        for label in labels.split(',').filter(|label| !label.is_empty()) {
            let name = label.split_once('=').unwrap().0;
            assert!(known.contains(&name), "{key}");
        }
    }
}
