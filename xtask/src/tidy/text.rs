//! Rules for text of every kind.

use super::{Violation, is_named};

/// Checks one text file.
pub(super) fn judge(path: &str, text: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    let by_hand = is_written_by_hand(path);
    let is_lock = is_named(path, "Cargo.lock");
    for (number, line) in (1..).zip(text.split('\n')) {
        let mut report = |rule, text: String| found.push(Violation::new(path, number, rule, text));
        if by_hand && line.ends_with([' ', '\t', '\r']) {
            report("trailing-space", "white space at the end of the line".to_owned());
        }
        if by_hand && line.trim_end().contains('\t') {
            report("tab", "indent with spaces; write `\\t` in a literal".to_owned());
        }
        if let Some(place) = machine_path(line) {
            report("machine-path", format!("`{place}` exists on one machine only"));
        }
        if let Some(host) = registry_host(line) {
            report("registry-host", format!("`{host}`: crates come from crates.io, unnamed"));
        }
        if is_lock && line.starts_with("source = ") && !line.contains(CRATES_IO) {
            report("lock-source", "only crates.io is a source of crates".to_owned());
        }
    }
    found
}

/// Data (vectors, snapshots, corpora) is kept byte for byte as it came.
fn is_written_by_hand(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.') {
        Some((_, end)) => HAND_WRITTEN.contains(&end),
        None => path.starts_with(".ci/"),
    }
}

/// Finds a path that begins at the root of somebody's machine.
fn machine_path(line: &str) -> Option<&'static str> {
    MACHINE_PATHS.into_iter().find(|place| {
        line.match_indices(place).any(|(at, _)| {
            let before = line.get(..at).and_then(|head| head.chars().next_back());
            let after = line.get(at + place.len()..).and_then(|tail| tail.chars().next());
            // `crates/work/`, `~/work/` and `$DIR/work/` are no roots.
            let is_root = !before.is_some_and(|c| c.is_alphanumeric() || "_-.~$})>*]".contains(c));
            is_root && (*place != HOMES || after.is_some_and(|c| c.is_ascii_alphanumeric()))
        })
    })
}

/// Finds an address whose host is a package index or a mirror of one.
fn registry_host(line: &str) -> Option<&str> {
    line.match_indices("://").find_map(|(at, mark)| {
        let rest = line.get(at + mark.len()..)?;
        let is_host = |c: char| c.is_ascii_alphanumeric() || ".-_@".contains(c);
        let host = rest.split(|c| !is_host(c)).next()?;
        REGISTRY_WORDS.iter().any(|word| host.contains(word)).then_some(host)
    })
}

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";
const HAND_WRITTEN: [&str; 13] = [
    "rs",
    "toml",
    "md",
    "sh",
    "py",
    "yml",
    "yaml",
    "html",
    "css",
    "js",
    "ts",
    "proto",
    "gitignore",
];
const HOMES: &str = concat!("/ho", "me/");
/// Written in two pieces, so that this file keeps its own rule.
const MACHINE_PATHS: [&str; 3] = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), HOMES];
const REGISTRY_WORDS: [&str; 5] = ["index.", "registry", "mirror", "artifactory", "nexus."];
