//! Names of streams, consumers, buckets and bucket keys.
//!
//! They are stricter than what a NATS server accepts, so that a name which is good on one engine
//! is good on every other, on every file system, and inside an API subject. Cloning one shares its
//! text: receipts and deliveries carry names.

use crate::{Filter, Subject, SubjectError, Token, WorkspaceId};

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $field:literal, $bytes_max:literal, $check:path;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            /// The longest name of this kind, in bytes.
            pub const BYTES_MAX: usize = $bytes_max;

            /// Checks `text` as a name of this kind.
            ///
            /// # Errors
            /// A [`SubjectError`] that names this kind and the reason.
            pub fn parse(text: &str) -> Result<Self, SubjectError> {
                if text.is_empty() {
                    return Err(SubjectError::Empty { field: $field });
                }
                if text.len() > Self::BYTES_MAX {
                    let (bytes, bytes_max) = (text.len(), Self::BYTES_MAX);
                    return Err(SubjectError::TooLong { field: $field, bytes, bytes_max });
                }
                $check($field, text)?;
                Ok(Self(text.into()))
            }

            /// The text of the name.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = SubjectError;

            fn from_str(text: &str) -> Result<Self, SubjectError> {
                Self::parse(text)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                self.as_str()
            }
        }
    )*};
}

names! {
    /// The name of a durable stream: 1 to 255 bytes of `[A-Za-z0-9_~-]`.
    StreamName = "stream", 255, check_plain;
    /// The name of a consumer of a stream: 1 to 255 bytes of `[A-Za-z0-9_~-]`.
    ConsumerName = "consumer", 255, check_plain;
    /// The name of a bucket: 1 to 251 bytes of `[A-Za-z0-9_-]`.
    ///
    /// The limit leaves room for the prefix of the stream that stores a bucket (`KV_`, `OBJ_`).
    BucketName = "bucket", 251, check_bucket;
    /// A key in a bucket: 1 to 768 bytes of `[A-Za-z0-9_/=-]`, in levels between single dots.
    ///
    /// The limit keeps `$KV.<bucket>.<key>` within [`Subject::BYTES_MAX`].
    BucketKey = "bucket key", 768, check_key;
}

impl BucketName {
    /// The bucket for `purpose` (such as `VAK_CLAIMS`) of a workspace.
    ///
    /// That is `<purpose>_<workspace>`. Bucket names know no `~`, so a workspace that holds one
    /// gives `<purpose>-<escaped>` instead, with `-` doubled and `~` written as `-t`: two
    /// workspaces never share a bucket of one purpose.
    ///
    /// # Errors
    /// A [`SubjectError`] for `bucket` when `purpose` does not fit the alphabet or the length.
    pub fn of_workspace(purpose: &str, workspace: &WorkspaceId) -> Result<Self, SubjectError> {
        Self::parse(&of_workspace(purpose, workspace))
    }

    /// The bucket of a workspace's claim marks (D8): `VAK_CLAIMS_<workspace>`.
    #[must_use]
    pub fn claims(workspace: &WorkspaceId) -> Self {
        Self(of_workspace("VAK_CLAIMS", workspace).into())
    }

    /// The bucket of what a workspace's tasks gave: `VAK_RESULTS_<workspace>`.
    #[must_use]
    pub fn results(workspace: &WorkspaceId) -> Self {
        Self(of_workspace("VAK_RESULTS", workspace).into())
    }

    /// The bucket of a workspace's cancelled tasks: `VAK_CANCELS_<workspace>`.
    #[must_use]
    pub fn cancels(workspace: &WorkspaceId) -> Self {
        Self(of_workspace("VAK_CANCELS", workspace).into())
    }

    /// The bucket of what became of a workspace's outbox records: `VAK_OUTBOX_<workspace>`.
    #[must_use]
    pub fn outbox(workspace: &WorkspaceId) -> Self {
        Self(of_workspace("VAK_OUTBOX", workspace).into())
    }

    /// The bucket of a workspace's directory: whom it certified, and whose keys it took back:
    /// `VAK_AGENTS_<workspace>`.
    #[must_use]
    pub fn agents(workspace: &WorkspaceId) -> Self {
        Self(of_workspace("VAK_AGENTS", workspace).into())
    }

    /// The bucket of a workspace's running instances, by which its doors share one registry of
    /// peers: `VAK_PEERS_<workspace>`.
    #[must_use]
    pub fn peers(workspace: &WorkspaceId) -> Self {
        Self(of_workspace("VAK_PEERS", workspace).into())
    }

    /// The subject that stands for `key` of this bucket in access policies and on NATS.
    #[must_use]
    pub fn key_subject(&self, key: &BucketKey) -> Subject {
        Subject::trusted(format!("$KV.{self}.{key}"))
    }

    /// Every key of this bucket, of any number of levels, as a set of subjects.
    #[must_use]
    pub fn all_keys(&self) -> Filter {
        Filter::trusted(format!("$KV.{self}.>"))
    }

    /// Every key of one level of this bucket as a set of subjects.
    #[must_use]
    pub fn flat_keys(&self) -> Filter {
        Filter::trusted(format!("$KV.{self}.*"))
    }
}

impl BucketKey {
    /// The key of one level that stands for `token`: keys know no `~`, so it becomes `=`.
    ///
    /// No two tokens give the same key.
    #[must_use]
    pub fn from_token(token: &Token) -> Self {
        Self(token.as_str().replace('~', "=").into())
    }
}

fn of_workspace(purpose: &str, workspace: &WorkspaceId) -> String {
    let plain = workspace.as_str();
    if !plain.contains('~') {
        return format!("{purpose}_{plain}");
    }
    let escaped = plain.replace('-', "--").replace('~', "-t");
    format!("{purpose}-{escaped}")
}

fn check_plain(field: &'static str, text: &str) -> Result<(), SubjectError> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '~');
    check(field, text, "letters, digits, '-', '_' or '~'", good)
}

fn check_bucket(field: &'static str, text: &str) -> Result<(), SubjectError> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    check(field, text, "letters, digits, '-' or '_'", good)
}

fn check_key(field: &'static str, text: &str) -> Result<(), SubjectError> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/' | '=' | '.');
    check(field, text, "letters, digits, '-', '_', '/', '=' or '.'", good)?;
    if text.split('.').any(str::is_empty) {
        return Err(SubjectError::EmptyLevel { field });
    }
    Ok(())
}

fn check(
    field: &'static str,
    text: &str,
    expected: &'static str,
    good: impl Fn(char) -> bool,
) -> Result<(), SubjectError> {
    match text.char_indices().find(|(_, c)| !good(*c)) {
        Some((at, character)) => Err(SubjectError::Character { field, character, at, expected }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
