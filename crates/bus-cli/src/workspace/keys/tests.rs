//! Secrets that are rotated and withdrawn, as the key rings of processes see them.

use bus_core::ErrorKind;
use bus_crypto::CryptoError;
use bus_subjects::WorkspaceId;

use super::*;
use crate::config::Config;

struct World {
    _dir: tempfile::TempDir,
    workspace: Workspace,
    secrets: Secrets,
}

fn world() -> World {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::locate(Some(&dir.path().join("data"))).unwrap();
    let workspace = Workspace::new(&home, &WorkspaceId::parse("w").unwrap()).unwrap();
    let secrets = Secrets::new(&Config::default(), &home);
    World { _dir: dir, workspace, secrets }
}

/// Whether a key is refused for the reason that receivers park a message for.
fn is_unknown(error: CryptoError) -> bool {
    bus_core::Error::from(error).kind() == ErrorKind::UnknownKey
}

#[test]
fn the_newest_secret_seals_and_older_ones_open() {
    let world = world();
    world.workspace.rotate().unwrap();
    let keyring = world.workspace.keyring(&world.secrets).unwrap();
    assert_eq!(keyring.sealing_key("w", "life").unwrap().key_id(), "w.v2.life");
    assert!(keyring.opening_key("w.v1.life").is_ok());
}

#[test]
fn everything_under_a_withdrawn_name_is_an_unknown_key() {
    let world = world();
    world.workspace.rotate().unwrap();
    world.workspace.withdraw("v1").unwrap();
    let keyring = world.workspace.keyring(&world.secrets).unwrap();
    for key_id in ["w.v1.life", "w.v1.other"] {
        assert!(is_unknown(keyring.opening_key(key_id).unwrap_err()));
    }
    assert!(keyring.opening_key("w.v2.life").is_ok());
}

#[test]
fn a_secret_that_never_was_is_an_unknown_key() {
    let world = world();
    let keyring = world.workspace.keyring(&world.secrets).unwrap();
    assert!(is_unknown(keyring.opening_key("w.v2.life").unwrap_err()));
}

#[test]
fn a_key_ring_in_use_is_brought_up_to_date() {
    let world = world();
    let keyring = world.workspace.keyring(&world.secrets).unwrap();
    let old = keyring.sealing_key("w", "life").unwrap();
    world.workspace.rotate().unwrap();
    world.workspace.refresh(&keyring).unwrap();
    assert_eq!(keyring.sealing_key("w", "life").unwrap().key_id(), "w.v2.life");
    assert!(old.seal_in_place(&SystemEntropy::new(), b"", &mut b"data".to_vec()).is_ok());
    world.workspace.withdraw("v1").unwrap();
    world.workspace.refresh(&keyring).unwrap();
    let refused = old.seal_in_place(&SystemEntropy::new(), b"", &mut b"data".to_vec());
    assert!(is_unknown(refused.unwrap_err()));
}

#[test]
fn only_one_spelling_of_a_file_is_a_secret() {
    let names = ["secret", "secret.v2", "secret.v2.withdrawn", "secret.v1.withdrawn"];
    assert!(names.iter().all(|name| SecretName::of_file(name).is_some()));
    let others = ["secret.v1", "secret.v02", "secret.v+2", "secret.v2.old", "secrets", "secret.v"];
    // `secret.v1` would be a second file of the name `v1`.
    assert_eq!(others.iter().find(|name| SecretName::of_file(name).is_some()), None);
}

#[test]
fn no_secret_is_withdrawn_while_the_one_that_seals_is_damaged() {
    let world = world();
    let newest = world.workspace.rotate().unwrap();
    std::fs::write(world.workspace.dir.path().join(newest.file()), "short").unwrap();
    assert!(world.workspace.withdraw("v1").is_err());
    assert!(world.workspace.dir.read(&SecretName::FIRST.file()).is_ok());
}
