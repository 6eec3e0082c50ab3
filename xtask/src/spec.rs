//! Holds the specification against the code: page hashes, and the vectors recomputed in Python.
//!
//! A page begins with one line for each file that it describes, with the file's hash, so that a
//! changed file asks somebody to read the page again.

use std::collections::BTreeSet;
use std::io;
use std::process::Command;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::args::Args;
use crate::repo::{self, Repo};
use crate::steps::Outcome;

/// What the command line asks for.
#[derive(Debug)]
pub(crate) struct Options {
    /// Write the present hashes into the pages.
    accept: bool,
}

impl Options {
    /// Reads `[--accept]`.
    ///
    /// # Errors
    /// A usage error for anything else.
    pub(crate) fn parse(mut args: Args) -> Result<Self> {
        let accept = args.flag("--accept");
        args.end()?;
        Ok(Self { accept })
    }
}

/// Checks the pages, or accepts them as they are, and recomputes the vectors.
///
/// # Errors
/// When a file cannot be read or written, or Python is missing.
pub(crate) fn run(repo: &Repo, options: &Options) -> Result<bool> {
    if options.accept {
        accept(repo)?;
    }
    let problems = problems(repo)?;
    for problem in &problems {
        eprintln!("{problem}");
    }
    println!("spec: {} problems of pages", problems.len());
    Ok(recompute(repo)? && problems.is_empty())
}

/// The step of `cargo xtask test`.
///
/// # Errors
/// As [`run`].
pub(crate) fn step(repo: &Repo) -> Result<Outcome> {
    run(repo, &Options { accept: false }).map(Outcome::from)
}

/// A page of the specification: its path below the root, and its text.
struct Page {
    path: String,
    text: String,
}

/// A line of a page that names a file and the hash of the file that the page was written for.
#[derive(Debug, PartialEq, Eq)]
struct Described<'a> {
    file: &'a str,
    hash: &'a str,
}

impl Page {
    fn described(&self) -> impl Iterator<Item = Described<'_>> {
        self.text.lines().filter_map(described)
    }
}

fn described(line: &str) -> Option<Described<'_>> {
    let inner = line.strip_prefix(BEGIN)?.strip_suffix(END)?;
    let (file, hash) = inner.split_once(HASH)?;
    Some(Described { file, hash })
}

fn problems(repo: &Repo) -> Result<Vec<String>> {
    let files = repo.files()?;
    let pages = pages(repo, &files)?;
    Ok(judge(&pages, &files, |file| hash_of(repo, file)))
}

fn pages(repo: &Repo, files: &[String]) -> Result<Vec<Page>> {
    let names = files.iter().filter(|file| file.starts_with(PAGES) && file.ends_with(".md"));
    names
        .map(|path| {
            let text = std::fs::read_to_string(repo.root().join(path));
            Ok(Page { path: path.clone(), text: text.with_context(|| format!("read {path}"))? })
        })
        .collect()
}

/// What is wrong with the pages; `hash` gives the present hash of a file that exists.
fn judge(pages: &[Page], files: &[String], hash: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut found = Vec::new();
    let mut known = BTreeSet::new();
    for page in pages {
        let path = &page.path;
        for Described { file, hash: written } in page.described() {
            known.insert(file);
            match hash(file) {
                Some(present) if present == written => {}
                Some(_) => found.push(format!(
                    "{path} describes an older {file}: re-read it, then run cargo xtask spec --accept"
                )),
                None => found.push(format!("{path} describes {file}, which is not there")),
            }
        }
        if path != FRONT && page.described().next().is_none() {
            found
                .push(format!("{path} describes no file: begin it with `{BEGIN}FILE{HASH}0{END}`"));
        }
    }
    for file in files.iter().filter(|file| is_wire(file) && !known.contains(file.as_str())) {
        found.push(format!("{file} is described by no page of {PAGES}"));
    }
    found
}

/// Whether the file fixes bytes that travel or are kept, so that a page has to describe it.
fn is_wire(file: &str) -> bool {
    let is_test = file.ends_with("/tests.rs") || file.contains("/tests/");
    WIRE.iter().any(|folder| file.starts_with(folder)) && file.ends_with(".rs") && !is_test
}

/// Writes the present hashes into all pages.
fn accept(repo: &Repo) -> Result<()> {
    for Page { path, text } in pages(repo, &repo.files()?)? {
        let accepted = accepted(&text, |file| hash_of(repo, file));
        if accepted != text {
            std::fs::write(repo.root().join(&path), accepted)
                .with_context(|| format!("write {path}"))?;
            println!("spec: accepted {path}");
        }
    }
    Ok(())
}

fn accepted(text: &str, hash: impl Fn(&str) -> Option<String>) -> String {
    let line = |line: &str| match described(line).and_then(|own| Some((own.file, hash(own.file)?)))
    {
        Some((file, hash)) => format!("{BEGIN}{file}{HASH}{hash}{END}\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// The hash of a file; `None` when it cannot be read.
fn hash_of(repo: &Repo, file: &str) -> Option<String> {
    let bytes = std::fs::read(repo.root().join(file)).ok()?;
    let digest = Sha256::digest(bytes);
    Some(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Runs the second implementation over all vectors.
fn recompute(repo: &Repo) -> Result<bool> {
    let mut python = Command::new("python3");
    python.current_dir(repo.root()).arg(SECOND);
    match python.status() {
        Ok(status) => Ok(status.success()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(
            "python3 is not installed: {SECOND} needs Python 3.11 or newer to recompute the vectors"
        ),
        Err(error) => Err(error).with_context(|| repo::name_of(&python)),
    }
}

const PAGES: &str = "docs/spec/";
const FRONT: &str = "docs/spec/README.md";
const SECOND: &str = "docs/spec/recompute.py";
const BEGIN: &str = "<!-- describes: ";
const HASH: &str = " sha256:";
const END: &str = " -->";

/// Where wire types live.
const WIRE: [&str; 17] = [
    "crates/bus-envelope/src/wire/",
    "crates/bus-envelope/src/hash.rs",
    "crates/bus-evidence/src/receipt.rs",
    "crates/bus-evidence/src/checkpoint.rs",
    "crates/bus-core/src/dead_letter.rs",
    "crates/bus-core/src/approvals/payload",
    "crates/bus-core/src/packed.rs",
    "crates/bus-disk/src/segment.rs",
    "crates/bus-disk/src/batch.rs",
    "crates/bus-disk/src/record",
    "crates/bus-disk/src/snapshot.rs",
    "crates/bus-link/src/wire/",
    "crates/bus-runner/src/recording/batch.rs",
    "crates/bus-peers/src/envelope.rs",
    "crates/bus-peers/src/record.rs",
    "crates/bus-peers/src/registry/definition.rs",
    "crates/bus-peers/src/shared/entry.rs",
];

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "crates/a/src/x.rs";

    fn page(text: &str) -> Vec<Page> {
        vec![Page { path: "docs/spec/x.md".to_owned(), text: text.to_owned() }]
    }

    fn judged(text: &str, hash: Option<&str>) -> Vec<String> {
        judge(&page(text), &[], |_| hash.map(str::to_owned))
    }

    #[test]
    fn a_page_of_the_present_file_is_no_problem() {
        let text = "<!-- describes: crates/a/src/x.rs sha256:12ab -->\n# X\n";
        assert!(judged(text, Some("12ab")).is_empty());
    }

    #[test]
    fn a_page_of_an_older_file_says_what_to_do() {
        let text = "<!-- describes: crates/a/src/x.rs sha256:12ab -->\n# X\n";
        let expected = "docs/spec/x.md describes an older crates/a/src/x.rs: re-read it, then run \
                        cargo xtask spec --accept";
        assert_eq!(judged(text, Some("99")), [expected]);
    }

    #[test]
    fn a_page_of_a_file_that_is_gone_is_a_problem_that_accepting_does_not_mend() {
        let text = "<!-- describes: crates/a/src/x.rs sha256:12ab -->\n# X\n";
        let expected = "docs/spec/x.md describes crates/a/src/x.rs, which is not there";
        assert_eq!(judged(text, None), [expected]);
        assert_eq!(accepted(text, |_| None), text);
    }

    #[test]
    fn a_page_that_describes_nothing_is_a_problem() {
        assert_eq!(judged("# X\n", None).len(), 1);
    }

    #[test]
    fn a_wire_type_that_no_page_describes_is_a_problem() {
        let files = ["json.rs", "tests.rs", "compact/tests.rs"]
            .map(|name| format!("crates/bus-envelope/src/wire/{name}"));
        let text = "<!-- describes: crates/a/src/x.rs sha256:12ab -->\n# X\n";
        let found = judge(&page(text), &files, |_| Some("12ab".to_owned()));
        let expected = "crates/bus-envelope/src/wire/json.rs is described by no page of docs/spec/";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn accepting_changes_the_hashes_and_nothing_else() {
        let text =
            "<!-- describes: crates/a/src/x.rs sha256:0 -->\n\n# X\n  <!-- describes: y -->\n";
        let expected =
            "<!-- describes: crates/a/src/x.rs sha256:12ab -->\n\n# X\n  <!-- describes: y -->\n";
        let found = accepted(text, |file| (file == FILE).then(|| "12ab".to_owned()));
        assert_eq!(found, expected);
    }

    #[test]
    fn an_option_that_is_unknown_is_a_usage_error() {
        assert!(Options::parse(Args::new(["--acept".to_owned()])).is_err());
    }
}
