//! What a counted engine counts, and for which workspace.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use bus_core::{
    Bus, ConsumerSpec, Expect, Frame, FrameId, Metered, Overflow, Retention, StreamSpec, Traffic,
    WorkspaceTraffic,
};
use bus_mem::InMemoryBus;
use bus_subjects::{ConsumerName, Filter, StreamName, Subject};

const TASK: &str = "vak.work.w1.coder.task";
const TOKENS: &str = "vak.events.w1.s1.tokens";
const OF_ANOTHER: &str = "vak.events.w2.s1.tokens";

fn counted() -> (Metered, Arc<Traffic>) {
    let traffic = Arc::<Traffic>::default();
    (Metered::new(Arc::new(InMemoryBus::new().connect()), Arc::clone(&traffic)), traffic)
}

fn frame(subject: &str, id: &str) -> Frame {
    Frame::new(Subject::parse(subject).unwrap(), FrameId::parse(id).unwrap(), "12345")
}

fn filter(text: &str) -> Filter {
    Filter::parse(text).unwrap()
}

async fn work(bus: &Metered) {
    let name = StreamName::parse("WORK").unwrap();
    let spec = StreamSpec::new(name, vec![filter("vak.work.>")], Retention::WorkQueue);
    bus.declare(spec).await.unwrap();
}

/// Workspace, published and received frames of each.
fn frames(traffic: &Traffic) -> Vec<(Option<String>, u64, u64)> {
    let frames = |of: WorkspaceTraffic| {
        (of.workspace.map(|name| name.to_string()), of.published, of.received)
    };
    traffic.report().into_iter().map(frames).collect()
}

fn w1(published: u64, received: u64) -> (Option<String>, u64, u64) {
    (Some("w1".to_owned()), published, received)
}

#[tokio::test]
async fn a_frame_counts_once_published_and_once_for_each_who_hears_it() {
    let (bus, traffic) = counted();
    let room = Overflow::DropOldest { capacity: NonZeroUsize::new(8).unwrap() };
    let mut first = bus.subscribe(filter("vak.events.w1.>"), room).await.unwrap();
    let mut second = bus.subscribe(filter("vak.>"), room).await.unwrap();
    bus.publish(frame(TOKENS, "1")).await.unwrap();
    bus.publish(frame(OF_ANOTHER, "2")).await.unwrap();
    assert!(first.next().await.is_some());
    assert!(second.next().await.is_some() && second.next().await.is_some());
    assert_eq!(frames(&traffic), [w1(1, 2), (Some("w2".to_owned()), 1, 1)]);
    let bytes = &traffic.report()[0];
    assert_eq!((bytes.published_bytes, bytes.received_bytes), (5, 10));
}

#[tokio::test]
async fn a_task_counts_when_it_is_stored_and_each_time_it_is_handed_out() {
    let (bus, traffic) = counted();
    work(&bus).await;
    bus.append(frame(TASK, "1"), Expect::Any).await.unwrap();
    let member = ConsumerSpec {
        stream: StreamName::parse("WORK").unwrap(),
        name: ConsumerName::parse("coder").unwrap(),
        filter: filter(TASK),
        lease: Duration::from_secs(30),
    };
    let mut tasks = bus.consume(member).await.unwrap();
    let release = bus_core::Verdict::Release { after: Duration::ZERO };
    tasks.next().await.unwrap().unwrap().settle(release).await.unwrap();
    tasks.next().await.unwrap().unwrap().settle(bus_core::Verdict::Ack).await.unwrap();
    assert_eq!(frames(&traffic), [w1(1, 2)]);
}

#[tokio::test]
async fn what_was_refused_or_stored_before_is_not_counted() {
    let (bus, traffic) = counted();
    work(&bus).await;
    bus.append(frame(TASK, "1"), Expect::Any).await.unwrap();
    assert!(bus.append(frame(TASK, "1"), Expect::Any).await.unwrap().duplicate);
    assert!(bus.append_all(vec![frame(TASK, "1")]).await.unwrap()[0].duplicate);
    assert!(bus.append(frame(TOKENS, "2"), Expect::Any).await.is_err());
    bus.append_all(vec![frame(TASK, "3"), frame(TASK, "4")]).await.unwrap();
    assert_eq!(frames(&traffic), [w1(3, 0)]);
}

#[tokio::test]
async fn frames_that_a_slow_reader_missed_are_counted_as_missed() {
    let (bus, traffic) = counted();
    let room = Overflow::DropOldest { capacity: NonZeroUsize::MIN };
    let mut slow = bus.subscribe(filter("vak.events.w1.>"), room).await.unwrap();
    for id in ["1", "2", "3"] {
        bus.publish(frame(TOKENS, id)).await.unwrap();
    }
    while traffic.report()[0].received == 0 {
        assert!(slow.next().await.is_some());
    }
    let found = &traffic.report()[0];
    assert_eq!((found.published, found.received, found.missed), (3, 1, 2));
}

#[tokio::test]
async fn frames_of_no_workspace_are_counted_apart() {
    let (bus, traffic) = counted();
    bus.publish(frame("_INBOX.a1.x", "1")).await.unwrap();
    assert_eq!(frames(&traffic), [(None, 1, 0)]);
}

#[tokio::test]
async fn workspaces_beyond_the_limit_are_counted_together() {
    let (bus, traffic) = counted();
    for n in 0..Traffic::WORKSPACES_MAX + 3 {
        bus.publish(frame(&format!("vak.events.w{n}.s1.tokens"), &n.to_string())).await.unwrap();
    }
    let found = frames(&traffic);
    assert_eq!(found.len(), Traffic::WORKSPACES_MAX + 1);
    assert_eq!(found.last(), Some(&(None, 3, 0)));
}
