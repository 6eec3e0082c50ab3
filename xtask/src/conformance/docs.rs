//! The page that says what each engine keeps, made from a run, and whether it is still true.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;

use anyhow::{Context, Result};

use super::row::{Outcome, Row};
use crate::page::{CLUSTER, PATH, Page};
use crate::repo::Repo;

/// The command that writes the page anew.
pub(super) const COMMAND: &str = "cargo xtask conformance --write-docs";

/// The page for the rows of a whole run on `engines`; the areas in the order of the rows.
pub(super) fn render(rows: &[Row], engines: &[&str]) -> String {
    let mut areas: Vec<&str> = Vec::new();
    let mut cases: BTreeSet<&str> = BTreeSet::new();
    for row in rows {
        if !areas.contains(&row.area.as_str()) {
            areas.push(&row.area);
        }
        cases.insert(&row.case);
    }
    let mut page = format!(
        "# Conformance\n\n\
         What each engine keeps of the promises of `bus-core`: {} cases. The case of a promise\n\
         has its sentence for a name, with underscores. Written by\n\
         `{COMMAND}` from a run;\n\
         [bus-conformance](../crates/bus-conformance/README.md) says how to hold another engine\n\
         to it.\n",
        cases.len()
    );
    for engine in engines {
        let of_engine = || rows.iter().filter(|row| row.engine == *engine);
        let count = |outcome| of_engine().filter(|row| row.outcome == outcome).count();
        let (kept, none) = (count(Outcome::Passed), count(Outcome::NotApplicable));
        let _infallible = write!(page, "\n- **{engine}**: {kept} kept, {none} not applicable.");
    }
    page.push('\n');
    for area in areas {
        let _infallible = write!(page, "\n## {area}\n\n| promise | {} |\n", engines.join(" | "));
        let _infallible = writeln!(page, "|---{}|", "|---".repeat(engines.len()));
        let of_area = || rows.iter().filter(|row| row.area == area);
        let mut seen = BTreeSet::new();
        for row in of_area().filter(|row| seen.insert(row.case.as_str())) {
            let _infallible = write!(page, "| {} |", sentence(&row.case));
            for engine in engines {
                let answer = of_area().find(|r| r.case == row.case && r.engine == *engine);
                let _infallible = write!(page, " {} |", answer.map_or("not run".into(), cell));
            }
            page.push('\n');
        }
    }
    page
}

/// The part of the page for the rows of a whole run on three servers: what is not kept, by name.
pub(super) fn render_cluster(rows: &[Row]) -> String {
    let count = |outcome| rows.iter().filter(|row| row.outcome == outcome).count();
    let (kept, none) = (count(Outcome::Passed), count(Outcome::NotApplicable));
    let mut part = format!(
        "{CLUSTER}\n\
         The same promises on a cluster of three that keeps three copies of everything, with clients\n\
         of all of them: {kept} kept, {none} not applicable. Written by\n\
         `{COMMAND} --cluster`, a run of minutes.\n\n\
         | promise | what became of it |\n|---|---|\n"
    );
    for row in rows.iter().filter(|row| row.outcome != Outcome::Passed) {
        let _infallible = writeln!(part, "| {} | {} |", sentence(&row.case), cell(row));
    }
    part
}

fn cell(row: &Row) -> String {
    match row.outcome {
        Outcome::Passed => "kept".to_owned(),
        Outcome::Failed => "**broken**".to_owned(),
        Outcome::NotApplicable => {
            format!("not applicable: {}", row.reason.as_deref().unwrap_or_default())
        }
    }
}

/// A case's name as a sentence.
pub(crate) fn sentence(case: &str) -> String {
    let words = case.replace('_', " ");
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Writes what the page says of promises, or says whether it is this.
///
/// # Errors
/// When it cannot be written.
pub(super) fn settle(repo: &Repo, promises: &str, write: bool) -> Result<bool> {
    settle_part(repo, |page| &mut page.promises, promises, (write, COMMAND))
}

/// The same for what it says of promises on three servers.
///
/// # Errors
/// When it cannot be written.
pub(super) fn settle_cluster(repo: &Repo, cluster: &str, write: bool) -> Result<bool> {
    let command = format!("{COMMAND} --cluster");
    settle_part(repo, |page| &mut page.cluster, cluster, (write, &command))
}

fn settle_part(
    repo: &Repo,
    part: impl Fn(&mut Page) -> &mut String,
    text: &str,
    (write, command): (bool, &str),
) -> Result<bool> {
    let mut page = Page::read(repo);
    let old = part(&mut page);
    if old == text {
        return Ok(true);
    }
    if write {
        text.clone_into(old);
        page.write(repo)?;
        return Ok(true);
    }
    eprintln!("conformance: {PATH} does not say what this run says; {command}");
    Ok(false)
}

/// Compares the cases in the source with those on the page, without running any.
///
/// # Errors
/// When the sources cannot be read.
pub(crate) fn lists_every_case(repo: &Repo) -> Result<bool> {
    let folder = repo.root().join("crates/bus-conformance/src/cases");
    let mut listed = BTreeSet::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        let source = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        listed.extend(cases_of(&source).map(sentence));
    }
    let page = Page::read(repo);
    let on_page: BTreeSet<String> = promises_of(&page.promises).map(str::to_owned).collect();
    for missing in listed.difference(&on_page) {
        eprintln!("{PATH}: `{missing}` is missing; {COMMAND}");
    }
    for gone in on_page.difference(&listed) {
        eprintln!("{PATH}: `{gone}` is no case any more; {COMMAND}");
    }
    println!("promises: {} cases, {} on the page", listed.len(), on_page.len());
    Ok(!listed.is_empty() && listed == on_page)
}

/// The names in the lists of a file of cases.
fn cases_of(source: &str) -> impl Iterator<Item = &str> {
    let lists = source.split("cases![").skip(1).filter_map(|rest| rest.split("];").next());
    let names = lists
        .filter_map(|list| list.split_once(':'))
        .flat_map(|(_, names)| names.split(',').map(str::trim));
    names.filter(|name| !name.is_empty())
}

/// The first cells of the page's tables.
fn promises_of(page: &str) -> impl Iterator<Item = &str> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| "));
    let promises = rows.filter_map(|row| row.split(" | ").next());
    promises.filter(|promise| *promise != "promise")
}

#[cfg(test)]
mod tests;
