//! `docs/conformance.md` in its three parts: what the suite said last, what it said on a cluster,
//! and what the faults did.

use std::fs;

use anyhow::{Context, Result};

use crate::repo::Repo;

/// The page; each part is written by its own task and keeps the others.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// What each engine keeps.
    pub(crate) promises: String,
    /// What is kept on three servers; empty when nothing was written yet.
    pub(crate) cluster: String,
    /// What became of the faults; empty when nothing was written yet.
    pub(crate) faults: String,
}

/// Where the page stands, below the root of the repository.
pub(crate) const PATH: &str = "docs/conformance.md";

/// How the second part begins.
pub(crate) const CLUSTER: &str = "\n## NATS on three servers\n";

/// How the third part begins.
pub(crate) const FAULTS: &str = "\n## Faults\n";

impl Page {
    /// The page as it is; empty when there is none.
    pub(crate) fn read(repo: &Repo) -> Self {
        Self::split(&fs::read_to_string(repo.root().join(PATH)).unwrap_or_default())
    }

    /// Writes all parts.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn write(&self, repo: &Repo) -> Result<()> {
        let text = format!("{}{}{}", self.promises, self.cluster, self.faults);
        fs::write(repo.root().join(PATH), text).with_context(|| format!("write {PATH}"))
    }

    fn split(text: &str) -> Self {
        let (before, faults) = text.split_at(text.find(FAULTS).unwrap_or(text.len()));
        let (promises, cluster) = before.split_at(before.find(CLUSTER).unwrap_or(before.len()));
        let [promises, cluster, faults] = [promises, cluster, faults].map(str::to_owned);
        Self { promises, cluster, faults }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_told_apart_and_nothing_is_lost() {
        let cluster = "\n## NATS on three servers\n\nAll.\n";
        let text = format!("# Conformance\n\n## Leases\n{cluster}\n## Faults\n\n| fault |\n");
        let page = Page::split(&text);
        assert_eq!(page.promises, "# Conformance\n\n## Leases\n");
        assert_eq!(page.cluster, cluster);
        assert_eq!(page.faults, "\n## Faults\n\n| fault |\n");
    }

    #[test]
    fn a_page_without_other_parts_is_all_promises() {
        let page = Page::split("# Conformance\n");
        let parts = [page.promises, page.cluster, page.faults];
        assert_eq!(parts, ["# Conformance\n", "", ""]);
    }
}
