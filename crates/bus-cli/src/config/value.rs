//! What a setting can hold, read from the text of a variable or the value of a file.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use bus_crypto::WorkspaceSecret;
use bus_subjects::WorkspaceId;

use super::{Hook, Key};
use crate::{args::Color, http::HttpUrl};

/// The value of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// The name of a workspace.
    Workspace(WorkspaceId),
    /// A file or directory.
    Path(PathBuf),
    /// When to use colours.
    Color(Color),
    /// Where a server is, or several of one cluster; holds no user and no password.
    Url(String),
    /// The name of a variable of the environment.
    Variable(String),
    /// When stored messages reach the disk.
    Sync(SyncMode),
    /// A whole number.
    Count(u64),
    /// A span of time.
    Duration(Duration),
    /// One of the words that a setting knows.
    Word(&'static str),
    /// A command to run, or a URL to post to.
    Hook(Hook),
    /// A collector of spans.
    Collector(HttpUrl),
    /// A short text.
    Text(String),
    /// Another value than its setting takes, from a variable that others name: what was expected.
    Refused(String),
}

/// When stored messages reach the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SyncMode {
    /// Before each acknowledgement.
    Always,
    /// At this interval: what was acknowledged since can be lost with the power.
    Every(Duration),
}

/// The kind of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A workspace's name.
    Workspace,
    /// A path.
    Path,
    /// `auto`, `always` or `never`.
    Color,
    /// A NATS URL, or several.
    Url,
    /// The name of a variable.
    Variable,
    /// `always` or a span of time.
    Sync,
    /// A whole number up to `max`.
    Count {
        /// The largest.
        max: u64,
    },
    /// A span of time, such as `5s`.
    Duration,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A command for the shell, or a URL.
    Hook,
    /// The URL of a collector.
    Collector,
    /// A short text.
    Text,
}

impl Kind {
    /// Reads `text`. Relative paths are taken from `base`.
    ///
    /// # Errors
    /// What was expected; the text itself is not told, because it may be a secret in a wrong place.
    pub(crate) fn read(self, text: &str, base: &Path) -> Result<Value, String> {
        match self {
            Self::Workspace => {
                WorkspaceId::parse(text).map(Value::Workspace).map_err(|_| self.expected())
            }
            Self::Path => path(text, base).map(Value::Path),
            Self::Color => match text {
                "auto" => Ok(Value::Color(Color::Auto)),
                "always" => Ok(Value::Color(Color::Always)),
                "never" => Ok(Value::Color(Color::Never)),
                _ => Err(self.expected()),
            },
            Self::Url => urls(text).map(Value::Url),
            Self::Variable => variable(text).map(Value::Variable),
            Self::Sync if text == "always" => Ok(Value::Sync(SyncMode::Always)),
            Self::Sync => match humantime::parse_duration(text) {
                Ok(every) if !every.is_zero() => Ok(Value::Sync(SyncMode::Every(every))),
                _ => Err(self.expected()),
            },
            Self::Count { .. } => self.count(text.parse().map_err(|_| self.expected())?),
            Self::Duration => {
                humantime::parse_duration(text).map(Value::Duration).map_err(|_| self.expected())
            }
            Self::Hook => Hook::parse(text).map(Value::Hook),
            Self::Collector => HttpUrl::parse_any(text).map(Value::Collector),
            Self::Text => {
                let is_fine = (1..=TEXT_CHARS_MAX).contains(&text.chars().count())
                    && !text.chars().any(char::is_control);
                is_fine.then(|| Value::Text(text.to_owned())).ok_or_else(|| self.expected())
            }
            Self::Word(words) => {
                let known = words.iter().find(|word| **word == text);
                known.map(|word| Value::Word(word)).ok_or_else(|| self.expected())
            }
        }
    }

    /// Takes a whole number.
    ///
    /// # Errors
    /// What was expected.
    pub(crate) fn count(self, number: i128) -> Result<Value, String> {
        let Self::Count { max } = self else { return Err(self.expected()) };
        match u64::try_from(number) {
            Ok(number) if number <= max => Ok(Value::Count(number)),
            _ => Err(self.expected()),
        }
    }

    /// What a value of this kind looks like.
    pub(crate) fn expected(self) -> String {
        match self {
            Self::Workspace => {
                "expected a name of 1 to 64 letters, digits, '-', '_' and '~'".to_owned()
            }
            Self::Path => "expected a path".to_owned(),
            Self::Color => "expected \"auto\", \"always\" or \"never\"".to_owned(),
            Self::Url => "expected a URL such as \"nats://host:4222\", or several of one cluster \
                          with commas between them"
                .to_owned(),
            Self::Variable => "expected the name of a variable: letters, digits and '_'".to_owned(),
            Self::Sync => "expected \"always\" or a span of time such as \"100ms\"".to_owned(),
            Self::Count { max } if max == i64::MAX as u64 => "expected a whole number".to_owned(),
            Self::Count { max } => format!("expected a whole number up to {max}"),
            Self::Duration => "expected a span of time such as \"5s\"".to_owned(),
            Self::Hook => "expected a command for the shell, or an https URL".to_owned(),
            Self::Collector => "expected a URL such as \"http://host:4318\"".to_owned(),
            Self::Text => format!("expected 1 to {TEXT_CHARS_MAX} characters"),
            Self::Word(words) => {
                let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
                format!("expected one of {}", quoted.join(", "))
            }
        }
    }
}

impl Value {
    /// As a value of a TOML file.
    pub(crate) fn to_toml(&self) -> toml_edit::Value {
        match self {
            Self::Hook(hook) => hook.whole().into(),
            Self::Collector(url) => url.whole().into(),
            // It came from a text, so it has at most the largest number of a file.
            Self::Count(number) => i64::try_from(*number).unwrap_or(i64::MAX).into(),
            _ => self.to_string().into(),
        }
    }

    /// As JSON.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Count(number) => (*number).into(),
            _ => self.to_string().into(),
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Workspace(name) => f.write_str(name.as_str()),
            Self::Path(path) => path.display().fmt(f),
            Self::Color(Color::Auto) => f.write_str("auto"),
            Self::Color(Color::Always) => f.write_str("always"),
            Self::Color(Color::Never) => f.write_str("never"),
            Self::Url(text) | Self::Variable(text) | Self::Text(text) => f.write_str(text),
            Self::Collector(url) => url.fmt(f),
            Self::Refused(expected) => write!(f, "(not taken: {expected})"),
            Self::Word(word) => f.write_str(word),
            Self::Sync(SyncMode::Always) => f.write_str("always"),
            Self::Sync(SyncMode::Every(time)) | Self::Duration(time) => {
                humantime::format_duration(*time).fmt(f)
            }
            Self::Count(number) => number.fmt(f),
            Self::Hook(hook) => hook.fmt(f),
        }
    }
}

fn path(text: &str, base: &Path) -> Result<PathBuf, String> {
    if text.is_empty() || text.contains('\0') {
        return Err(Kind::Path.expected());
    }
    if text == "~" || text.starts_with("~/") {
        return Err("expected a path; ~ is not replaced here, write the whole path".to_owned());
    }
    Ok(base.join(text))
}

/// Servers with commas between them: each a scheme, a host, and nothing that only its owner may
/// know.
fn urls(text: &str) -> Result<String, String> {
    // Told first: what is before it may be a password with a comma in it.
    if SCHEMES.iter().any(|scheme| text.starts_with(scheme)) && text.contains('@') {
        return Err("expected a URL without user and password, which are secrets".to_owned());
    }
    match text.split(',').all(is_url) {
        true => Ok(text.to_owned()),
        false => Err(Kind::Url.expected()),
    }
}

fn is_url(text: &str) -> bool {
    let rest = SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme));
    text.bytes().all(|byte| byte.is_ascii_graphic())
        && rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with([':', '/']))
}

fn variable(text: &str) -> Result<String, String> {
    let begins = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if !begins || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err(Kind::Variable.expected());
    }
    // The secret itself in the place of its variable's name would be shown and stored.
    if text.len() >= WorkspaceSecret::BYTES_MIN && !text.contains('_') {
        return Err(Kind::Variable.expected());
    }
    let is_taken = bus_runner::NATS_SECRET_VARIABLES.contains(&text) || Key::is_set_by(text);
    if is_taken || TELLING.contains(&text) {
        return Err("expected a variable that holds nothing else".to_owned());
    }
    Ok(text.to_owned())
}

/// The longest short text.
const TEXT_CHARS_MAX: usize = 128;

/// How a NATS URL begins.
const SCHEMES: [&str; 4] = ["nats://", "tls://", "ws://", "wss://"];

/// Variables whose value everybody can guess or is told, and which commands need.
const TELLING: [&str; 10] = [
    "VAKBUS_CONFIG",
    "VAKBUS_LOG",
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "PWD",
    "TERM",
    "LANG",
];
