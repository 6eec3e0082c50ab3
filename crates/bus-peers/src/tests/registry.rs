//! Ids, leases, and who is meant by a target.

use std::time::Duration;

use super::support::{Stage, definition, instance, others_turn};
use crate::{BusError, InstanceSecret, Limits, PeerOptions};

#[tokio::test]
async fn list_returns_live_instances() {
    let stage = Stage::new();
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let live = stage.bus.registry().live().await.unwrap();
    let metas: Vec<_> = live.into_iter().map(|live| live.meta).collect();
    assert_eq!(metas, [chief.meta, coder.meta]);
}

#[tokio::test]
async fn register_mints_prefixed_id() {
    let stage = Stage::new();
    let coder = stage.peer("coder").await;
    let suffix = coder.id.strip_prefix("coder~").unwrap();
    assert_eq!(suffix.len(), 8);
    assert!(suffix.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f')), "{suffix}");
}

#[tokio::test]
async fn register_rejects_bad_definition() {
    let stage = Stage::new();
    let reserved = "~#?/\\%&=+:@[]\"'<>".chars().map(|c| format!("co{c}der"));
    let blank = ["", "co der", "coder\n", "co\u{2003}der", "co\u{7}der"].map(str::to_owned);
    for id in reserved.chain(blank) {
        let refused = stage.bus.registry().register(&id, None).await;
        assert!(matches!(refused, Err(BusError::InvalidDefinitionId { .. })), "{id:?}");
    }
    let long = stage.bus.registry().register(&"c".repeat(129), None).await;
    assert!(matches!(long, Err(BusError::TooLarge { field: "definition_id", .. })));
    assert_eq!(stage.bus.registry().live().await.unwrap(), []);
}

#[tokio::test]
async fn instance_id_is_url_path_safe() {
    let stage = Stage::new();
    let id = stage.peer("coder-1.v2_x").await.id;
    let unreserved = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    assert!(id.chars().all(unreserved), "{id}");
}

#[tokio::test]
async fn the_project_is_recorded() {
    let stage = Stage::new();
    let (meta, _secret) = stage.bus.registry().register("coder", Some("site")).await.unwrap();
    assert_eq!(meta.project.as_deref(), Some("site"));
    assert_eq!(meta.registered_at, "2026-05-01T12:00:00.000000000Z");
}

#[tokio::test]
async fn resolve_definition_picks_most_recent() {
    let stage = Stage::new();
    let _older = stage.peer("coder").await;
    let newer = stage.peer("coder").await;
    let found = stage.bus.registry().resolve_definition("coder").await.unwrap();
    assert_eq!(found.meta, newer.meta);
}

#[tokio::test]
async fn a_newer_instance_that_nobody_listens_for_hides_no_attached_one() {
    let stage = Stage::new();
    let older = stage.peer("coder").await;
    let _inbox = stage.inbox(&older).await;
    let _crashed = stage.peer("coder").await;
    let found = stage.bus.registry().resolve_definition("coder").await.unwrap();
    assert_eq!(found.meta, older.meta);
}

#[tokio::test]
async fn the_newest_of_those_that_are_attached_is_meant() {
    let stage = Stage::new();
    let (older, newer) = (stage.peer("coder").await, stage.peer("coder").await);
    let (_one, two) = (stage.inbox(&older).await, stage.inbox(&newer).await);
    let registry = stage.bus.registry();
    assert_eq!(registry.resolve_definition("coder").await.unwrap().meta, newer.meta);
    drop(two);
    assert_eq!(registry.resolve_definition("coder").await.unwrap().meta, older.meta);
}

#[tokio::test]
async fn resolve_definition_missing_errors() {
    let stage = Stage::new();
    let missing = stage.bus.registry().resolve_definition("coder").await;
    assert_eq!(missing, Err(BusError::NoLiveInstance { definition_id: "coder".into() }));
}

#[tokio::test]
async fn deregister_makes_instance_gone() {
    let stage = Stage::new();
    let coder = stage.peer("coder").await;
    assert_eq!(stage.bus.deregister(&coder.id, &coder.secret).await, Ok(true));
    assert_eq!(stage.bus.deregister(&coder.id, &coder.secret).await, Ok(false));
    let gone = stage.bus.registry().resolve_instance(&coder.id).await;
    assert_eq!(gone, Err(BusError::InstanceGone { instance_id: coder.id }));
}

#[tokio::test]
async fn bypass_to_dead_instance_errors_not_falls_back() {
    let stage = Stage::new();
    let (coder, _sibling) = (stage.peer("coder").await, stage.peer("coder").await);
    stage.bus.deregister(&coder.id, &coder.secret).await.unwrap();
    let found = stage.bus.registry().resolve(&instance(&coder)).await;
    assert_eq!(found, Err(BusError::InstanceGone { instance_id: coder.id }));
}

#[tokio::test]
async fn bypass_failure_is_distinguishable_from_never_existed() {
    let stage = Stage::new();
    let coder = stage.peer("coder").await;
    stage.bus.deregister(&coder.id, &coder.secret).await.unwrap();
    let registry = stage.bus.registry();
    let bypass = registry.resolve(&instance(&coder)).await.unwrap_err();
    let by_definition = registry.resolve(&definition("coder")).await.unwrap_err();
    assert_eq!((bypass.code(), by_definition.code()), ("instance-gone", "no-live-instance"));
}

#[tokio::test]
async fn a_registration_ends_when_nothing_is_heard_of_it() {
    let stage = Stage::new();
    let coder = stage.peer("coder").await;
    let mut inbox = stage.inbox(&coder).await;
    stage.clock.pass(Duration::from_secs(90));
    let gone = BusError::InstanceGone { instance_id: coder.id.clone() };
    assert_eq!(stage.bus.registry().resolve_instance(&coder.id).await, Err(gone.clone()));
    assert_eq!(stage.bus.heartbeat(&coder.id, &coder.secret).await, Err(gone));
    assert_eq!(inbox.recv().await, None);
}

#[tokio::test]
async fn a_sweep_ends_readers_of_a_bus_on_which_nothing_happens() {
    let stage = Stage::new();
    let coder = stage.peer("coder").await;
    let mut inbox = stage.inbox(&coder).await;
    stage.clock.pass(Duration::from_secs(90));
    stage.bus.sweep();
    assert_eq!(inbox.recv().await, None);
    assert!(!inbox.renew());
}

#[tokio::test]
async fn whatever_an_instance_does_moves_its_lease_on() {
    let stage = Stage::new();
    let coder = stage.peer("coder").await;
    let step = Duration::from_secs(60);
    stage.clock.pass(step);
    stage.bus.heartbeat(&coder.id, &coder.secret).await.unwrap();
    stage.clock.pass(step);
    let inbox = stage.inbox(&coder).await;
    stage.clock.pass(step);
    assert!(inbox.renew());
    others_turn().await;
    stage.clock.pass(step);
    stage.send(&coder, &definition("coder"), "to myself").await.unwrap();
    others_turn().await;
    stage.clock.pass(step);
    assert!(stage.bus.registry().resolve_instance(&coder.id).await.is_ok());
}

#[tokio::test]
async fn a_full_registry_takes_the_next_when_one_is_over() {
    let limits = Limits { instances_max: 2, ..Limits::default() };
    let stage = Stage::with(PeerOptions { limits, ..PeerOptions::default() });
    let (_one, two) = (stage.peer("coder").await, stage.peer("coder").await);
    let refused = stage.bus.registry().register("coder", None).await.unwrap_err();
    assert_eq!(refused, BusError::Full { what: "instances", max: 2 });
    stage.bus.deregister(&two.id, &two.secret).await.unwrap();
    stage.peer("coder").await;
}

#[tokio::test]
async fn ten_thousand_registrations_are_told_apart() {
    let stage = Stage::new();
    let mut ids = std::collections::HashSet::new();
    for _ in 0..10_000 {
        ids.insert(stage.peer("coder").await.id);
    }
    assert_eq!(ids.len(), 10_000);
    assert_eq!(stage.bus.registry().live().await.unwrap().len(), 10_000);
}

#[tokio::test]
async fn a_secret_is_in_no_debug_text() {
    let stage = Stage::new();
    let coder = stage.peer("coder").await;
    let _inbox = stage.inbox(&coder).await;
    let shown = format!("{:?} {:?} {:?}", coder.secret, coder.secret.hash(), stage.bus);
    assert!(!shown.contains(coder.secret.expose()), "{shown}");
    assert!(shown.contains("InstanceSecret(..)"));
}

#[tokio::test]
async fn a_secret_is_what_its_text_says() {
    let stage = Stage::new();
    let coder = stage.peer("coder").await;
    let again = InstanceSecret::from_text(coder.secret.expose().to_owned());
    assert!(stage.bus.heartbeat(&coder.id, &again).await.is_ok());
}
