//! The server's clock counts, whatever this machine's shows.

use bus_envelope::Timestamp;

use super::*;
use crate::{api::Api, connection::clock::own_time};

const HOUR: Duration = Duration::from_secs(3600);

/// The server runs on this machine's clock.
fn is_right(time: Timestamp) -> bool {
    let own = own_time();
    own.since(time).max(time.since(own)) < Duration::from_millis(500)
}

fn behind(time: Timestamp, by: Duration) -> Timestamp {
    Timestamp::from_unix_ns(time.unix_ns() - i128::try_from(by.as_nanos()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_an_hour_off_has_the_servers_time_from_the_first_call_on() {
    let place = Place::start();
    for own in [own_time().plus(HOUR), behind(own_time(), HOUR)] {
        let connection = Connection::open_at(place.options(), own).await.unwrap();
        assert!(is_right(connection.now()), "{:?}", connection.now());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_ask_for_the_time_learns_it_from_the_apis_answers() {
    let (place, auth) = Place::of_user(deny_publish(&["$SYS.>"]));
    let options = NatsOptions { auth, ..place.options() };
    let own = own_time().plus(HOUR);
    let connection = Connection::open_at(options, own).await.unwrap();
    assert!(!is_right(connection.now()));
    let api = Api::new(Arc::clone(&connection));
    let config = serde_json::json!({ "name": "S", "subjects": ["s"], "storage": "memory" });
    let made: serde_json::Value = api.call(OP, "STREAM.CREATE.S", &config).await.unwrap();
    assert_eq!(made["config"]["name"], "S");
    assert!(is_right(connection.now()), "{:?}", connection.now());
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_reconnect_the_server_is_asked_again() {
    let place = Place::start();
    let connection = place.connect().await;
    connection.note_server_time(own_time().plus(HOUR));
    assert!(!is_right(connection.now()));
    connection.client().force_reconnect().await.unwrap();
    let right = async {
        while !is_right(connection.now()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), right).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_ask_for_the_time_asks_again_what_told_it() {
    let (place, auth) = Place::of_user(deny_publish(&["$SYS.>"]));
    let connection = place.connect_as(auth).await;
    let api = Api::new(Arc::clone(&connection));
    let config = serde_json::json!({ "name": "S", "subjects": ["s"], "storage": "memory" });
    let _made: serde_json::Value = api.call(OP, "STREAM.CREATE.S", &config).await.unwrap();
    let _info: serde_json::Value = api.ask(OP, "STREAM.INFO.S").await.unwrap();
    connection.note_server_time(own_time().plus(HOUR));
    connection.client().force_reconnect().await.unwrap();
    let right = async {
        while !is_right(connection.now()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), right).await.unwrap();
}
