//! The live plane at its edges: samples for late readers, wakers, routes, and frames read in place.

use std::{
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use bus_core::{
    Bus, ErrorKind, Expect, FeedItem, FeedRef, Frame, Overflow, Retention, StreamSpec, Subscription,
};
use bus_mem::InMemoryBus;
use bus_subjects::{Filter, StreamName};
use tokio::task::coop::unconstrained;

use super::{Bell, bell, bus, frame, listen, pass, publish};

const TELEMETRY: &str = "vak.events.w1.s1.telemetry";

async fn newest(bus: &InMemoryBus, on: &str, subjects: usize) -> Subscription {
    let overflow = Overflow::Latest { subjects: NonZeroUsize::new(subjects).unwrap() };
    bus.subscribe(Filter::parse(on).unwrap(), overflow).await.unwrap()
}

/// Every item that is there now.
fn heard(subscription: &mut Subscription) -> Vec<String> {
    let mut items = Vec::new();
    while let Poll::Ready(Some(item)) = poll(subscription, Waker::noop()) {
        items.push(match item {
            FeedItem::Frame(frame) => frame.id.to_string(),
            FeedItem::Gap { missed } => format!("gap {missed}"),
        });
    }
    items
}

fn poll(subscription: &mut Subscription, waker: &Waker) -> Poll<Option<FeedItem>> {
    pin!(unconstrained(subscription.next())).poll(&mut Context::from_waker(waker))
}

fn waits(bell: &Arc<Bell>, subscription: &mut Subscription) {
    assert!(poll(subscription, &Waker::from(Arc::clone(bell))).is_pending(), "nothing to hear");
}

#[tokio::test(start_paused = true)]
async fn a_late_reader_sees_the_newest_sample() {
    let bus = bus();
    for id in ["1", "2"] {
        publish(&bus, TELEMETRY, id).await;
    }
    publish(&bus, "vak.events.w1.s2.telemetry", "3").await;
    assert_eq!(heard(&mut newest(&bus, TELEMETRY, 1).await), ["2"]);
    assert_eq!(heard(&mut newest(&bus, "vak.events.w1.*.telemetry", 8).await), ["2", "3"]);
    assert_eq!(heard(&mut newest(&bus, ">", 8).await), ["2", "3"]);
    assert_eq!(heard(&mut newest(&bus, "vak.events.w2.>", 8).await), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_sample_is_superseded_like_any_other_frame() {
    let bus = bus();
    publish(&bus, TELEMETRY, "1").await;
    let mut subscription = newest(&bus, TELEMETRY, 1).await;
    publish(&bus, TELEMETRY, "2").await;
    assert_eq!(heard(&mut subscription), ["2"]);
    let stats = bus.stats();
    assert_eq!((stats.published, stats.offered), (2, 2));
    assert_eq!((stats.superseded, stats.delivered), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_sample_of_a_process_that_ended_is_not_shown_for_ever() {
    let bus = bus();
    publish(&bus, TELEMETRY, "1").await;
    pass(Duration::from_secs(10)).await;
    assert_eq!(heard(&mut newest(&bus, TELEMETRY, 1).await), ["1"]);
    pass(Duration::from_nanos(1)).await;
    assert_eq!(heard(&mut newest(&bus, TELEMETRY, 1).await), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_late_reader_of_few_subjects_sees_the_newest_samples_and_no_gap() {
    let bus = bus();
    for session in ["1", "2", "3"] {
        publish(&bus, &format!("vak.events.w1.s{session}.telemetry"), session).await;
    }
    assert_eq!(heard(&mut newest(&bus, "vak.events.>", 2).await), ["2", "3"]);
}

#[tokio::test(start_paused = true)]
async fn a_late_reader_that_wants_every_frame_hears_nothing_old() {
    let bus = bus();
    publish(&bus, TELEMETRY, "1").await;
    assert_eq!(heard(&mut listen(&bus, TELEMETRY, 8).await), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_late_reader_hears_nothing_old_of_other_subjects() {
    let bus = bus();
    publish(&bus, "vak.events.w1.s1.tokens", "1").await;
    publish(&bus, "vak.events.w1.s1.x.telemetry", "2").await;
    assert_eq!(heard(&mut newest(&bus, "vak.>", 8).await), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn what_is_stored_is_no_sample() {
    let bus = bus();
    let filters = vec![Filter::parse(TELEMETRY).unwrap()];
    let name = StreamName::parse("T").unwrap();
    bus.declare(StreamSpec::new(name, filters, Retention::Kept)).await.unwrap();
    let _listener = listen(&bus, ">", 8).await;
    bus.append(frame(TELEMETRY, "1"), Expect::Any).await.unwrap();
    assert_eq!(heard(&mut newest(&bus, TELEMETRY, 1).await), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_sample_never_replaces_what_is_stored_meanwhile() {
    // So many that taking them takes longer than an append, and so often that it meets one.
    const SESSIONS: usize = 2_000;
    const ROUNDS: usize = 20;
    for _ in 0..ROUNDS {
        let bus = bus();
        let filters = vec![Filter::parse(TELEMETRY).unwrap()];
        let name = StreamName::parse("T").unwrap();
        bus.declare(StreamSpec::new(name, filters, Retention::Kept)).await.unwrap();
        for session in 0..SESSIONS {
            publish(&bus, &format!("vak.events.w1.s{session}.telemetry"), "sample").await;
        }
        let reader = bus.clone();
        let mut reading = tokio::task::JoinSet::new();
        reading.spawn(async move { newest(&reader, "vak.events.w1.*.telemetry", SESSIONS).await });
        while bus.stats().subscriptions == 0 {
            tokio::task::yield_now().await;
        }
        bus.append(frame(TELEMETRY, "stored"), Expect::Any).await.unwrap();
        let heard = heard(&mut reading.join_next().await.unwrap().unwrap());
        let stored = heard.iter().filter(|id| *id == "stored").count();
        assert_eq!((heard.len(), stored), (SESSIONS, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_burst_wakes_a_waiting_subscriber_once() {
    let bus = bus();
    let mut subscription = listen(&bus, "a", 64).await;
    let bell = bell();
    waits(&bell, &mut subscription);
    for id in ["1", "2", "3"] {
        publish(&bus, "a", id).await;
    }
    assert_eq!(bell.rings(), 1);
    assert_eq!(heard(&mut subscription), ["1", "2", "3"]);
    waits(&bell, &mut subscription);
    publish(&bus, "a", "4").await;
    assert_eq!(bell.rings(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_moved_to_another_task_wakes_that_one() {
    let bus = bus();
    let mut subscription = listen(&bus, "a", 64).await;
    let (before, after) = (bell(), bell());
    waits(&before, &mut subscription);
    waits(&after, &mut subscription);
    publish(&bus, "a", "1").await;
    assert_eq!((before.rings(), after.rings()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_subscription_keeps_no_waker() {
    let bus = bus();
    let mut stays = listen(&bus, "a", 64).await;
    let (dropped, kept) = (bell(), bell());
    for _ in 0..3 {
        let mut goes = listen(&bus, "a", 64).await;
        waits(&dropped, &mut goes);
    }
    waits(&kept, &mut stays);
    assert_eq!(Arc::strong_count(&dropped), 1);
    publish(&bus, "a", "1").await;
    assert_eq!((dropped.rings(), kept.rings()), (0, 1));
}

/// A waker of an executor that is broken.
struct Broken;

impl Wake for Broken {
    fn wake(self: Arc<Self>) {
        panic!("a waker of the test's own");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_costs_nobody_else_a_wake_up() {
    let bus = bus();
    let (mut first, mut second) = (listen(&bus, "a", 8).await, listen(&bus, "a", 8).await);
    let bell = bell();
    assert!(poll(&mut first, &Waker::from(Arc::new(Broken))).is_pending());
    waits(&bell, &mut second);
    let publishing = AssertUnwindSafe(|| bus.try_publish(frame("a", "1")));
    assert!(catch_unwind(publishing).is_err(), "it is not hidden");
    assert_eq!(bell.rings(), 1);
    assert_eq!((heard(&mut first), heard(&mut second)), (vec!["1".into()], vec!["1".into()]));
}

/// On a wake-up, drops a subscription and publishes, as a careless executor might.
struct Careless {
    bus: InMemoryBus,
    subscription: Mutex<Option<Subscription>>,
}

impl Wake for Careless {
    fn wake(self: Arc<Self>) {
        let subscription = self.subscription.lock().unwrap().take();
        drop(subscription);
        self.bus.try_publish(frame("a", "from-the-waker")).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_waker_may_publish_and_end_a_subscription() {
    let bus = bus();
    let (mut waiting, mut other) = (listen(&bus, "a", 8).await, listen(&bus, "a", 8).await);
    let subscription = Mutex::new(Some(listen(&bus, "a", 8).await));
    let careless = Arc::new(Careless { bus: bus.clone(), subscription });
    assert!(poll(&mut waiting, &Waker::from(careless)).is_pending());
    publish(&bus, "a", "1").await;
    assert_eq!(heard(&mut other), ["1", "from-the-waker"]);
    assert_eq!(bus.stats().subscriptions, 2);
}

/// A body that publishes as it is dropped.
struct Parting(InMemoryBus);

impl AsRef<[u8]> for Parting {
    fn as_ref(&self) -> &[u8] {
        &[]
    }
}

impl Drop for Parting {
    fn drop(&mut self) {
        // The bus may be closed by then.
        let _heard = self.0.try_publish(frame("b", "gone"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_may_publish_as_it_is_dropped() {
    let bus = bus();
    let mut gone = listen(&bus, "b", 1000).await;
    let parting = || {
        let body = bytes::Bytes::from_owner(Parting(bus.connect()));
        Frame { body, ..frame("a", "1") }
    };
    // Unheard; overrun; superseded; left behind; and read.
    assert_eq!(bus.try_publish(parting()).unwrap(), 0);
    let (mut slow, mut latest) = (listen(&bus, "a", 1).await, newest(&bus, "a", 1).await);
    for _ in 0..100 {
        bus.publish(parting()).await.unwrap();
    }
    assert_eq!(heard(&mut slow), ["gap 99", "1"]);
    assert_eq!(heard(&mut latest), ["1"]);
    bus.publish(parting()).await.unwrap();
    drop((slow, latest));
    assert_eq!(heard(&mut gone).len(), 102);
}

#[tokio::test(start_paused = true)]
async fn who_comes_later_hears_a_subject_that_was_published_before() {
    let bus = bus();
    // The first ones make the bus remember who hears the subject.
    for on in ["a.b", "a.b", "a.c", "a.c"] {
        assert_eq!(bus.try_publish(frame(on, "0")).unwrap(), 0);
    }
    let mut literal = listen(&bus, "a.b", 8).await;
    assert_eq!(bus.try_publish(frame("a.b", "1")).unwrap(), 1);
    let mut wild = listen(&bus, "a.*", 8).await;
    assert_eq!(bus.try_publish(frame("a.b", "2")).unwrap(), 2);
    assert_eq!(bus.try_publish(frame("a.c", "3")).unwrap(), 1);
    let mut latest = newest(&bus, "a.b", 8).await;
    assert_eq!(bus.try_publish(frame("a.b", "4")).unwrap(), 3);
    assert_eq!(heard(&mut literal), ["1", "2", "4"]);
    assert_eq!(heard(&mut wild), ["2", "3", "4"]);
    assert_eq!(heard(&mut latest), ["4"]);
    drop((literal, wild, latest));
    assert_eq!(bus.try_publish(frame("a.b", "5")).unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_comes_while_others_publish_hears_all_that_follows() {
    const ROUNDS: u64 = 300;
    let bus = bus();
    let published = Arc::new(AtomicU64::new(0));
    let (publisher, number) = (bus.clone(), Arc::clone(&published));
    let mut publishing = tokio::task::JoinSet::new();
    publishing.spawn(async move {
        loop {
            let next = number.load(Ordering::SeqCst) + 1;
            publish(&publisher, "a.b", &next.to_string()).await;
            number.store(next, Ordering::SeqCst);
        }
    });
    for round in 0..ROUNDS {
        let on = if round % 2 == 0 { "a.b" } else { "a.>" };
        let mut subscription = listen(&bus, on, 1 << 20).await;
        let since = published.load(Ordering::SeqCst);
        let first = match subscription.next().await {
            Some(FeedItem::Frame(first)) => first,
            other => panic!("expected a frame in round {round}, got {other:?}"),
        };
        let first: u64 = first.id.as_str().parse().unwrap();
        // One may have been published and not yet counted when the subscription began.
        assert!(first <= since + 2, "{first} is the first one heard, {since} were published");
        for expected in first + 1..first + 5 {
            let Some(FeedItem::Frame(frame)) = subscription.next().await else {
                panic!("expected a frame");
            };
            assert_eq!(frame.id.as_str(), expected.to_string());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn frames_are_read_in_place_as_they_are_taken() {
    let bus = bus();
    let mut subscription = listen(&bus, "a", 64).await;
    let mut one = newest(&bus, "a", 1).await;
    for n in 0..70 {
        publish(&bus, "a", &n.to_string()).await;
    }
    assert_eq!(subscription.next_ref().await, Some(FeedRef::Gap { missed: 6 }));
    for n in 6..70 {
        let expected = frame("a", &n.to_string());
        if n % 3 == 0 {
            let taken = subscription.next().await;
            assert_eq!(taken, Some(FeedItem::Frame(expected.into())));
        } else {
            assert_eq!(subscription.next_ref().await, Some(FeedRef::Frame(&expected)));
        }
    }
    assert_eq!(one.next_ref().await, Some(FeedRef::Frame(&frame("a", "69"))));
    let stats = bus.stats();
    assert_eq!((stats.delivered, stats.waiting), (64 + 1, 0));
    bus.close().await.unwrap();
    assert_eq!((subscription.next_ref().await, one.next_ref().await), (None, None));
}

#[tokio::test(start_paused = true)]
async fn what_was_taken_counts_at_once_and_the_rest_still_waits() {
    let bus = bus();
    let mut subscription = listen(&bus, "a", 64).await;
    for n in 0..64 {
        publish(&bus, "a", &n.to_string()).await;
    }
    subscription.next().await;
    let stats = bus.stats();
    assert_eq!((stats.delivered, stats.waiting, stats.dropped), (1, 63, 0));
    drop(subscription);
    let stats = bus.stats();
    assert_eq!((stats.delivered, stats.waiting, stats.dropped), (1, 0, 63));
}

#[tokio::test(start_paused = true)]
async fn a_frame_is_refused_at_once_as_it_is_later() {
    let bus = bus();
    let mut large = frame("a", "1");
    large.body = vec![0; Frame::BYTES_MAX + 1].into();
    assert_eq!(bus.try_publish(large).unwrap_err().kind(), ErrorKind::TooLarge);
    bus.close().await.unwrap();
    assert_eq!(bus.try_publish(frame("a", "1")).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(bus.stats().published, 0);
}

#[tokio::test]
async fn a_publisher_that_never_waits_loses_nothing_on_one_thread() {
    const FRAMES: u64 = 20_000;
    for capacity in [32, 64, 128, 200, 256, 1000] {
        let bus = bus();
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..3 {
            let mut subscription = listen(&bus, "a", capacity).await;
            tasks.spawn(async move {
                let mut heard = 0;
                while let Some(FeedItem::Frame(_)) = subscription.next().await {
                    heard += 1;
                }
                heard
            });
        }
        let publisher = bus.clone();
        tasks.spawn(async move {
            for _ in 0..FRAMES {
                publish(&publisher, "a", "1").await;
            }
            publisher.close().await.unwrap();
            0
        });
        let heard: u64 = tasks.join_all().await.into_iter().sum();
        assert_eq!((heard, bus.stats().dropped), (3 * FRAMES, 0), "capacity {capacity}");
    }
}
