//! What a supervisor says.

use super::*;

#[test]
fn a_server_on_all_addresses_is_reached_on_this_machines_own() {
    assert_eq!(reachable("nats://0.0.0.0:4222"), "nats://127.0.0.1:4222");
    assert_eq!(reachable("tls://[::]:4222"), "tls://[::1]:4222");
    assert_eq!(reachable("nats://10.0.0.7:4222"), "nats://10.0.0.7:4222");
}

#[test]
fn what_is_missing_is_said_with_how_to_get_it() {
    let error = failed(&ServerError::NotFound { looked: "PATH".to_owned() });
    assert_eq!(error.code(), Exit::Unreachable);
    assert!(error.to_string().contains("github.com/nats-io/nats-server/releases"), "{error}");
}
