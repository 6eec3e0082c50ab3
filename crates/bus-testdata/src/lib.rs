#![doc = include_str!("../README.md")]
//!
//! Only tests use this crate; a missing folder is an error, never a pass.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// Returns the folder of the foreign test vectors.
///
/// `VAKBUS_VECTORS` names it; without that variable every folder above the calling crate is tried
/// for `shared/vectors`. Returns `None`, after printing `not run: vectors missing`, when there is
/// none and `CI` is not `true`.
///
/// # Panics
/// Under `CI=true` when the folder is missing: a run that should prove something must not pass
/// without having looked.
#[must_use]
pub fn vectors() -> Option<PathBuf> {
    let found = locate();
    if found.is_none() {
        report_missing("vectors missing");
    }
    found
}

/// Reads `file` (a path below the vectors folder) as JSON.
///
/// Returns `None` when the vectors are missing outside CI, as [`vectors`] does.
///
/// # Panics
/// When the file cannot be read or is not JSON, and where [`vectors`] panics.
#[must_use]
#[expect(clippy::panic, reason = "test support: a damaged vector file must fail the test")]
pub fn json(file: &str) -> Option<Value> {
    let path = vectors()?.join(file);
    let text = std::fs::read(&path)
        .unwrap_or_else(|error| panic!("vector file {} cannot be read: {error}", path.display()));
    let value = serde_json::from_slice(&text)
        .unwrap_or_else(|error| panic!("vector file {} is not JSON: {error}", path.display()));
    Some(value)
}

/// Decodes lower-case or upper-case hex.
///
/// # Panics
/// When `text` is not hex: the vector file would be damaged.
#[must_use]
#[expect(clippy::panic, reason = "test support: a damaged vector file must fail the test")]
pub fn hex(text: &str) -> Vec<u8> {
    let digit = |c: u8| (c as char).to_digit(16).unwrap_or_else(|| panic!("not hex: {text}")) as u8;
    assert!(text.len().is_multiple_of(2), "odd number of hex digits: {text}");
    let pairs = text.as_bytes().chunks_exact(2);
    pairs.map(|pair| pair.iter().fold(0, |byte, c| byte << 4 | digit(*c))).collect()
}

fn locate() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("VAKBUS_VECTORS") {
        let path = PathBuf::from(path);
        return path.is_dir().then_some(path);
    }
    let start = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    start.ancestors().map(|dir| dir.join("shared/vectors")).find(|dir| Path::is_dir(dir))
}

#[expect(clippy::print_stdout, reason = "the reader of a test run must see what was not run")]
#[expect(clippy::panic, reason = "a run that proves nothing must fail in CI")]
fn report_missing(what: &str) {
    if std::env::var_os("CI").is_some_and(|ci| ci == "true") {
        panic!("not run: {what}");
    }
    println!("not run: {what}");
}
