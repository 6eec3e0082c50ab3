//! The journal against power cuts, kills, broken and full disks; a plain map stands for the broker.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
};

use bus_core::{ErrorKind, Result};
use bus_mem::journal::{Change, Journal, Position};

use crate::{
    Sync,
    files::{
        Files,
        faulty::{FaultyFiles, Keep},
    },
    home::Home,
    keeper::Sizes,
    record::Record,
    store::Store,
};

mod backups;
mod blobs;
mod crashes;
mod damage;
mod differential;
mod directories;
mod golden;
mod pictures;
mod rooms;
mod world;

/// What the records amount to: the last number said of each key.
pub(crate) type Model = BTreeMap<u64, u64>;

/// A store and the state that a broker would have.
pub(crate) struct Opened {
    pub(crate) store: Store,
    pub(crate) state: Arc<Mutex<Model>>,
}

pub(crate) const DIR: &str = "/data";

/// Small ones: the same happens sooner.
pub(crate) const SIZES: Sizes = Sizes { segment: 16 * 1024, picture_after: 64 * 1024 };

impl Opened {
    pub(crate) fn on(files: &FaultyFiles, sync: Sync) -> Result<Self> {
        let files: Arc<dyn Files> = Arc::new(files.clone());
        let state = Arc::new(Mutex::new(Model::new()));
        let home = Home::layout(Path::new(DIR));
        let into = Arc::clone(&state);
        let mut take = |record: Record<'_>| {
            if let Record::Change(Change::Done { consumer, seq }) = record {
                into.lock().unwrap().insert(consumer, seq);
            }
            Ok(())
        };
        let store = Store::open(files, home, (sync, SIZES), &mut take, &mut |_| {})?;
        let source = Arc::clone(&state);
        store.take_pictures(Box::new(move |take| {
            let state = source.lock().unwrap().clone();
            for (consumer, seq) in state {
                take(Record::Change(Change::Done { consumer, seq }))?;
            }
            Ok(())
        }));
        Ok(Self { store, state })
    }

    pub(crate) fn model(&self) -> Model {
        self.state.lock().unwrap().clone()
    }

    /// Says `seq` of `key`, without waiting.
    pub(crate) fn say(&self, key: u64, seq: u64) -> Position {
        let mut state = self.state.lock().unwrap();
        state.insert(key, seq);
        self.store.journal.record(Change::Done { consumer: key, seq })
    }

    /// Says it and waits until it is safe.
    pub(crate) fn say_safely(&self, key: u64, seq: u64) -> Result<()> {
        self.say(key, seq);
        self.store.wait_safe()
    }
}

/// What a restart on `files` knows.
pub(crate) fn reopened(files: &FaultyFiles, keep: Keep) -> Result<Model> {
    Ok(Opened::on(&files.restarted(keep), Sync::Always)?.model())
}

#[test]
fn what_was_closed_is_there_again() {
    let files = FaultyFiles::default();
    let opened = Opened::on(&files, Sync::Always).unwrap();
    for seq in 1..=100 {
        opened.say(seq % 7, seq);
    }
    let model = opened.model();
    drop(opened);
    assert_eq!(reopened(&files, Keep::Synced).unwrap(), model);
}

#[test]
fn a_power_cut_takes_nothing_that_was_answered() {
    let files = FaultyFiles::default();
    let opened = Opened::on(&files, Sync::Always).unwrap();
    for seq in 1..=20 {
        opened.say_safely(seq, seq).unwrap();
        assert_eq!(reopened(&files, Keep::Synced).unwrap(), opened.model(), "after {seq}");
    }
}

#[test]
fn the_weaker_mode_answers_before_the_sync_and_outlives_the_process() {
    let files = FaultyFiles::default();
    let every = std::time::Duration::from_secs(3600);
    let opened = Opened::on(&files, Sync::Interval(every)).unwrap();
    assert_eq!(opened.store.journal.durability(), bus_core::Durability::Written);
    // The first one is synced at once: its time has come long ago.
    for seq in 1..=20 {
        opened.say_safely(seq, seq).unwrap();
    }
    assert_eq!(reopened(&files, Keep::All).unwrap(), opened.model());
    assert!(reopened(&files, Keep::Synced).unwrap().len() < 20);
}

#[test]
fn records_that_nobody_asked_for_are_written_a_moment_later() {
    let files = FaultyFiles::default();
    let opened = Opened::on(&files, Sync::Always).unwrap();
    let (sender, safe) = std::sync::mpsc::channel();
    opened.store.journal.observe(Arc::new(move |position| {
        // Nobody listens any more once the test has seen what it waits for.
        let _ignored = sender.send(position);
    }));
    let position = opened.say(1, 1);
    let limit = std::time::Duration::from_secs(10);
    assert_eq!(safe.recv_timeout(limit).unwrap(), position);
}

#[test]
fn nothing_is_admitted_after_the_end() {
    let opened = Opened::on(&FaultyFiles::default(), Sync::Always).unwrap();
    opened.store.close();
    let refused = opened.store.journal.admit("append", 1, false).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed);
}

#[test]
fn what_was_taken_before_the_end_is_answered() {
    let opened = Opened::on(&FaultyFiles::default(), Sync::Always).unwrap();
    // More than a segment holds: the end needs another one.
    for seq in 1..=100 {
        opened.say_safely(seq, seq).unwrap();
    }
    for seq in 1..=400 {
        opened.say(seq, seq);
    }
    opened.store.journal.0.close();
    opened.store.wait_safe().unwrap();
}
