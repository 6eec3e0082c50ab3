//! Where everything of one workspace lies on a server.

use bus_core::{Result, StreamSpec, planes};
use bus_subjects::{BucketName, Filter, StreamName, Subject, WorkspaceId};

/// Where everything of one workspace lies on a server: which stream keeps which subjects, and
/// under which names it is asked.
///
/// A pair of accounts holds one workspace. That is why a stream can be read whole by whoever may
/// read everything that this workspace keeps in it.
#[derive(Debug, Clone)]
pub struct Layout {
    workspace: WorkspaceId,
    stores: Vec<Store>,
    flat: [BucketName; 4],
    /// The one bucket whose keys have several levels.
    agents: BucketName,
    blobs: [BucketName; 1],
}

/// A stream and what it keeps of the workspace.
#[derive(Debug, Clone)]
pub(super) struct Store {
    pub(super) name: StreamName,
    /// What it keeps, in parts; that of a queue has one.
    parts: Vec<Filter>,
    /// Who consumes it, when this is a queue.
    pub(super) consumers: Option<Consumers>,
}

/// The consumers of a queue.
#[derive(Debug, Clone, Copy)]
pub(super) enum Consumers {
    /// One for the messages of each owner; its name begins so, and ends in the owner's.
    OfOwner(&'static str),
    /// One for all messages, which who takes over removes and makes anew.
    Only(&'static str),
}

impl Layout {
    /// What the subjects of `JetStream`'s API begin with in the account of the agents.
    ///
    /// Not `$JS.API`: a server with `JetStream` answers there itself, in every account, and says
    /// that this account has none.
    pub const API_PREFIX: &'static str = "vakj";

    /// The stream of records about messages that cannot be handed out in order.
    pub const BOARD: &'static str = "VAK_BOARD";

    /// The stream of the latest samples.
    pub const LATEST: &'static str = "VAK_LATEST";

    /// The layout of `workspace`.
    ///
    /// # Errors
    /// None in practice: a valid workspace id gives valid names. The type says so because the
    /// names are checked like any other.
    pub fn of(workspace: &WorkspaceId) -> Result<Self> {
        let mut stores = Vec::new();
        let mut add = |name: StreamName, filter: &str, consumers| -> Result<()> {
            let parts = vec![Filter::parse(&filter.replace("<ws>", workspace.as_str()))?];
            stores.push(Store { name, parts, consumers });
            Ok(())
        };
        let of_owner = |prefix| Some(Consumers::OfOwner(prefix));
        let courier = Some(Consumers::Only("courier"));
        add(planes::work_stream(workspace)?, "vak.work.<ws>.*.task", of_owner("worker_"))?;
        add(planes::inbox_stream(workspace)?, "vak.agent.<ws>.*.inbox", of_owner("inbox_"))?;
        add(planes::outbox_stream(workspace)?, "vak.outbox.<ws>.*.record", courier)?;
        add(planes::receipts_stream()?, "vak.receipts.<ws>.*.completed", None)?;
        add(planes::approvals_stream()?, "vak.approvals.<ws>.*.request", None)?;
        add(planes::dead_letters_stream()?, "vak.dlq.<ws>.*.failed", None)?;
        add(StreamName::parse(Self::LATEST)?, "vak.events.<ws>.*.telemetry", None)?;
        let recordings = planes::recordings(workspace)?;
        let StreamSpec { name, filters: parts, .. } = recordings;
        stores.push(Store { name, parts, consumers: None });
        let flat =
            [BucketName::claims, BucketName::results, BucketName::cancels, BucketName::outbox];
        Ok(Self {
            workspace: workspace.clone(),
            stores,
            flat: flat.map(|name| name(workspace)),
            agents: BucketName::agents(workspace),
            blobs: [BucketName::results(workspace)],
        })
    }

    /// Whose layout it is.
    #[must_use]
    pub fn workspace(&self) -> &WorkspaceId {
        &self.workspace
    }

    /// The stream that keeps `subject`; `None` when none of this workspace does.
    #[must_use]
    pub fn stream_of(&self, subject: &Subject) -> Option<&StreamName> {
        let keeps = |store: &&Store| store.parts.iter().any(|part| part.matches(subject));
        let store = self.stores.iter().find(keeps);
        store.map(|store| &store.name)
    }

    /// Everything that `stream` keeps of this workspace; empty when it is no stream of it.
    #[must_use]
    pub fn whole(&self, stream: &StreamName) -> &[Filter] {
        self.store(stream.as_str()).map_or(&[], Store::parts)
    }

    /// Whether messages of `stream` are placed, so that they are also kept under another subject.
    #[must_use]
    pub fn is_queue(&self, stream: &StreamName) -> bool {
        self.store(stream.as_str()).is_some_and(|store| store.consumers.is_some())
    }

    /// The buckets of values.
    pub fn buckets(&self) -> impl Iterator<Item = &BucketName> {
        self.flat.iter().chain([&self.agents])
    }

    /// The buckets of blobs.
    #[must_use]
    pub fn blobs(&self) -> &[BucketName] {
        &self.blobs
    }

    /// The streams of frames, as they are declared.
    ///
    /// # Errors
    /// As [`Layout::of`].
    pub fn streams(&self) -> Result<Vec<StreamSpec>> {
        let mut streams = planes::workspace_streams(&self.workspace)?;
        streams.push(planes::outbox(&self.workspace)?);
        streams.push(planes::recordings(&self.workspace)?);
        Ok(streams)
    }

    /// Whether all keys of `bucket` have one level, those of blobs too. A right to read keys that
    /// ends in `*` cannot be kept out of deeper ones, so only a flat bucket has such rights.
    #[must_use]
    pub fn is_flat(&self, bucket: &BucketName) -> bool {
        self.flat.contains(bucket)
    }

    pub(super) fn stores(&self) -> impl Iterator<Item = &Store> {
        self.stores.iter()
    }

    pub(super) fn store(&self, stream: &str) -> Option<&Store> {
        self.stores.iter().find(|store| store.name.as_str() == stream)
    }
}

impl Store {
    /// Everything that it keeps of the workspace.
    pub(super) fn parts(&self) -> &[Filter] {
        &self.parts
    }
}
