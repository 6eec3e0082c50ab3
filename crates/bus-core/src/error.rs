//! The one error of the bus above the pure crates: what kind, and whether the thing happened.

use std::borrow::Cow;

/// A `Result` with the bus's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, at which operation and subject, and whether the operation took effect.
///
/// Holds no payload, key or token.
#[derive(thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Parts>);

/// What an error says, in a box: every answer has room for an error, and nearly none is one.
#[derive(Debug, thiserror::Error)]
#[error("{op}{}: {detail}", .subject.as_ref().map(|s| format!(" {s}")).unwrap_or_default())]
struct Parts {
    kind: ErrorKind,
    outcome: Outcome,
    op: &'static str,
    subject: Option<Box<str>>,
    detail: Cow<'static, str>,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The kinds of failure a caller can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The input was refused; no I/O was done.
    Invalid,
    /// A policy forbids it.
    Denied,
    /// The stream, consumer, bucket or key does not exist.
    NotFound,
    /// Nobody listens on the subject of a request.
    NoRecipient,
    /// A compare-and-set lost, an id was used before, or a declaration differs from what exists.
    Conflict,
    /// A bounded queue or stream is full.
    Full,
    /// The frame exceeds a size limit.
    TooLarge,
    /// A key has sealed as often as it may.
    Exhausted,
    /// The lease of a delivery ran out before it was settled.
    LeaseLost,
    /// The message is sealed under a key this process does not have.
    UnknownKey,
    /// No answer came in the time given.
    Timeout,
    /// The engine cannot be reached now.
    Unavailable,
    /// The bus was closed by this process.
    Closed,
    /// Stored or received bytes are damaged or forged.
    Corrupt,
    /// The engine does not promise this.
    Unsupported,
}

/// Whether an operation that returned an error took effect all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It did not happen.
    NotDone,
    /// It may or may not have happened: repeat it with the same id and the same bytes.
    Unknown,
}

impl Error {
    /// An error of `kind` in the operation `op` that certainly did not take effect.
    pub fn new(kind: ErrorKind, op: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Parts {
            kind,
            outcome: Outcome::NotDone,
            op,
            subject: None,
            detail: detail.into(),
            source: None,
        }))
    }

    /// A stream holds as many messages as it was declared for: only taking some out of it makes
    /// room. `detail` names it. Any other `Full` is the lack of something else, such as a disk.
    pub fn stream_full(op: &'static str, detail: impl std::fmt::Display) -> Self {
        Self::new(ErrorKind::Full, op, format!("{detail}: {STREAM_FULL}"))
    }

    /// Marks that the operation may have taken effect.
    #[must_use]
    pub fn unknown(mut self) -> Self {
        self.0.outcome = Outcome::Unknown;
        self
    }

    /// Names the subject, stream or bucket concerned, once.
    #[must_use]
    pub fn at(mut self, subject: impl std::fmt::Display) -> Self {
        self.0.subject.get_or_insert_with(|| subject.to_string().into_boxed_str());
        self
    }

    /// Keeps the error that led to this one.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The kind of failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the operation took effect all the same.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// Whether this is known to be [`stream_full`](Self::stream_full), also when it came from
    /// another process, which tells the words alone.
    #[must_use]
    pub fn is_stream_full(&self) -> bool {
        self.kind() == ErrorKind::Full && self.detail().ends_with(STREAM_FULL)
    }

    /// What happened, without operation and subject.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// The operation that failed.
    #[must_use]
    pub fn op(&self) -> &'static str {
        self.0.op
    }

    /// The subject, stream or bucket concerned.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        self.0.subject.as_deref()
    }
}

/// How the detail of [`Error::stream_full`] ends.
const STREAM_FULL: &str = "the stream has as many messages as it may";

impl ErrorKind {
    /// The stable text of the kind, as logs and `--json` show it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Denied => "denied",
            Self::NotFound => "not-found",
            Self::NoRecipient => "no-recipient",
            Self::Conflict => "conflict",
            Self::Full => "full",
            Self::TooLarge => "too-large",
            Self::Exhausted => "exhausted",
            Self::LeaseLost => "lease-lost",
            Self::UnknownKey => "unknown-key",
            Self::Timeout => "timeout",
            Self::Unavailable => "unavailable",
            Self::Closed => "closed",
            Self::Corrupt => "corrupt",
            Self::Unsupported => "unsupported",
        }
    }
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl From<bus_subjects::SubjectError> for Error {
    fn from(error: bus_subjects::SubjectError) -> Self {
        Self::new(ErrorKind::Invalid, "parse", error.to_string()).because(error)
    }
}

impl From<bus_envelope::HeaderError> for Error {
    fn from(error: bus_envelope::HeaderError) -> Self {
        Self::new(ErrorKind::Invalid, "header", error.to_string()).because(error)
    }
}
