//! What an account offers to other accounts, and what it takes from them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::exchange_wire::KeptExport;
use crate::nkey::PublicKey;

/// Subjects that other accounts may import.
///
/// Every account of the same operator may import them, unless
/// [`requires_activation`](Self::requires_activation) or
/// [`account_level`](Self::account_level) is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// The name for people.
    pub name: String,
    /// The subjects, with wildcards.
    pub subject: String,
    /// Whether questions go out to this account or messages come from it.
    pub kind: ExportKind,
    /// Whether an importer must show an activation token of this account.
    pub requires_activation: bool,
    /// Per account (or `*` for all): activation tokens that were issued then or before are out.
    pub revocations: BTreeMap<String, i64>,
    /// Which level of `subject`, counted from one, a `*`, must be the importing account's key.
    pub account_level: Option<u32>,
    /// Whether the export is shown in lists of what can be imported.
    pub is_advertised: bool,
    /// Whether an importer may follow its messages into this account; only services.
    pub allows_trace: bool,
    /// A sentence for people.
    pub description: Option<String>,
    /// Where people read more.
    pub info_url: Option<String>,
    pub(super) kept: KeptExport,
}

/// In which direction an [`Export`] goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportKind {
    /// Messages of this account are heard in the importing one.
    Stream,
    /// Questions of the importing account are heard in this one.
    Service {
        /// How often a question is answered.
        answers: Answers,
        /// After how long without an answer the way back is forgotten, counted from the last one.
        ///
        /// Without it the server keeps the way back of every question to a service of many
        /// answers for as long as the asker listens.
        threshold: Option<Duration>,
    },
}

/// How often a question to a service is answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Answers {
    /// Once; the way back is forgotten with the answer.
    #[default]
    One,
    /// Any number of times.
    Stream,
    /// Once, in parts.
    Chunked,
}

/// Subjects of another account, as they are known in this one.
///
/// ```
/// use bus_crypto::jwt::{AccountClaims, Answers, Export, Import, decode_account, encode_account};
/// use bus_crypto::{NkeyKind, SigningKey, SystemEntropy};
///
/// let entropy = SystemEntropy::new();
/// let operator = SigningKey::generate(NkeyKind::Operator, &entropy)?;
/// let store = *SigningKey::generate(NkeyKind::Account, &entropy)?.public();
/// let agents = *SigningKey::generate(NkeyKind::Account, &entropy)?.public();
///
/// let mut offers = AccountClaims::new("store", store, *operator.public(), 1_700_000_000);
/// offers.exports.push(Export::service("gets", "$JS.API.DIRECT.GET.*.>", Answers::One));
/// let mut takes = AccountClaims::new("agents", agents, *operator.public(), 1_700_000_000);
/// let gets = Import::service("gets", "$JS.API.DIRECT.GET.*.>", store);
/// takes.imports.push(gets.known_as("own.DIRECT.GET.$1.>"));
///
/// let read = decode_account(&encode_account(&takes, &operator)?)?;
/// assert_eq!(read.imports, takes.imports);
/// # Ok::<(), bus_crypto::CryptoError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// The name for people.
    pub name: String,
    /// The subjects, as the other account exports them or a part of them.
    pub subject: String,
    /// The account that exports them.
    pub account: PublicKey,
    /// The other account's leave to import, when it asks for one: a token, or where it lies.
    pub activation: Option<String>,
    /// What they are called here, where `$1` stands for the first `*` of `subject`; `None` for the
    /// same. A `>` stays a `>`.
    pub local_subject: Option<String>,
    /// Whether questions go there or messages come from there.
    pub kind: ImportKind,
    /// Whether the other account is told who asks; only services.
    pub shares_who_asks: bool,
    /// Whether the other account may follow its messages into this one; only streams.
    pub allows_trace: bool,
    /// The name here as tokens of old wrote it; kept as it was read.
    pub(super) to: Option<String>,
}

/// In which direction an [`Import`] goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportKind {
    /// Messages of the other account are heard in this one.
    Stream,
    /// Questions of this account are heard in the other one.
    Service,
}

impl Export {
    /// Offers to answer questions, to every account of the operator.
    #[must_use]
    pub fn service(name: impl Into<String>, subject: impl Into<String>, answers: Answers) -> Self {
        Self::of_kind(name.into(), subject.into(), ExportKind::Service { answers, threshold: None })
    }

    /// Offers messages, to every account of the operator.
    #[must_use]
    pub fn stream(name: impl Into<String>, subject: impl Into<String>) -> Self {
        Self::of_kind(name.into(), subject.into(), ExportKind::Stream)
    }

    /// The same, but the way back of a question is forgotten so long after its last answer. Says
    /// nothing about a stream, which has no answers.
    #[must_use]
    pub fn forgotten_after(mut self, silence: Duration) -> Self {
        if let ExportKind::Service { threshold, .. } = &mut self.kind {
            *threshold = Some(silence);
        }
        self
    }

    fn of_kind(name: String, subject: String, kind: ExportKind) -> Self {
        Self {
            name,
            subject,
            kind,
            requires_activation: false,
            revocations: BTreeMap::new(),
            account_level: None,
            is_advertised: false,
            allows_trace: false,
            description: None,
            info_url: None,
            kept: KeptExport::default(),
        }
    }
}

impl Import {
    /// Lets this account ask `account` on `subject`.
    #[must_use]
    pub fn service(
        name: impl Into<String>,
        subject: impl Into<String>,
        account: PublicKey,
    ) -> Self {
        Self::of_kind(name.into(), subject.into(), account, ImportKind::Service)
    }

    /// Lets this account hear what `account` says on `subject`.
    #[must_use]
    pub fn stream(name: impl Into<String>, subject: impl Into<String>, account: PublicKey) -> Self {
        Self::of_kind(name.into(), subject.into(), account, ImportKind::Stream)
    }

    /// The same under another name in this account: `$1` stands for the first `*`.
    #[must_use]
    pub fn known_as(mut self, local_subject: impl Into<String>) -> Self {
        self.local_subject = Some(local_subject.into());
        self
    }

    /// What the subjects are called in this account, with the wildcards they have there.
    pub(super) fn name_here(&self) -> &str {
        self.to.as_ref().or(self.local_subject.as_ref()).unwrap_or(&self.subject)
    }

    fn of_kind(name: String, subject: String, account: PublicKey, kind: ImportKind) -> Self {
        Self {
            name,
            subject,
            account,
            activation: None,
            local_subject: None,
            kind,
            shares_who_asks: false,
            allows_trace: false,
            to: None,
        }
    }
}
