//! How the live plane ends: what a close may say, and what becomes of who may hear no more.

use super::*;

async fn closed_after_a_break(mut server: TestServer, bus: &NatsBus) -> bus_core::Result<()> {
    server.kill();
    until(bus, |state| *state == ConnectionState::Disconnected).await;
    bus.close().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_close_without_a_connection_does_not_say_that_what_was_published_is_there() {
    let server = TestServer::start();
    let bus = bus(&server).await;
    bus.publish(frame(TOKENS, "accepted")).await.unwrap();
    let unsure = closed_after_a_break(server, &bus).await.unwrap_err();
    assert_eq!((unsure.kind(), unsure.outcome()), (ErrorKind::Unavailable, Outcome::Unknown));
    bus.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_close_without_a_connection_is_fine_when_the_server_had_everything_before() {
    let server = TestServer::start();
    let bus = bus(&server).await;
    bus.publish(frame(TOKENS, "accepted")).await.unwrap();
    // It is in force behind everything that was sent before.
    let _subscription = listen(&bus, "vak.events.>", every(4)).await;
    closed_after_a_break(server, &bus).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_that_is_refused_after_a_break_ends() {
    let (some, other) = (user(), user());
    let hears = |filter: &str| {
        let allow = ["_INBOX.>", filter].map(str::to_owned).to_vec();
        let subscribe = SubjectPermission { allow, ..SubjectPermission::default() };
        let permissions = Permissions { subscribe, ..Permissions::default() };
        let some = NkeyUser { key: *some.public(), permissions: Some(permissions) };
        let other = NkeyUser { key: *other.public(), permissions: None };
        let authorization = Authorization::Nkeys(vec![some, other]);
        ServerConfig { authorization, ..Default::default() }
    };
    let mut server = TestServer::start_with(hears("vak.events.>"));
    let options = |key: &Arc<SigningKey>| NatsOptions {
        auth: NatsAuth::Nkey(Arc::clone(key)),
        ..NatsOptions::new(server.url())
    };
    let bus = NatsBus::open(options(&some)).await.unwrap();
    let mut refused = listen(&bus, TOKENS, every(4)).await;
    server.reload(hears("ok.>")).unwrap();
    break_and_mend(&mut server, &bus).await;
    assert!(hear_gap(&mut refused).await >= 1);
    let end = tokio::time::timeout(Duration::from_secs(20), refused.next()).await;
    assert!(end.expect("it does not end").is_none());
}
