//! `docs/conformance.md` in its two parts: what the suite said last, and what the faults did.

use std::fs;

use anyhow::{Context, Result};

use crate::repo::Repo;

/// The page; each part is written by its own task and keeps the other.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// What each engine keeps.
    pub(crate) promises: String,
    /// What became of the faults; empty when nothing was written yet.
    pub(crate) faults: String,
}

/// Where the page stands, below the root of the repository.
pub(crate) const PATH: &str = "docs/conformance.md";

/// How the second part begins.
pub(crate) const FAULTS: &str = "\n## Faults\n";

impl Page {
    /// The page as it is; empty when there is none.
    pub(crate) fn read(repo: &Repo) -> Self {
        Self::split(&fs::read_to_string(repo.root().join(PATH)).unwrap_or_default())
    }

    /// Writes both parts.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn write(&self, repo: &Repo) -> Result<()> {
        let text = format!("{}{}", self.promises, self.faults);
        fs::write(repo.root().join(PATH), text).with_context(|| format!("write {PATH}"))
    }

    fn split(text: &str) -> Self {
        let (promises, faults) = text.split_at(text.find(FAULTS).unwrap_or(text.len()));
        Self { promises: promises.to_owned(), faults: faults.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_told_apart_and_nothing_is_lost() {
        let page = Page::split("# Conformance\n\n## Leases\n\n## Faults\n\n| fault |\n");
        assert_eq!(page.promises, "# Conformance\n\n## Leases\n");
        assert_eq!(page.faults, "\n## Faults\n\n| fault |\n");
    }

    #[test]
    fn a_page_without_faults_is_all_promises() {
        let page = Page::split("# Conformance\n");
        assert_eq!((page.promises.as_str(), page.faults.as_str()), ("# Conformance\n", ""));
    }
}
