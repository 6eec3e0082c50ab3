//! A settings file: parsed strictly, every refusal with its line and never with a value.

use std::{
    fs::{self, File, Metadata},
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use toml_edit::{Document, Item, TableLike};

use super::{Key, Layer, Origin, Value, key::nearest, value::Kind};
use crate::{error::CliError, print::harmless};

/// The name of a project's settings file, and of the user's.
pub(crate) const FILE_NAME: &str = "vakbus.toml";

/// The largest settings file, in bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// A settings file as it was read.
#[derive(Debug)]
pub(crate) struct SettingsFile {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// What it says.
    pub(crate) text: String,
    /// Whether somebody else could have written it: another user owns it, or everybody may write.
    pub(crate) is_foreign: bool,
}

impl SettingsFile {
    /// Reads the file at `path`; none when there is none.
    ///
    /// # Errors
    /// When it cannot be read, is no regular file, is no text or is too large.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, CliError> {
        let shown = path.display();
        let cannot = |error| CliError::usage(format!("cannot read {shown}: {error}"));
        match fs::metadata(path) {
            Ok(meta) if !meta.is_file() => {
                return Err(CliError::usage(format!("{shown} is not a regular file")));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(cannot(error)),
            Ok(_) => {}
        }
        let file = File::open(path).map_err(cannot)?;
        let meta = file.metadata().map_err(cannot)?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(cannot)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(CliError::usage(format!("{shown} is larger than {FILE_BYTES_MAX} bytes")));
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| CliError::usage(format!("{shown} is not UTF-8 text")))?;
        let is_foreign = is_foreign(&meta) || Self::is_foreign_at(path);
        Ok(Some(Self { path: path.to_owned(), text, is_foreign }))
    }

    /// Whether somebody else could have put there what stands at `path`, readable or not.
    pub(crate) fn is_foreign_at(path: &Path) -> bool {
        // Everybody may write any link, as far as its mode tells.
        fs::symlink_metadata(path).is_ok_and(|meta| !is_own(&meta))
            || fs::metadata(path).is_ok_and(|meta| is_foreign(&meta))
    }

    /// Its settings; `origin` makes the origin of a line.
    ///
    /// # Errors
    /// The first thing in it that is unknown, of another kind, or looks like a secret.
    pub(crate) fn layer(&self, origin: fn(PathBuf, usize) -> Origin) -> Result<Layer, CliError> {
        let document = Document::parse(&*self.text).map_err(|error| {
            // Its own message quotes the line, which may hold a secret.
            let line = error.span().map_or(1, |span| self.line(span.start));
            let what = harmless(error.message()).trim().to_owned();
            self.refused(line, &what)
        })?;
        let mut found = Vec::new();
        self.walk("", document.as_table(), &mut found)?;
        let mut layer = Layer::default();
        for (key, value, line) in found {
            layer.insert(key, value, origin(self.path.clone(), line));
        }
        Ok(layer)
    }

    fn walk(
        &self,
        prefix: &str,
        table: &dyn TableLike,
        found: &mut Vec<(Key, Value, usize)>,
    ) -> Result<(), CliError> {
        for (name, item) in table.iter() {
            let span = table.get_key_value(name).and_then(|(key, _)| key.span());
            let line = self.line(span.or_else(|| item.span()).map_or(0, |span| span.start));
            let full = format!("{prefix}{name}");
            let value = item.as_str().unwrap_or_default();
            if Key::named(&full).is_none() && is_secret_name(name) || is_secret_text(value) {
                return Err(self.secret(line, &full));
            }
            match (Key::named(&full), item.as_table_like()) {
                (Some(key), None) => {
                    let value = self
                        .value(key, item)
                        .map_err(|expected| self.refused(line, &format!("{full}: {expected}")))?;
                    found.push((key, value, line));
                }
                (Some(key), Some(_)) => {
                    let what = format!("{full}: {}, not a table", key.kind().expected());
                    return Err(self.refused(line, &what));
                }
                (None, Some(table)) if Key::is_table(&full) => {
                    self.walk(&format!("{full}."), table, found)?;
                }
                (None, None) if Key::is_table(&full) => {
                    return Err(self.refused(line, &format!("{full}: expected a table")));
                }
                // A secret deeper in an unknown table is told as what it is.
                (None, Some(table)) if !table.is_empty() => {
                    self.look_for_secrets(&format!("{full}."), table)?;
                    return Err(self.unknown(line, &full));
                }
                (None, _) => return Err(self.unknown(line, &full)),
            }
        }
        Ok(())
    }

    fn look_for_secrets(&self, prefix: &str, table: &dyn TableLike) -> Result<(), CliError> {
        for (name, item) in table.iter() {
            let full = format!("{prefix}{name}");
            if is_secret_name(name) || is_secret_text(item.as_str().unwrap_or_default()) {
                let span = table.get_key_value(name).and_then(|(key, _)| key.span());
                return Err(self.secret(self.line(span.map_or(0, |span| span.start)), &full));
            }
            if let Some(table) = item.as_table_like() {
                self.look_for_secrets(&format!("{full}."), table)?;
            }
        }
        Ok(())
    }

    fn value(&self, key: Key, item: &Item) -> Result<Value, String> {
        let kind = key.kind();
        match kind {
            Kind::Count { .. } => match item.as_integer() {
                Some(number) => kind.count(number.into()),
                None => Err(kind.expected()),
            },
            _ => match item.as_str() {
                Some(text) => kind.read(text, self.path.parent().unwrap_or(Path::new(""))),
                None => Err(kind.expected()),
            },
        }
    }

    fn line(&self, offset: usize) -> usize {
        self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
    }

    fn refused(&self, line: usize, what: &str) -> CliError {
        let place = format!("{}:{line}", self.path.display());
        CliError::usage(format!("{place}: {}", harmless(what)))
            .next("vakbus config --help names every setting")
    }

    fn unknown(&self, line: usize, name: &str) -> CliError {
        let place = format!("{}:{line}", self.path.display());
        let shown = shortened(name);
        CliError::usage(format!("{place}: unknown setting {shown}")).next(after_unknown(name))
    }

    fn secret(&self, line: usize, name: &str) -> CliError {
        let place = format!("{}:{line}", self.path.display());
        CliError::usage(format!("{place}: {} holds a secret", shortened(name))).next(
            "take it out, and treat it as known to others; secrets come from the environment or \
             from the private secrets file (vakbus config path)",
        )
    }
}

fn is_foreign(meta: &Metadata) -> bool {
    !is_own(meta) || meta.mode() & 0o002 != 0
}

/// Whether it is this user's, or the system's.
fn is_own(meta: &Metadata) -> bool {
    [0, rustix::process::geteuid().as_raw()].contains(&meta.uid())
}

/// What to do about an unknown name.
pub(crate) fn after_unknown(name: &str) -> String {
    match nearest(name) {
        Some(known) => format!("did you mean {known}?"),
        None => "vakbus config --help names every setting".to_owned(),
    }
}

/// A stranger's name of a setting, fit to be shown.
pub(crate) fn shortened(name: &str) -> String {
    harmless(&name.chars().take(80).collect::<String>())
}

/// Whether a setting of this name would hold a secret: such a name is in no settings file (S0.64).
pub(crate) fn is_secret_name(name: &str) -> bool {
    let name = name.to_lowercase();
    let is_one = |part: &str| SECRET_WORDS.contains(&part.trim_end_matches('s'));
    name.split(['_', '-', '.']).any(is_one) || SECRET_ENDS.iter().any(|end| name.ends_with(end))
}

/// Whether a text is a seed or a JWT, whatever it is called.
pub(crate) fn is_secret_text(text: &str) -> bool {
    let text = text.trim();
    let is_seed = text.len() == 58
        && text.starts_with('S')
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || matches!(byte, b'2'..=b'7'));
    is_seed || (text.starts_with("eyJ") && text.contains('.')) || text.contains("-----BEGIN")
}

const SECRET_WORDS: [&str; 11] = [
    "secret",
    "seed",
    "jwt",
    "password",
    "passwd",
    "token",
    "credential",
    "cred",
    "nkey",
    "passphrase",
    // Of a request: mostly a login.
    "header",
];

const SECRET_ENDS: [&str; 4] = ["secret", "password", "token", "seed"];
