//! What live subscribers cost: their publisher while they lag, and the machine while they idle.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use bus_core::{Bus, FeedItem, Frame, Overflow, Subscription};
use bus_mem::InMemoryBus;
use bus_subjects::Filter;
use rustix::param::page_size;
use tokio::{
    sync::{
        broadcast::{self, error::RecvError},
        mpsc,
    },
    task::{JoinSet, yield_now},
};

use crate::{
    case::{Case, Figures, processor_time, wall_time},
    fanout::{WINDOW, frame, in_task, in_turn, listen, on, read},
};

/// Nanoseconds a publish costs, and bytes a subscription.
pub(crate) const COSTS: &[Case] = &[
    // First, while no other case has left memory that could be used again.
    Case { name: "idle-subscription-bytes", goal: Some(1.0), measure: || idle(false) },
    Case { name: "idle-subscription-bytes-own-filter", goal: Some(1.0), measure: || idle(true) },
    Case { name: "publish-none-reads-1", goal: None, measure: || unread(1) },
    Case { name: "publish-none-reads-8", goal: None, measure: || unread(8) },
    Case { name: "publish-none-reads-64", goal: None, measure: || unread(64) },
    Case { name: "publish-none-reads-1000", goal: None, measure: || unread(1000) },
    Case { name: "publish-none-reads-growth", goal: Some(1.1), measure: unread_growth },
    Case { name: "publish-never-waits-1", goal: Some(1.0), measure: || free_running(1) },
    Case { name: "publish-never-waits-8", goal: Some(1.0), measure: || free_running(8) },
    Case { name: "publish-never-waits-64", goal: Some(1.0), measure: || free_running(64) },
    Case { name: "publish-never-waits-1000", goal: Some(1.0), measure: || free_running(1000) },
];

/// Nobody reads before everything was published; then all count what they missed. The publisher is
/// alone on its thread, so its time is the processor's.
fn unread(subscribers: usize) -> Result<Figures> {
    in_turn(
        || on(1)?.block_on(in_task(broadcast_unread(subscribers))),
        || on(1)?.block_on(in_task(bus_unread(subscribers))),
    )
}

/// What a thousand lagging subscribers cost their publisher over one.
fn unread_growth() -> Result<Figures> {
    let beside = |subscribers| on(1)?.block_on(in_task(bus_unread(subscribers)));
    in_turn(|| beside(1), || beside(1000))
}

async fn broadcast_unread(subscribers: usize) -> Result<f64> {
    let (sender, first) = broadcast::channel::<Arc<Frame>>(WINDOW);
    let mut receivers = vec![first];
    receivers.resize_with(subscribers, || sender.subscribe());
    let frame = frame()?;
    let start = processor_time();
    for number in 1..=SENDS {
        sender.send(Arc::new(frame.clone()))?;
        if number % YIELD_EVERY == 0 {
            yield_now().await;
        }
    }
    let took = processor_time().saturating_sub(start);
    for receiver in &mut receivers {
        let missed = match receiver.recv().await {
            Err(RecvError::Lagged(missed)) => missed,
            other => return Err(anyhow!("expected a lag, got {other:?}")),
        };
        ensure!(missed + WINDOW as u64 == SENDS, "broadcast lost {missed} of {SENDS}");
    }
    Ok(took.as_secs_f64() * 1e9 / SENDS as f64)
}

async fn bus_unread(subscribers: usize) -> Result<f64> {
    let bus = InMemoryBus::new();
    let mut subscriptions = Vec::new();
    for _ in 0..subscribers {
        subscriptions.push(listen(&bus, WINDOW).await?);
    }
    let frame = frame()?;
    let start = processor_time();
    for number in 1..=SENDS {
        bus.try_publish(frame.clone())?;
        if number % YIELD_EVERY == 0 {
            yield_now().await;
        }
    }
    let took = processor_time().saturating_sub(start);
    for subscription in &mut subscriptions {
        let Some(FeedItem::Gap { missed }) = subscription.next().await else {
            return Err(anyhow!("expected a gap"));
        };
        ensure!(missed + WINDOW as u64 == SENDS, "the bus lost {missed} of {SENDS}");
    }
    Ok(took.as_secs_f64() * 1e9 / SENDS as f64)
}

/// All read as well as they can while the publisher waits for nobody.
fn free_running(subscribers: usize) -> Result<Figures> {
    let sends = (4_000_000 / (subscribers as u64 + 40)).max(4_000);
    in_turn(
        || on(2)?.block_on(broadcast_free_running(subscribers, sends)),
        || on(2)?.block_on(bus_free_running(subscribers, sends)),
    )
}

async fn broadcast_free_running(subscribers: usize, sends: u64) -> Result<f64> {
    let (sender, _) = broadcast::channel::<Arc<Frame>>(WINDOW);
    let mut readers = JoinSet::new();
    for _ in 0..subscribers {
        let mut receiver = sender.subscribe();
        readers.spawn(async move {
            let mut counted = 0;
            loop {
                match receiver.recv().await {
                    Ok(frame) => {
                        read(&frame)?;
                        counted += 1;
                    }
                    Err(RecvError::Lagged(missed)) => counted += missed,
                    Err(RecvError::Closed) => return Ok(counted),
                }
            }
        });
    }
    let frame = frame()?;
    let seconds = in_task(async move {
        let start = wall_time();
        for number in 1..=sends {
            sender.send(Arc::new(frame.clone()))?;
            if number % YIELD_EVERY == 0 {
                yield_now().await;
            }
        }
        Ok(wall_time().saturating_sub(start).as_secs_f64())
    });
    counted(seconds.await?, sends, readers).await
}

async fn bus_free_running(subscribers: usize, sends: u64) -> Result<f64> {
    let bus = InMemoryBus::new();
    let mut readers = JoinSet::new();
    for _ in 0..subscribers {
        let mut subscription = listen(&bus, WINDOW).await?;
        readers.spawn(async move {
            let mut counted = 0;
            while let Some(item) = subscription.next().await {
                match item {
                    FeedItem::Frame(frame) => {
                        read(&frame)?;
                        counted += 1;
                    }
                    FeedItem::Gap { missed } => counted += missed,
                }
            }
            Ok(counted)
        });
    }
    let frame = frame()?;
    let seconds = in_task(async move {
        let start = wall_time();
        for number in 1..=sends {
            bus.try_publish(frame.clone())?;
            if number % YIELD_EVERY == 0 {
                yield_now().await;
            }
        }
        let took = wall_time().saturating_sub(start).as_secs_f64();
        bus.close().await?;
        Ok(took)
    });
    counted(seconds.await?, sends, readers).await
}

/// Each reader must have heard or missed every message.
async fn counted(seconds: f64, sends: u64, mut readers: JoinSet<Result<u64>>) -> Result<f64> {
    while let Some(counted) = readers.join_next().await {
        let counted = counted??;
        ensure!(counted == sends, "a reader accounts for {counted} of {sends}");
    }
    Ok(seconds * 1e9 / sends as f64)
}

/// Twenty thousand that hear nothing, beside as many bounded channels of their own.
fn idle(own_filters: bool) -> Result<Figures> {
    let start = resident_bytes()?;
    let channels: Vec<_> = (0..IDLE).map(|_| mpsc::channel::<Arc<Frame>>(WINDOW)).collect();
    let between = resident_bytes()?;
    let bus = InMemoryBus::new();
    let sessions = (0..IDLE).map(|number| if own_filters { number } else { 0 });
    let subscriptions = on(1)?.block_on(idle_subscriptions(&bus, sessions))?;
    let end = resident_bytes()?;
    // Kept for good: memory that is free again would hide what the next case takes.
    std::mem::forget((channels, bus, subscriptions));
    let each = |from: f64, to: f64| (to - from) / IDLE as f64;
    Ok(Figures { raw: each(start, between), ours: each(between, end) })
}

async fn idle_subscriptions(
    bus: &InMemoryBus,
    sessions: impl Iterator<Item = usize>,
) -> Result<Vec<Subscription>> {
    let mut subscriptions = Vec::with_capacity(IDLE);
    for session in sessions {
        let filter = Filter::parse(&format!("vak.events.w1.s{session}.tokens"))?;
        let overflow = Overflow::DropOldest { capacity: WINDOW.try_into()? };
        subscriptions.push(bus.subscribe(filter, overflow).await?);
    }
    Ok(subscriptions)
}

/// Bytes of this process that are in memory.
fn resident_bytes() -> Result<f64> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u32 = statm.split(' ').nth(1).context("statm has no second field")?.parse()?;
    Ok(f64::from(pages) * page_size() as f64)
}

const SENDS: u64 = 200_000;
const YIELD_EVERY: u64 = 32;
const IDLE: usize = 20_000;
