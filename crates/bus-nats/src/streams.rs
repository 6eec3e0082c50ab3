//! Streams: declared exactly or refused, and found by the subjects they keep.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use bus_core::{Error, ErrorKind, Result, Retention, StreamSpec, planes::latest_value_filters};
use bus_envelope::Timestamp;
use bus_subjects::{Filter, StreamName, Subject, SubjectTable, WorkspaceId};
use serde::{Deserialize, Serialize};

use self::config::Config;
use crate::{
    api::{Api, ApiFailure, new_stream_pauses},
    permissions::Layout,
    profile::Profile,
};

mod check;
mod config;
mod standing;

pub use standing::{StreamFacts, StreamStanding};

/// The declared streams of a server.
pub(crate) struct Streams {
    api: Api,
    profile: Profile,
    /// Subjects that the live plane keeps the newest frame of: no append goes there.
    latest: Vec<Filter>,
    /// The streams of the one workspace that these servers keep, when it is known.
    laid_out: Vec<Arc<StreamSpec>>,
    known: RwLock<Known>,
    /// Up to where this connection was told that something is stored, where copies may be behind.
    told: RwLock<HashMap<StreamName, u64>>,
}

/// What a server says about a stream.
#[derive(Deserialize)]
pub(crate) struct StreamInfo {
    config: Config,
    /// What it holds.
    pub(crate) state: StreamState,
    #[serde(default)]
    ts: Option<String>,
}

/// What a stream holds.
#[derive(Deserialize)]
pub(crate) struct StreamState {
    /// How many messages.
    pub(crate) messages: u64,
    /// The position of the newest one, also after it left.
    pub(crate) last_seq: u64,
    /// When the oldest one was stored.
    #[serde(default)]
    pub(crate) first_ts: Option<String>,
}

/// Streams found before; a stream changes neither its subjects nor its retention.
#[derive(Default)]
struct Known {
    names: HashMap<StreamName, Arc<StreamSpec>>,
    table: SubjectTable<Arc<StreamSpec>>,
}

#[derive(Serialize)]
struct BySubject<'a> {
    subject: &'a str,
}

#[derive(Deserialize)]
struct Names {
    #[serde(default)]
    streams: Option<Vec<String>>,
}

impl Streams {
    /// The streams behind `api`, kept as `profile` says.
    ///
    /// # Errors
    /// None in practice: the filters of the planes are valid.
    pub(crate) fn new(api: Api, profile: Profile) -> Result<Arc<Self>> {
        let latest = latest_value_filters()?;
        let laid_out = api.connection().workspace().map(laid_out).transpose()?;
        let laid_out = laid_out.unwrap_or_default();
        let names = laid_out.iter().map(|spec| (spec.name.clone(), Arc::clone(spec)));
        let mut known = Known { names: names.collect(), ..Known::default() };
        known.fill_table();
        let (known, told) = (RwLock::new(known), RwLock::default());
        Ok(Arc::new(Self { api, profile, latest, laid_out, known, told }))
    }

    /// How the servers keep what they acknowledge.
    pub(crate) const fn profile(&self) -> Profile {
        self.profile
    }

    /// Makes sure that the stream exists exactly as specified, in as many copies as the profile
    /// has or more.
    ///
    /// What is placed is kept under subjects of its own. `messages_per_subject_max` therefore
    /// holds for the plain messages of a subject, and again for those of each level and key:
    /// `messages_max` alone bounds all of them together.
    ///
    /// # Errors
    /// `Denied` where another account keeps it; `Conflict` with every difference when it exists
    /// otherwise, too few copies among them, or with the streams that it overlaps; `Unavailable`
    /// when the servers cannot keep so many copies; `Invalid`, and those of the API.
    pub(crate) async fn declare(&self, mut spec: StreamSpec) -> Result<()> {
        const OP: &str = "declare";
        self.api.connection().check_open(OP)?;
        self.api.check_keeps_itself(OP).map_err(|error| error.at(&spec.name))?;
        spec.filters.sort();
        spec.filters.dedup();
        check::check_spec(&spec)?;
        let wanted = config::wanted(&spec, self.profile)?;
        let verb = format!("STREAM.CREATE.{}", spec.name);
        let info: StreamInfo = match self.api.call(OP, &verb, &wanted).await {
            Ok(info) => info,
            Err(failure) if failure.err_code() == Some(NAME_IN_USE) => {
                self.ask_info(OP, &spec.name).await?
            }
            Err(failure) if failure.err_code() == Some(OVERLAPS) => {
                return Err(self.overlap(&spec).await);
            }
            Err(failure) if matches!(failure.err_code(), Some(ONE_COPY_ONLY | NO_PEERS)) => {
                // Said of a stream that exists as well: then the difference tells more.
                match self.ask_info(OP, &spec.name).await {
                    Ok(info) => info,
                    Err(_) => return Err(too_few(self.profile, failure, &spec.name)),
                }
            }
            Err(failure) => return Err(failure.into_error(OP, &spec.name)),
        };
        let differences = config::drift(&wanted, &info.config);
        if !differences.is_empty() {
            let why = format!("the stream exists otherwise: {}", differences.join("; "));
            return Err(Error::new(ErrorKind::Conflict, OP, why).at(&spec.name));
        }
        self.remember(spec);
        Ok(())
    }

    /// Whether frames with a placement are kept in the stream: in the layout of a workspace only in
    /// its queues.
    pub(crate) fn has_placed(&self, spec: &StreamSpec) -> bool {
        spec.retention == Retention::WorkQueue
            || self.api.keeps_itself()
            || self.laid_out.iter().all(|laid_out| laid_out.name != spec.name)
    }

    /// Takes it for granted that there is a stream as specified.
    pub(crate) fn take_as_declared(&self, mut spec: StreamSpec) {
        spec.filters.sort();
        spec.filters.dedup();
        self.remember(spec);
    }

    /// The specification of the stream `name`.
    ///
    /// # Errors
    /// `NotFound` when there is none that was declared; those of the API.
    pub(crate) async fn named(
        &self,
        op: &'static str,
        name: &StreamName,
    ) -> Result<Arc<StreamSpec>> {
        self.api.connection().check_open(op)?;
        if let Some(known) = self.read(|known| known.names.get(name).cloned()) {
            return Ok(known);
        }
        if !self.api.keeps_itself() {
            return Err(unknown(op, name));
        }
        let info = self.ask_info(op, name).await?;
        let spec = config::read_spec(&info.config).ok_or_else(|| unknown(op, name))?;
        Ok(self.remember(spec))
    }

    /// The specification of the stream `name` and what it holds now.
    ///
    /// # Errors
    /// As [`Streams::named`].
    pub(crate) async fn info(
        &self,
        op: &'static str,
        name: &StreamName,
    ) -> Result<(Arc<StreamSpec>, StreamInfo)> {
        self.api.connection().check_open(op)?;
        let info = self.ask_info(op, name).await?;
        if let Some(spec) = self.laid_out.iter().find(|spec| spec.name == *name) {
            return Ok((Arc::clone(spec), info));
        }
        let spec = config::read_spec(&info.config).ok_or_else(|| unknown(op, name))?;
        Ok((self.remember(spec), info))
    }

    /// The stream that keeps `subject`, when it is known.
    pub(crate) fn known_for(&self, subject: &Subject) -> Option<Arc<StreamSpec>> {
        self.read(|known| known.of_subject(subject))
    }

    /// The stream that keeps `subject`.
    ///
    /// # Errors
    /// `NotFound` when none does; those of the API.
    pub(crate) async fn of_subject(
        &self,
        op: &'static str,
        subject: &Subject,
    ) -> Result<Arc<StreamSpec>> {
        self.api.connection().check_open(op)?;
        if let Some(known) = self.known_for(subject) {
            return Ok(known);
        }
        let is_sampled = || self.latest.iter().any(|latest| latest.matches(subject));
        if !self.api.keeps_itself() || check::is_reserved(subject) || is_sampled() {
            return Err(unkept(op, subject));
        }
        for name in self.names(op, subject.as_str()).await? {
            let Ok(name) = StreamName::parse(&name) else { continue };
            match self.named(op, &name).await {
                Ok(spec) => return Ok(spec),
                // A stream of somebody else, or one that went at this moment.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Err(unkept(op, subject))
    }

    /// The stream of a known one did not answer: it is looked up anew next time. Returns what
    /// that means: gone where there is one copy, without a leader at the moment where there are
    /// several.
    pub(crate) fn missed(&self, name: &StreamName, error: Error) -> Error {
        if error.kind() != ErrorKind::NotFound {
            return error;
        }
        self.forget(name);
        if self.profile.replicas() == 1 {
            return error;
        }
        let why = "the stream does not answer: it has no leader now, or it is gone";
        Error::new(ErrorKind::Unavailable, error.op(), why).at(name)
    }

    /// Something was stored at `seq` of the stream, by this connection.
    pub(crate) fn note_stored(&self, name: &StreamName, seq: u64) {
        if self.profile.replicas() > 1 {
            let mut told = self.told.write().unwrap_or_else(PoisonError::into_inner);
            let last = told.entry(name.clone()).or_default();
            *last = seq.max(*last);
        }
    }

    /// Whether something was stored at `seq` or later, so that a copy without it may be behind.
    pub(crate) fn is_told(&self, name: &StreamName, seq: u64) -> bool {
        let told = self.told.read().unwrap_or_else(PoisonError::into_inner);
        told.get(name).is_some_and(|last| *last >= seq)
    }

    async fn ask_info(&self, op: &'static str, name: &StreamName) -> Result<StreamInfo> {
        let verb = format!("STREAM.INFO.{name}");
        let mut pauses = new_stream_pauses().take(UNHEARD_TRIES);
        let info = loop {
            let asked: Result<StreamInfo, ApiFailure> = self.api.ask(op, &verb).await;
            let error = match asked {
                Ok(info) => break info,
                Err(failure) => failure.into_error(op, name),
            };
            if error.kind() != ErrorKind::NotFound {
                return Err(error);
            }
            // A server that leads the others since a moment ago may not have heard of it yet.
            let may_be = self.api.has_copies()
                && self.read(|known| known.names.get(name).map(drop)).is_some();
            match pauses.next().filter(|_| may_be) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => {
                    self.forget(name);
                    return Err(error);
                }
            }
        };
        if let Some(time) = info.asked_at() {
            self.api.connection().note_server_time(time);
        }
        Ok(info)
    }

    /// The names of all streams that keep something of `filter`.
    async fn names(&self, op: &'static str, filter: &str) -> Result<Vec<String>> {
        let asked = self.api.call(op, "STREAM.NAMES", &BySubject { subject: filter }).await;
        let names: Names = asked.map_err(|failure| failure.into_error(op, filter))?;
        Ok(names.streams.unwrap_or_default())
    }

    /// Says which streams are in the way of `spec`.
    async fn overlap(&self, spec: &StreamSpec) -> Error {
        let mut why = "its subjects overlap another stream's".to_owned();
        for filter in &spec.filters {
            // That it overlaps is known; whose, is a courtesy.
            let names = self.names("declare", filter.as_str()).await.unwrap_or_default();
            if !names.is_empty() {
                why = format!("{filter} overlaps subjects of {}", names.join(", "));
                break;
            }
        }
        Error::new(ErrorKind::Conflict, "declare", why).at(&spec.name)
    }

    fn remember(&self, spec: StreamSpec) -> Arc<StreamSpec> {
        let spec = Arc::new(spec);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.names.get(&spec.name).is_some_and(|before| *before == spec) {
            return spec;
        }
        known.names.insert(spec.name.clone(), Arc::clone(&spec));
        known.fill_table();
        spec
    }

    fn forget(&self, name: &StreamName) {
        // It could not be asked for again.
        if !self.api.keeps_itself() || self.laid_out.iter().any(|spec| spec.name == *name) {
            return;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.names.remove(name).is_some() {
            known.fill_table();
        }
    }

    fn read<T>(&self, look: impl FnOnce(&Known) -> Option<T>) -> Option<T> {
        look(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl StreamInfo {
    /// The server's time when it said this.
    pub(crate) fn asked_at(&self) -> Option<Timestamp> {
        self.ts.as_deref().and_then(|text| Timestamp::parse_rfc3339(text).ok())
    }
}

impl Known {
    fn of_subject(&self, subject: &Subject) -> Option<Arc<StreamSpec>> {
        let mut found = None;
        self.table.for_each_match(subject, |spec| found = Some(Arc::clone(spec)));
        found
    }

    /// Seldom: streams come and go by an operator's hand.
    fn fill_table(&mut self) {
        self.table = SubjectTable::new();
        for spec in self.names.values() {
            for filter in &spec.filters {
                self.table.insert(filter.clone(), Arc::clone(spec));
            }
        }
    }
}

/// The streams of a workspace, each for no more than what it keeps of that.
fn laid_out(workspace: &WorkspaceId) -> Result<Vec<Arc<StreamSpec>>> {
    let layout = Layout::of(workspace)?;
    let narrowed = |mut spec: StreamSpec| {
        spec.filters = layout.whole(&spec.name).to_vec();
        Arc::new(spec)
    };
    Ok(layout.streams()?.into_iter().map(narrowed).collect())
}

fn unknown(op: &'static str, name: &StreamName) -> Error {
    Error::new(ErrorKind::NotFound, op, "there is no such stream").at(name)
}

fn too_few(profile: Profile, failure: ApiFailure, name: &StreamName) -> Error {
    let refused = failure.into_error("declare", name);
    let why = format!("the profile has {} copies: {}", profile.replicas(), refused.detail());
    Error::new(ErrorKind::Unavailable, "declare", why).at(name)
}

fn unkept(op: &'static str, subject: &Subject) -> Error {
    Error::new(ErrorKind::NotFound, op, "no stream keeps this subject").at(subject)
}

/// How often a stream that was there before is asked for again, 192 ms in all.
const UNHEARD_TRIES: usize = 7;
const NAME_IN_USE: u32 = 10_058;
const OVERLAPS: u32 = 10_065;
/// One server alone keeps one copy.
const ONE_COPY_ONLY: u32 = 10_074;
/// Too few servers of a cluster, now at least.
const NO_PEERS: u32 = 10_005;
