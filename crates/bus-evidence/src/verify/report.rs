//! What a bundle was found to hold, and how far the verdict reaches.

use serde::Serialize;

use crate::log::{CERTIFICATES, Log, Place};

/// What a bundle holds in which nothing is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The workspace.
    pub workspace: String,
    /// The session.
    pub session: String,
    /// On whose word the identities rest.
    pub trust: Trust,
    /// The agent that exported the bundle and signed its checkpoints.
    pub recorder: String,
    /// How many entries each log has.
    pub counts: Counts,
    /// How many hash chains were walked.
    pub chains: u64,
    /// Whether the bundle has the log of the tasks; without it receipts are not held against them.
    pub tasks_shown: bool,
    /// How many tasks have neither a receipt nor a dead letter in the bundle.
    pub tasks_open: u64,
    /// How many tasks have both a receipt and a dead letter: legal where a task is delivered at
    /// least once, and yet somebody should look.
    pub tasks_twice: u64,
    /// Who signed envelopes, by name.
    pub signers: Vec<Signer>,
    /// The kept checkpoints that the bundle agrees with.
    pub kept: Vec<KeptMatch>,
    /// How much of each log the kept checkpoints show to be there, in the order of the logs.
    pub logs: Vec<LogCompleteness>,
}

/// On whose word the identities in a bundle rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "account", rename_all = "kebab-case")]
pub enum Trust {
    /// The account was given from outside: its public key.
    Given(String),
    /// The account is only what the bundle itself says.
    Claimed(String),
}

/// How many entries each log has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// Certificates.
    pub certificates: u64,
    /// Tasks.
    pub tasks: u64,
    /// Receipts.
    pub receipts: u64,
    /// Dead letters.
    pub dead_letters: u64,
}

/// Who signed how many envelopes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Signer {
    /// The agent's name.
    pub agent: String,
    /// Its public key.
    pub nkey: String,
    /// Its roles.
    pub roles: Vec<String>,
    /// How many envelopes it signed.
    pub envelopes: u64,
    /// Since when the key does not count any more: what it signed before rests on the recorder's
    /// word.
    pub revoked: Option<String>,
}

/// A kept checkpoint that the bundle agrees with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeptMatch {
    /// The origin of the log.
    pub origin: String,
    /// How many entries the kept checkpoint covers.
    pub entries: u64,
    /// How many entries the log has now.
    pub entries_now: u64,
}

/// How much of one log the kept checkpoints show to be there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogCompleteness {
    /// The log's name.
    pub log: String,
    /// How much of it.
    #[serde(flatten)]
    pub completeness: Completeness,
}

/// Whether entries may be missing at the end of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "completeness", rename_all = "kebab-case")]
pub enum Completeness {
    /// No checkpoint of the log was kept.
    Unknown,
    /// Nothing is missing up to the last entry of a kept checkpoint; what came later is unknown.
    UpTo {
        /// How many entries the largest kept checkpoint covers.
        entries: u64,
        /// How many entries the log has; more than `entries`.
        entries_now: u64,
    },
    /// A kept checkpoint covers every entry of the log.
    Complete,
}

impl Report {
    /// The verdict in words: `verified`, or `consistent, signer unknown` when no trusted account
    /// was given; followed by `, tasks not shown` when the bundle is without them.
    #[must_use]
    pub const fn verdict(&self) -> &'static str {
        match (&self.trust, self.tasks_shown) {
            (Trust::Given(_), true) => "verified",
            (Trust::Given(_), false) => "verified, tasks not shown",
            (Trust::Claimed(_), true) => "consistent, signer unknown",
            (Trust::Claimed(_), false) => "consistent, signer unknown, tasks not shown",
        }
    }

    /// Whether a tail may be missing, in words: each kept checkpoint speaks for its own log only,
    /// and only up to its own number of entries.
    #[must_use]
    pub fn completeness(&self) -> String {
        let (mut complete, mut part, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
        for LogCompleteness { log, completeness } in &self.logs {
            match completeness {
                Completeness::Complete => complete.push(log.as_str()),
                Completeness::UpTo { .. } => part.push(format!("{log} {completeness}")),
                Completeness::Unknown => unknown.push(log.as_str()),
            }
        }
        if complete.is_empty() && part.is_empty() {
            return "completeness unknown".into();
        }
        if part.is_empty() && unknown.is_empty() {
            return "complete against the kept checkpoints".into();
        }
        let mut words = Vec::new();
        if !complete.is_empty() {
            words.push(format!("complete against the kept checkpoint: {}", complete.join(", ")));
        }
        words.append(&mut part);
        if !unknown.is_empty() {
            words.push(format!("unknown: {}", unknown.join(", ")));
        }
        words.join("; ")
    }
}

impl Counts {
    /// What `kept` shows of each of the logs `names`.
    pub(super) fn completeness(
        &self,
        place: &Place,
        kept: &[KeptMatch],
        names: &[&str],
    ) -> Vec<LogCompleteness> {
        let logs = [
            (CERTIFICATES, self.certificates),
            (Log::Tasks.name(), self.tasks),
            (Log::Receipts.name(), self.receipts),
            (Log::DeadLetters.name(), self.dead_letters),
        ];
        let shown = |(log, entries_now): (&str, u64)| {
            let origin = place.origin(log);
            let covered = kept.iter().filter(|kept| kept.origin == origin).map(|kept| kept.entries);
            let completeness = match covered.max() {
                None => Completeness::Unknown,
                Some(entries) if entries < entries_now => {
                    Completeness::UpTo { entries, entries_now }
                }
                Some(_) => Completeness::Complete,
            };
            LogCompleteness { log: log.to_owned(), completeness }
        };
        logs.into_iter().filter(|(log, _)| names.contains(log)).map(shown).collect()
    }
}

impl std::fmt::Display for Completeness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown => f.write_str("unknown"),
            Self::UpTo { entries, entries_now } => {
                write!(f, "complete up to entry {entries} of {entries_now}, unknown after")
            }
            Self::Complete => f.write_str("complete"),
        }
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}; {}", self.verdict(), self.completeness())?;
        writeln!(f, "workspace {}, session {}", self.workspace, self.session)?;
        match &self.trust {
            Trust::Given(account) => writeln!(f, "account {account} (given)")?,
            Trust::Claimed(account) => writeln!(f, "account {account} (claimed by the bundle)")?,
        }
        if self.tasks_shown {
            let (tasks, open) = (counted(self.counts.tasks, "task"), self.tasks_open);
            let twice = self.tasks_twice;
            write!(f, "{tasks} ({open} open, {twice} with both receipt and dead letter), ")?;
        } else {
            writeln!(f, "tasks: not in the bundle, so receipts are not held against them")?;
        }
        writeln!(
            f,
            "{}, {}, {}, {}",
            counted(self.counts.receipts, "receipt"),
            counted(self.counts.dead_letters, "dead letter"),
            counted(self.counts.certificates, "certificate"),
            counted(self.chains, "chain"),
        )?;
        writeln!(f, "recorded by {}", self.recorder)?;
        for signer in &self.signers {
            let roles = signer.roles.join(", ");
            let entries = counted(signer.envelopes, "envelope");
            let since = signer.revoked.as_deref().map(|at| format!(", revoked since {at}"));
            let since = since.unwrap_or_default();
            writeln!(f, "signed by {} ({roles}): {entries}{since}", signer.agent)?;
        }
        for kept in &self.kept {
            let KeptMatch { origin, entries, entries_now } = kept;
            writeln!(f, "kept checkpoint of {origin}: {entries} of {entries_now} entries")?;
        }
        Ok(())
    }
}

/// A number with its noun.
fn counted(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
