//! Live fan-out beside tokio's broadcast channel: the same frames, window and workers.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::{Context, Result, anyhow, ensure};
use bus_core::{Bus, FeedItem, Frame, FrameId, Overflow, Subscription};
use bus_mem::InMemoryBus;
use bus_subjects::{Filter, Subject};
use tokio::{
    runtime::{Builder, Runtime},
    sync::{Notify, broadcast},
    task::JoinSet,
};

use crate::case::{Case, Figures, wall_time};

/// Deliveries in a second: the publisher waits until all have seen a window, then goes on.
pub(crate) const RATES: &[Case] = &[
    Case { name: "fan-out-1", goal: Some(0.7), measure: || rate(1, 2) },
    Case { name: "fan-out-8", goal: Some(0.8), measure: || rate(8, 2) },
    Case { name: "fan-out-64", goal: Some(0.8), measure: || rate(64, 2) },
    Case { name: "fan-out-1000", goal: Some(0.8), measure: || rate(1000, 2) },
    Case { name: "fan-out-1-one-worker", goal: Some(0.7), measure: || rate(1, 1) },
    Case { name: "fan-out-8-one-worker", goal: Some(0.8), measure: || rate(8, 1) },
    Case { name: "fan-out-64-one-worker", goal: Some(0.8), measure: || rate(64, 1) },
    Case { name: "fan-out-1000-one-worker", goal: Some(0.8), measure: || rate(1000, 1) },
];

fn rate(subscribers: usize, workers: usize) -> Result<Figures> {
    let windows = (DELIVERIES / (WINDOW * subscribers)).max(4);
    let deliveries = (windows * WINDOW * subscribers) as f64;
    in_turn(
        || Ok(deliveries / on(workers)?.block_on(broadcast_windows(subscribers, windows))?),
        || Ok(deliveries / on(workers)?.block_on(bus_windows(subscribers, windows))?),
    )
}

/// Seconds that the broadcast channel takes.
async fn broadcast_windows(subscribers: usize, windows: usize) -> Result<f64> {
    let (sender, _) = broadcast::channel::<Arc<Frame>>(WINDOW);
    let seen = Arc::new(Seen::by(subscribers));
    let mut readers = JoinSet::new();
    for _ in 0..subscribers {
        let (mut receiver, seen) = (sender.subscribe(), Arc::clone(&seen));
        readers.spawn(async move {
            for _ in 0..windows {
                for _ in 0..WINDOW {
                    let frame = receiver.recv().await?;
                    read(&frame)?;
                }
                seen.window();
            }
            Ok(())
        });
    }
    let frame = frame()?;
    let seconds = in_task(async move {
        let start = wall_time();
        for _ in 0..windows {
            for _ in 0..WINDOW {
                sender.send(Arc::new(frame.clone()))?;
            }
            seen.by_all().await;
        }
        Ok(wall_time().saturating_sub(start).as_secs_f64())
    });
    finish(seconds.await?, readers).await
}

/// Seconds that the embedded bus takes.
async fn bus_windows(subscribers: usize, windows: usize) -> Result<f64> {
    let bus = InMemoryBus::new();
    let seen = Arc::new(Seen::by(subscribers));
    let mut readers = JoinSet::new();
    for _ in 0..subscribers {
        let (mut subscription, seen) = (listen(&bus, WINDOW).await?, Arc::clone(&seen));
        readers.spawn(async move {
            for _ in 0..windows {
                for _ in 0..WINDOW {
                    match subscription.next().await {
                        Some(FeedItem::Frame(frame)) => read(&frame)?,
                        other => return Err(anyhow!("a window holds {other:?}")),
                    }
                }
                seen.window();
            }
            Ok(())
        });
    }
    let frame = frame()?;
    let seconds = in_task(async move {
        let start = wall_time();
        for _ in 0..windows {
            for _ in 0..WINDOW {
                bus.publish(frame.clone()).await?;
            }
            seen.by_all().await;
        }
        Ok(wall_time().saturating_sub(start).as_secs_f64())
    });
    finish(seconds.await?, readers).await
}

async fn finish(seconds: f64, mut readers: JoinSet<Result<()>>) -> Result<f64> {
    while let Some(read) = readers.join_next().await {
        read??;
    }
    Ok(seconds)
}

/// Runs `work` as a task of the runtime, as its subscribers are.
///
/// # Errors
/// What it reports.
pub(crate) async fn in_task<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let mut task = JoinSet::new();
    task.spawn(work);
    task.join_next().await.context("the task is gone")??
}

/// Measures both ways in turn, so that whatever disturbs the machine disturbs both; the first round
/// of each only warms up.
///
/// # Errors
/// What a way reports.
pub(crate) fn in_turn(
    mut raw: impl FnMut() -> Result<f64>,
    mut ours: impl FnMut() -> Result<f64>,
) -> Result<Figures> {
    let (_warm, _up) = (raw()?, ours()?);
    let (mut raws, mut owns) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        raws.push(raw()?);
        owns.push(ours()?);
    }
    Ok(Figures { raw: median(raws), ours: median(owns) })
}

/// A runtime with so many threads.
///
/// # Errors
/// The system gives no threads.
pub(crate) fn on(workers: usize) -> Result<Runtime> {
    Ok(Builder::new_multi_thread().worker_threads(workers).enable_time().build()?)
}

/// Subscribes to the subject of [`frame`].
///
/// # Errors
/// None while the bus is open.
pub(crate) async fn listen(bus: &InMemoryBus, capacity: usize) -> Result<Subscription> {
    let capacity = NonZeroUsize::new(capacity).ok_or_else(|| anyhow!("no capacity"))?;
    Ok(bus.subscribe(Filter::parse(SUBJECT)?, Overflow::DropOldest { capacity }).await?)
}

/// A frame with a body of 256 bytes, which both ways copy for each message.
///
/// # Errors
/// None: its parts are valid.
pub(crate) fn frame() -> Result<Frame> {
    Ok(Frame::new(Subject::parse(SUBJECT)?, FrameId::parse("f1")?, vec![BYTE; 256]))
}

/// Reads a frame as a subscriber would, at both ends of its body.
///
/// # Errors
/// It is not the one that was published.
pub(crate) fn read(frame: &Frame) -> Result<()> {
    ensure!(frame.body.first() == Some(&BYTE) && frame.body.last() == Some(&BYTE), "not ours");
    Ok(())
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(ROUNDS / 2).copied().unwrap_or(f64::NAN)
}

/// How many subscribers have seen the window.
struct Seen {
    subscribers: usize,
    by: AtomicUsize,
    all: Notify,
}

impl Seen {
    fn by(subscribers: usize) -> Self {
        Self { subscribers, by: AtomicUsize::new(0), all: Notify::new() }
    }

    fn window(&self) {
        if self.by.fetch_add(1, Ordering::AcqRel) + 1 == self.subscribers {
            self.by.store(0, Ordering::Release);
            self.all.notify_one();
        }
    }

    async fn by_all(&self) {
        self.all.notified().await;
    }
}

/// As many frames as a subscriber may have waiting.
pub(crate) const WINDOW: usize = 256;
/// An odd number, so that the median is one of them.
const ROUNDS: usize = 7;
const DELIVERIES: usize = 1_000_000;
const SUBJECT: &str = "vak.events.w1.s1.tokens";
const BYTE: u8 = 0x5a;
