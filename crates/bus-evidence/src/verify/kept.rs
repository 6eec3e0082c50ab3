//! Compares a bundle with checkpoints that somebody kept elsewhere: the only proof that no tail is
//! missing (D7).

use bus_envelope::{Timestamp, tree::MerkleTree};

use crate::{
    Checkpoint,
    log::{Place, entries_file},
    verify::{Finding, FindingKind, KeptMatch, certificates::Authority, logs, logs::Entry},
};

/// A log to hold kept checkpoints against.
pub(super) struct Whole<'a> {
    pub(super) name: &'static str,
    pub(super) tree: MerkleTree,
    /// Its envelopes, one a line; none for certificates.
    pub(super) entries: &'a [Entry],
}

impl Whole<'_> {
    /// The time of the newest envelope among the first `count` lines.
    fn newest_of(&self, count: u64) -> Option<Timestamp> {
        logs::newest(self.entries.iter().take(usize::try_from(count).unwrap_or(usize::MAX)))
    }
}

/// Checks that the logs of `place` go on from each kept checkpoint.
pub(super) fn check(
    kept: &[String],
    place: &Place,
    authority: &Authority,
    wholes: &[Whole<'_>],
) -> Result<Vec<KeptMatch>, Finding> {
    let one = |(text, number)| {
        let given = format!("kept checkpoint {number}");
        check_one(text, &given, place, authority, wholes)
    };
    kept.iter().map(String::as_str).zip(1..).map(one).collect()
}

fn check_one(
    text: &str,
    given: &str,
    place: &Place,
    authority: &Authority,
    wholes: &[Whole<'_>],
) -> Result<KeptMatch, Finding> {
    let checkpoint = Checkpoint::parse(text)
        .map_err(|error| Finding::new(given, FindingKind::CheckpointForm, error.to_string()))?;
    let origin = checkpoint.origin();
    let Some(whole) = wholes.iter().find(|whole| place.origin(whole.name) == origin) else {
        let logs: Vec<&str> = wholes.iter().map(|whole| whole.name).collect();
        let logs = logs.join(", ");
        let detail = format!("it is of {origin:?}; the bundle has {logs} of {}", place.origin(""));
        return Err(Finding::new(given, FindingKind::KeptForeign, detail));
    };
    let (tree, file, want) = (&whole.tree, entries_file(whole.name), checkpoint.size());
    authority.vouches_at(given, &checkpoint, whole.newest_of(want))?;
    match tree.root_at(want) {
        Some(root) if root.as_bytes() == checkpoint.root() => {
            Ok(KeptMatch { origin: origin.to_owned(), entries: want, entries_now: tree.size() })
        }
        Some(_) => {
            let detail = format!("its first {want} entries are not those of {given}");
            Err(Finding::new(&file, FindingKind::Rewritten, detail))
        }
        None => {
            let detail = format!("{} entries where {given} says {want}", tree.size());
            Err(Finding::new(&file, FindingKind::CutTail, detail))
        }
    }
}
