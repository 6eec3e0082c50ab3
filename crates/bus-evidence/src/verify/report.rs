//! What a bundle was found to hold, and how far the verdict reaches.

use serde::Serialize;

use crate::log::NAMES;

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
    /// How many tasks have neither a receipt nor a dead letter in the bundle.
    pub tasks_open: u64,
    /// Who signed envelopes, by name.
    pub signers: Vec<Signer>,
    /// The kept checkpoints that the bundle agrees with.
    pub kept: Vec<KeptMatch>,
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

impl Report {
    /// The verdict in words: `verified`, or `consistent, signer unknown` when no trusted account
    /// was given.
    #[must_use]
    pub const fn verdict(&self) -> &'static str {
        match self.trust {
            Trust::Given(_) => "verified",
            Trust::Claimed(_) => "consistent, signer unknown",
        }
    }

    /// Whether a tail may be missing, in words: each kept checkpoint speaks for its own log only.
    #[must_use]
    pub fn completeness(&self) -> String {
        let kept = |log: &str| {
            let is_of = |kept: &KeptMatch| kept.origin.rsplit('/').next() == Some(log);
            self.kept.iter().any(is_of)
        };
        let (complete, unknown): (Vec<&str>, Vec<&str>) = NAMES.iter().partition(|log| kept(log));
        match (complete.is_empty(), unknown.is_empty()) {
            (true, _) => "completeness unknown".into(),
            (false, true) => "complete against the kept checkpoints".into(),
            (false, false) => {
                let (complete, unknown) = (complete.join(", "), unknown.join(", "));
                format!("complete against the kept checkpoint: {complete}; unknown: {unknown}")
            }
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
        let Counts { certificates, tasks, receipts, dead_letters } = self.counts;
        writeln!(
            f,
            "{tasks} tasks ({} open), {receipts} receipts, {dead_letters} dead letters, \
             {certificates} certificates, {} chains",
            self.tasks_open, self.chains
        )?;
        writeln!(f, "recorded by {}", self.recorder)?;
        for signer in &self.signers {
            let roles = signer.roles.join(", ");
            writeln!(f, "signed by {} ({roles}): {} entries", signer.agent, signer.envelopes)?;
        }
        for kept in &self.kept {
            let KeptMatch { origin, entries, entries_now } = kept;
            writeln!(f, "kept checkpoint of {origin}: {entries} of {entries_now} entries")?;
        }
        Ok(())
    }
}
