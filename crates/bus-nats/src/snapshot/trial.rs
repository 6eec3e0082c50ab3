//! A backup tried out: a server of its own takes every stream, and each must become what it was.

use std::{path::Path, sync::Arc};

use bus_core::{Bus as _, Error, ErrorKind, Result};
use bus_crypto::{NkeyKind, SigningKey, SystemEntropy};
use serde_json::Value;

use super::{
    Backup, BackupStep, RESTORE,
    give::Give,
    manifest::{self, Object},
    verified,
};
use crate::{
    bus::NatsBus,
    options::{NatsAuth, NatsOptions},
    server::{Authorization, NatsServer, NkeyUser, ServerConfig, ServerOptions},
};

/// Verifies the backup in `dir` as [`verify_backup`](super::verify_backup) does, and then gives
/// each stream to a server that is started for that alone, with what `options` say of program,
/// directory and patience. On disk that takes as much room as the largest stream.
///
/// The directory of `options` is the caller's to remove. The server ends with this call, also when
/// the future is dropped.
///
/// # Errors
/// As [`verify_backup`](super::verify_backup); `Corrupt` with the stream that a server cannot make
/// or makes otherwise; `Full`, `Unavailable` (the server, its directory).
pub async fn try_backup(
    dir: &Path,
    options: ServerOptions,
    told: &mut (dyn FnMut(BackupStep<'_>) + Send),
) -> Result<Backup> {
    let (folder, manifest) = verified(dir).await?;
    let streams = manifest.folder(&folder)?;
    let (server, bus) = start(options).await?;
    let api = bus.api();
    for (at, entry) in manifest.streams.iter().enumerate() {
        let (number, of) = (at as u64 + 1, manifest.streams.len() as u64);
        let so_far = |bytes| told(BackupStep { stream: &entry.stream, number, streams: of, bytes });
        let file = manifest::open(&streams, at, &entry.stream)?;
        let give = Give { connection: api.connection(), entry, config: tame(&entry.config) };
        give.read(file, so_far).await?;
        let deleted = api.ask::<Value>(RESTORE, &format!("STREAM.DELETE.{}", entry.stream)).await;
        deleted.map_err(|failure| failure.into_error(RESTORE, &entry.stream))?;
    }
    bus.close().await?;
    drop(server);
    Ok(manifest.sum())
}

/// Starts the server, which only this process knows the key of.
#[expect(clippy::disallowed_methods, reason = "an engine starts its own tasks")]
async fn start(options: ServerOptions) -> Result<(NatsServer, NatsBus)> {
    let key = SigningKey::generate(NkeyKind::User, &SystemEntropy::new()).map_err(|error| {
        Error::new(ErrorKind::Unavailable, RESTORE, "no randomness").because(error)
    })?;
    let user = NkeyUser { key: *key.public(), permissions: None };
    let config = ServerConfig {
        name: "vakbus-trial".to_owned(),
        authorization: Authorization::Nkeys(vec![user]),
        ..ServerConfig::default()
    };
    let options = ServerOptions { config, ..options };
    let starting = tokio::task::spawn_blocking(move || NatsServer::start(options)).await;
    let started = starting.map_err(|error| {
        Error::new(ErrorKind::Unavailable, RESTORE, "the starter of the server broke")
            .because(error)
    })?;
    let server = started.map_err(|error| {
        let why = format!("the server for the trial does not start: {error}");
        Error::new(ErrorKind::Unavailable, RESTORE, why).because(error)
    })?;
    let options =
        NatsOptions { auth: NatsAuth::Nkey(Arc::new(key)), ..NatsOptions::new(server.url()) };
    let bus = NatsBus::open(options).await?;
    Ok((server, bus))
}

/// A configuration for one server alone, on which nothing ends by itself, comes from elsewhere or
/// goes there.
fn tame(config: &Object) -> Object {
    let is_wild = |name: &str| WILD.contains(&name);
    let kept = config.iter().filter(|(name, _)| !is_wild(name));
    let mut tame: Object = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    tame.insert("num_replicas".to_owned(), Value::from(1));
    tame.insert("max_age".to_owned(), Value::from(0));
    tame
}

const WILD: [&str; 8] = [
    "placement",
    "mirror",
    "mirror_direct",
    "sources",
    "republish",
    "subject_transform",
    "allow_msg_ttl",
    "subject_delete_marker_ttl",
];
