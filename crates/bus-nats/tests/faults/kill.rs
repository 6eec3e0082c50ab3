//! The server is killed (`SIGKILL`) under load and started again.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bus_core::{Buckets, Bus, Expect, Frame, Put};
use bus_nats::NatsBus;
use tokio::{sync::watch, task::JoinSet};

use crate::{
    scale::Scale,
    stage::{Stage, bucket, frame, kept, key, stored, until_taken},
};

pub(crate) async fn a_killed_server_loses_no_acknowledged_append_and_stores_none_twice(
    scale: Scale,
) -> String {
    let mut stage = Stage::new().await;
    stage.bus.declare(kept()).await.unwrap();
    let load = Load::default();
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let bus = if writer % 2 == 0 { stage.bus.clone() } else { stage.another().await };
        // The last two send batches.
        let batch = if writer < WRITERS - 2 { 1 } else { 20 };
        writers.spawn(append_until_told(bus, load.clone(), (writer, batch)));
    }
    let kills = scale.pick(4, 60);
    load.under(kills, || stage.kill_and_restart()).await;
    // Only now is nothing under way any more.
    let written = writers.join_all().await;
    let (mut acknowledged, mut repeated) = (0, 0);
    let there = stored(&stage.another().await).await;
    for Written { seqs, again } in written {
        for (id, seq) in &seqs {
            assert_eq!(there.get(id), Some(seq), "{id} was acknowledged");
        }
        let in_order: Vec<_> = seqs.iter().map(|(_, seq)| *seq).collect();
        assert!(in_order.is_sorted(), "a writer's own order: {in_order:?}");
        acknowledged += seqs.len();
        repeated += again;
    }
    assert_eq!(there.len(), acknowledged, "stored is what was acknowledged");
    format!(
        "{kills} kills; {acknowledged} acknowledged, {repeated} calls repeated; 0 lost, 0 twice"
    )
}

pub(crate) async fn a_killed_server_loses_no_acknowledged_value(scale: Scale) -> String {
    let mut stage = Stage::new().await;
    let load = Load::default();
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        writers.spawn(count_until_told(stage.bus.clone(), load.clone(), format!("k{writer}")));
    }
    let kills = scale.pick(3, 40);
    load.under(kills, || stage.kill_and_restart()).await;
    let (counted, bus) = (writers.join_all().await, stage.another().await);
    let mut acknowledged = 0;
    for (name, last) in counted {
        let held = bus.get(bucket(), key(&name)).await.unwrap().unwrap();
        assert_eq!(&held.value[..], last.to_string().as_bytes(), "{name}");
        acknowledged += last;
    }
    format!("{kills} kills; {acknowledged} values acknowledged, 0 lost")
}

/// What writers do between two kills, and when they are to end.
#[derive(Clone)]
pub(crate) struct Load {
    done: Arc<watch::Sender<u64>>,
    is_over: Arc<AtomicBool>,
}

impl Default for Load {
    fn default() -> Self {
        Self { done: Arc::new(watch::Sender::new(0)), is_over: Arc::default() }
    }
}

impl Load {
    pub(crate) fn note(&self, done: u64) {
        self.done.send_modify(|count| *count += done);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Lets `strike` fall so many times, each in the middle of work, and then lets the work end.
    pub(crate) async fn under(&self, times: u64, mut strike: impl FnMut()) {
        let mut done = self.done.subscribe();
        for time in 0..times {
            // Not always after the same amount: what is under way is different each time.
            let next = *done.borrow_and_update() + 150 + time * 37 % 200;
            done.wait_for(|count| *count >= next).await.unwrap();
            strike();
        }
        let next = *done.borrow_and_update() + 100;
        done.wait_for(|count| *count >= next).await.unwrap();
        self.is_over.store(true, Ordering::Release);
    }
}

/// What one writer was told.
struct Written {
    /// Ids with their positions, in the order they were sent.
    seqs: Vec<(String, u64)>,
    /// How often a call had to be repeated.
    again: u64,
}

/// Appends one after the other, each as often as it takes under its own ids.
async fn append_until_told(bus: NatsBus, load: Load, (writer, batch): (usize, usize)) -> Written {
    let mut written = Written { seqs: Vec::new(), again: 0 };
    let mut number = 0;
    while !load.is_over() {
        let ids: Vec<_> = (0..batch).map(|n| format!("w{writer}-{}", number + n)).collect();
        number += batch;
        let subject = format!("work.w{writer}");
        let frames: Vec<Frame> = ids.iter().map(|id| frame(&subject, id)).collect();
        let (receipts, again) = until_taken(&bus, || {
            let (bus, frames) = (bus.clone(), frames.clone());
            async move {
                match <[Frame; 1]>::try_from(frames) {
                    Ok([one]) => bus.append(one, Expect::Any).await.map(|receipt| vec![receipt]),
                    Err(all) => bus.append_all(all).await,
                }
            }
        })
        .await;
        let seqs = receipts.iter().map(|receipt| receipt.seq.0);
        written.seqs.extend(ids.into_iter().zip(seqs));
        written.again += again;
        load.note(1);
    }
    written
}

/// Puts 1, 2, 3 … under one key.
async fn count_until_told(bus: NatsBus, load: Load, name: String) -> (String, u64) {
    let mut last = 0;
    while !load.is_over() {
        last += 1;
        let put = || bus.put(bucket(), key(&name), Put::new(last.to_string()));
        until_taken(&bus, put).await;
        load.note(1);
    }
    (name, last)
}

const WRITERS: usize = 8;
