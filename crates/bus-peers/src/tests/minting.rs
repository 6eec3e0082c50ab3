//! How ids are drawn, where the registry is of one bus alone.

use std::sync::Mutex;

use super::support::{Loaded, Stage};
use crate::{MINTS_MAX, PeerOptions};

#[tokio::test]
async fn register_re_mints_on_a_suffix_collision() {
    // Eight draws for the first, of which it takes one; the first seven of the second are taken.
    let draws = [vec![7; MINTS_MAX], vec![7; MINTS_MAX - 1], vec![8]].concat();
    let entropy = std::sync::Arc::new(Loaded(Mutex::new(draws)));
    let stage = Stage::with(PeerOptions { entropy, ..PeerOptions::default() });
    let ids = [stage.peer("coder").await.id, stage.peer("coder").await.id];
    assert_eq!(ids, ["coder~00000007", "coder~00000008"]);
}

#[tokio::test]
async fn register_fails_loudly_when_every_mint_collides() {
    let entropy = std::sync::Arc::new(Loaded(Mutex::new(vec![7])));
    let stage = Stage::with(PeerOptions { entropy, ..PeerOptions::default() });
    let coder = stage.peer("coder").await;
    let refused = stage.bus.registry().register("coder", None).await.unwrap_err();
    assert_eq!(refused.code(), "instance-id-collision");
    let live = stage.bus.registry().live().await.unwrap();
    assert_eq!(live.into_iter().map(|live| live.meta).collect::<Vec<_>>(), [coder.meta]);
}

#[tokio::test]
async fn the_id_of_an_instance_that_is_gone_is_not_given_out_again() {
    let entropy = std::sync::Arc::new(Loaded(Mutex::new(vec![7])));
    let stage = Stage::with(PeerOptions { entropy, ..PeerOptions::default() });
    let coder = stage.peer("coder").await;
    stage.bus.deregister(&coder.id, &coder.secret).await.unwrap();
    let refused = stage.bus.registry().register("coder", None).await.unwrap_err();
    assert_eq!(refused.code(), "instance-id-collision");
}
