//! Large values (N7): 16 MiB put and got.
//!
//! Megabytes in a second. Ours is the output of a task on its way into the bus and back: sealed
//! piece by piece, every piece hashed into a tree and verified before it is opened. The bare
//! client's object store hashes the whole and seals nothing.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use async_nats::jetstream::{
    self,
    object_store::{self, ObjectStore},
};
use bus_core::{ResultOutput, Results, Seq, TaskResult};
use bus_envelope::EventHash;
use bus_subjects::Role;
use tokio::io::AsyncReadExt;

use super::{Ground, Site};
use crate::{
    case::{Case, Figures, wall_time},
    fanout::{in_task, in_turn},
    fleet::Fleet,
};

pub(crate) const RATES: &[Case] = &[
    Case { name: "N7-sealed-object-put", goal: Some(0.75), measure: puts },
    Case { name: "N7-sealed-object-get", goal: Some(0.75), measure: gets },
];

fn puts() -> Result<Figures> {
    let (ground, raw, ours) = sides()?;
    in_turn(
        || ground.run(in_task(raw_put(raw.clone()))),
        || ground.run(in_task(our_put_rate(ours.clone()))),
    )
}

async fn our_put_rate(results: Results) -> Result<f64> {
    our_put(results).await.map(|(rate, _)| rate)
}

fn gets() -> Result<Figures> {
    let (ground, raw, ours) = sides()?;
    let (_rate, output) = ground.run(our_put(ours.clone()))?;
    ground.run(raw_put(raw.clone()))?;
    in_turn(
        || ground.run(in_task(raw_get(raw.clone()))),
        || ground.run(in_task(our_get(ours.clone(), output.clone()))),
    )
}

fn sides() -> Result<(Ground, ObjectStore, Results)> {
    let ground = Ground::new()?;
    let (raw, ours) = ground.run(async {
        anyhow::Ok((raw_store(ground.site()).await?, our_store(ground.site()).await?))
    })?;
    Ok((ground, raw, ours))
}

async fn raw_store(site: &Site) -> Result<ObjectStore> {
    let context = jetstream::new(site.client().await?);
    let config =
        object_store::Config { bucket: "raw".to_owned(), ..object_store::Config::default() };
    Ok(context.create_object_store(config).await?)
}

async fn our_store(site: &Site) -> Result<Results> {
    let bus = Arc::new(site.bus().await?);
    Ok(Results::new(Fleet::new()?.agent(bus, "coder-1", Role::Worker)?))
}

async fn raw_put(store: ObjectStore) -> Result<f64> {
    let content = content();
    let start = wall_time();
    store.put("object", &mut content.as_slice()).await?;
    Ok(megabytes_a_second(start))
}

async fn raw_get(store: ObjectStore) -> Result<f64> {
    let start = wall_time();
    let (mut object, mut part, mut bytes) = (store.get("object").await?, Vec::new(), 0);
    part.resize(PART_BYTES, 0);
    loop {
        let count = object.read(&mut part).await?;
        if count == 0 {
            break;
        }
        bytes += count;
    }
    ensure!(bytes == BYTES, "the object has {bytes} bytes");
    Ok(megabytes_a_second(start))
}

async fn our_put(results: Results) -> Result<(f64, TaskResult)> {
    let content = content();
    let start = wall_time();
    let mut writer = results.writer("task-1")?;
    for part in content.chunks(PART_BYTES) {
        writer.write(part).await?;
    }
    let output = writer.finish().await?;
    let rate = megabytes_a_second(start);
    ensure!(matches!(output, ResultOutput::Blob { .. }), "the output is a blob");
    let result = TaskResult {
        task_id: "task-1".to_owned(),
        task: EventHash::of(b"task"),
        attempt: 1,
        worker: bus_subjects::AgentId::parse("coder-1")?,
        session: bus_subjects::SessionId::parse("session-7")?,
        receipt: Some(Seq(1)),
        stderr_hash: EventHash::of(b""),
        output,
        left_out: None,
    };
    Ok((rate, result))
}

async fn our_get(results: Results, result: TaskResult) -> Result<f64> {
    let start = wall_time();
    let mut reader = results.output(&result).await?.context("the output is there")?;
    let mut bytes = 0;
    while let Some(part) = reader.next().await {
        bytes += part?.len();
    }
    ensure!(bytes == BYTES, "the output has {bytes} bytes");
    Ok(megabytes_a_second(start))
}

fn content() -> Vec<u8> {
    (0..BYTES).map(|at| (at / 251) as u8).collect()
}

fn megabytes_a_second(start: std::time::Duration) -> f64 {
    BYTES as f64 / 1e6 / wall_time().saturating_sub(start).as_secs_f64()
}

const BYTES: usize = 16 << 20;
const PART_BYTES: usize = 64 << 10;
