//! A deployment's file, read strictly: what nobody asks for is refused, with its line.

use std::path::{Path, PathBuf};

use toml_edit::{Document, Item, Table, TableLike};

use crate::{config::SettingsFile, error::CliError, print::harmless};

/// The file.
pub(super) struct Source {
    path: PathBuf,
    document: Document<String>,
}

/// A table of it, whose members are asked for one after the other.
pub(super) struct Reader<'a> {
    source: &'a Source,
    table: &'a dyn TableLike,
    /// What it is called, with a dot behind it; nothing for the whole file.
    name: String,
    asked: Vec<&'static str>,
}

impl Source {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// When it cannot be read, or is no TOML.
    pub(super) fn read(path: &Path) -> Result<Self, CliError> {
        let Some(SettingsFile { path, text, .. }) = SettingsFile::read(path)? else {
            return Err(CliError::usage(format!("{} is not there", path.display())));
        };
        match Document::parse(text.clone()) {
            Ok(document) => Ok(Self { path, document }),
            Err(error) => {
                let line = error.span().map_or(1, |span| line(&text, span.start));
                let what = harmless(error.message()).trim().to_owned();
                Err(CliError::usage(format!("{}:{line}: {what}", path.display())))
            }
        }
    }

    /// The whole of it.
    pub(super) fn root(&self) -> Reader<'_> {
        Reader::new(self, self.document.as_table(), String::new())
    }

    fn refused(&self, at: usize, what: &str) -> CliError {
        let line = line(self.document.raw(), at);
        CliError::usage(format!("{}:{line}: {}", self.path.display(), harmless(what)))
            .next("see docs/guide/deploy.md")
    }
}

impl<'a> Reader<'a> {
    fn new(source: &'a Source, table: &'a dyn TableLike, name: String) -> Self {
        Self { source, table, name, asked: Vec::new() }
    }

    fn item(&mut self, key: &'static str) -> Option<&'a Item> {
        self.asked.push(key);
        self.table.get(key)
    }

    /// A text; none when it is not there.
    ///
    /// # Errors
    /// When it is something else.
    pub(super) fn text(&mut self, key: &'static str) -> Result<Option<&'a str>, CliError> {
        let Some(item) = self.item(key) else { return Ok(None) };
        item.as_str().map(Some).ok_or_else(|| self.refused(key, "expected a text in quotes"))
    }

    /// A text that has to be there.
    ///
    /// # Errors
    /// When it is not, or something else is.
    pub(super) fn needed(&mut self, key: &'static str) -> Result<&'a str, CliError> {
        self.text(key)?.ok_or_else(|| self.refused(key, "is missing"))
    }

    /// A number from 1 on; none when it is not there.
    ///
    /// # Errors
    /// When it is something else.
    pub(super) fn count(&mut self, key: &'static str) -> Result<Option<u64>, CliError> {
        let Some(item) = self.item(key) else { return Ok(None) };
        let number = item.as_integer().and_then(|number| u64::try_from(number).ok());
        match number {
            Some(number) if number > 0 => Ok(Some(number)),
            _ => Err(self.refused(key, "expected a whole number above 0")),
        }
    }

    /// A port, `default` when it is not there.
    ///
    /// # Errors
    /// When it is something else.
    pub(super) fn port(&mut self, key: &'static str, default: u16) -> Result<u16, CliError> {
        match self.count(key)? {
            None => Ok(default),
            Some(port) => u16::try_from(port).map_err(|_| self.refused(key, "expected a port")),
        }
    }

    /// Texts; none when they are not there.
    ///
    /// # Errors
    /// When it is no list of texts, or an empty one.
    pub(super) fn texts(&mut self, key: &'static str) -> Result<Option<Vec<&'a str>>, CliError> {
        let Some(item) = self.item(key) else { return Ok(None) };
        let texts = item
            .as_array()
            .and_then(|list| list.iter().map(toml_edit::Value::as_str).collect::<Option<Vec<_>>>());
        match texts {
            Some(texts) if !texts.is_empty() => Ok(Some(texts)),
            _ => Err(self.refused(key, "expected a list of texts, with at least one")),
        }
    }

    /// A table; none when it is not there.
    ///
    /// # Errors
    /// When it is something else.
    pub(super) fn table(&mut self, key: &'static str) -> Result<Option<Reader<'a>>, CliError> {
        let Some(item) = self.item(key) else { return Ok(None) };
        let table = item.as_table_like();
        let table = table.ok_or_else(|| self.refused(key, &format!("expected [{key}]")))?;
        Ok(Some(Reader::new(self.source, table, format!("{key}."))))
    }

    /// Tables of one name.
    ///
    /// # Errors
    /// When they are something else.
    pub(super) fn tables(&mut self, key: &'static str) -> Result<Vec<Reader<'a>>, CliError> {
        let Some(item) = self.item(key) else { return Ok(Vec::new()) };
        let Some(tables) = item.as_array_of_tables() else {
            return Err(self.refused(key, &format!("expected [[{key}]]")));
        };
        let reader = |table: &'a Table| Reader::new(self.source, table, format!("{key}."));
        Ok(tables.iter().map(reader).collect())
    }

    /// A refusal of what stands under `key`, or should.
    pub(super) fn refused(&self, key: &str, why: &str) -> CliError {
        let found = self.table.get_key_value(key);
        let span = found.and_then(|(key, item)| key.span().or_else(|| item.span()));
        let own = self
            .table
            .iter()
            .filter_map(|(name, _)| self.table.get_key_value(name).and_then(|(key, _)| key.span()));
        // What is missing is told at the table that it is missing in.
        let at = span.map(|span| span.start).or_else(|| own.map(|span| span.start).min());
        self.source.refused(at.unwrap_or(0), &format!("{}{key}: {why}", self.name))
    }

    /// Refuses what nobody has asked for.
    ///
    /// # Errors
    /// The first such member.
    pub(super) fn end(self) -> Result<(), CliError> {
        let unknown = self
            .table
            .iter()
            .map(|(name, _)| name)
            .find(|name| !self.asked.iter().any(|asked| asked == name));
        let Some(unknown) = unknown else { return Ok(()) };
        let mistakes = |known: &&str| strsim::damerau_levenshtein(known, unknown);
        let nearest = self.asked.iter().copied().min_by_key(mistakes);
        let why = match nearest.filter(|nearest| mistakes(nearest) <= 3) {
            Some(nearest) => format!("is not known; meant {nearest}?"),
            None => format!("is not known; known are {}", self.asked.join(", ")),
        };
        Err(self.refused(unknown, &why))
    }
}

/// The line of a place in a text, counted from 1.
fn line(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}
