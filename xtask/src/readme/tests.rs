//! Which commands README.md has, and how the shell runs them.

use std::time::Duration;

use super::shell::Shell;
use super::*;
use crate::repo;
use crate::scratch::Scratch;

fn texts(markdown: &str) -> Vec<(String, u8)> {
    let found = commands(markdown).unwrap();
    found.into_iter().map(|command| (command.text, command.expected)).collect()
}

fn ends(commands: &[&str]) -> Vec<Ended> {
    let scratch = Scratch::new("shell").unwrap();
    let shell = Shell::new(scratch.path()).wait_max(Duration::from_secs(60));
    let mut ended = Vec::new();
    shell
        .run(&scratch.folder("notes").unwrap(), commands, |end| {
            ended.push(end);
        })
        .unwrap();
    ended
}

fn codes(commands: &[&str]) -> Vec<Option<i32>> {
    ends(commands).into_iter().map(|ended| ended.code).collect()
}

#[test]
fn each_line_of_a_shell_block_is_a_command() {
    let markdown = "# T\n```sh\nmake a\n\nmake b\n```\n";
    assert_eq!(texts(markdown), [("make a".to_owned(), 0), ("make b".to_owned(), 0)]);
    assert_eq!(commands(markdown).unwrap().last().unwrap().line, 5);
}

#[test]
fn blocks_of_other_languages_are_left_alone() {
    let markdown = "```text\nmake a\n```\n```\nmake b\n```\n```shell-session\nmake c\n```\n";
    assert_eq!(texts(markdown), []);
}

#[test]
fn a_shell_block_shown_inside_another_block_is_text() {
    assert_eq!(texts("````md\n```sh\nmake a\n```\n````\n"), []);
}

#[test]
fn a_comment_announces_the_exit_code_of_the_next_command_only() {
    let markdown = "```sh\n# Some fail.\n# exits with 3\nmake a\nmake b\n```\n";
    assert_eq!(texts(markdown), [("make a".to_owned(), 3), ("make b".to_owned(), 0)]);
}

#[test]
fn an_announcement_that_says_nothing_is_an_error() {
    assert!(commands("```sh\n# exits with three\nmake a\n```\n").is_err());
    assert!(commands("```sh\n# exits with 3\n```\n").is_err());
}

#[test]
fn a_backslash_joins_two_lines() {
    let markdown = "```sh\nmake a \\\n  b\nmake c\n```\n";
    assert_eq!(texts(markdown), [("make a \\\n  b".to_owned(), 0), ("make c".to_owned(), 0)]);
}

#[test]
fn exit_codes_are_those_of_the_commands() {
    assert_eq!(
        codes(&["true", "false", "(exit 3)", "echo a \\\n b"]),
        [Some(0), Some(1), Some(3), Some(0)]
    );
}

#[test]
fn a_folder_and_a_variable_last_to_the_next_command() {
    let ended = ends(&["mkdir inside && cd inside", "export NOUN=frame", "echo ${PWD##*/} $NOUN"]);
    assert_eq!(ended.last().unwrap().printed, "inside frame\n");
}

#[test]
fn what_a_command_prints_on_either_stream_is_kept() {
    let ended = ends(&["echo out; echo err >&2"]);
    assert_eq!(ended.first().unwrap().printed, "out\nerr\n");
}

#[test]
fn a_command_that_is_no_shell_fails_alone() {
    assert_eq!(codes(&["echo 'open", "true"]).last(), Some(&Some(0)));
    assert_ne!(codes(&["echo 'open"]), [Some(0)]);
}

#[test]
fn a_command_that_ends_the_shell_is_the_last() {
    assert_eq!(codes(&["exit 0", "true"]), [None]);
}

#[test]
fn a_command_that_never_ends_is_ended() {
    let scratch = Scratch::new("shell").unwrap();
    let shell = Shell::new(scratch.path()).wait_max(Duration::from_millis(50));
    let mut ended = Vec::new();
    let notes = scratch.folder("notes").unwrap();
    shell
        .run(&notes, &["tail -f /dev/null", "true"], |end| {
            ended.push(end.code);
        })
        .unwrap();
    assert_eq!(ended, [None]);
}

#[test]
fn what_runs_in_the_background_ends_with_the_shell() {
    let ended = ends(&["tail -f /dev/null & echo $!"]);
    let process = ended.first().unwrap().printed.trim().to_owned();
    // The signal is on its way; a process that nobody has collected yet counts as ended.
    let is_ended = || {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        std::thread::yield_now();
        stat.is_empty() || stat.contains(") Z")
    };
    assert!((0..1_000_000).any(|_| is_ended()), "process {process} still runs");
}

#[test]
fn the_expected_exit_code_is_the_good_one() {
    let command = Command { line: 1, text: "make a".into(), expected: 3 };
    let ended = |code| Ended { code, trouble: String::new(), printed: String::new() };
    assert!(tell(&command, &ended(Some(3))));
    assert!(!tell(&command, &ended(Some(0))));
    assert!(!tell(&command, &ended(None)));
}

#[test]
fn the_clone_holds_what_could_be_committed_and_nothing_else() {
    let scratch = Scratch::new("clone").unwrap();
    let (from, to) = (scratch.folder("from").unwrap(), scratch.folder("to").unwrap());
    std::fs::create_dir(from.join("folder")).unwrap();
    for (file, text) in [(".gitignore", "/target\n"), ("folder/kept", "a"), ("target", "b")] {
        std::fs::write(from.join(file), text).unwrap();
    }
    sandbox::commit(&from).unwrap();
    std::fs::write(from.join("new"), "c").unwrap();
    sandbox::copy(&from, &to).unwrap();
    sandbox::commit(&to).unwrap();
    assert_eq!(repo::files_in(&to).unwrap(), [".gitignore", "folder/kept", "new"]);
    assert!(!to.join("target").exists());
}
