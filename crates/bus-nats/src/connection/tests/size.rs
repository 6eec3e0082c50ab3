//! What is too large for the server is refused before it is sent.

use async_nats::HeaderMap;

use super::*;

const LARGE: usize = 3 * 1024 * 1024;

fn config(payload_bytes_max: usize) -> ServerConfig {
    let payload_bytes_max = u32::try_from(payload_bytes_max).unwrap();
    ServerConfig { payload_bytes_max, ..ServerConfig::default() }
}

fn headers(bytes: usize) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("a", "x".repeat(bytes));
    headers
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_limit_holds_and_not_the_clients_default() {
    let place = Place::start_with(config(LARGE));
    let connection = place.connect().await;
    assert_eq!(connection.payload_max(), LARGE);
    let whole = Bytes::from(vec![0; LARGE]);
    connection.publish_fenced(OP, "a", None, whole).await.unwrap();
    let over = Bytes::from(vec![0; LARGE + 1]);
    let refused = connection.publish(OP, "a", None, None, over.clone()).await.unwrap_err();
    assert_eq!(said(&refused), (ErrorKind::TooLarge, Outcome::NotDone));
    let refused = connection.request(OP, "a", None, over).await.unwrap_err();
    assert_eq!(said(&refused), (ErrorKind::TooLarge, Outcome::NotDone));
    // The server would have cut the connection.
    connection.fence(OP).await.unwrap();
    assert_eq!(connection.states().borrow().epoch(), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_count_to_the_size() {
    let place = Place::start_with(config(LARGE));
    let connection = place.connect().await;
    let whole = Bytes::from(vec![0; LARGE]);
    for headers in [headers(1), headers(LARGE)] {
        let sent = connection.publish(OP, "a", None, Some(headers.clone()), whole.clone()).await;
        assert_eq!(said(&sent.unwrap_err()), (ErrorKind::TooLarge, Outcome::NotDone));
        let asked = connection.request(OP, "a", Some(headers), whole.clone()).await;
        assert_eq!(said(&asked.unwrap_err()), (ErrorKind::TooLarge, Outcome::NotDone));
    }
    // "NATS/1.0\r\n", "a: x\r\n" and "\r\n" are 18 bytes.
    let fits = Bytes::from(vec![0; LARGE - 18]);
    connection.publish(OP, "a", None, Some(headers(1)), fits).await.unwrap();
    connection.fence(OP).await.unwrap();
    assert_eq!(connection.states().borrow().epoch(), Some(1));
}
