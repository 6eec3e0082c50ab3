//! The hook of one workspace: what is new there waits in a queue of its own, so a target that is
//! slow for one workspace delays no other.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bus_core::{Endpoint, Follow, Seq, Stored};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    call::{Caller, Settled},
    cursor::Ledger,
    news::{Batch, News, Topic, Waits},
};
use crate::{commands::up::chores::Told, error::CliError, print as out};

/// The hook of one workspace at work.
pub(super) struct Lane {
    pub(super) topic: Topic,
    pub(super) ledger: Arc<Ledger>,
    pub(super) caller: Arc<Caller>,
    /// The auditor of the workspace, who may be another connection after a while.
    pub(super) endpoint: watch::Receiver<Endpoint>,
}

/// What waits to be told.
#[derive(Debug)]
struct Queue {
    news: VecDeque<News>,
    max: usize,
    /// Where what is not in it yet begins; none before the first look.
    next: Option<Seq>,
}

impl Lane {
    /// Looks and tells until it is stopped; what goes wrong is told and tried again.
    pub(super) async fn run(self, stop: CancellationToken) {
        let (mut queue, mut told) = (Queue::of(WAITING_MAX), Told::default());
        let mut look_at = Instant::now();
        while !stop.is_cancelled() {
            let endpoint = self.endpoint.borrow().clone();
            if queue.news.is_empty() || Instant::now() >= look_at {
                look_at = Instant::now() + LOOK_EVERY;
                let looked = self.look(&endpoint, &mut queue, &stop).await;
                told.note(looked.err().map(|error| {
                    let what = format!("the hook for {} waits: {error}", self.topic.plural());
                    CliError::new(error.code(), what).as_warning()
                }));
            }
            if queue.news.is_empty() {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = sleep_until(look_at) => continue,
                }
            }
            if !self.tell_first(&endpoint, &mut queue, &stop).await {
                return;
            }
        }
    }

    /// Tells the first that waits. Says whether that was settled; a stop settles nothing.
    async fn tell_first(
        &self,
        endpoint: &Endpoint,
        queue: &mut Queue,
        stop: &CancellationToken,
    ) -> bool {
        let Some(first) = queue.news.front() else { return true };
        match self.caller.tell(&first.body, stop).await {
            None => return false,
            Some(Settled::Heard) => self.caller.counts().heard(),
            Some(Settled::GivenUp) => self.caller.counts().gave_up(),
        }
        queue.news.pop_front();
        // What cannot be kept is kept with the next one, and told again after a crash at most.
        if let Err(error) = self.keep(endpoint, queue) {
            out::remark(&error.as_warning());
        }
        true
    }

    /// Takes in what is new.
    async fn look(
        &self,
        endpoint: &Endpoint,
        queue: &mut Queue,
        stop: &CancellationToken,
    ) -> Result<(), CliError> {
        let (stream, filter) = self.topic.source(endpoint)?;
        let from = match queue.next {
            Some(next) => next,
            None => self.begin(endpoint).await?,
        };
        queue.next = Some(from);
        let mut follow = Follow::new(endpoint.clone(), stream, filter, from);
        // What has no room stays in the stream, which keeps it until it is told.
        while queue.has_room() {
            let mut batch = Batch::of(self.topic);
            let seen = |record: Stored| batch.see(endpoint, &record);
            let count = follow.look_some(RECORDS_MAX, seen).await?;
            let (news, waits) = batch.news(endpoint).await?;
            queue.news.extend(news);
            queue.next = Some(waits.as_ref().map_or(follow.position(), |waits| waits.seq));
            self.keep(endpoint, queue)?;
            if let Some(Waits { error, .. }) = waits {
                return Err(error.into());
            }
            if count < RECORDS_MAX || stop.is_cancelled() {
                break;
            }
        }
        Ok(())
    }

    /// Keeps how far it was told: nothing that waits counts as told.
    fn keep(&self, endpoint: &Endpoint, queue: &Queue) -> Result<(), CliError> {
        match queue.told() {
            Some(next) => self.ledger.told(endpoint, next),
            None => Ok(()),
        }
    }

    /// Where a workspace is begun: where an earlier daemon left it; else, or when its stream is
    /// another one now, at its end.
    async fn begin(&self, endpoint: &Endpoint) -> Result<Seq, CliError> {
        let (stream, filter) = self.topic.source(endpoint)?;
        let follow = Follow::at_end(endpoint.clone(), stream, filter).await?;
        let next = follow.position();
        match self.ledger.kept(endpoint) {
            // What came while no daemon ran is told now.
            Some(kept) if kept <= next => Ok(kept),
            _ => {
                let (what, workspace) = (self.topic.plural(), endpoint.workspace());
                let from = format!("{what} of {workspace} are told from now on");
                out::remark(&match next.0 > 1 {
                    true => format!("{from}; those that are kept already are not"),
                    false => from,
                });
                Ok(next)
            }
        }
    }
}

impl Queue {
    const fn of(max: usize) -> Self {
        Self { news: VecDeque::new(), max, next: None }
    }

    /// Whether more is taken in.
    fn has_room(&self) -> bool {
        self.news.len() < self.max
    }

    /// The first position that was not told.
    fn told(&self) -> Option<Seq> {
        self.news.front().map(|first| first.seq).or(self.next)
    }
}

/// How often what is new is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How many records are looked at before what they say is told.
const RECORDS_MAX: u64 = 256;

/// How much waits in memory for a slow hook in one workspace, and what one look more brings.
const WAITING_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn news(seqs: std::ops::Range<u64>) -> impl Iterator<Item = News> {
        seqs.map(|seq| News { seq: Seq(seq), body: serde_json::Value::Null })
    }

    #[test]
    fn a_full_queue_takes_no_more_until_something_was_told() {
        let mut queue = Queue::of(4);
        queue.news.extend(news(1..5));
        assert!(!queue.has_room());
        queue.news.pop_front();
        assert!(queue.has_room());
    }

    #[test]
    fn what_waits_does_not_count_as_told() {
        let mut queue = Queue::of(4);
        queue.next = Some(Seq(9));
        assert_eq!(queue.told(), Some(Seq(9)));
        queue.news.extend(news(5..7));
        assert_eq!(queue.told(), Some(Seq(5)));
    }
}
