//! Compares a bundle with checkpoints that somebody kept elsewhere: the only proof that no tail is
//! missing (D7).

use bus_envelope::tree::MerkleTree;

use crate::{
    Checkpoint,
    log::{NAMES, Place, entries_file},
    verify::{Finding, FindingKind, KeptMatch, certificates::Authority},
};

/// Checks that the logs of `place` go on from each kept checkpoint.
pub(super) fn check(
    kept: &[String],
    place: &Place,
    authority: &Authority,
    trees: &[(&'static str, MerkleTree)],
) -> Result<Vec<KeptMatch>, Finding> {
    let one = |(text, number)| {
        let given = format!("kept checkpoint {number}");
        check_one(text, &given, place, authority, trees)
    };
    kept.iter().map(String::as_str).zip(1..).map(one).collect()
}

fn check_one(
    text: &str,
    given: &str,
    place: &Place,
    authority: &Authority,
    trees: &[(&'static str, MerkleTree)],
) -> Result<KeptMatch, Finding> {
    let checkpoint = Checkpoint::parse(text)
        .map_err(|error| Finding::new(given, FindingKind::CheckpointForm, error.to_string()))?;
    let origin = checkpoint.origin();
    let Some((name, tree)) = trees.iter().find(|(name, _)| place.origin(name) == origin) else {
        let logs = NAMES.join(", ");
        let detail = format!("it is of {origin:?}; the bundle has {logs} of {}", place.origin(""));
        return Err(Finding::new(given, FindingKind::KeptForeign, detail));
    };
    authority.vouches(given, &checkpoint)?;
    let (file, want) = (entries_file(name), checkpoint.size());
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
