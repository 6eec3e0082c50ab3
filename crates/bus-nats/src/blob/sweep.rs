//! Pieces that no manifest names are removed once nobody can need them.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use bus_core::Result;
use bus_envelope::Timestamp;
use bus_subjects::BucketName;
use serde::{Deserialize, Serialize};

use super::{
    BlobStore, is_tombstone,
    layout::{Layout, Manifest, is_upload},
    upload::purge,
};
use crate::api::{ApiFailure, GetRequest};

/// When pieces that belong to no blob are taken for garbage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobAges {
    /// An upload to which nothing was added for so long was given up. A live one never waits so
    /// long with the default of one hour: after half an hour without a piece it fails.
    pub idle: Duration,
    /// The pieces of a replaced, deleted or given-up blob stay so long for those who began to
    /// read it; one hour by default.
    pub grace: Duration,
}

/// What is asked of a stream: how many messages each subject of a filter has.
#[derive(Serialize)]
struct Counts {
    subjects_filter: String,
    offset: usize,
}

#[derive(Deserialize)]
struct Counted {
    state: State,
}

#[derive(Deserialize)]
struct State {
    #[serde(default)]
    subjects: Option<HashMap<String, u64>>,
}

/// Everything of a bucket that is not a manifest, and what the manifests name.
struct Found {
    uploads: HashSet<String>,
    dead: HashMap<String, Timestamp>,
    live: HashSet<String>,
}

impl Default for BlobAges {
    fn default() -> Self {
        Self { idle: Duration::from_secs(3_600), grace: Duration::from_secs(3_600) }
    }
}

impl BlobStore {
    /// Removes the uploads of `bucket` that no manifest names and that are old enough, and says
    /// how many. Any number of connections may sweep at once.
    pub(crate) async fn sweep(&self, bucket: &BucketName, ages: BlobAges) -> Result<u64> {
        self.api.connection().check_open(SWEEP)?;
        self.api.check_keeps_itself(SWEEP).map_err(|error| error.at(bucket))?;
        let layout = Layout::new(bucket);
        let found = self.look(&layout).await.map_err(|error| error.at(bucket))?;
        let now = self.api.connection().now();
        let mut removed = 0;
        for upload in found.uploads.difference(&found.live) {
            let died = match found.dead.get(upload) {
                Some(died) => *died,
                None if self.is_idle(&layout, upload, now, ages.idle).await? => {
                    self.try_mark_dead(SWEEP, &layout, upload).await?;
                    now
                }
                None => continue,
            };
            if now.since(died) >= ages.grace {
                purge(SWEEP, &self.api, &layout, &layout.pieces(upload)).await?;
                purge(SWEEP, &self.api, &layout, &layout.dead(upload)).await?;
                removed += 1;
            }
        }
        // Marks whose pieces are gone: of a sweep that broke off, or of an empty blob.
        for (upload, died) in &found.dead {
            if !found.uploads.contains(upload) && now.since(*died) >= ages.grace {
                purge(SWEEP, &self.api, &layout, &layout.dead(upload)).await?;
            }
        }
        Ok(removed)
    }

    /// Manifests are read last: what they do not name then was replaced, or is not done yet.
    async fn look(&self, layout: &Layout) -> Result<Found> {
        let uploads = self.uploads(layout).await?;
        let mut dead = HashMap::new();
        let prefix = layout.dead_prefix();
        for mark in self.all_of(SWEEP, layout, format!("{prefix}*")).await? {
            if let Some(upload) = mark.subject.strip_prefix(&prefix).filter(|it| is_upload(it)) {
                dead.insert(upload.to_owned(), mark.time);
            }
        }
        let mut live = HashSet::new();
        for manifest in self.all_of(SWEEP, layout, layout.all_manifests()).await? {
            if !is_tombstone(&manifest) {
                // One that cannot be read may name anything: then nothing is removed.
                live.insert(Manifest::read(SWEEP, &manifest.body)?.upload);
            }
        }
        Ok(Found { uploads, dead, live })
    }

    async fn uploads(&self, layout: &Layout) -> Result<HashSet<String>> {
        let prefix = layout.pieces_prefix();
        let verb = format!("STREAM.INFO.{}", layout.stream());
        let mut uploads = HashSet::new();
        let mut offset = 0;
        loop {
            let counts = Counts { subjects_filter: format!("{prefix}*"), offset };
            let counted = match self.api.call::<Counted>(SWEEP, &verb, &counts).await {
                Ok(counted) => counted,
                Err(failure) if failure.err_code() == Some(NO_STREAM) => return Ok(uploads),
                Err(failure) => return Err(failure.into_error(SWEEP, layout.stream())),
            };
            let subjects = counted.state.subjects.unwrap_or_default();
            if subjects.is_empty() {
                return Ok(uploads);
            }
            offset += subjects.len();
            let ids = subjects.keys().filter_map(|subject| subject.strip_prefix(&prefix));
            uploads.extend(ids.filter(|id| is_upload(id)).map(str::to_owned));
        }
    }

    /// Whether nothing was added to `upload` for `idle`.
    async fn is_idle(
        &self,
        layout: &Layout,
        upload: &str,
        now: Timestamp,
        idle: Duration,
    ) -> Result<bool> {
        let subject = layout.pieces(upload);
        let wanted = GetRequest { last_by_subj: Some(subject.clone()), ..Default::default() };
        let last = self.api.get(SWEEP, layout.stream(), &wanted).await;
        let last = last.map_err(|failure: ApiFailure| failure.into_error(SWEEP, &subject))?;
        Ok(last.first().is_some_and(|last| now.since(last.time) >= idle))
    }
}

const SWEEP: &str = "sweep blobs";
const NO_STREAM: u32 = 10_059;
