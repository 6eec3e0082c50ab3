//! A stream in the order of its positions, some messages at a time.

use std::collections::VecDeque;

use bus_core::{Result, Stored};
use bus_subjects::{Filter, StreamName};
use futures_core::Stream;
use futures_util::stream;

use super::decode;
use crate::{
    api::{Api, GetRequest, RawStored},
    codec::{PLACED, placed_filter},
};

/// The messages of `stream` under `filter` between two positions, both included.
pub(super) fn read(
    api: Api,
    stream: StreamName,
    filter: &Filter,
    (from, until): (u64, u64),
) -> impl Stream<Item = Result<Stored>> + Send + 'static {
    let line = |wanted: String| Line { wanted, next: Some(from), got: VecDeque::new() };
    let lines = if *filter == Filter::all() {
        vec![line(filter.as_str().to_owned())]
    } else {
        vec![line(filter.as_str().to_owned()), line(placed_filter(filter))]
    };
    let reader = Reader { api, stream, lines, until };
    stream::unfold(reader, |mut reader| async move { Some((reader.next().await?, reader)) })
}

/// Merges what is read line by line.
struct Reader {
    api: Api,
    stream: StreamName,
    lines: Vec<Line>,
    until: u64,
}

/// The messages of one filter of the server's.
struct Line {
    wanted: String,
    /// Where to go on; `None` at the end.
    next: Option<u64>,
    got: VecDeque<RawStored>,
}

impl Reader {
    async fn next(&mut self) -> Option<Result<Stored>> {
        let is_merged = self.lines.len() > 1;
        for line in &mut self.lines {
            if let Err(error) = line.fill(&self.api, &self.stream, self.until, is_merged).await {
                self.lines.clear();
                return Some(Err(error));
            }
        }
        let front = |line: &Line| line.got.front().map_or(u64::MAX, |stored| stored.seq);
        let first = self.lines.iter_mut().min_by_key(|line| front(line))?;
        first.got.pop_front().map(decode)
    }
}

impl Line {
    /// Has the next message at hand, or has come to the end.
    async fn fill(
        &mut self,
        api: &Api,
        stream: &StreamName,
        until: u64,
        is_merged: bool,
    ) -> Result<()> {
        const OP: &str = "replay";
        while self.got.is_empty()
            && let Some(next) = self.next.filter(|next| *next <= until)
        {
            let wanted = GetRequest {
                seq: Some(next),
                next_by_subj: Some(self.wanted.clone()),
                batch: Some(MESSAGES_AT_ONCE),
                max_bytes: Some(BYTES_AT_ONCE),
                ..GetRequest::default()
            };
            let got = api.get(OP, stream.as_str(), &wanted).await;
            let got = got.map_err(|failure| failure.into_error(OP, stream))?;
            self.next = got.last().map(|last| last.seq.saturating_add(1));
            let is_placed = self.wanted.starts_with(PLACED);
            // A filter with a wildcard in front matches the subjects of placed messages as well,
            // which the other line reads.
            let wanted = got.into_iter().filter(|stored| {
                let is_ours = !is_merged || is_placed || !stored.subject.starts_with(PLACED);
                is_ours && stored.seq <= until
            });
            self.got.extend(wanted);
        }
        Ok(())
    }
}

const MESSAGES_AT_ONCE: usize = 256;
const BYTES_AT_ONCE: usize = 4 << 20;
