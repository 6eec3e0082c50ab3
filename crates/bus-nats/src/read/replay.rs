//! A stream in the order of its positions, some messages at a time.

use std::collections::VecDeque;

use bus_core::{Error, ErrorKind, Result, Stored};
use bus_subjects::{Filter, StreamName};
use futures_core::Stream;
use futures_util::stream;

use super::decode;
use crate::{
    api::{Api, GetRequest, Part, RawStored, new_stream_pauses},
    codec::{PLACED, placed_filter},
};

/// The messages of `stream` under `filter` between two positions, both included.
pub(super) fn read(
    api: Api,
    stream: StreamName,
    filter: &Filter,
    (from, until): (u64, u64),
) -> impl Stream<Item = Result<Stored>> + Send + 'static {
    let line = |wanted: String| Line { wanted, next: Some(from), got: VecDeque::new(), waited: 0 };
    let lines = if *filter == Filter::all() {
        vec![line(filter.as_str().to_owned())]
    } else {
        vec![line(filter.as_str().to_owned()), line(placed_filter(filter))]
    };
    let reader = Reader { api, stream, lines, until };
    stream::unfold(reader, |mut reader| async move { Some((reader.next().await?, reader)) })
}

/// What `parts` of a stream tell, in the order of their positions.
pub(super) fn read_parts(parts: Vec<Part>) -> impl Stream<Item = Result<Stored>> + Send + 'static {
    stream::unfold(parts, |mut parts| async move {
        let mut first: Option<(usize, u64)> = None;
        for (at, part) in parts.iter_mut().enumerate() {
            match part.peek().await {
                Ok(Some(seq)) if first.is_none_or(|(_, least)| seq < least) => {
                    first = Some((at, seq));
                }
                Ok(_) => {}
                Err(error) => return Some((Err(error), Vec::new())),
            }
        }
        let next = parts.get_mut(first?.0)?.take()?;
        Some((decode(next), parts))
    })
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
    /// How often was waited for a copy.
    waited: usize,
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
            if self.next.is_none() && self.is_behind(api, stream, (next, until)).await? {
                self.next = Some(next);
                continue;
            }
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

impl Line {
    /// Whether the copy that answers has not all of the rest yet; then some time has passed.
    async fn is_behind(
        &mut self,
        api: &Api,
        stream: &StreamName,
        (next, until): (u64, u64),
    ) -> Result<bool> {
        // Behind an import nobody may ask who leads: then a copy's word has to do.
        if !api.has_copies() || !api.keeps_itself() {
            return Ok(false);
        }
        let led = api.next_led(OP, stream.as_str(), (next, &self.wanted)).await;
        let led = led.map_err(|failure| failure.into_error(OP, stream))?;
        if led.is_none_or(|seq| seq > until) {
            return Ok(false);
        }
        let Some(pause) = new_stream_pauses().nth(self.waited) else {
            let why = "the copy that answers has fallen behind";
            return Err(Error::new(ErrorKind::Unavailable, OP, why).at(stream));
        };
        self.waited += 1;
        tokio::time::sleep(pause).await;
        Ok(true)
    }
}

const OP: &str = "replay";
const MESSAGES_AT_ONCE: usize = 256;
const BYTES_AT_ONCE: usize = 4 << 20;
