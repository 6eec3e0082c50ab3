//! Runs what the pages of `docs/guide` tell a reader to run, each page in a home of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::args::Args;
use crate::nats;
use crate::repo::{self, Repo};
use crate::script::{Script, Shown};
use crate::steps::{Outcome, Stopwatch};

use home::Home;

mod home;
mod shown;

/// Which pages to run.
#[derive(Debug)]
pub(crate) struct Options {
    /// Those whose names hold this.
    filter: Option<String>,
}

impl Options {
    /// Reads the command line.
    ///
    /// # Errors
    /// A usage error.
    pub(crate) fn parse(args: Args) -> Result<Self> {
        Ok(Self { filter: args.last_word()? })
    }
}

/// Builds `vakbus`, runs the pages and prints how each command went; `false` when one did not end,
/// or did not print, what its page says.
///
/// # Errors
/// When there is no such page, one cannot be read, or nothing can be run.
pub(crate) fn run(repo: &Repo, options: &Options) -> Result<bool> {
    build(repo)?;
    all(repo, &program(repo)?, options.filter.as_deref())
}

/// As [`run`], with all pages and the program that the suite has built.
///
/// # Errors
/// As [`run`].
pub(crate) fn step(repo: &Repo) -> Result<Outcome> {
    let program = program(repo)?;
    if !program.is_file() {
        build(repo)?;
    }
    all(repo, &program, None).map(Outcome::from)
}

fn program(repo: &Repo) -> Result<PathBuf> {
    Ok(repo.target_dir()?.join("debug/vakbus"))
}

fn build(repo: &Repo) -> Result<()> {
    let mut cargo = repo.cargo(["build", "--quiet", "--package", "bus-cli"]);
    ensure!(repo::succeeds(&mut cargo)?, "vakbus does not build");
    Ok(())
}

fn all(repo: &Repo, program: &Path, filter: Option<&str>) -> Result<bool> {
    let folder = repo.root().join(FOLDER);
    let pages = pages(&folder)?;
    let index = fs::read_to_string(folder.join(INDEX)).context("read the index of the guide")?;
    let mut good = true;
    for page in unlisted(&index, &pages) {
        good = false;
        println!("{FOLDER}/{INDEX}: UNLISTED: it has no link to {page}");
    }
    let mut count = 0;
    for page in pages.iter().filter(|page| filter.is_none_or(|part| page.contains(part))) {
        count += 1;
        let name = format!("{FOLDER}/{page}");
        let text = fs::read_to_string(folder.join(page)).with_context(|| format!("read {name}"))?;
        let server = if text.contains("--nats") { nats::lent(repo) } else { None };
        let watch = Stopwatch::start();
        let runs = Page { name: &name, text: &text }.judge(program, server, WAIT_MAX)?;
        if let Some(is_good) = runs {
            good &= is_good;
            println!("{name}: {:.1} s", watch.read().as_secs_f64());
        }
    }
    if count == 0 {
        bail!("no page of {FOLDER} has `{}` in its name", filter.unwrap_or_default());
    }
    Ok(good)
}

/// The pages of a folder, in the order of their names.
fn pages(folder: &Path) -> Result<Vec<String>> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if Path::new(&name).extension().is_some_and(|end| end == "md") {
            pages.push(name);
        }
    }
    pages.sort();
    Ok(pages)
}

/// The pages that the index does not link, other than itself.
fn unlisted<'a>(index: &str, pages: &'a [String]) -> Vec<&'a str> {
    let is_listed = |page: &str| page == INDEX || index.contains(&format!("]({page})"));
    pages.iter().map(String::as_str).filter(|page| !is_listed(page)).collect()
}

/// A page of the guide.
struct Page<'a> {
    /// Its path, for people.
    name: &'a str,
    text: &'a str,
}

impl Page<'_> {
    /// Runs its commands and prints how each went; the first that does not end as the page says is
    /// the last. None when it has no commands.
    fn judge(
        &self,
        program: &Path,
        server: Option<&Path>,
        wait_max: Duration,
    ) -> Result<Option<bool>> {
        let Script { commands, shown } = Script::parse(self.name, self.text)?;
        if commands.is_empty() {
            return Ok(None);
        }
        let home = Home::new(program, server, wait_max)?;
        let texts: Vec<&str> = commands.iter().map(|command| command.text.as_str()).collect();
        let mut good = true;
        let mut results = commands.iter();
        home.run(&texts, |ended| {
            good &= results.next().is_some_and(|command| command.tell(self.name, &ended));
            good
        })?;
        for command in results {
            good = false;
            println!("{}:{}: NOT RUN: {}", self.name, command.line, command.text);
        }
        // Asked last, when what runs in the background has had its say.
        let holds = |block: &Shown| self.holds(block, &home.printed(block.commands.clone()));
        Ok(Some(good && shown.iter().all(holds)))
    }

    /// Whether what was printed is what the page shows.
    fn holds(&self, shown: &Shown, printed: &str) -> bool {
        let Some((line, text)) = shown::missing(&shown.lines, printed) else { return true };
        println!("{}:{line}: NOT PRINTED: {text}\n  instead:", self.name);
        printed.lines().for_each(|printed| println!("  | {printed}"));
        false
    }
}

const FOLDER: &str = "docs/guide";
const INDEX: &str = "README.md";

/// For one command, on a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
