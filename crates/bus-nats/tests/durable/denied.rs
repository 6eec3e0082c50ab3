//! What a server denies is told with the subject that the caller knows.

use std::sync::Arc;

use bus_crypto::{
    NkeyKind, SigningKey, SystemEntropy,
    jwt::{Permissions, SubjectPermission},
};
use bus_nats::{
    NatsAuth,
    server::{Authorization, NkeyUser, ServerConfig},
};

use super::*;

/// A server with a queue, and somebody who may put nothing there that has a placement.
async fn place() -> (TestServer, NatsBus) {
    let user = || Arc::new(SigningKey::generate(NkeyKind::User, &SystemEntropy::new()).unwrap());
    let (all, some) = (user(), user());
    let publish = SubjectPermission { deny: vec!["vakp.>".to_owned()], ..Default::default() };
    let permissions = Permissions { publish, ..Permissions::default() };
    let authorization = Authorization::Nkeys(vec![
        NkeyUser { key: *all.public(), permissions: None },
        NkeyUser { key: *some.public(), permissions: Some(permissions) },
    ]);
    let server = TestServer::start_with(ServerConfig { authorization, ..Default::default() });
    let open = async |key| {
        let auth = NatsAuth::Nkey(key);
        NatsBus::open(NatsOptions { auth, ..NatsOptions::new(server.url()) }).await.unwrap()
    };
    open(all).await.declare(spec(Retention::WorkQueue)).await.unwrap();
    let bus = open(some).await;
    (server, bus)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_placed_frame_that_is_denied_is_told_under_its_own_subject() {
    let (_server, bus) = place().await;
    let error = bus.append(keyed("work.a", "m1", "k"), Expect::Any).await.unwrap_err();
    assert_eq!((error.kind(), error.subject()), (ErrorKind::Denied, Some("work.a")));
    bus.append(frame("work.a", "m2"), Expect::Any).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_placed_frame_that_is_denied_in_a_batch_is_told_under_its_own_subject() {
    let (_server, bus) = place().await;
    for denied_at in 0..3 {
        let one = |at: usize| {
            let id = format!("m{denied_at}{at}");
            if at == denied_at { keyed("work.b", &id, "k") } else { frame("work.a", &id) }
        };
        let error = bus.append_all((0..3).map(one).collect()).await.unwrap_err();
        let told = (error.kind(), error.subject());
        assert_eq!(told, (ErrorKind::Denied, Some("work.b")), "{denied_at}");
    }
}
