//! The state: always the client's own, and final when it says so.

use futures_util::StreamExt;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_refusals_hides_no_reconnect() {
    let (mut place, auth) = Place::of_user(deny_publish(&["secret.>"]));
    let connection = place.connect_as(auth).await;
    for round in 1..=3_u64 {
        // The client's queue of events holds 128: it is full when the connection is lost.
        for _ in 0..20_000 {
            let sent = connection.client().publish("secret.a", Bytes::new()).await;
            sent.unwrap();
        }
        let begun = Instant::now();
        place.server.kill();
        until(&connection, |state| state.epoch().is_none()).await;
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        place.server.restart().unwrap();
        until(&connection, |state| state.epoch() == Some(round + 1)).await;
        connection.fence(OP).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_epoch_counts_every_connection_also_unseen_ones() {
    let place = Place::start();
    let connection = place.connect().await;
    // Events may be lost or late: the count is the client's.
    for round in 1..=20_u64 {
        connection.client().force_reconnect().await.unwrap();
        until(&connection, |state| state.epoch() == Some(round + 1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_sees_a_lost_connection_before_any_event_tells_of_it() {
    let mut place = Place::start();
    let connection = place.connect().await;
    connection.keeper.0.abort();
    place.server.kill();
    while connection.client().connection_state() == async_nats::connection::State::Connected {
        tokio::task::yield_now().await;
    }
    let refused = connection.check_open(OP).unwrap_err();
    assert_eq!(said(&refused), (ErrorKind::Unavailable, Outcome::NotDone));
}

#[tokio::test(flavor = "multi_thread")]
async fn while_it_closes_new_calls_are_refused_and_those_under_way_end() {
    let place = Place::start();
    let (asker, answerer) = (place.connect().await, place.connect().await);
    let mut asked = answerer.subscribe_fenced(OP, "ask").await.unwrap();
    let asking = tokio::spawn({
        let asker = Arc::clone(&asker);
        async move { asker.request(OP, "ask", None, body("?")).await }
    });
    let question = asked.next().await.unwrap();
    let closing = tokio::spawn({
        let asker = Arc::clone(&asker);
        async move { asker.close().await }
    });
    let refused = loop {
        match asker.check_open(OP) {
            Ok(()) => tokio::task::yield_now().await,
            Err(refused) => break refused,
        }
    };
    assert_eq!(said(&refused), (ErrorKind::Closed, Outcome::NotDone));
    assert_ne!(*asker.states().borrow(), ConnectionState::Closed);
    let reply = question.reply.unwrap();
    // Longer than the close would take by itself.
    for _ in 0..20 {
        answerer.fence(OP).await.unwrap();
    }
    answerer.publish(OP, reply, None, None, body("!")).await.unwrap();
    assert_eq!(&*asking.await.unwrap().unwrap().payload, b"!");
    closing.await.unwrap().unwrap();
    assert_eq!(*asker.states().borrow(), ConnectionState::Closed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_never_ends_does_not_hold_up_a_close() {
    let place = Place::start();
    let (asker, answerer) = (place.connect().await, place.connect().await);
    let mut asked = answerer.subscribe_fenced(OP, "ask").await.unwrap();
    let asking = tokio::spawn({
        let asker = Arc::clone(&asker);
        async move { asker.request(OP, "ask", None, body("?")).await }
    });
    asked.next().await.unwrap();
    let begun = Instant::now();
    asker.close().await.unwrap();
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    assert_eq!(said(&asking.await.unwrap().unwrap_err()), (ErrorKind::Closed, Outcome::Unknown));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_let_in_no_more_is_denied_for_good() {
    let (mut place, auth) = Place::of_user(None);
    let connect_wait = Duration::from_millis(500);
    let options = NatsOptions { auth, connect_wait, ..place.options() };
    let connection = Connection::open(options).await.unwrap();
    place.server.reload(config_of(&user(), None)).unwrap();
    until(&connection, |state| *state == ConnectionState::Denied).await;
    let refused = connection.request(OP, "a", None, Bytes::new()).await.unwrap_err();
    assert_eq!(said(&refused), (ErrorKind::Denied, Outcome::NotDone));
    assert!(refused.to_string().contains("authorization violation"), "{refused}");
    connection.close().await.unwrap();
    until(&connection, |state| *state == ConnectionState::Closed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_let_in_again_in_time_goes_on() {
    let key = user();
    let mut place = Place::start_with(config_of(&key, None));
    let options = NatsOptions { auth: NatsAuth::Nkey(Arc::clone(&key)), ..place.options() };
    let connection = Connection::open(options).await.unwrap();
    place.server.reload(config_of(&user(), None)).unwrap();
    until(&connection, |state| *state == ConnectionState::Disconnected).await;
    place.server.reload(config_of(&key, None)).unwrap();
    let goes_on = async {
        loop {
            // The server may send it away once more before it knows the key again.
            until(&connection, |state| state.epoch() >= Some(2)).await;
            if connection.fence(OP).await.is_ok() {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), goes_on).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lame_duck_is_shown_and_calls_go_on_after_it() {
    let mut place = Place::start();
    let connection = place.connect().await;
    place.server.lame_duck().unwrap();
    let lame = ConnectionState::Connected { epoch: 1, lame_duck: true };
    until(&connection, |state| *state == lame).await;
    connection.fence(OP).await.unwrap();
    until(&connection, |state| state.epoch().is_none()).await;
    place.server.kill();
    place.server.restart().unwrap();
    let well = ConnectionState::Connected { epoch: 2, lame_duck: false };
    until(&connection, |state| *state == well).await;
    connection.fence(OP).await.unwrap();
}
