//! What waits and what is held: the server's counts, put right by what stands on the board.
//!
//! The server counts as handed out what is on the board. How many leases there are is therefore
//! its count without that, and with what members hold by the board. A lease whose engine died
//! counts as held until somebody asks for work.

use std::{collections::HashMap, sync::Arc};

use bus_core::{BoxFuture, ConsumerSpec, ConsumerState, Lag, Result, Retention, StreamSpec};
use bus_envelope::Timestamp;
use bus_subjects::{Filter, StreamName, Subject};
use futures_util::{StreamExt, TryStreamExt};
use serde::Deserialize;
use serde_json::json;

use super::{
    board::BoardPlace,
    consumer::{ConsumerInfo, Consumers, PLACED_MARK, placed_name, placed_patterns},
    follow::{Follower, Wanted},
    pull::Place,
    record::{Stands, read_state},
    store::get,
};
use crate::{
    api::{Api, GetRequest},
    streams::StreamInfo,
};

/// What the board says of one consumer.
#[derive(Debug, Clone, Copy, Default)]
struct OnBoard {
    /// Of those that the server's consumer of plain messages delivered.
    plain: u64,
    /// Of those that its consumer of placed ones delivered.
    placed: u64,
    held: u64,
}

/// Every consumer of the bus on `stream`, by name.
pub(super) async fn consumers(
    api: &Api,
    consumers: &Consumers,
    stream: &StreamSpec,
) -> Result<Vec<ConsumerState>> {
    const OP: &str = "consumers";
    let (mut infos, boards) = read(api, consumers, OP, &stream.name).await?;
    count_exactly(api, OP, &stream.name, infos.values_mut()).await?;
    let unread = unread_placed(api, OP, &stream.name).await?;
    let mut states = Vec::new();
    for info in infos.values() {
        let Some((spec, _)) = info.spec(&stream.name) else { continue };
        let board = boards.get(spec.name.as_str()).copied().unwrap_or_default();
        let placed = infos.get(&placed_name(&spec.name));
        let now = info.asked_at().unwrap_or_else(|| api.connection().now());
        let mut lag = counts(info, placed, board);
        if placed.is_none() {
            lag.pending += unread_of(&spec, stream, &unread);
        }
        if lag.pending + lag.in_flight > 0 {
            let mut patterns = placed_patterns(&spec, stream);
            patterns.extend(info.patterns());
            let from = match stream.retention {
                Retention::WorkQueue => 1,
                // What was acknowledged is still there.
                Retention::Kept | Retention::AppendOnly => {
                    let floors = [Some(info), placed].into_iter().flatten();
                    floors.map(|info| info.ack_floor.stream_seq + 1).min().unwrap_or(1)
                }
            };
            lag.oldest = oldest(api, OP, (&stream.name, patterns), (from, now)).await?;
        }
        let paused_until = info.paused_until().filter(|&until| until > now);
        states.push(ConsumerState { spec, lag, paused_until });
    }
    states.sort_by(|one, other| one.spec.name.as_str().cmp(other.spec.name.as_str()));
    Ok(states)
}

/// How much work waits in a stream.
pub(super) async fn of_stream(
    api: &Api,
    consumers: &Consumers,
    (spec, info): (&Arc<StreamSpec>, &StreamInfo),
) -> Result<Lag> {
    const OP: &str = "lag";
    let (mut infos, boards) = read(api, consumers, OP, &spec.name).await?;
    let unread = match spec.retention {
        // What is taken out of a work queue is counted by what is left of it.
        Retention::WorkQueue => Vec::new(),
        Retention::Kept | Retention::AppendOnly => {
            count_exactly(api, OP, &spec.name, infos.values_mut()).await?;
            unread_placed(api, OP, &spec.name).await?
        }
    };
    let (mut in_flight, mut to_read, mut is_read) = (0, 0, false);
    for info in infos.values() {
        let Some((consumer, _)) = info.spec(&spec.name) else { continue };
        let board = boards.get(consumer.name.as_str()).copied().unwrap_or_default();
        let placed = infos.get(&placed_name(&consumer.name));
        let lag = counts(info, placed, board);
        in_flight += lag.in_flight;
        to_read += lag.pending;
        is_read = true;
        if placed.is_none() && spec.retention != Retention::WorkQueue {
            to_read += unread_of(&consumer, spec, &unread);
        }
    }
    let stored = info.state.messages;
    let pending = match spec.retention {
        Retention::WorkQueue => stored.saturating_sub(in_flight),
        Retention::Kept | Retention::AppendOnly => {
            if is_read {
                to_read
            } else {
                stored
            }
        }
    };
    let now = info.asked_at().unwrap_or_else(|| api.connection().now());
    let first = info.state.first_ts.as_deref();
    let first = first.and_then(|text| Timestamp::parse_rfc3339(text).ok());
    let oldest = first.filter(|_| stored > 0).map(|first| now.since(first));
    Ok(Lag { pending, in_flight, oldest })
}

/// Everything about the consumers of `stream`: the server's word by name, and the board's.
async fn read(
    api: &Api,
    consumers: &Consumers,
    op: &'static str,
    stream: &StreamName,
) -> Result<(HashMap<String, ConsumerInfo>, HashMap<String, OnBoard>)> {
    let wanted = Wanted { filter: BoardPlace::all_states(stream, None), is_bare: false };
    let (infos, records) =
        tokio::join!(consumers.list(op, stream), Follower::all(api, op, &wanted));
    let infos = infos?.into_iter().filter_map(|info| Some((info.name()?.to_owned(), info)));
    let infos: HashMap<_, _> = infos.collect();
    let now = api.connection().now();
    let mut boards: HashMap<String, OnBoard> = HashMap::new();
    for record in records? {
        let Stands::OnBoard(entry) = read_state(&record.subject, &record.body) else { continue };
        if entry.done_at().is_some() {
            continue;
        }
        let Some((_, name, made)) = BoardPlace::owner(&record.subject) else { continue };
        let is_current = infos.get(name).and_then(|info| info.spec(stream));
        if is_current.is_none_or(|(_, current)| current != made) {
            continue;
        }
        let delivered_by = Place::of(&entry.origin);
        let is_placed = delivered_by.is_some_and(|(_, consumer)| consumer.ends_with(PLACED_MARK));
        let board = boards.entry(name.to_owned()).or_default();
        board.placed += u64::from(is_placed);
        board.plain += u64::from(!is_placed);
        board.held += u64::from(entry.is_held(now));
    }
    Ok((infos, boards))
}

/// Counts what each consumer has not delivered yet. The server's own count may be behind: it
/// acknowledges a message first and tells the consumers of it then.
async fn count_exactly(
    api: &Api,
    op: &'static str,
    stream: &StreamName,
    infos: impl Iterator<Item = &mut ConsumerInfo>,
) -> Result<()> {
    let mut counting = Vec::new();
    for info in infos {
        let counted: BoxFuture<'_, Result<()>> = Box::pin(count_one(api, op, stream, info));
        counting.push(counted);
    }
    futures_util::stream::iter(counting).buffer_unordered(AT_ONCE).try_collect().await
}

async fn count_one(
    api: &Api,
    op: &'static str,
    stream: &StreamName,
    info: &mut ConsumerInfo,
) -> Result<()> {
    let (mut exactly, from) = (0, info.delivered.stream_seq + 1);
    for pattern in info.patterns() {
        let counted = api.count_from(op, stream.as_str(), (from, &pattern)).await;
        exactly += counted.map_err(|failure| failure.into_error(op, stream))?;
    }
    // The copy that was asked may be behind itself.
    let known = if api.has_copies() { info.num_pending } else { 0 };
    info.num_pending = exactly.max(known);
    Ok(())
}

fn counts(info: &ConsumerInfo, placed: Option<&ConsumerInfo>, board: OnBoard) -> Lag {
    let under_lease = info.num_ack_pending.saturating_sub(board.plain);
    let in_flight = under_lease + board.held;
    let (fetched, unfetched) =
        placed.map_or((0, 0), |placed| (placed.num_ack_pending, placed.num_pending));
    let waits_on_board = (board.plain + board.placed).saturating_sub(board.held);
    // Fetched and not on the board yet.
    let between = fetched.saturating_sub(board.placed);
    let pending = info.num_pending + unfetched + between + waits_on_board;
    Lag { pending, in_flight, oldest: None }
}

/// How many of `unread` are for `consumer`, which has not looked for such yet.
fn unread_of(consumer: &ConsumerSpec, stream: &StreamSpec, unread: &[(Subject, u64)]) -> u64 {
    let patterns = placed_patterns(consumer, stream);
    let patterns: Vec<_> = patterns.iter().filter_map(|it| Filter::parse(it).ok()).collect();
    let is_own = |subject: &Subject| patterns.iter().any(|it| it.matches(subject));
    unread.iter().filter(|(subject, _)| is_own(subject)).map(|(_, count)| count).sum()
}

/// How many placed messages there are under each subject, for consumers that never fetched any.
async fn unread_placed(
    api: &Api,
    op: &'static str,
    stream: &StreamName,
) -> Result<Vec<(Subject, u64)>> {
    let mut found = Vec::new();
    loop {
        let body = json!({ "subjects_filter": "vakp.>", "offset": found.len() });
        let asked = api.call(op, &format!("STREAM.INFO.{stream}"), &body).await;
        let page: Subjects = asked.map_err(|failure| failure.into_error(op, stream))?;
        let before = found.len();
        let subjects = page.state.subjects.unwrap_or_default().into_iter();
        found.extend(subjects.filter_map(|(text, n)| Some((Subject::parse(&text).ok()?, n))));
        if found.len() == before || found.len() >= page.total {
            return Ok(found);
        }
    }
}

/// A page of the subjects of a stream.
#[derive(Deserialize)]
struct Subjects {
    #[serde(default)]
    total: usize,
    state: SubjectCounts,
}

#[derive(Deserialize)]
struct SubjectCounts {
    #[serde(default)]
    subjects: Option<HashMap<String, u64>>,
}

/// The age of the oldest message under one of the patterns, from a position on.
async fn oldest(
    api: &Api,
    op: &'static str,
    (stream, patterns): (&StreamName, Vec<String>),
    (from, now): (u64, Timestamp),
) -> Result<Option<std::time::Duration>> {
    let mut first = None;
    for pattern in patterns {
        let wanted =
            GetRequest { seq: Some(from), next_by_subj: Some(pattern), ..GetRequest::default() };
        let found = get(api, op, stream.as_str(), &wanted).await?.into_iter().next();
        first = first.into_iter().chain(found.map(|raw| raw.time)).min();
    }
    Ok(first.map(|first| now.since(first)))
}

/// How many consumers are counted at the same time.
const AT_ONCE: usize = 16;
