//! What a daemon does beside serving: none of it ends the daemon or keeps it from being ready.

use std::{future::Future, sync::Arc, thread, time::Duration};

use bus_core::Traffic;
use bus_gateway::Gateway;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{auditors::Served, counts::Counts, grounds::Grounds, hub::Carrying};
use crate::{gateway::Daemon, print as out};

/// The chores at work.
pub(super) struct Chores {
    served: watch::Sender<Served>,
    counts: Arc<Counts>,
    carrying: Option<Carrying>,
    stop: CancellationToken,
    tasks: Vec<(&'static str, JoinHandle<()>)>,
}

impl Chores {
    /// Those of a daemon that serves `grounds`, and carries to a hub or to none.
    pub(super) fn new(grounds: &Grounds, carrying: Option<Carrying>) -> Self {
        let served = watch::Sender::new(grounds.engines());
        let (counts, stop) = (Arc::default(), CancellationToken::new());
        Self { served, counts, carrying, stop, tasks: Vec::new() }
    }

    /// What is served now and later.
    pub(super) fn served(&self) -> watch::Receiver<Served> {
        self.served.subscribe()
    }

    /// What they count.
    pub(super) fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    /// Has `gateway`, if there is one, answer for this daemon and its `engine`.
    pub(super) fn answer(
        &mut self,
        gateway: Option<Gateway>,
        engine: &'static str,
        traffic: Option<Arc<Traffic>>,
    ) {
        let Some(gateway) = gateway else { return };
        let (served, chores) = (self.served(), Arc::clone(&self.counts));
        let sources = Arc::new(Daemon { engine, traffic, served, chores });
        self.start("http", |stop| gateway.serve(sources, stop));
    }

    /// Starts one more, which ends soon after its token is cancelled.
    #[expect(
        clippy::disallowed_methods,
        reason = "the command line is one of the places that spawn"
    )]
    pub(super) fn start<F>(
        &mut self,
        name: &'static str,
        chore: impl FnOnce(CancellationToken) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let end = End { name, stop: self.stop.clone(), tell: out::talk };
        let watched = end.of(chore(self.stop.clone()));
        self.tasks.push((name, tokio::spawn(watched)));
    }

    /// Has them learn what changed in the data home.
    pub(super) fn refresh(&self, grounds: &Grounds) {
        self.carrying.iter().for_each(Carrying::refresh);
        let now = grounds.engines();
        self.served.send_if_modified(|served| {
            let is_same = served.len() == now.len()
                && served.iter().zip(&now).all(|((name, engine), (other, its))| {
                    name == other && Arc::ptr_eq(engine, its)
                });
            if !is_same {
                self.counts.keep(|name| now.iter().any(|(served, _)| served == name));
                *served = now;
            }
            !is_same
        });
    }

    /// Has them end, with what is under way.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        if let Some(carrying) = self.carrying {
            carrying.stop().await;
        }
        let until = Instant::now() + END_WITHIN;
        for (name, mut task) in self.tasks {
            if timeout_at(until, &mut task).await.is_err() {
                task.abort();
                tracing::warn!("{name} did not end in time, and is broken off");
            }
        }
    }
}

/// Tells of a chore that ends, or breaks down, while the daemon goes on.
struct End {
    name: &'static str,
    stop: CancellationToken,
    tell: fn(&str),
}

impl End {
    /// Does the chore, and tells when that ended before it had to.
    async fn of(self, chore: impl Future<Output = ()>) {
        chore.await;
        self.note("ended");
    }

    fn note(&self, how: &str) {
        if !self.stop.is_cancelled() {
            let what = "and is not done any more: start the daemon again for it";
            (self.tell)(&format!("error: {} {how} {what}", self.name));
        }
    }
}

/// What is dropped without a panic ends with the daemon.
impl Drop for End {
    fn drop(&mut self) {
        if thread::panicking() {
            self.note("broke down");
        }
    }
}

/// Tells what keeps a chore from going on, once until it is another thing or over.
#[derive(Debug, Default)]
pub(super) struct Told(Option<String>);

impl Told {
    /// Tells `trouble`, unless that was told the last time.
    pub(super) fn note(&mut self, trouble: Option<String>) {
        if let Some(trouble) = trouble.as_ref().filter(|trouble| self.0.as_ref() != Some(trouble)) {
            out::remark(trouble);
        }
        self.0 = trouble;
    }
}

/// How long chores that are told to end are waited for.
const END_WITHIN: Duration = Duration::from_secs(4);

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "a panic stays in its task")]
    async fn a_chore_that_ends_or_breaks_down_before_the_daemon_is_told() {
        let stop = CancellationToken::new();
        let tell = |what: &str| TOLD.lock().unwrap().push(what.to_owned());
        let end = |name| End { name, stop: stop.clone(), tell };
        end("one").of(async {}).await;
        let broken = end("two").of(async { panic!("on purpose") });
        assert!(tokio::spawn(broken).await.unwrap_err().is_panic());
        let dropped = end("three").of(std::future::pending());
        drop(dropped);
        stop.cancel();
        end("four").of(async {}).await;
        let told = TOLD.lock().unwrap().clone();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("one ended") && told[1].contains("two broke down"), "{told:?}");
    }
}
