//! The durable engine beside one file with one committer: the same bytes, the same sync promise.
//!
//! Rates, so higher is better. The raw side has neither ids nor subjects nor checksums: it is what
//! the disk gives to callers that wait, when one thread writes and syncs for all of them.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, anyhow};
use bus_core::{Bus, ConsumerSpec, Expect, Frame, FrameId, Retention, StreamSpec, Verdict};
use bus_disk::{DiskBus, DiskOptions};
use bus_subjects::{ConsumerName, Filter, StreamName, Subject};
use bytes::Bytes;
use tempfile::TempDir;
use tokio::{runtime::Runtime, task::JoinSet};

use crate::{
    case::{Case, Figures, wall_time},
    raw_log::RawLog,
};

pub(crate) const CASES: &[Case] = &[
    Case { name: "D1-durable-append-64-waiting", goal: Some(0.8), measure: || appends(64) },
    Case { name: "D1-durable-append-8-waiting", goal: None, measure: || appends(8) },
    Case { name: "D2-durable-append-1-waiting", goal: Some(0.8), measure: || appends(1) },
    Case { name: "D3-durable-queue-64", goal: Some(0.8), measure: queue },
];

/// Appends in a second by `writers` that each wait for their own answer, beside the raw log with
/// as many.
fn appends(writers: usize) -> Result<Figures> {
    let (mut raw, mut ours) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        raw.push(raw_appends(writers)?);
        ours.push(bus_appends(writers, round)?);
    }
    Ok(Figures { raw: median(raw)?, ours: median(ours)? })
}

/// Tasks in a second that 64 producers push and 64 members claim and acknowledge, every push and
/// every acknowledgement safe before its answer, beside as many records of the raw log: two a
/// task.
fn queue() -> Result<Figures> {
    let (mut raw, mut ours) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        raw.push(raw_appends(64)? / 2.0);
        ours.push(bus_queue(round)?);
    }
    Ok(Figures { raw: median(raw)?, ours: median(ours)? })
}

fn raw_appends(writers: usize) -> Result<f64> {
    let (runtime, dir) = (runtime()?, directory()?);
    let log = RawLog::create(&dir.path().join("raw"))?;
    let rate = runtime.block_on(async {
        let start = wall_time();
        let mut tasks = JoinSet::new();
        for _ in 0..writers {
            let log = Arc::clone(&log);
            tasks.spawn(async move {
                let record = record();
                for _ in 0..records(writers) {
                    log.append(&record).await?;
                }
                anyhow::Ok(())
            });
        }
        ended(tasks).await?;
        Ok(rate(writers * records(writers), start))
    });
    log.close();
    rate
}

fn bus_appends(writers: usize, round: usize) -> Result<f64> {
    let (runtime, dir) = (runtime()?, directory()?);
    runtime.block_on(async {
        let (bus, _) = open(&dir).await?;
        let start = wall_time();
        let mut tasks = JoinSet::new();
        for writer in 0..writers {
            let bus = bus.clone();
            tasks.spawn(async move {
                for number in 0..records(writers) {
                    bus.append(frame(round, writer, number)?, Expect::Any).await?;
                }
                anyhow::Ok(())
            });
        }
        ended(tasks).await?;
        let rate = rate(writers * records(writers), start);
        bus.close().await?;
        Ok(rate)
    })
}

fn bus_queue(round: usize) -> Result<f64> {
    let (runtime, dir) = (runtime()?, directory()?);
    runtime.block_on(async {
        let (bus, consumer) = open(&dir).await?;
        let start = wall_time();
        let mut tasks = JoinSet::new();
        for writer in 0..64 {
            let producer = bus.clone();
            tasks.spawn(async move {
                for number in 0..TASKS {
                    producer.append(frame(round, writer, number)?, Expect::Any).await?;
                }
                anyhow::Ok(())
            });
            let mut member = bus.consume(consumer.clone()).await?;
            tasks.spawn(async move {
                for _ in 0..TASKS {
                    let delivery = member.next().await.context("a member goes on")??;
                    delivery.settle(Verdict::Ack).await?;
                }
                anyhow::Ok(())
            });
        }
        ended(tasks).await?;
        let rate = rate(64 * TASKS, start);
        bus.close().await?;
        Ok(rate)
    })
}

async fn open(dir: &TempDir) -> Result<(DiskBus, ConsumerSpec)> {
    let bus = DiskBus::open(DiskOptions::new(dir.path().join("bus")))?;
    let (stream, filter) = (StreamName::parse("WORK")?, Filter::parse("vak.work.w1.*.task")?);
    let spec = StreamSpec::new(stream.clone(), vec![filter.clone()], Retention::WorkQueue);
    bus.declare(spec).await?;
    let (name, lease) = (ConsumerName::parse("coder")?, Duration::from_secs(30));
    Ok((bus, ConsumerSpec { stream, name, filter, lease }))
}

fn frame(round: usize, writer: usize, number: usize) -> Result<Frame> {
    let subject = Subject::parse("vak.work.w1.coder.task")?;
    let id = FrameId::parse(&format!("{round}-{writer}-{number}"))?;
    Ok(Frame::new(subject, id, record()))
}

async fn ended(mut tasks: JoinSet<Result<()>>) -> Result<()> {
    while let Some(ended) = tasks.join_next().await {
        ended.context("run a writer")??;
    }
    Ok(())
}

/// Beside the other files of the build: the folder for temporary files may be in memory.
fn directory() -> Result<TempDir> {
    let program = std::env::current_exe().context("find this program")?;
    let place = program.parent().context("find the folder of this program")?;
    tempfile::tempdir_in(place).context("make a directory")
}

fn runtime() -> Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().build().context("start a runtime")
}

fn record() -> Bytes {
    Bytes::from_static(&[b'x'; 1024])
}

fn rate(count: usize, start: Duration) -> f64 {
    count as f64 / wall_time().saturating_sub(start).as_secs_f64()
}

/// So many that a round takes some tenths of a second.
fn records(writers: usize) -> usize {
    match writers {
        64 => 400,
        8 => 800,
        _ => 1_500,
    }
}

fn median(mut rates: Vec<f64>) -> Result<f64> {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().ok_or_else(|| anyhow!("there must be a round"))
}

const TASKS: usize = 150;
const ROUNDS: usize = 5;
