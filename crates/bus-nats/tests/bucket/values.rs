//! Values: who wins a race, how long they stay, and what is refused.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_nats::jetstream;
use bus_core::{Buckets, ErrorKind, ExpectRevision, KeyState, Put, Revision, WatchItem};
use bus_crypto::{
    NkeyKind, SigningKey, SystemEntropy,
    jwt::{Permissions, SubjectPermission},
};
use bus_nats::{
    NatsAuth, NatsBus, NatsOptions,
    server::{Authorization, NkeyUser, ServerConfig},
};
use bus_subjects::Filter;
use futures_util::{StreamExt, stream};

use crate::common::{
    Place, bucket, connect, key, options, put, see, see_change, see_current, value,
};

#[tokio::test(flavor = "multi_thread")]
async fn of_two_connections_on_one_revision_exactly_one_writes() {
    let place = Place::open().await;
    let other = connect(&place.server).await;
    let mut revision = place.put("k", "begin").await;
    for round in 0..50 {
        let write = |bus: &NatsBus, who: &str| {
            let expect = ExpectRevision::Exactly(revision);
            let put = Put::new(format!("{who} {round}")).expect(expect);
            let (bus, who) = (bus.clone(), who.to_owned());
            async move { (bus.put(bucket(), key("k"), put).await, who) }
        };
        let (one, two) = tokio::join!(write(&place.bus, "one"), write(&other, "two"));
        let mut won = Vec::new();
        for (written, who) in [one, two] {
            match written {
                Ok(written) => won.push((written, who)),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
            }
        }
        let [(written, who)] = won.as_slice() else { panic!("round {round}: {won:?} won") };
        assert_eq!(place.value("k").await, Some(format!("{who} {round}")));
        assert!(*written > revision);
        revision = *written;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "the server's clock is held against this one")]
async fn a_value_is_there_for_its_time_and_gone_a_second_after_its_last_whole_one() {
    let place = Place::open().await;
    let mut lives = Vec::new();
    for ttl_ms in [1_000, 1_050, 1_400, 1_700, 1_999, 2_000, 2_600] {
        let place = &place;
        lives.push(async move {
            let (name, ttl) = (format!("k{ttl_ms}"), Duration::from_millis(ttl_ms));
            let keys = Filter::parse(&name).unwrap();
            let mut watch = place.bus.watch(bucket(), keys, Revision::START).await.unwrap();
            see_current(&mut watch).await;
            let begun = Instant::now();
            put(&place.bus, &name, Put::new("v").ttl(ttl)).await;
            let stored = Instant::now();
            assert_eq!(see_change(&mut watch).await.1, value("v"));
            assert_eq!(see_change(&mut watch).await.1, KeyState::Expired);
            assert!(begun.elapsed() >= ttl, "{ttl:?}: gone after {:?}", begun.elapsed());
            // The server counts whole seconds.
            let whole = Duration::from_secs(ttl_ms.div_ceil(1_000));
            let late = stored.elapsed().saturating_sub(whole);
            assert!(late < Duration::from_secs(1), "{ttl:?}: gone {late:?} late");
            assert_eq!(place.value(&name).await, None);
        });
    }
    futures_util::future::join_all(lives).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_keys_come_and_go() {
    let place = Place::open().await;
    let names: Vec<String> = (0..1_000).map(|n| format!("agent.{n}")).collect();
    let all = stream::iter(&names).for_each_concurrent(64, async |name| {
        place.put(name, name).await;
    });
    all.await;
    let mut watch = place.watch(Revision::START).await;
    let mut told: Vec<_> = see_current(&mut watch).await;
    assert!(told.is_sorted_by_key(|change| change.revision), "in the order of their writes");
    told.sort_by_key(|change| change.key.as_str()[6..].parse::<usize>().unwrap());
    let got: Vec<_> = told.iter().map(|change| change.key.as_str()).collect();
    assert_eq!(got, names);
    let all = stream::iter(&names).for_each_concurrent(64, async |name| place.delete(name).await);
    all.await;
    for _ in &names {
        assert_eq!(see_change(&mut watch).await.1, KeyState::Deleted);
    }
    let mut watch = place.watch(Revision::START).await;
    assert_eq!(see_current(&mut watch).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_what_is_not_there_writes_nothing() {
    let place = Place::open().await;
    place.delete("never").await;
    assert!(place.raw.get_stream("KV_STATE").await.is_err(), "no bucket was made");
    place.put("k", "v").await;
    place.delete("k").await;
    let before = place.state().await.last_sequence;
    place.delete("k").await;
    place.delete("never").await;
    assert_eq!(place.state().await.last_sequence, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mark_of_an_end_is_no_revision_to_write_on() {
    let place = Place::open().await;
    let put_at = place.put("k", "v").await;
    place.delete("k").await;
    let mut watch = place.watch(put_at).await;
    let WatchItem::Changed(end) = see(&mut watch).await else { panic!("a change first") };
    assert_eq!(end.state, KeyState::Deleted);
    for revision in [put_at, end.revision] {
        let expect = ExpectRevision::Exactly(revision);
        let written = place.bus.put(bucket(), key("k"), Put::new("w").expect(expect)).await;
        assert_eq!(written.unwrap_err().kind(), ErrorKind::Conflict, "{revision:?}");
        let deleted = place.bus.delete(bucket(), key("k"), expect).await;
        assert_eq!(deleted.unwrap_err().kind(), ErrorKind::Conflict, "{revision:?}");
    }
    let other = connect(&place.server).await;
    put(&other, "k", Put::new("new").expect(ExpectRevision::Absent)).await;
    assert_eq!(place.value("k").await, Some("new".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_of_an_earlier_life_of_the_bucket_is_none_of_this_one() {
    let place = Place::open().await;
    let earlier = place.put("k", "old").await;
    place.raw.delete_stream("KV_STATE").await.unwrap();
    for name in ["a", "b", "k"] {
        place.put(name, "new").await;
    }
    let expect = ExpectRevision::Exactly(earlier);
    let written = place.bus.put(bucket(), key("k"), Put::new("w").expect(expect)).await;
    assert_eq!(written.unwrap_err().kind(), ErrorKind::Conflict);
    let mut watch = place.watch(earlier).await;
    assert_eq!(see(&mut watch).await, WatchItem::Resync);
    assert_eq!(see_current(&mut watch).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_without_room_is_full() {
    let place = Place::open().await;
    let config = jetstream::stream::Config {
        name: "KV_STATE".to_owned(),
        subjects: vec!["$KV.STATE.>".to_owned()],
        max_messages: 2,
        max_messages_per_subject: 1,
        discard: jetstream::stream::DiscardPolicy::New,
        allow_direct: true,
        ..Default::default()
    };
    place.raw.create_stream(config).await.unwrap();
    place.put("a", "1").await;
    place.put("b", "1").await;
    let refused = place.bus.put(bucket(), key("c"), Put::new("1")).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Full);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_larger_than_the_server_takes_is_too_large() {
    let place = Place::open().await;
    let large = Put::new(vec![0; 4 * 1024 * 1024 + 1]);
    let refused = place.bus.put(bucket(), key("k"), large).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::TooLarge);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_user_may_not_is_denied_by_the_key() {
    let user = Arc::new(SigningKey::generate(NkeyKind::User, &SystemEntropy::new()).unwrap());
    let deny = ["$KV.STATE.secret", "$JS.API.DIRECT.GET.KV_STATE.$KV.STATE.secret"];
    let watch = "$JS.API.CONSUMER.CREATE.KV_STATE.*.$KV.STATE.secret";
    let publish = SubjectPermission {
        allow: Vec::new(),
        deny: deny.iter().copied().chain([watch]).map(str::to_owned).collect(),
    };
    let permissions = Some(Permissions { publish, ..Permissions::default() });
    let users = vec![NkeyUser { key: *user.public(), permissions }];
    let authorization = Authorization::Nkeys(users);
    let server = bus_testserver::TestServer::start_with(ServerConfig {
        authorization,
        ..ServerConfig::default()
    });
    let options = NatsOptions { auth: NatsAuth::Nkey(user), ..options(&server) };
    let bus = NatsBus::open(options).await.unwrap();
    put(&bus, "open", Put::new("v")).await;
    let secret = Filter::parse("secret").unwrap();
    let refusals = [
        bus.put(bucket(), key("secret"), Put::new("v")).await.map(drop),
        bus.get(bucket(), key("secret")).await.map(drop),
        bus.delete(bucket(), key("secret"), ExpectRevision::Any).await,
        bus.watch(bucket(), secret, Revision::START).await.map(drop),
    ];
    for refusal in refusals {
        assert_eq!(refusal.unwrap_err().kind(), ErrorKind::Denied);
    }
}
