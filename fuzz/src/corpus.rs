//! The inputs that are kept in the repository: minimal ones of our own, and every crash found.

use std::io;
use std::path::{Path, PathBuf};

/// The folder with the kept inputs of a target.
#[must_use]
pub fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

/// The kept inputs of a target by file name, sorted.
///
/// # Errors
/// When the folder is missing or cannot be read: a target without one is not being kept.
pub fn kept(target: &str) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut inputs = Vec::new();
    for entry in std::fs::read_dir(folder(target))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        inputs.push((name, std::fs::read(entry.path())?));
    }
    inputs.sort();
    Ok(inputs)
}
