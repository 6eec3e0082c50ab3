//! The audit log of a daemon: what its workspaces' evidence streams hold is followed into files.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bus_core::Clock;
use bus_subjects::WorkspaceId;
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use super::{
    auditors::Served,
    chores::{Chores, Told},
    counts::Counts,
};
use crate::{audit::Audit, home::Home, print as out};

/// Starts to follow the streams of what is served into the data home.
pub(super) fn start(chores: &mut Chores, home: &Home, clock: &Arc<dyn Clock>) {
    let served = chores.served();
    let (home, clock, counts) = (home.clone(), Arc::clone(clock), Arc::clone(chores.counts()));
    let auditor = Auditor { home, clock, counts, logs: Vec::new(), following: HashMap::new() };
    chores.start("the audit log", move |stop| auditor.run(served, stop));
}

/// Who writes the logs of all workspaces, one after the other.
struct Auditor {
    home: Home,
    clock: Arc<dyn Clock>,
    counts: Arc<Counts>,
    logs: Vec<Audit>,
    following: HashMap<WorkspaceId, Following>,
}

/// How a workspace's log does.
#[derive(Default)]
struct Following {
    told: Told,
    is_behind: bool,
}

impl Auditor {
    async fn run(mut self, workspaces: watch::Receiver<Served>, stop: CancellationToken) {
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_end = tokio::select! {
                _tick = looks.tick() => false,
                () = stop.cancelled() => true,
            };
            let now = workspaces.borrow().clone();
            self.learn(now);
            self.look(is_end).await;
            if is_end {
                return;
            }
        }
    }

    /// Begins the logs of workspaces that came, and ends those of workspaces that went.
    fn learn(&mut self, workspaces: Served) {
        let is_there = |log: &Audit| workspaces.iter().any(|(name, bus)| log.is_of(name, bus));
        self.logs.retain(is_there);
        for (name, engine) in workspaces {
            if !self.logs.iter().any(|log| log.is_of(&name, &engine)) {
                self.logs.push(Audit::new(&self.home, name, engine, Arc::clone(&self.clock)));
            }
        }
    }

    async fn look(&mut self, is_end: bool) {
        for log in &mut self.logs {
            let began = self.clock.now();
            let looked = log.look().await.map(drop);
            // What was written before a trouble is vouched for all the same.
            let signed = log.sign(is_end).await;
            let looked = looked.and(signed);
            let wrote = log.take_written();
            self.counts.audited(log.workspace(), wrote, looked.is_ok(), began);
            let Following { told, is_behind } =
                self.following.entry(log.workspace().clone()).or_default();
            if *is_behind && looked.is_ok() {
                let workspace = log.workspace();
                out::remark(&format!("{workspace}: the audit log has everything again"));
            }
            *is_behind = looked.is_err();
            told.note(looked.err().map(|error| error.as_warning()));
        }
    }
}

/// How often the streams are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
