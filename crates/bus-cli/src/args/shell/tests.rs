//! Every command line that is written down somewhere is one that the parser takes.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::{Command, CommandFactory, Parser, error::ErrorKind};

use crate::args::Cli;

/// Asserts that the parser takes every call of `vakbus` in these lines, and returns how many.
fn taken<'a>(place: &str, lines: impl IntoIterator<Item = &'a str>) -> usize {
    let calls: Vec<Vec<String>> = lines.into_iter().flat_map(calls).collect();
    for call in &calls {
        is_taken(place, call);
    }
    calls.len()
}

fn is_taken(place: &str, call: &[String]) {
    assert_eq!(refusal(call), None, "{place}: {call:?}");
}

/// What the parser says against a call.
fn refusal(call: &[String]) -> Option<String> {
    let said = Cli::try_parse_from(call).err()?;
    let is_fine = matches!(said.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    // Nobody knows here whether what a variable holds is good for its place.
    let is_unknown =
        said.kind() == ErrorKind::ValueValidation && call.iter().any(|word| word == VARIABLE);
    (!is_fine && !is_unknown).then(|| said.to_string())
}

/// What stands for the value of a variable.
const VARIABLE: &str = "variable";

/// The calls of `vakbus` in a line of a shell.
fn calls(line: &str) -> Vec<Vec<String>> {
    let line = line.trim_start();
    let mut commands = words(line.strip_prefix("$ ").unwrap_or(line));
    for command in &mut commands {
        let is_before = |wrapper: &&&[&str]| {
            command.len() > wrapper.len() && command.iter().zip(**wrapper).all(|(a, b)| a == b)
        };
        let wrapped = WRAPPERS.iter().find(is_before).map_or(0, |wrapper| wrapper.len());
        command.drain(..wrapped);
        let is_setting = |word: &String| {
            let (name, _) = word.split_once('=').unwrap_or_default();
            !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
        };
        let before = command.iter().take_while(|word| is_setting(word)).count();
        command.drain(..before);
    }
    commands.retain(|command| command.first().is_some_and(|name| name == "vakbus"));
    commands
}

/// What runs a command that follows.
const WRAPPERS: [&[&str]; 3] =
    [&["sudo", "-u", "vakbus"], &["docker", "exec", "bus"], &["docker", "compose", "exec", "bus"]];

/// The words of each command in a line: quotes are taken away, redirections left out. No more of a
/// shell than the examples need.
fn words(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let (mut word, mut is_word, mut is_target, mut quote) = (String::new(), false, false, None);
    for c in line.chars().chain(['\n']) {
        match (c, quote) {
            (_, Some(open)) if c == open => quote = None,
            (_, Some(_)) => word.push(c),
            ('"' | '\'', None) => (quote, is_word) = (Some(c), true),
            ('>' | '<', None) => (is_target, is_word) = (true, false),
            ('#', None) if !is_word => break,
            ('|' | '&' | ';' | ' ' | '\n', None) => {
                let mut done = std::mem::take(&mut word);
                let is_name =
                    |name: &str| name.starts_with(|c: char| c.is_alphabetic() || c == '{');
                if done.strip_prefix('$').is_some_and(is_name) {
                    done = VARIABLE.to_owned();
                }
                if is_word && !std::mem::take(&mut is_target) {
                    commands.last_mut().unwrap().push(done);
                }
                is_word = false;
                if "|&;".contains(c) {
                    commands.push(Vec::new());
                }
            }
            (_, None) => {
                word.push(c);
                is_word = true;
            }
        }
    }
    commands
}

/// The lines of the shell in a text of Markdown, those that go on at the next line joined.
fn code(markdown: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let (mut inside, mut goes_on) = (false, false);
    for line in markdown.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            inside = !inside && ["sh", "text", "console"].contains(&language);
        } else if inside {
            let (text, more) = line.strip_suffix('\\').map_or((line, false), |text| (text, true));
            match lines.last_mut().filter(|_| goes_on) {
                Some(last) => last.push_str(text),
                None => lines.push(text.to_owned()),
            }
            goes_on = more;
        }
    }
    lines
}

/// A path below the root of the repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(repository(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The whole command line, each command after the one it is below.
fn all(command: &Command) -> Vec<&Command> {
    std::iter::once(command).chain(command.get_subcommands().flat_map(all)).collect()
}

#[test]
fn the_examples_in_help_texts_are_taken() {
    let root = Cli::command();
    let mut count = 0;
    for command in all(&root) {
        let notes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        count += taken(command.get_name(), notes.lines().filter(|line| line.starts_with("  ")));
    }
    assert!(count >= 8, "{count}");
}

#[test]
fn the_examples_in_guides_are_taken() {
    let mut count = 0;
    let mut files = vec![repository("README.md"), repository("examples/README.md")];
    let guides = fs::read_dir(repository("docs/guide")).unwrap();
    files.extend(guides.map(|entry| entry.unwrap().path()));
    for file in files.iter().filter(|path| path.extension().is_some_and(|end| end == "md")) {
        let lines = code(&fs::read_to_string(file).unwrap());
        count += taken(&file.display().to_string(), lines.iter().map(String::as_str));
    }
    assert!(count >= 20, "{count}");
}

#[test]
fn the_examples_of_deployment_are_taken() {
    for (place, least) in [("systemd", 2), ("container", 1)] {
        let place = format!("examples/{place}/README.md");
        let lines = code(&read(&place));
        assert!(taken(&place, lines.iter().map(String::as_str)) >= least, "{place}");
    }
}

#[test]
fn the_units_of_systemd_start_commands_that_exist() {
    for unit in ["vakbus.service", "vakbus-worker@.service", "user/vakbus.service"] {
        let text = read(&format!("examples/systemd/{unit}"));
        let start = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
        let (program, rest) = start.split_once(' ').unwrap();
        assert!(program.ends_with("/bin/vakbus"), "{unit}: {program}");
        let line = format!("vakbus {}", rest.replace("%i", "coder"));
        assert_eq!(taken(unit, [line.as_str()]), 1);
    }
}

/// The arguments in `["…", "…"]`, the form of Containerfile and compose file.
fn listed(list: &str) -> Vec<String> {
    serde_json::from_str(list).unwrap_or_else(|error| panic!("{list}: {error}"))
}

#[test]
fn the_container_starts_and_asks_commands_that_exist() {
    let text = read("examples/container/Containerfile");
    let after = |what: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(what));
        found.unwrap_or_else(|| panic!("{what}")).to_owned()
    };
    let health = after("HEALTHCHECK ");
    is_taken("HEALTHCHECK", &listed(health.split_once(" CMD ").unwrap().1));
    is_taken("CMD", &[listed(&after("ENTRYPOINT ")), listed(&after("CMD "))].concat());
}

#[test]
fn the_services_of_compose_run_commands_that_exist() {
    let text = read("examples/compose/compose.yaml");
    let commands: Vec<_> =
        text.lines().filter_map(|line| line.trim_start().strip_prefix("command: ")).collect();
    assert_eq!(commands.len(), 3);
    for command in commands {
        is_taken("compose.yaml", &[vec!["vakbus".to_owned()], listed(command)].concat());
    }
    let lines = text.lines().filter_map(|line| line.strip_prefix("#   "));
    assert_eq!(taken("compose.yaml", lines), 1);
}

#[test]
fn words_are_those_of_a_shell() {
    let line = "$ A=1 vakbus a 'b c' \"$(d | e)\" >f && vakbus g # h";
    let calls = calls(line);
    assert_eq!(calls, [vec!["vakbus", "a", "b c", "$(d | e)"], vec!["vakbus", "g"]]);
}

#[test]
fn a_call_that_the_parser_refuses_is_noticed() {
    let calls = calls("true | vakbus swrm -- true");
    assert!(refusal(&calls[0]).unwrap().contains("'swarm'"));
}

#[test]
fn every_command_says_what_it_does() {
    let root = Cli::command();
    for command in all(&root) {
        assert!(command.get_about().is_some(), "{}", command.get_name());
    }
}

#[test]
fn every_option_says_what_it_is_for() {
    let root = Cli::command();
    for command in all(&root) {
        for option in command.get_arguments() {
            assert!(option.get_help().is_some(), "{} {}", command.get_name(), option.get_id());
        }
    }
}

#[test]
fn no_command_has_an_option_of_the_name_of_a_global_one() {
    // It would hide the one that every command takes.
    let root = Cli::command();
    let global: Vec<_> = root.get_arguments().filter(|arg| arg.is_global_set()).collect();
    for command in all(&root).into_iter().skip(1) {
        for option in command.get_arguments() {
            let same = global.iter().find(|other| {
                let same_long = other.get_long().is_some() && other.get_long() == option.get_long();
                let has_short = other.get_short().is_some();
                same_long || (has_short && other.get_short() == option.get_short())
            });
            assert!(same.is_none(), "{} {}", command.get_name(), option.get_id());
        }
    }
}
