//! What an operator takes out of a queue: whoever has it is told, and nobody gets it again.

use std::time::Duration;

use bus_core::{Result, Retention, Seq, StreamSpec};
use bus_subjects::{StreamName, Subject};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::{
    Queues,
    board::BoardPlace,
    follow::{Follower, Wanted},
    record::{Stands, read_state},
    store::{Board, get},
};
use crate::{api::GetRequest, codec::PLACED};

/// The places of one message on the boards of its consumers.
pub(crate) struct Marks {
    seq: u64,
    /// With the lease of each consumer.
    places: Vec<(Board, String, Duration)>,
}

impl Queues {
    /// Where the message at `seq` stands, or may come to stand: asked before it is removed.
    ///
    /// # Errors
    /// `NotFound` when there is no such stream; those of the API.
    pub(crate) async fn marks(&self, stream: &StreamName, seq: Seq) -> Result<Marks> {
        let spec = self.streams.named(DISCARD, stream).await?;
        let mut marks = Marks { seq: seq.0, places: Vec::new() };
        // In the layout of a workspace nobody consumes what is kept.
        let is_laid_out = !self.api.keeps_itself();
        let has_no_consumers = match spec.retention {
            Retention::AppendOnly => true,
            Retention::Kept => is_laid_out,
            Retention::WorkQueue => false,
        };
        if has_no_consumers || seq == Seq(0) {
            return Ok(marks);
        }
        let listed = self.consumers.list(DISCARD, stream).await?;
        let own: Vec<_> = listed.iter().filter_map(|info| info.spec(stream)).collect();
        if own.is_empty() {
            return Ok(marks);
        }
        let wanted = GetRequest { seq: Some(seq.0), ..GetRequest::default() };
        let kept = get(&self.api, DISCARD, stream.as_str(), &wanted).await?.into_iter().next();
        let Some(kept) = kept else { return self.left_marks(&spec, marks).await };
        let (key, subject) = split(&kept.subject);
        let Ok(subject) = Subject::parse(subject) else { return Ok(marks) };
        for (consumer, made) in own {
            if consumer.filter.matches(&subject) {
                let place = BoardPlace::new(stream, &consumer.name, &made);
                let at = place.state_at(key, seq.0);
                let board = Board::new(place, self.api.clone(), self.profile);
                marks.places.push((board, at, consumer.lease));
            }
        }
        Ok(marks)
    }

    /// Where a message stands that is in its stream no more: somebody removed it and did not come
    /// to the board.
    async fn left_marks(&self, spec: &StreamSpec, mut marks: Marks) -> Result<Marks> {
        let filter = BoardPlace::all_states(&spec.name, Some(marks.seq));
        let wanted = Wanted { filter, is_bare: false };
        for record in Follower::all(&self.api, DISCARD, &wanted).await? {
            let Stands::OnBoard(_) = read_state(&record.subject, &record.body) else { continue };
            let Some((_, name, made)) = BoardPlace::owner(&record.subject) else { continue };
            let Ok(name) = name.parse() else { continue };
            let place = BoardPlace::new(&spec.name, &name, made);
            let board = Board::new(place, self.api.clone(), self.profile);
            marks.places.push((board, record.subject, Duration::ZERO));
        }
        Ok(marks)
    }

    /// Says on every board that the message is no more.
    ///
    /// # Errors
    /// `Denied`, `Closed`; `Timeout` and `Unavailable`, when the message is gone and not every
    /// board was told: who discards it again tells them.
    pub(crate) async fn discarded(&self, Marks { seq, places }: Marks) -> Result<()> {
        for (board, at, lease) in places {
            let stood = board.stands_at(DISCARD, &at).await?;
            board.write_discarded(DISCARD, &at, lease).await?;
            if matches!(stood, Stands::OnBoard(_)) {
                board.clear(DISCARD, board.place.frame(seq), None).await?;
            }
        }
        Ok(())
    }

    /// Takes everything of every making of a consumer off the board.
    pub(super) async fn clear_board(&self, op: &'static str, place: BoardPlace) -> Result<()> {
        let wanted = Wanted { filter: place.all(), is_bare: true };
        let all = Follower::all(&self.api, op, &wanted).await?;
        let board = Board::new(place, self.api.clone(), self.profile);
        let there = all.into_iter().filter(|record| !record.is_gone);
        let clearing = there.map(|record| board.clear(op, record.subject, None));
        stream::iter(clearing).buffer_unordered(UNDER_WAY).try_collect().await
    }
}

/// The level that stands for the key of a kept message, and its subject.
fn split(kept: &str) -> (&str, &str) {
    let placed = kept.strip_prefix(PLACED).and_then(|rest| rest.split_once('.'));
    placed.and_then(|(_level, rest)| rest.split_once('.')).unwrap_or((NO_KEY, kept))
}

const DISCARD: &str = "discard";
/// Where no key stands.
const NO_KEY: &str = "_";
/// How many records are cleared at once.
const UNDER_WAY: usize = 64;
