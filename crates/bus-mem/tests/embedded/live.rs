//! The live plane: exact losses, no starved subscribers, and counts that add up.

use std::{collections::HashMap, num::NonZeroUsize, time::Duration};

use bus_core::{Buckets, Bus, Clock, ErrorKind, Expect, FeedItem, Overflow, Subscription};
use bus_mem::{InMemoryBus, Limits, LiveStats};
use bus_subjects::Filter;

use super::{TASK, append, bus, frame, listen, publish, queue};

async fn next_id(subscription: &mut Subscription) -> String {
    match subscription.next().await {
        Some(FeedItem::Frame(frame)) => frame.id.to_string(),
        Some(FeedItem::Gap { missed }) => format!("gap {missed}"),
        None => "end".to_owned(),
    }
}

fn balanced(stats: &LiveStats) -> bool {
    stats.offered == stats.delivered + stats.dropped + stats.superseded + stats.waiting
}

#[tokio::test(start_paused = true)]
async fn one_lag_neither_ends_a_subscription_nor_hides() {
    // C16: A reads, B sleeps, then B wakes.
    let bus = bus();
    let (mut a, mut b) = (listen(&bus, "tokens", 64).await, listen(&bus, "tokens", 64).await);
    for n in 0..1000 {
        publish(&bus, "tokens", &n.to_string()).await;
        assert_eq!(next_id(&mut a).await, n.to_string());
    }
    assert_eq!(next_id(&mut b).await, "gap 936");
    for n in 936..1000 {
        assert_eq!(next_id(&mut b).await, n.to_string());
    }
    for n in 1000..1010 {
        publish(&bus, "tokens", &n.to_string()).await;
        assert_eq!(next_id(&mut b).await, n.to_string());
    }
    let stats = bus.stats();
    assert_eq!((stats.published, stats.offered), (1010, 2020));
    assert_eq!((stats.delivered, stats.dropped, stats.waiting), (1074, 936, 10));
}

#[tokio::test(start_paused = true)]
async fn counts_add_up_when_subscribers_come_and_go_in_a_burst() {
    let bus = bus();
    let _steady = listen(&bus, ">", 8).await;
    for round in 0..100 {
        let mut fleeting = listen(&bus, "s.*", 4).await;
        let latest = Overflow::Latest { subjects: NonZeroUsize::MIN };
        let newest = bus.subscribe(Filter::parse("s.a").unwrap(), latest).await.unwrap();
        for n in 0..round % 9 {
            publish(&bus, if n % 2 == 0 { "s.a" } else { "s.b" }, &n.to_string()).await;
        }
        if round % 3 == 0 && round % 9 > 0 {
            next_id(&mut fleeting).await;
        }
        drop((fleeting, newest));
        let stats = bus.stats();
        assert!(balanced(&stats), "{stats:?}");
    }
    let stats = bus.stats();
    assert_eq!((stats.subscriptions, stats.waiting), (1, 8));
}

#[tokio::test]
async fn a_publisher_that_awaits_nothing_else_does_not_starve_its_subscribers() {
    const FRAMES: u64 = 20_000;
    let bus = bus();
    let mut subscription = listen(&bus, "tokens", 64).await;
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move {
        let mut heard = 0;
        while let Some(FeedItem::Frame(_)) = subscription.next().await {
            heard += 1;
        }
        heard
    });
    let publisher = bus.clone();
    tasks.spawn(async move {
        for _ in 0..FRAMES {
            publish(&publisher, "tokens", "1").await;
        }
        publisher.close().await.unwrap();
        0
    });
    let heard: u64 = tasks.join_all().await.into_iter().sum();
    assert_eq!((heard, bus.stats().dropped), (FRAMES, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn publishers_and_subscribers_on_many_threads_lose_nothing_uncounted() {
    const FRAMES: u64 = 5_000;
    let bus = bus();
    let mut listeners = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let mut subscription = listen(&bus, "s.*", 32).await;
        listeners.spawn(async move {
            let (mut heard, mut missed, mut newest) = (0, 0, HashMap::new());
            while let Some(item) = subscription.next().await {
                match item {
                    FeedItem::Gap { missed: more } => missed += more,
                    FeedItem::Frame(frame) => {
                        heard += 1;
                        let number: u64 = frame.id.as_str().parse().unwrap();
                        let before = newest.insert(frame.subject.clone(), number);
                        assert!(before < Some(number), "order is kept per subject");
                    }
                }
            }
            (heard, missed)
        });
    }
    let mut publishers = tokio::task::JoinSet::new();
    for p in 0..4 {
        let bus = bus.clone();
        publishers.spawn(async move {
            for n in 0..FRAMES {
                publish(&bus, &format!("s.{p}"), &n.to_string()).await;
            }
        });
    }
    publishers.join_all().await;
    bus.close().await.unwrap();
    let (mut heard, mut missed) = (0, 0);
    for (h, m) in listeners.join_all().await {
        assert_eq!(h + m, 4 * FRAMES, "each subscriber accounts for every frame");
        heard += h;
        missed += m;
    }
    let stats = bus.stats();
    assert_eq!((stats.delivered, stats.dropped, stats.waiting), (heard, missed, 0));
}

#[tokio::test(start_paused = true)]
async fn what_is_stored_is_heard_live_once() {
    let bus = queue().await;
    let mut subscription = listen(&bus, TASK, 4).await;
    append(&bus, "1").await.unwrap();
    append(&bus, "1").await.unwrap();
    append(&bus, "2").await.unwrap();
    bus.close().await.unwrap();
    assert_eq!(next_id(&mut subscription).await, "1");
    assert_eq!(next_id(&mut subscription).await, "2");
    assert_eq!(next_id(&mut subscription).await, "end");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_stored_is_not_heard() {
    let bus = queue().await;
    let mut subscription = listen(&bus, "vak.>", 4).await;
    let lost = Expect::LastOfSubject(bus_core::Seq(7));
    let refused = bus.append(frame(TASK, "1"), lost).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    bus.close().await.unwrap();
    assert_eq!(next_id(&mut subscription).await, "end");
}

#[tokio::test(start_paused = true)]
async fn a_request_leaves_no_subscription_behind() {
    let bus = bus();
    let _silent = listen(&bus, "q", 4).await;
    bus.request(frame("q", "1"), Duration::from_secs(1)).await.unwrap_err();
    bus.request(frame("nobody", "1"), Duration::from_secs(1)).await.unwrap_err();
    drop(bus.request(frame("q", "2"), Duration::from_secs(1)));
    assert_eq!(bus.stats().subscriptions, 1);
}

#[tokio::test(start_paused = true)]
async fn two_askers_never_share_a_reply_subject() {
    let bus = bus();
    let mut service = listen(&bus, "q", 4).await;
    let answering = async {
        let mut replies = Vec::new();
        while replies.len() < 2 {
            if let Some(FeedItem::Frame(question)) = service.next().await {
                replies.push(question.reply.clone().unwrap());
            }
        }
        assert_ne!(replies[0], replies[1]);
        // The second asker is answered first.
        publish(&bus, replies[1].as_str(), "second").await;
        publish(&bus, replies[0].as_str(), "first").await;
    };
    let wait = Duration::from_secs(1);
    let (first, second) = (bus.request(frame("q", "1"), wait), bus.request(frame("q", "2"), wait));
    let (first, second, ()) = tokio::join!(first, second, answering);
    assert_eq!(first.unwrap().id.as_str(), "first");
    assert_eq!(second.unwrap().id.as_str(), "second");
}

#[tokio::test(start_paused = true)]
async fn a_bus_takes_no_more_subscriptions_than_its_limit() {
    let clock: std::sync::Arc<dyn Clock> = std::sync::Arc::new(bus_core::SystemClock::new());
    let limits = Limits { subscriptions_max: 1, ..Limits::default() };
    let bus = InMemoryBus::with_limits(clock, limits);
    let held = listen(&bus, "a", 1).await;
    let overflow = Overflow::DropOldest { capacity: NonZeroUsize::MIN };
    let refused = bus.subscribe(Filter::parse("b").unwrap(), overflow).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Full);
    drop(held);
    let _again = listen(&bus, "b", 1).await;
}

#[test]
fn everything_that_waits_for_nothing_works_outside_a_runtime() {
    let bus = InMemoryBus::new();
    let mut done = std::pin::pin!(async {
        let mut subscription = listen(&bus, "a", 1).await;
        publish(&bus, "a", "1").await;
        assert_eq!(next_id(&mut subscription).await, "1");
        let bucket = bus_subjects::BucketName::parse("B").unwrap();
        let key = bus_subjects::BucketKey::parse("k").unwrap();
        assert_eq!(bus.get(bucket, key).await.unwrap(), None);
    });
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(done.as_mut().poll(&mut cx).is_ready());
}
