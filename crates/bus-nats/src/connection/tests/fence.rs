//! Round trips and refusals: what is confirmed is true, what is refused is `Denied`.

use futures_util::{FutureExt, StreamExt};

use super::*;

const DENIED: (ErrorKind, Outcome) = (ErrorKind::Denied, Outcome::NotDone);

#[tokio::test(flavor = "multi_thread")]
async fn a_round_trip_over_a_lost_connection_fails_at_once() {
    let place = Place::start();
    let connection = place.connect().await;
    for _ in 0..10 {
        let mark = connection.violation_mark();
        let begun = Instant::now();
        connection.client().force_reconnect().await.unwrap();
        let lost = connection.fence_since(OP, mark).await.unwrap_err();
        assert_eq!(lost.kind(), ErrorKind::Unavailable, "{lost}");
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        until(&connection, |state| state.epoch() > Some(mark.connects)).await;
    }
    connection.fence(OP).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_sent_before_a_reconnect_is_not_confirmed_after_it() {
    let place = Place::start();
    let connection = place.connect().await;
    let mark = connection.violation_mark();
    connection.client().force_reconnect().await.unwrap();
    until(&connection, |state| state.epoch() == Some(2)).await;
    connection.fence(OP).await.unwrap();
    let lost = connection.fence_since(OP, mark).await.unwrap_err();
    assert_eq!(said(&lost), (ErrorKind::Unavailable, Outcome::Unknown));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_round_trip_to_a_server_that_dies_ends_with_the_connection() {
    let mut place = Place::start();
    let connection = place.connect().await;
    place.server.freeze().unwrap();
    let begun = Instant::now();
    let waiting = tokio::spawn({
        let connection = Arc::clone(&connection);
        async move { connection.fence(OP).await }
    });
    tokio::task::yield_now().await;
    place.server.kill();
    let lost = waiting.await.unwrap().unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Unavailable, "{lost}");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publish_that_the_server_refuses_is_denied() {
    let (place, auth) = Place::of_user(deny_publish(&["secret.>"]));
    let connection = place.connect_as(auth).await;
    let begun = Instant::now();
    let refused = connection.publish_fenced(OP, "secret.a", None, body("x")).await.unwrap_err();
    assert_eq!((said(&refused), refused.subject()), (DENIED, Some("secret.a")));
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    connection.publish_fenced(OP, "open.a", None, body("x")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_refused_one_of_many_at_once_is_denied() {
    let (place, auth) = Place::of_user(deny_publish(&["secret.>"]));
    let connection = place.connect_as(auth).await;
    let all = (0..64).map(|number| {
        let plane = if number % 2 == 0 { "secret" } else { "open" };
        connection.publish_fenced(OP, format!("{plane}.{number}"), None, body("x"))
    });
    let ended = futures_util::future::join_all(all).await;
    for (number, ended) in ended.into_iter().enumerate() {
        assert_eq!(ended.is_err(), number % 2 == 0, "{number}: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_refused_one_of_too_many_at_once_is_taken_for_done() {
    let (place, auth) = Place::of_user(deny_publish(&["secret.>"]));
    let connection = place.connect_as(auth).await;
    for round in 0..5 {
        // Far more than the client's queue of events holds.
        let all = (0..1_000).map(|number| {
            let subject = format!("secret.{round}.{number}");
            connection.publish_fenced(OP, subject, None, body("x"))
        });
        let ended = futures_util::future::join_all(all).await;
        let done = ended.iter().filter(|ended| ended.is_ok()).count();
        assert_eq!(done, 0, "in round {round}");
    }
    // It passes.
    let mut passed = false;
    for _ in 0..5 {
        passed |= connection.publish_fenced(OP, "open.a", None, body("x")).await.is_ok();
    }
    assert!(passed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_counts_for_what_was_sent_before_it() {
    let (place, auth) = Place::of_user(deny_publish(&["secret.>"]));
    let connection = place.connect_as(auth).await;
    connection.publish_fenced(OP, "secret.a", None, body("x")).await.unwrap_err();
    let mark = connection.violation_mark();
    connection.fence_since(OP, mark).await.unwrap();
    connection.refused_since(OP, mark, "secret.a").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_that_the_server_refuses_is_denied() {
    let (place, auth) = Place::of_user(allow_subscribe(&["_INBOX.>", "open.>"]));
    let connection = place.connect_as(auth).await;
    let begun = Instant::now();
    let refused = connection.subscribe_fenced(OP, "secret.>").await.unwrap_err();
    assert_eq!((said(&refused), refused.subject()), (DENIED, Some("secret.>")));
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_published_after_a_confirmed_subscription_is_heard() {
    let place = Place::start();
    let (hearer, speaker) = (place.connect().await, place.connect().await);
    for number in 0..50 {
        let subject = format!("open.{number}");
        let mut heard = hearer.subscribe_fenced(OP, subject.clone()).await.unwrap();
        speaker.publish_fenced(OP, subject, None, body("x")).await.unwrap();
        let message = tokio::time::timeout(SOON, heard.next()).await.unwrap().unwrap();
        assert_eq!(&*message.payload, b"x");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_hear_its_answers_is_denied_at_once() {
    let (place, auth) = Place::of_user(allow_subscribe(&["_INBOX_other.>"]));
    let begun = Instant::now();
    let options = NatsOptions { auth: auth.clone(), ..place.options() };
    let refused = Connection::open(options).await.unwrap_err();
    assert_eq!(said(&refused), DENIED, "{refused}");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    let inbox_prefix = "_INBOX_other".to_owned();
    let options = NatsOptions { auth, inbox_prefix, ..place.options() };
    Connection::open(options).await.unwrap().fence(OP).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_round_trip_needs_no_right_to_publish() {
    let (place, auth) = Place::of_user(deny_publish(&[">"]));
    let connection = place.connect_as(auth).await;
    connection.fence(OP).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_direct_get_of_many_is_denied_at_once() {
    let (place, auth) = Place::of_user(deny_publish(&["$JS.API.DIRECT.GET.>"]));
    let api = crate::api::Api::new(place.connect_as(auth).await);
    let wanted = crate::api::GetRequest { seq: Some(1), batch: Some(2), ..Default::default() };
    let begun = Instant::now();
    let refused = api.get(OP, "NONE", &wanted).await.unwrap_err().into_error(OP, "NONE");
    assert_eq!(refused.kind(), ErrorKind::Denied);
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_connection_has_answers_of_its_own() {
    let place = Place::start();
    let (one, other) = (place.connect().await, place.connect().await);
    let level = |connection: &Connection| {
        let inbox = connection.new_inbox();
        let rest = inbox.strip_prefix("_INBOX.").map(str::to_owned).unwrap();
        rest.split_once('.').map(|(level, _)| level.to_owned()).unwrap()
    };
    assert_eq!(level(&one), level(&one));
    assert_ne!(level(&one), level(&other));
    assert_eq!(level(&one).len(), 32);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_stands_though_publishing_there_is_refused() {
    let (place, auth) = Place::of_user(deny_publish(&["both.a"]));
    let connection = place.connect_as(auth).await;
    let mark = connection.violation_mark();
    connection.publish_fenced(OP, "both.a", None, body("x")).await.unwrap_err();
    let _heard = connection.subscribe(OP, "both.a").await.unwrap();
    connection.confirm_heard(OP, mark, "both.a").await.unwrap();
    connection.unheard_since(OP, mark, "both.a").unwrap();
}

// One thread: nothing else goes on while the first is polled, so that it surely stays under way.
#[tokio::test]
async fn a_round_trip_that_nobody_polls_any_more_holds_up_no_other() {
    let place = Place::start();
    let connection = place.connect().await;
    let mark = connection.violation_mark();
    let mut left = Box::pin(connection.confirm(OP, mark, "a"));
    assert!(left.as_mut().now_or_never().is_none());
    connection.confirm(OP, mark, "b").await.unwrap();
    drop(left);
}
