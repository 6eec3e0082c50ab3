//! The checkpoints of a bundle, and the comparison of a log with its own.

use std::collections::BTreeMap;

use bus_envelope::{Timestamp, tree::MerkleTree};

use crate::{
    Checkpoint,
    log::{CERTIFICATES, Place, checkpoint_file, entries_file},
    verify::{Finding, FindingKind, certificates::Authority, files::Files},
};

/// The checkpoints of a bundle, one for each log.
pub(super) struct Heads {
    pub(super) place: Place,
    names: &'static [&'static str],
    checkpoints: BTreeMap<&'static str, Checkpoint>,
}

impl Heads {
    /// Reads the checkpoint of each of the logs `names` and the place that they agree on.
    pub(super) fn read(files: &Files<'_>, names: &'static [&'static str]) -> Result<Self, Finding> {
        let mut place = None;
        let mut checkpoints = BTreeMap::new();
        for name in names.iter().copied() {
            let file = checkpoint_file(name);
            let checkpoint = files.checkpoint(&file)?;
            let origin =
                |detail: String| Finding::new(&file, FindingKind::CheckpointOrigin, detail);
            let (own, of) = Place::parse(checkpoint.origin())
                .ok_or_else(|| origin(format!("{:?} names no log", checkpoint.origin())))?;
            if of != name {
                return Err(origin(format!("it is the checkpoint of {of:?}")));
            }
            if *place.get_or_insert_with(|| own.clone()) != own {
                return Err(origin(format!("it is of {}/{}", own.workspace, own.session)));
            }
            checkpoints.insert(name, checkpoint);
        }
        match place {
            Some(place) => Ok(Self { place, names, checkpoints }),
            None => Err(Finding::new(".", FindingKind::Incomplete, "there are no checkpoints")),
        }
    }

    /// Who signed the checkpoints, by name.
    pub(super) fn recorder(&self) -> String {
        let signature = self.checkpoints.get(CERTIFICATES).and_then(|own| own.signatures().first());
        signature.map(|signature| signature.name().to_owned()).unwrap_or_default()
    }

    /// Compares the entries of the log `name` with its checkpoint.
    pub(super) fn check(
        &self,
        name: &str,
        tree: &MerkleTree,
        authority: &Authority,
    ) -> Result<(), Finding> {
        let file = checkpoint_file(name);
        let Some(checkpoint) = self.checkpoints.get(name) else {
            return Err(Finding::new(&file, FindingKind::Incomplete, "there is no checkpoint"));
        };
        authority.vouches(&file, checkpoint)?;
        let recorder = self.recorder();
        if checkpoint.signatures().iter().any(|signature| signature.name() != recorder) {
            let detail = format!("the other checkpoints are signed by {recorder}");
            return Err(Finding::new(&file, FindingKind::CheckpointSigner, detail));
        }
        let entries = entries_file(name);
        let (have, want) = (tree.size(), checkpoint.size());
        if have < want {
            let detail = format!("{have} entries where the checkpoint says {want}");
            return Err(Finding::new(&entries, FindingKind::Truncated, detail));
        }
        if have > want {
            let detail = format!("{have} entries where the checkpoint says {want}");
            return Err(Finding::new(&entries, FindingKind::ExtraEntries, detail).at(want + 1));
        }
        if tree.root().as_bytes() != checkpoint.root() {
            let detail = "its entries are not those that the checkpoint was made over";
            return Err(Finding::new(&entries, FindingKind::Altered, detail));
        }
        Ok(())
    }

    /// Checks that the recorder's certificates were valid at the time of the newest envelope of all
    /// logs.
    pub(super) fn check_validity(
        &self,
        newest: Option<Timestamp>,
        authority: &Authority,
    ) -> Result<(), Finding> {
        let heads = self.names.iter().filter_map(|name| Some((name, self.checkpoints.get(name)?)));
        heads.into_iter().try_for_each(|(name, checkpoint)| {
            authority.vouches_at(&checkpoint_file(name), checkpoint, newest)
        })
    }
}
