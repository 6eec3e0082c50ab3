//! What a check found, and how it is told.

use serde_json::json;

use crate::{args::Global, error::CliError, print as out};

/// How bad something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// It works, and may not for long or not as well as it could.
    Warn,
    /// It is wrong.
    Bad,
    /// It could not be looked at from here.
    Skipped,
}

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    /// The check; never changes.
    pub(super) check: &'static str,
    pub(super) level: Level,
    /// What there is.
    pub(super) found: String,
    /// What there should be.
    pub(super) expected: Option<String>,
    /// What to do about it.
    pub(super) mend: Option<String>,
}

/// How many of each there were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    ok: usize,
    warn: usize,
    pub(super) bad: usize,
    skipped: usize,
}

impl Finding {
    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, found: found.into(), expected: None, mend: None }
    }

    pub(super) fn warn(check: &'static str, found: impl Into<String>) -> Self {
        Self { level: Level::Warn, ..Self::ok(check, found) }
    }

    pub(super) fn bad(check: &'static str, found: impl Into<String>) -> Self {
        Self { level: Level::Bad, ..Self::ok(check, found) }
    }

    pub(super) fn skipped(check: &'static str, why: impl Into<String>) -> Self {
        Self { level: Level::Skipped, ..Self::ok(check, why) }
    }

    /// Says what there should be.
    pub(super) fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    /// Says what to do about it.
    pub(super) fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mend = Some(mend.into());
        self
    }

    /// Prints it.
    pub(super) fn tell(&self, global: &Global) -> Result<(), CliError> {
        let Self { check, level, found, expected, mend } = self;
        let level = level.word();
        if global.json {
            return out::json(&json!({
                "check": check,
                "level": level,
                "found": found,
                "expected": expected,
                "mend": mend,
            }));
        }
        let found = out::harmless(found);
        let expected = expected.as_ref().map(|expected| format!(", expected {expected}"));
        let mend = mend.as_ref().map(|mend| format!("  → mend: {mend}"));
        let (expected, mend) = (expected.unwrap_or_default(), mend.unwrap_or_default());
        out::line(&format!("{level:<8}{check:<15}{found}{expected}{mend}"))
    }
}

impl Level {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Bad => "bad",
            Self::Skipped => "skipped",
        }
    }
}

impl Tally {
    pub(super) fn count(&mut self, finding: &Finding) {
        let count = match finding.level {
            Level::Ok => &mut self.ok,
            Level::Warn => &mut self.warn,
            Level::Bad => &mut self.bad,
            Level::Skipped => &mut self.skipped,
        };
        *count = count.saturating_add(1);
    }

    /// Prints how many there were.
    pub(super) fn tell(self, global: &Global) -> Result<(), CliError> {
        let Self { ok, warn, bad, skipped } = self;
        if global.json {
            return out::json(&json!({ "ok": ok, "warn": warn, "bad": bad, "skipped": skipped }));
        }
        out::line(&format!("{ok} ok, {warn} to look at, {bad} bad, {skipped} not seen from here"))
    }
}
