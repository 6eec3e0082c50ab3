//! The server's own consumers behind one of the bus: for plain messages, and for placed ones.

use std::{sync::Arc, time::Duration};

use bus_core::{ConsumerSpec, Error, ErrorKind, Result, StreamSpec};
use bus_envelope::Timestamp;
use bus_subjects::{ConsumerName, Filter, StreamName};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::pattern::intersect;
use crate::{
    api::{Api, ApiFailure, new_stream_pauses},
    codec::placed_filter,
    connection::Connection,
};

/// What the server says about a consumer.
#[derive(Debug, Deserialize)]
pub(super) struct ConsumerInfo {
    pub(super) config: Map<String, Value>,
    pub(super) delivered: Position,
    pub(super) ack_floor: Position,
    pub(super) num_ack_pending: u64,
    pub(super) num_pending: u64,
    #[serde(default)]
    ts: Option<String>,
}

/// Up to where something is known.
#[derive(Debug, Deserialize)]
pub(super) struct Position {
    pub(super) stream_seq: u64,
}

/// A page of a listing.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    total: usize,
    #[serde(default)]
    consumers: Option<Vec<ConsumerInfo>>,
}

/// What a consumer was made as, in the notes of the server's one.
#[derive(Serialize, Deserialize)]
struct SpecText {
    filter: String,
    lease_s: u64,
    lease_ns: u32,
    /// Another one for each making: who joined an earlier one of the same name knows it by this.
    made: String,
}

#[derive(Deserialize)]
struct Success {
    success: bool,
}

/// Makes, finds and removes consumers.
#[derive(Clone)]
pub(super) struct Consumers {
    api: Api,
}

impl Consumers {
    pub(super) fn new(api: Api) -> Self {
        Self { api }
    }

    /// Joins the consumer, making it when it is not there; returns which making it is.
    pub(super) async fn join(&self, spec: &ConsumerSpec, stream: &StreamSpec) -> Result<String> {
        let patterns: Vec<String> =
            stream.filters.iter().filter_map(|filter| intersect(&spec.filter, filter)).collect();
        if patterns.is_empty() {
            let why = format!("the stream keeps nothing of {}", spec.filter);
            return Err(Error::new(ErrorKind::Invalid, CONSUME, why).at(&spec.name));
        }
        let made = nonce(self.api.connection());
        let notes = SpecText {
            filter: spec.filter.as_str().to_owned(),
            lease_s: spec.lease.as_secs(),
            lease_ns: spec.lease.subsec_nanos(),
            made: made.clone(),
        };
        let notes = serde_json::to_string(&notes).map_err(|error| {
            Error::new(ErrorKind::Invalid, CONSUME, "cannot be written as JSON").because(error)
        })?;
        let mut config = config(spec.name.as_str(), &patterns, spec.lease.saturating_add(MARGIN));
        config.insert("metadata".to_owned(), json!({ SPEC: notes }));
        match self.create(CONSUME, spec, config, CREATE).await {
            Ok(()) => Ok(made),
            Err(failure) if failure.err_code() == Some(EXISTS) => self.joined(spec).await,
            Err(failure) => Err(failure.into_error(CONSUME, &spec.name)),
        }
    }

    /// Which making of the consumer there is now.
    ///
    /// # Errors
    /// `Conflict` when it was made otherwise, `NotFound`.
    pub(super) async fn joined(&self, spec: &ConsumerSpec) -> Result<String> {
        let info = self.info(CONSUME, &spec.stream, &spec.name).await?;
        let Some((there, made)) = info.spec(&spec.stream) else {
            let why = "a consumer of somebody else has this name";
            return Err(Error::new(ErrorKind::Conflict, CONSUME, why).at(&spec.name));
        };
        if there == *spec {
            return Ok(made);
        }
        let why =
            format!("it exists with the filter {} and a lease of {:?}", there.filter, there.lease);
        Err(Error::new(ErrorKind::Conflict, CONSUME, why).at(&spec.name))
    }

    /// Makes sure that placed messages are handed out as well.
    ///
    /// One that somebody made late for an earlier consumer of this name is taken over.
    pub(super) async fn join_placed(
        &self,
        (spec, made): (&ConsumerSpec, &str),
        stream: &StreamSpec,
    ) -> Result<()> {
        let (patterns, name) = (placed_patterns(spec, stream), placed_name(&spec.name));
        let mut config = config(&name, &patterns, PLACED_WAIT);
        config.insert("metadata".to_owned(), json!({ MADE: made }));
        match self.create(CONSUME, spec, config.clone(), CREATE).await {
            Ok(()) => return Ok(()),
            Err(failure) if failure.err_code() == Some(EXISTS) => {}
            Err(failure) => return Err(failure.into_error(CONSUME, &spec.name)),
        }
        let there = self.info_placed(CONSUME, spec).await?;
        let there = there.config.get("metadata").and_then(|notes| notes.get(MADE));
        if there.and_then(Value::as_str) == Some(made) {
            return Ok(());
        }
        let updated = self.create(CONSUME, spec, config, UPDATE).await;
        updated.map_err(|failure| failure.into_error(CONSUME, &spec.name))
    }

    async fn create(
        &self,
        op: &'static str,
        spec: &ConsumerSpec,
        config: Map<String, Value>,
        action: &str,
    ) -> Result<(), ApiFailure> {
        let name = config.get("name").and_then(Value::as_str).unwrap_or_default();
        let mut verb = format!("CONSUMER.CREATE.{}.{name}", spec.stream);
        if let Some(filter) = config.get("filter_subject").and_then(Value::as_str) {
            // Where the filter stands in the call's subject, a right to it can be given alone.
            verb = format!("{verb}.{filter}");
        }
        let body = json!({
            "stream_name": spec.stream.as_str(), "config": config, "action": action,
        });
        let info: ConsumerInfo = self.api.call(op, &verb, &body).await?;
        self.note_time(&info);
        Ok(())
    }

    /// What the server says about the consumer of plain messages.
    pub(super) async fn info(
        &self,
        op: &'static str,
        stream: &StreamName,
        name: &ConsumerName,
    ) -> Result<ConsumerInfo> {
        self.info_of(op, stream, name.as_str()).await
    }

    /// What the server says about the consumer of placed messages.
    pub(super) async fn info_placed(
        &self,
        op: &'static str,
        spec: &ConsumerSpec,
    ) -> Result<ConsumerInfo> {
        self.info_of(op, &spec.stream, &placed_name(&spec.name)).await
    }

    /// Up to where everything is settled of the server's consumer `name`.
    pub(super) async fn settled_up_to(
        &self,
        op: &'static str,
        stream: &StreamName,
        name: &str,
    ) -> Result<u64> {
        Ok(self.info_of(op, stream, name).await?.ack_floor.stream_seq)
    }

    async fn info_of(
        &self,
        op: &'static str,
        stream: &StreamName,
        name: &str,
    ) -> Result<ConsumerInfo> {
        let asked = self.api.ask(op, &format!("CONSUMER.INFO.{stream}.{name}")).await;
        let info: ConsumerInfo = asked.map_err(|failure| failure.into_error(op, name))?;
        self.note_time(&info);
        Ok(info)
    }

    /// Every consumer of `stream`, those of others as well.
    pub(super) async fn list(
        &self,
        op: &'static str,
        stream: &StreamName,
    ) -> Result<Vec<ConsumerInfo>> {
        let mut all = Vec::new();
        loop {
            let verb = format!("CONSUMER.LIST.{stream}");
            let page = self.api.call(op, &verb, &json!({ "offset": all.len() })).await;
            let page: Page = page.map_err(|failure| failure.into_error(op, stream))?;
            let consumers = page.consumers.unwrap_or_default();
            if consumers.is_empty() {
                return Ok(all);
            }
            all.extend(consumers);
            if all.len() >= page.total {
                return Ok(all);
            }
        }
    }

    /// Pauses the consumer of plain messages.
    pub(super) async fn pause(
        &self,
        op: &'static str,
        (stream, name): (&StreamName, &ConsumerName),
        until: Option<Timestamp>,
    ) -> Result<()> {
        let body = match until {
            Some(until) => json!({ "pause_until": until.to_string() }),
            None => json!({}),
        };
        let asked: Result<Value, _> =
            self.api.call(op, &format!("CONSUMER.PAUSE.{stream}.{name}"), &body).await;
        asked.map(drop).map_err(|failure| failure.into_error(op, name))?;
        self.until_paused(op, (stream, name), until).await
    }

    /// Servers that keep several copies say that a consumer is paused before it is.
    async fn until_paused(
        &self,
        op: &'static str,
        (stream, name): (&StreamName, &ConsumerName),
        until: Option<Timestamp>,
    ) -> Result<()> {
        for pause in new_stream_pauses() {
            if self.info(op, stream, name).await?.paused_until() == until {
                return Ok(());
            }
            tokio::time::sleep(pause).await;
        }
        let why = "the server took it and does not say that it is so";
        Err(Error::new(ErrorKind::Unavailable, op, why).at(name).unknown())
    }

    /// Removes both, and says whether there was one.
    pub(super) async fn remove(
        &self,
        op: &'static str,
        (stream, name): (&StreamName, &ConsumerName),
    ) -> Result<bool> {
        let placed = placed_name(name);
        let there = self.delete(op, stream, name.as_str()).await?;
        self.delete(op, stream, &placed).await?;
        Ok(there)
    }

    async fn delete(&self, op: &'static str, stream: &StreamName, name: &str) -> Result<bool> {
        let asked = self.api.ask(op, &format!("CONSUMER.DELETE.{stream}.{name}")).await;
        match asked {
            Ok(Success { success }) => Ok(success),
            Err(failure) if failure.err_code() == Some(UNKNOWN) => Ok(false),
            Err(failure) => Err(failure.into_error(op, name)),
        }
    }

    fn note_time(&self, info: &ConsumerInfo) {
        if let Some(time) = info.asked_at() {
            self.api.connection().note_server_time(time);
        }
    }
}

impl ConsumerInfo {
    /// What it was made as, and which making that was; `None` for one of somebody else.
    pub(super) fn spec(&self, stream: &StreamName) -> Option<(ConsumerSpec, String)> {
        let text = self.config.get("metadata")?.get(SPEC)?.as_str()?;
        let text: SpecText = serde_json::from_str(text).ok()?;
        let spec = ConsumerSpec {
            stream: stream.clone(),
            name: ConsumerName::parse(self.name()?).ok()?,
            filter: Filter::parse(&text.filter).ok()?,
            lease: Duration::new(text.lease_s, text.lease_ns),
        };
        Some((spec, text.made))
    }

    pub(super) fn name(&self) -> Option<&str> {
        self.config.get("name")?.as_str()
    }

    /// The patterns it reads.
    pub(super) fn patterns(&self) -> Vec<String> {
        // The server keeps a single one under another name.
        let one = self.config.get("filter_subject").and_then(Value::as_str);
        let several = self.config.get("filter_subjects").and_then(Value::as_array);
        let several = several.into_iter().flatten().filter_map(Value::as_str);
        one.into_iter().chain(several).map(str::to_owned).collect()
    }

    /// Until when it is paused.
    pub(super) fn paused_until(&self) -> Option<Timestamp> {
        let text = self.config.get("pause_until")?.as_str()?;
        // The year 1 is how the server writes no time at all.
        Timestamp::parse_rfc3339(text).ok().filter(|until| until.unix_ns() > 0)
    }

    /// The server's time when it said this.
    pub(super) fn asked_at(&self) -> Option<Timestamp> {
        Timestamp::parse_rfc3339(self.ts.as_deref()?).ok()
    }
}

/// The patterns under which the placed messages of a consumer are kept.
pub(super) fn placed_patterns(spec: &ConsumerSpec, stream: &StreamSpec) -> Vec<String> {
    let common = stream.filters.iter().filter_map(|filter| intersect(&spec.filter, filter));
    let common = common.filter_map(|text| Filter::parse(&text).ok());
    common.map(|filter| placed_filter(&filter)).collect()
}

/// The server's consumer of placed messages. No consumer of the bus has a `+` in its name.
pub(super) fn placed_name(name: &ConsumerName) -> String {
    format!("{name}{PLACED_MARK}")
}

/// A text that nobody else makes.
pub(super) fn nonce(connection: &Arc<Connection>) -> String {
    let inbox = connection.new_inbox();
    inbox.rsplit('.').next().unwrap_or(&inbox).to_owned()
}

fn config(name: &str, patterns: &[String], ack_wait: Duration) -> Map<String, Value> {
    let ack_wait = i64::try_from(ack_wait.as_nanos()).unwrap_or(i64::MAX);
    let config = json!({
        "name": name,
        "durable_name": name,
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": ack_wait,
        "max_deliver": -1,
        "replay_policy": "instant",
        "max_waiting": WAITING_MAX,
        // What stands on the board counts as handed out here.
        "max_ack_pending": -1,
    });
    let Value::Object(mut config) = config else { return Map::new() };
    match patterns {
        [one] => config.insert("filter_subject".to_owned(), json!(one)),
        several => config.insert("filter_subjects".to_owned(), json!(several)),
    };
    config
}

const CONSUME: &str = "consume";
/// Behind the name of a consumer of placed messages.
pub(super) const PLACED_MARK: &str = "+p";
/// The note that holds the specification.
const SPEC: &str = "vak.spec";
/// The note that says for which making a consumer of placed messages is.
const MADE: &str = "vak.made";
/// How much later than its member the server takes a lease for lost: what is settled at the last
/// moment is still under way.
pub(super) const MARGIN: Duration = Duration::from_millis(250);
/// How long a placed message may take from the server onto the board.
pub(super) const PLACED_WAIT: Duration = Duration::from_secs(10);
/// How many engines may wait at once; each asks once.
const WAITING_MAX: u32 = 16_384;
/// What a consumer's making may do: only make one, or change one as well.
const CREATE: &str = "create";
const UPDATE: &str = "";
const EXISTS: u32 = 10_148;
const UNKNOWN: u32 = 10_014;
