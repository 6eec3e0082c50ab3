//! `vakbus man`: manual pages, made from the same description as the help texts.

use std::{fs, io, path::Path};

use clap::{Command, CommandFactory};
use clap_mangen::{
    Man,
    roff::{Roff, roman},
};
use serde_json::json;

use crate::{
    args::{Cli, Global, ManArgs},
    error::{CliError, Exit},
    print,
};

/// Prints one page, or writes all of them and prints their paths.
pub(crate) fn run(args: &ManArgs, global: &Global) -> Result<Exit, CliError> {
    let root = described();
    match &args.out {
        Some(dir) => write_all(&root, dir, global)?,
        None => print::text(&page(&root, find(&root, &args.command)?)?)?,
    }
    Ok(Exit::Done)
}

/// The whole command line, each command with its full name and the options it inherits.
fn described() -> Command {
    // Whoever reads a manual page needs no page about help.
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    root
}

/// The command that `path` names.
fn find<'a>(root: &'a Command, path: &[String]) -> Result<&'a Command, CliError> {
    path.iter().try_fold(root, |command, name| {
        command.get_subcommands().find(|sub| sub.get_name() == name).ok_or_else(|| {
            let parent = command.get_bin_name().unwrap_or_default();
            CliError::usage(format!("{parent} has no command {}", print::harmless(name)))
                .next(format!("{parent} --help"))
        })
    })
}

/// All commands that have a page: `root` and everything below it.
fn all(root: &Command) -> Vec<&Command> {
    let below = root.get_subcommands().filter(|command| !command.is_hide_set());
    std::iter::once(root).chain(below.flat_map(all)).collect()
}

fn write_all(root: &Command, dir: &Path, global: &Global) -> Result<(), CliError> {
    let failed = |path: &Path, error: &io::Error| {
        CliError::new(Exit::Failed, format!("cannot write {}: {error}", path.display()))
            .next("name a directory of yours with --out")
    };
    fs::create_dir_all(dir).map_err(|error| failed(dir, &error))?;
    for command in all(root) {
        let name = title(command);
        let path = dir.join(format!("{name}.{SECTION}"));
        fs::write(&path, page(root, command)?).map_err(|error| failed(&path, &error))?;
        let shown = path.display().to_string();
        match global.json {
            true => print::json(&json!({ "page": name, "path": shown }))?,
            false => print::line(&shown)?,
        }
    }
    Ok(())
}

/// The page of one command.
fn page(root: &Command, command: &Command) -> Result<String, CliError> {
    let mut text = Vec::new();
    render(root, command, &mut text).map_err(|error| {
        CliError::new(Exit::Failed, format!("cannot make the page {}: {error}", title(command)))
    })?;
    Ok(String::from_utf8_lossy(&text).chars().map(escaped).collect())
}

fn render(root: &Command, command: &Command, text: &mut Vec<u8>) -> io::Result<()> {
    let source = format!("vakbus {}", root.get_version().unwrap_or_default());
    let man = Man::new(command.clone()).section(SECTION).source(source).manual(MANUAL);
    man.render_title(text)?;
    man.render_name_section(text)?;
    man.render_synopsis_section(text)?;
    man.render_description_section(text)?;
    man.render_options_section(text)?;
    if command.get_subcommands().next().is_some() {
        man.render_subcommands_section(text)?;
    }
    notes(command).to_writer(text)?;
    see_also(root, command).to_writer(text)
}

/// Formatters read plain ASCII alike; anything else they know by its number.
fn escaped(c: char) -> String {
    match c {
        '\n' | ' '..='~' => c.to_string(),
        _ => format!("\\[u{:04X}]", u32::from(c)),
    }
}

/// What follows the options in the help text, line by line: its examples and tables must not be
/// filled to paragraphs.
fn notes(command: &Command) -> Roff {
    let mut roff = Roff::new();
    if let Some(notes) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        roff.control("SH", ["NOTES"]);
        roff.control("nf", []);
        for line in notes.to_string().lines() {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
    }
    roff
}

/// The pages one step up and down from here.
fn see_also(root: &Command, command: &Command) -> Roff {
    let parent = all(root)
        .into_iter()
        .find(|other| other.get_subcommands().any(|sub| title(sub) == title(command)));
    let below = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let pages: Vec<String> =
        parent.into_iter().chain(below).map(|page| format!("{}({SECTION})", title(page))).collect();
    let mut roff = Roff::new();
    if !pages.is_empty() {
        roff.control("SH", ["SEE ALSO"]);
        roff.text([roman(pages.join(", "))]);
    }
    roff
}

/// The name of its page, without the section.
fn title(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

/// User commands.
const SECTION: &str = "1";
const MANUAL: &str = "vakbus manual";

#[cfg(test)]
mod tests;
