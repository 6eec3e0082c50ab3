//! The house rules that a program can check, over every file that is or could be committed.

use std::fmt;

use anyhow::{Context, Result};

use crate::repo::Repo;

mod lexer;
mod manifest;
mod rust;
mod text;
mod tree;

/// A place where a house rule is broken, printed as `path:line: rule: text`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    path: String,
    /// Counted from 1; the whole file is line 1.
    line: usize,
    rule: &'static str,
    text: String,
}

impl Violation {
    fn new(path: &str, line: usize, rule: &'static str, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, rule, text: text.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.rule, self.text)
    }
}

/// Prints every violation; `true` when there is none.
///
/// # Errors
/// When git or the disk fails.
pub(crate) fn run(repo: &Repo) -> Result<bool> {
    let mut files = Vec::new();
    for path in repo.files()? {
        let place = repo.root().join(&path);
        if place.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
            let bytes = std::fs::read(&place).with_context(|| format!("read {path}"))?;
            files.push(File { path, text: String::from_utf8(bytes).ok() });
        }
    }
    let violations = judge(&files);
    for violation in &violations {
        eprintln!("{violation}");
    }
    println!("tidy: {} files, {} violations", files.len(), violations.len());
    Ok(violations.is_empty())
}

/// A file by its path below the root; `text` is absent when it is not UTF-8.
struct File {
    path: String,
    text: Option<String>,
}

fn judge(files: &[File]) -> Vec<Violation> {
    let mut violations = tree::judge(files);
    for File { path, text } in files {
        let Some(text) = text else { continue };
        violations.extend(text::judge(path, text));
        if path.ends_with(".rs") {
            violations.extend(rust::judge(path, text));
        }
        if is_named(path, "Cargo.toml") {
            violations.extend(manifest::judge(path, text));
        }
    }
    violations.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    violations
}

fn is_named(path: &str, name: &str) -> bool {
    path.rsplit('/').next() == Some(name)
}

#[cfg(test)]
mod tests;
