//! What the two workspaces and the lists of targets must agree on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bus_fuzz::{CANARY, TARGETS};

/// Else the replay would judge other code than the product runs.
#[test]
fn both_lock_files_hold_the_same_versions() {
    let (product, fuzz) = (versions("../Cargo.lock"), versions("Cargo.lock"));
    let both = fuzz.iter().filter_map(|(name, ours)| Some((name, ours, product.get(name)?)));
    let apart: Vec<_> = both.filter(|(_, ours, theirs)| !ours.is_subset(theirs)).collect();
    let repair =
        "copy Cargo.lock to fuzz/Cargo.lock, then `cargo tree --manifest-path fuzz/Cargo.toml`";
    assert!(apart.is_empty(), "{apart:?}: {repair}");
}

#[test]
fn every_target_has_a_program_and_kept_inputs() {
    let targets = TARGETS.iter().chain([&CANARY]);
    let names: BTreeSet<String> = targets.map(|target| target.name.to_owned()).collect();
    let programs = entries("fuzz_targets")
        .iter()
        .filter_map(|file| Some(file.strip_suffix(".rs")?.to_owned()))
        .collect();
    assert_eq!(names, programs);
    assert_eq!(names, entries("corpus"));
    let manifest = std::fs::read_to_string(here("Cargo.toml")).unwrap();
    for name in &names {
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name}");
        assert!(!entries(&format!("corpus/{name}")).is_empty(), "{name}");
    }
}

fn versions(file: &str) -> BTreeMap<String, BTreeSet<String>> {
    let text = std::fs::read_to_string(here(file)).unwrap();
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut name = "";
    for line in text.lines() {
        let value = |key: &str| line.strip_prefix(key)?.trim_matches([' ', '=', '"']).into();
        if let Some(value) = value("name") {
            name = value;
        } else if let Some(version) = value("version").filter(|_| !name.is_empty()) {
            versions.entry(name.to_owned()).or_default().insert(version.to_owned());
            name = "";
        }
    }
    assert!(versions.len() > 20, "{file} is not a lock file");
    versions
}

fn entries(folder: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(here(folder)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

fn here(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
