//! Buckets of current state (N7): put, get, and from the put to who watches.
//!
//! Microseconds, the middle of a round, one call after the other over a hundred keys with values of
//! 256 bytes. The watcher has a connection of its own.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use async_nats::jetstream::{
    self,
    kv::{self, Store},
};
use bus_core::{Buckets, KeyState, Put, Revision, Watch, WatchItem};
use bus_nats::NatsBus;
use bus_subjects::{BucketKey, BucketName, Filter};
use bytes::Bytes;
use futures_util::TryStreamExt;

use super::{Ground, Site, middle};
use crate::{
    case::{Case, Figures, wall_time},
    fanout::{in_task, in_turn},
};

pub(crate) const TIMES: &[Case] = &[
    Case { name: "N7-bucket-put-p50", goal: Some(1.15), measure: puts },
    Case { name: "N7-bucket-get-p50", goal: Some(1.15), measure: gets },
    Case { name: "N7-bucket-put-to-watcher-p50", goal: Some(1.15), measure: watched },
];

fn puts() -> Result<Figures> {
    let (ground, raw, ours) = sides()?;
    in_turn(
        || ground.run(in_task(raw_puts(raw.clone()))),
        || ground.run(in_task(our_puts(ours.clone()))),
    )
}

fn gets() -> Result<Figures> {
    let (ground, raw, ours) = sides()?;
    let filled = async { tokio::try_join!(raw_puts(raw.clone()), our_puts(ours.clone())) };
    ground.run(filled)?;
    in_turn(
        || ground.run(in_task(raw_gets(raw.clone()))),
        || ground.run(in_task(our_gets(ours.clone()))),
    )
}

fn watched() -> Result<Figures> {
    let (ground, raw, ours) = sides()?;
    let site = ground.site();
    in_turn(
        || {
            ground.run(async {
                let context = jetstream::new(site.client().await?);
                let watch = context.get_key_value(RAW_BUCKET).await?.watch_all().await?;
                in_task(raw_watched(raw.clone(), watch)).await
            })
        },
        || {
            ground.run(async {
                let bus = site.bus().await?;
                let keys = Filter::parse(">")?;
                let mut watch = bus.watch(bucket()?, keys, Revision::START).await?;
                while watch.next().await.context("the watch goes on")?? != WatchItem::Current {}
                in_task(our_watched(ours.clone(), watch)).await
            })
        },
    )
}

fn sides() -> Result<(Ground, Store, NatsBus)> {
    let ground = Ground::new()?;
    let (raw, ours) = ground
        .run(async { anyhow::Ok((raw_store(ground.site()).await?, ground.site().bus().await?)) })?;
    Ok((ground, raw, ours))
}

async fn raw_store(site: &Site) -> Result<Store> {
    let context = jetstream::new(site.client().await?);
    let config = kv::Config { bucket: RAW_BUCKET.to_owned(), ..kv::Config::default() };
    Ok(context.create_key_value(config).await?)
}

async fn raw_puts(store: Store) -> Result<f64> {
    let mut times = Vec::with_capacity(CALLS);
    for number in 0..CALLS {
        let key = key(number);
        let start = wall_time();
        store.put(key, VALUE).await?;
        times.push(since(start));
    }
    middle(times)
}

async fn our_puts(bus: NatsBus) -> Result<f64> {
    let bucket = bucket()?;
    let mut times = Vec::with_capacity(CALLS);
    for number in 0..CALLS {
        let key = BucketKey::parse(&key(number))?;
        let start = wall_time();
        bus.put(bucket.clone(), key, Put::new(VALUE)).await?;
        times.push(since(start));
    }
    middle(times)
}

async fn raw_gets(store: Store) -> Result<f64> {
    let mut times = Vec::with_capacity(CALLS);
    for number in 0..CALLS {
        let key = key(number);
        let start = wall_time();
        let value = store.get(key).await?.context("the key holds a value")?;
        times.push(since(start));
        ensure!(value == VALUE, "not the value");
    }
    middle(times)
}

async fn our_gets(bus: NatsBus) -> Result<f64> {
    let bucket = bucket()?;
    let mut times = Vec::with_capacity(CALLS);
    for number in 0..CALLS {
        let key = BucketKey::parse(&key(number))?;
        let start = wall_time();
        let entry = bus.get(bucket.clone(), key).await?.context("the key holds a value")?;
        times.push(since(start));
        ensure!(entry.value == VALUE, "not the value");
    }
    middle(times)
}

/// From before the put until the watcher has the change; the put's own answer is awaited as well.
async fn raw_watched(store: Store, mut watch: kv::Watch) -> Result<f64> {
    let mut times = Vec::with_capacity(CALLS);
    for number in 0..CALLS {
        let key = key(number);
        let start = wall_time();
        let seeing = async {
            let entry = watch.try_next().await?.context("the watch goes on")?;
            anyhow::Ok((entry, since(start)))
        };
        let putting = async { anyhow::Ok(store.put(&key, VALUE).await?) };
        let ((entry, took), _revision) = tokio::try_join!(seeing, putting)?;
        ensure!(entry.key == key, "not the change");
        times.push(took);
    }
    middle(times)
}

async fn our_watched(bus: NatsBus, mut watch: Watch) -> Result<f64> {
    let bucket = bucket()?;
    let mut times = Vec::with_capacity(CALLS);
    for number in 0..CALLS {
        let key = BucketKey::parse(&key(number))?;
        let start = wall_time();
        let seeing = async {
            let item = watch.next().await.context("the watch goes on")??;
            anyhow::Ok((item, since(start)))
        };
        let putting = async {
            let put = bus.put(bucket.clone(), key.clone(), Put::new(VALUE));
            anyhow::Ok(put.await?)
        };
        let ((item, took), revision) = tokio::try_join!(seeing, putting)?;
        let WatchItem::Changed(change) = item else { anyhow::bail!("no change but {item:?}") };
        ensure!(change.revision == revision, "not the change");
        ensure!(change.state == KeyState::Value(VALUE), "not the value");
        times.push(took);
    }
    middle(times)
}

fn bucket() -> Result<BucketName> {
    Ok(BucketName::parse("bench")?)
}

fn key(number: usize) -> String {
    format!("key-{}", number % KEYS)
}

fn since(start: Duration) -> Duration {
    wall_time().saturating_sub(start)
}

const RAW_BUCKET: &str = "raw";
const CALLS: usize = 2_000;
const KEYS: usize = 100;
const VALUE: Bytes = Bytes::from_static(&[b'v'; 256]);
