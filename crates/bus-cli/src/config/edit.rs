//! Changes one setting of a file: comments and order stay, and it is written whole or not at all.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use bus_crypto::{Entropy, SystemEntropy};
use rustix::fs::{FlockOperation, flock};
use toml_edit::{DocumentMut, Item, Table, TableLike};

use super::{Key, Origin, SettingsFile, Value};
use crate::error::{CliError, Exit};

/// Sets `key` in the file at `path`, which is made when it is not there.
///
/// # Errors
/// When the file is wrong already, would be wrong afterwards, or cannot be written.
pub(crate) fn set(path: &Path, key: Key, value: &Value) -> Result<Changed, CliError> {
    change(path, true, |document| {
        let table = table_for(document.as_table_mut(), key.name())
            .ok_or_else(|| CliError::usage(format!("{}: expected a table", key.name())))?;
        let last = key.name().rsplit('.').next().unwrap_or_default();
        let mut value = value.to_toml();
        match table.get_mut(last).and_then(Item::as_value_mut) {
            Some(old) => {
                // What stands around the value, its comment above all, is the user's.
                *value.decor_mut() = old.decor().clone();
                *old = value;
            }
            None => drop(table.insert(last, Item::Value(value))),
        }
        Ok(true)
    })
}

/// Takes the setting `name` out of the file at `path`, known or not. Nothing else of the file is
/// judged: whoever repairs it does so one setting after the other.
///
/// # Errors
/// When the file is no TOML or cannot be written.
pub(crate) fn unset(path: &Path, name: &str) -> Result<Changed, CliError> {
    change(path, false, |document| {
        let (tables, last) = name.rsplit_once('.').unwrap_or(("", name));
        let mut table: &mut dyn TableLike = document.as_table_mut();
        for part in tables.split('.').filter(|part| !part.is_empty()) {
            match table.get_mut(part).and_then(Item::as_table_like_mut) {
                Some(below) => table = below,
                None => return Ok(false),
            }
        }
        Ok(table.remove(last).is_some())
    })
}

/// A file after a change.
#[derive(Debug)]
pub(crate) struct Changed {
    /// As it was when it was changed; none when it was made.
    pub(crate) before: Option<SettingsFile>,
    /// As it was written; none when there was nothing to change.
    pub(crate) after: Option<SettingsFile>,
}

fn change(
    path: &Path,
    must_be_right: bool,
    edit: impl FnOnce(&mut DocumentMut) -> Result<bool, CliError>,
) -> Result<Changed, CliError> {
    let cannot = |error: io::Error| {
        CliError::new(Exit::Failed, format!("cannot write {}: {error}", path.display()))
    };
    // A link stays a link: what it leads to is changed.
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let dir = match real.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    if fs::symlink_metadata(dir).is_err() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(cannot)?;
    }
    // Two who change the same file at the same moment take turns, or one change would be lost.
    let turn = File::open(dir).map_err(cannot)?;
    flock(&turn, FlockOperation::LockExclusive).map_err(|error| cannot(error.into()))?;
    let before = SettingsFile::read(path)?;
    if before.as_ref().is_some_and(|file| file.is_foreign) {
        let what = format!("{} can be written by other users", path.display());
        return Err(CliError::new(Exit::Refused, what).next("make it yours, then look at it"));
    }
    let text = before.as_ref().map_or("", |file| &file.text);
    let mut document: DocumentMut = match text.parse() {
        Ok(document) => document,
        Err(_) => match &before {
            // The strict reader says where, without quoting.
            Some(file) => {
                return Err(file.layer(Origin::User).err().unwrap_or_else(|| {
                    CliError::usage(format!("{} is not TOML", path.display()))
                }));
            }
            None => DocumentMut::new(),
        },
    };
    if !edit(&mut document)? {
        return Ok(Changed { before, after: None });
    }
    let after =
        SettingsFile { path: path.to_owned(), text: document.to_string(), is_foreign: false };
    if must_be_right {
        after.layer(Origin::User)?;
    }
    write(&real, &after.text, (dir, &turn)).map_err(cannot)?;
    Ok(Changed { before, after: Some(after) })
}

/// Replaces the file by one that is complete; a new one is for its owner only.
fn write(path: &Path, text: &str, (dir, opened): (&Path, &File)) -> io::Result<()> {
    let mode = fs::metadata(path).map_or(0o600, |meta| meta.permissions().mode() & 0o777);
    let draft = Draft::new(dir)?;
    let mut options = OpenOptions::new();
    let mut out = options.write(true).create_new(true).mode(0o600).open(&draft.0)?;
    out.write_all(text.as_bytes())?;
    out.set_permissions(Permissions::from_mode(mode))?;
    out.sync_all()?;
    fs::rename(&draft.0, path)?;
    opened.sync_all()
}

/// A file that is still being written.
struct Draft(PathBuf);

impl Draft {
    fn new(dir: &Path) -> io::Result<Self> {
        let mut bytes = [0; 8];
        SystemEntropy::new().fill(&mut bytes).map_err(io::Error::other)?;
        Ok(Self(dir.join(format!(".vakbus.toml.new-{:016x}", u64::from_le_bytes(bytes)))))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Usually it was moved to its place, and then there is nothing.
        let _gone = fs::remove_file(&self.0);
    }
}

/// The table in which the last part of `name` stands, made where it is not there.
fn table_for<'a>(root: &'a mut Table, name: &str) -> Option<&'a mut dyn TableLike> {
    let tables = name.rsplit_once('.').map_or("", |(tables, _)| tables);
    let mut table: &mut dyn TableLike = root;
    for part in tables.split('.').filter(|part| !part.is_empty()) {
        if !table.contains_key(part) {
            let mut new = Table::new();
            // `[server.bus]` alone, without a `[server]` above it.
            new.set_implicit(true);
            table.insert(part, Item::Table(new));
        }
        table = table.get_mut(part)?.as_table_like_mut()?;
    }
    Some(table)
}
