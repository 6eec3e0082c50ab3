//! What recordings hold of a chain of causes: runs of events, not one line a token.

use std::collections::{BTreeMap, BTreeSet};

use bus_core::{Endpoint, ErrorKind, Opened, Replay, Result, Seq, planes};
use bus_envelope::{EventHash, Timestamp};
use bus_runner::{History, PastItem};
use bus_subjects::{Address, Subject};
use uuid::Uuid;

use super::scan::{Found, Node};

/// Events that one agent sent one after the other to one place, led to by the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) events: u64,
    /// Their payloads together.
    pub(super) bytes: u64,
    /// When the last of them was made.
    pub(super) until: Timestamp,
}

/// What the events of a run have in common.
type Likeness = (Subject, String, Uuid, Option<EventHash>);

/// The first event of each run.
type Runs = BTreeMap<Likeness, EventHash>;

impl Found {
    /// Looks through all recordings of the workspace, anew each time.
    pub(super) async fn look_at_recordings(
        &mut self,
        endpoint: &Endpoint,
        seed: &BTreeSet<EventHash>,
    ) -> Result<()> {
        self.nodes.retain(|_, node| node.run.is_none());
        (self.refused, self.unheard) = (0, 0);
        let workspace = endpoint.workspace();
        let mut runs = Runs::new();
        for filter in Address::filter_recordings(workspace) {
            let stream = planes::recordings_stream(workspace)?;
            let batches = match endpoint.replay(stream, filter).await {
                Err(error) if error.kind() == ErrorKind::Denied => {
                    self.denied.insert("recording");
                    return Ok(());
                }
                // Nobody recorded anything.
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                batches => batches?,
            };
            self.look_through(endpoint, seed, batches, &mut runs).await?;
        }
        Ok(())
    }

    async fn look_through(
        &mut self,
        endpoint: &Endpoint,
        seed: &BTreeSet<EventHash>,
        mut batches: Replay,
        runs: &mut Runs,
    ) -> Result<()> {
        while let Some(stored) = batches.next().await {
            let stored = stored?;
            for item in History::of_batch(endpoint, &stored) {
                match item {
                    PastItem::Message(opened) => {
                        if self.is_meant(&opened.envelope, opened.hash, seed) {
                            self.add_recorded(runs, &opened, stored.seq);
                        }
                    }
                    PastItem::Checkpoint(_) => {}
                    PastItem::Gap { missed, .. } => self.unheard += missed,
                    PastItem::Refused(_) => self.refused += 1,
                }
            }
        }
        Ok(())
    }

    fn add_recorded(&mut self, runs: &mut Runs, opened: &Opened, seq: Seq) {
        let (envelope, lineage) = (&opened.envelope, &opened.envelope.lineage);
        let agent = lineage.agent.to_string();
        let likeness =
            (envelope.subject.clone(), agent.clone(), lineage.incarnation, lineage.cause);
        let leaf = *runs.entry(likeness).or_insert(opened.hash);
        let node = self.nodes.entry(leaf).or_insert_with(|| Node {
            leaf,
            cause: lineage.cause,
            kind: kind(&envelope.subject),
            words: String::new(),
            id: envelope.id.clone(),
            subject: envelope.subject.clone(),
            agent,
            time: envelope.time,
            traceparent: envelope.trace.traceparent(),
            position: Some(seq),
            unreadable: None,
            run: None,
        });
        let run = node.run.get_or_insert(Run { events: 0, bytes: 0, until: envelope.time });
        run.events += 1;
        run.bytes = run.bytes.saturating_add(opened.payload.len() as u64);
        run.until = run.until.max(envelope.time);
    }
}

/// What a subject carries, as the tree names it.
fn kind(subject: &Subject) -> &'static str {
    match Address::parse(subject) {
        Ok(Address::Terminal { .. }) => "terminal",
        _ => "tokens",
    }
}
