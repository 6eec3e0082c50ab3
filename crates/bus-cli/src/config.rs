//! What the user configured: layers of settings, each of which says where its value came from.

mod edit;
mod file;
mod hook;
mod key;
mod load;
mod nats;
mod otel;
mod place;
#[cfg(test)]
mod tests;
mod trust;
mod value;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use bus_core::{Backoff, RetryPolicy};
use bus_mem::Limits;
use bus_subjects::WorkspaceId;

use crate::{args::Color, error::CliError};

use self::value::Kind;
pub(crate) use self::{
    edit::{Changed, set, unset},
    file::{FILE_NAME, SettingsFile, after_unknown, is_secret_name, is_secret_text, shortened},
    hook::Hook,
    key::Key,
    load::Settings,
    place::Places,
    trust::{Standing, TrustStore},
    value::{SyncMode, Value},
};

/// All settings, merged: built-in defaults, the user's file, the project's file, the environment,
/// flags. A later layer wins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config(Layer);

/// The settings of one source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Layer(BTreeMap<Key, Held>);

/// A value and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    /// The value.
    pub(crate) value: Value,
    /// Where it came from.
    pub(crate) origin: Origin,
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Built in.
    Default,
    /// The user's file, at this line.
    User(PathBuf, usize),
    /// The project's file, at this line.
    Project(PathBuf, usize),
    /// This variable of the environment.
    Variable(&'static str),
    /// This option of the command line.
    Flag(&'static str),
}

impl Config {
    /// Merges layers onto the defaults. The later one wins, setting by setting.
    pub(crate) fn merge(layers: impl IntoIterator<Item = Layer>) -> Self {
        layers.into_iter().fold(Self::default(), |mut merged, layer| {
            merged.0.0.extend(layer.0);
            merged
        })
    }

    /// The value of a setting and where it came from; none when nothing holds.
    pub(crate) fn get(&self, key: Key) -> Option<&Held> {
        self.0.0.get(&key)
    }

    /// The workspace to act in.
    pub(crate) fn workspace(&self) -> Option<&WorkspaceId> {
        match &self.get(Key::Workspace)?.value {
            Value::Workspace(name) => Some(name),
            _ => None,
        }
    }

    /// The data home, unless it is the platform's.
    pub(crate) fn data_dir(&self) -> Option<&Path> {
        self.path(Key::DataDir)
    }

    /// The file of secrets, unless it is the one in the data home.
    pub(crate) fn secrets_file(&self) -> Option<&Path> {
        self.path(Key::SecretsFile)
    }

    /// The daemon's socket, unless it is the one in the data home.
    pub(crate) fn socket(&self) -> Option<&Path> {
        self.path(Key::Socket)
    }

    /// When to use colours.
    pub(crate) fn color(&self) -> Color {
        match self.get(Key::Color) {
            Some(Held { value: Value::Color(color), .. }) => *color,
            _ => Color::Auto,
        }
    }

    /// When stored messages reach the disk.
    pub(crate) fn sync(&self) -> SyncMode {
        match self.get(Key::Sync) {
            Some(Held { value: Value::Sync(mode), .. }) => *mode,
            _ => SyncMode::Always,
        }
    }

    /// What is done about each dead letter; nothing without it.
    pub(crate) fn on_dead_letter(&self) -> Option<&Hook> {
        self.hook(Key::OnDeadLetter)
    }

    /// What is done about each approval that is asked for; nothing without it.
    pub(crate) fn on_approval(&self) -> Option<&Hook> {
        self.hook(Key::OnApproval)
    }

    /// The variable that holds the workspace's secret, when one is named.
    pub(crate) fn workspace_secret_env(&self) -> Option<&str> {
        match &self.get(Key::WorkspaceSecretEnv)?.value {
            Value::Variable(name) => Some(name),
            _ => None,
        }
    }

    /// How a failed task is tried again; what the caller gives wins.
    pub(crate) fn retry(&self, retries: Option<u32>, backoff: Option<Duration>) -> RetryPolicy {
        let default = RetryPolicy::default();
        let set = self.count(Key::MaxRetries).and_then(|count| u32::try_from(count).ok());
        let rest = match self.get(Key::Backoff) {
            Some(Held { value: Value::Duration(time), .. }) => Some(*time),
            _ => None,
        };
        RetryPolicy {
            retries_max: retries.or(set).unwrap_or(default.retries_max),
            backoff: Backoff { base: backoff.or(rest).unwrap_or(default.backoff.base) },
        }
    }

    /// The bounds of this machine's own engine.
    pub(crate) fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        let bytes = |key, held: &mut u64| {
            *held = self.count(key).unwrap_or(*held);
        };
        bytes(Key::BucketBytesMax, &mut limits.bucket_bytes_max);
        bytes(Key::BlobBytesMax, &mut limits.blob_bytes_max);
        let count = |key, held: &mut usize| {
            // More than the machine can address is no bound at all.
            *held = self.count(key).map_or(*held, |n| usize::try_from(n).unwrap_or(usize::MAX));
        };
        count(Key::SubscriptionsMax, &mut limits.subscriptions_max);
        count(Key::StreamsMax, &mut limits.streams_max);
        count(Key::ConsumersMax, &mut limits.consumers_per_stream_max);
        count(Key::BucketsMax, &mut limits.buckets_max);
        count(Key::KeysMax, &mut limits.keys_per_bucket_max);
        count(Key::TombstonesMax, &mut limits.tombstones_per_bucket_max);
        count(Key::WatchesMax, &mut limits.watches_max);
        limits
    }

    fn hook(&self, key: Key) -> Option<&Hook> {
        match &self.get(key)?.value {
            Value::Hook(hook) => Some(hook),
            _ => None,
        }
    }

    fn word(&self, key: Key) -> Option<&'static str> {
        match self.get(key)?.value {
            Value::Word(word) => Some(word),
            _ => None,
        }
    }

    fn path(&self, key: Key) -> Option<&Path> {
        match &self.get(key)?.value {
            Value::Path(path) => Some(path),
            _ => None,
        }
    }

    fn count(&self, key: Key) -> Option<u64> {
        match self.get(key)?.value {
            Value::Count(number) => Some(number),
            _ => None,
        }
    }
}

impl Default for Config {
    /// The built-in settings.
    fn default() -> Self {
        let mut layer = Layer::default();
        for key in Key::ALL {
            let text = key.default_text();
            if let Some(Ok(value)) = text.map(|text| key.kind().read(text, Path::new(""))) {
                layer.insert(*key, value, Origin::Default);
            }
        }
        Self(layer)
    }
}

impl Layer {
    /// The settings that variables of the environment make; `read` returns a variable's text.
    ///
    /// A variable that is empty sets nothing. One that others name, and whose value is not taken
    /// here, is kept as [`Value::Refused`]: it may be meant for other programs, so only what needs
    /// it tells of it.
    ///
    /// # Errors
    /// A value that is not of its setting's kind, naming the variable and not the value.
    pub(crate) fn of_environment(
        read: impl Fn(&str) -> Option<std::ffi::OsString>,
    ) -> Result<Self, CliError> {
        let mut layer = Self::default();
        for key in Key::ALL {
            let set = |name: &&'static str| Some((*name, read(name).filter(|v| !v.is_empty())?));
            let Some((name, text)) = key.variables().iter().find_map(set) else { continue };
            let refused = |expected: String| {
                CliError::usage(format!("{name}: {expected}"))
                    .next(format!("unset it, or set it to another {}", key.name()))
            };
            let value = match text.into_string() {
                Ok(text) => key.kind().read(&text, Path::new("")),
                // The system's paths are not always text.
                Err(path) if key.kind() == Kind::Path => Ok(Value::Path(path.into())),
                Err(_) => Err("expected UTF-8".to_owned()),
            };
            let value = match value {
                Err(expected) if name.starts_with(OTHERS) => Value::Refused(expected),
                value => value.map_err(refused)?,
            };
            layer.insert(*key, value, Origin::Variable(name));
        }
        Ok(layer)
    }

    /// Sets a value.
    pub(crate) fn insert(&mut self, key: Key, value: Value, origin: Origin) {
        self.0.insert(key, Held { value, origin });
    }

    /// Takes out what needs trust; the settings that were there, in order.
    pub(crate) fn drop_privileged(&mut self) -> Vec<Key> {
        let dropped: Vec<Key> = self.0.keys().copied().filter(|k| k.is_privileged()).collect();
        dropped.iter().for_each(|key| drop(self.0.remove(key)));
        dropped
    }

    /// The settings that need trust.
    pub(crate) fn privileged(&self) -> impl Iterator<Item = (Key, &Held)> {
        self.0.iter().map(|(key, held)| (*key, held)).filter(|(key, _)| key.is_privileged())
    }
}

impl Origin {
    /// The layer, in one word.
    pub(crate) fn layer(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::User(..) => "user",
            Self::Project(..) => "project",
            Self::Variable(_) => "environment",
            Self::Flag(_) => "flag",
        }
    }
}

/// How the variables begin that programs of all kinds read.
const OTHERS: &str = "OTEL_";

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::User(path, line) | Self::Project(path, line) => {
                write!(f, "{}:{line}", path.display())
            }
            Self::Variable(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}
