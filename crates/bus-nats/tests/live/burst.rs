//! Events that are published faster than they leave: none is lost, and their order stays.

use super::*;

/// Publishes events by their numbers; every third goes with headers, and so by itself.
async fn publish_mixed(bus: &NatsBus, count: usize) {
    for number in 0..count {
        let subject = if number % 10 < 7 { TOKENS } else { "vak.events.w1.s1.terminal" };
        let mut event = frame(subject, &number.to_string());
        if number.is_multiple_of(3) {
            event.headers.add("ce-type", "test").unwrap();
        }
        bus.publish(event).await.unwrap();
    }
}

async fn assert_hears_all(subscription: &mut Subscription, count: usize) {
    for number in 0..count {
        assert_eq!(hear_id(subscription).await, number.to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_is_heard_whole_and_in_order_whatever_it_is_made_of() {
    const COUNT: usize = 5_000;
    let server = TestServer::start();
    let (sender, receiver) = (bus(&server).await, bus(&server).await);
    let mut subscription = listen(&receiver, "vak.events.>", every(2 * COUNT)).await;
    let (publishing, hearing) =
        (publish_mixed(&sender, COUNT), assert_hears_all(&mut subscription, COUNT));
    tokio::join!(publishing, hearing);
}

#[tokio::test]
async fn events_that_wait_together_go_as_one_message() {
    const COUNT: usize = 640;
    let server = TestServer::start();
    let (bus, stranger) = (bus(&server).await, stranger(&server).await);
    let mut messages = stranger.subscribe("vak.events.>").await.unwrap();
    hear_itself(&stranger).await;
    for number in 0..COUNT {
        bus.publish(frame(TOKENS, &number.to_string())).await.unwrap();
    }
    let mut last = frame(TOKENS, "last");
    last.headers.add("ce-type", "last").unwrap();
    bus.publish(last).await.unwrap();
    let mut count = 0;
    while messages.next().await.unwrap().headers.is_none() {
        count += 1;
    }
    assert!(count < COUNT / 8, "{count} messages");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_published_before_a_close_is_heard() {
    let server = TestServer::start();
    let (sender, receiver) = (bus(&server).await, bus(&server).await);
    let mut subscription = listen(&receiver, "vak.events.>", every(2_000)).await;
    publish_mixed(&sender, 1_000).await;
    sender.close().await.unwrap();
    assert_hears_all(&mut subscription, 1_000).await;
    let late = sender.publish(frame(TOKENS, "late")).await.unwrap_err();
    assert_eq!((late.kind(), late.outcome()), (ErrorKind::Closed, Outcome::NotDone));
}

#[tokio::test]
async fn what_was_published_before_the_bus_was_dropped_is_heard() {
    let server = TestServer::start();
    let (sender, receiver) = (bus(&server).await, bus(&server).await);
    let mut subscription = listen(&receiver, "vak.events.>", every(128)).await;
    // Each is a message of its own.
    for number in 0..100 {
        let subject = if number % 2 == 0 { TOKENS } else { "vak.events.w1.s1.terminal" };
        sender.publish(frame(subject, &number.to_string())).await.unwrap();
    }
    drop(sender);
    assert_hears_all(&mut subscription, 100).await;
}

#[tokio::test]
async fn what_was_published_before_a_subscription_it_does_not_hear() {
    let server = TestServer::start();
    let bus = bus(&server).await;
    bus.publish(frame(TOKENS, "before")).await.unwrap();
    let mut subscription = listen(&bus, TOKENS, every(64)).await;
    bus.publish(frame(TOKENS, "after")).await.unwrap();
    assert_eq!(hear_id(&mut subscription).await, "after");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_waits_without_an_end_for_a_server_that_is_frozen() {
    let server = TestServer::start();
    let wait = Duration::from_millis(300);
    let options =
        NatsOptions { answer_wait: wait, waiting_max: 4, ..NatsOptions::new(server.url()) };
    let bus = NatsBus::open(options).await.unwrap();
    server.freeze().unwrap();
    let large = |id: usize| {
        let subject = Subject::parse(TOKENS).unwrap();
        Frame::new(subject, FrameId::parse(&id.to_string()).unwrap(), vec![7; 16 << 10])
    };
    // As many as the client, the system and the outbox have room for.
    let mut id = 0;
    while bus.publish(large(id)).await.is_ok() {
        id += 1;
    }
    let begun = tokio::time::Instant::now();
    let asked = bus.request(frame("vak.call.w1.m.verb", "x"), wait).await.unwrap_err();
    assert_eq!(asked.outcome(), Outcome::NotDone, "{asked}");
    let alone = bus.publish(frame(TELEMETRY, "y")).await.unwrap_err();
    assert_eq!(alone.outcome(), Outcome::NotDone, "{alone}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    server.thaw().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_heard_before_what_its_publisher_asks_next() {
    let server = TestServer::start();
    let (asker, answerer) = (bus(&server).await, bus(&server).await);
    let mut subscription = listen(&answerer, "vak.>", every(64)).await;
    for round in 0..50 {
        let (event, call) = (format!("event-{round}"), format!("call-{round}"));
        asker.publish(frame(TOKENS, &event)).await.unwrap();
        let asked = asker.request(frame("vak.call.w1.m.verb", &call), Duration::from_secs(20));
        let answering = async {
            assert_eq!(hear_id(&mut subscription).await, event);
            let heard = hear(&mut subscription).await;
            assert_eq!(heard.id.as_str(), call);
            let to = heard.reply.unwrap();
            answerer.publish(frame(to.as_str(), "answer")).await.unwrap();
        };
        let (answer, ()) = tokio::join!(asked, answering);
        assert_eq!(answer.unwrap().id.as_str(), "answer");
    }
}
