//! Which commands a page has, and what it says that they print.

use super::*;

fn texts(markdown: &str) -> Vec<(String, u8)> {
    let script = Script::parse("page.md", markdown).unwrap();
    script.commands.into_iter().map(|command| (command.text, command.expected)).collect()
}

fn shown(markdown: &str) -> Vec<Shown> {
    Script::parse("page.md", markdown).unwrap().shown
}

fn refused(markdown: &str) -> String {
    format!("{:#}", Script::parse("page.md", markdown).unwrap_err())
}

#[test]
fn each_line_of_a_shell_block_is_a_command() {
    let markdown = "# T\n```sh\nmake a\n\nmake b\n```\n";
    assert_eq!(texts(markdown), [("make a".to_owned(), 0), ("make b".to_owned(), 0)]);
    assert_eq!(Script::parse("page.md", markdown).unwrap().commands.last().unwrap().line, 5);
}

#[test]
fn blocks_of_other_languages_are_left_alone() {
    let markdown = "```text\nmake a\n```\n```\nmake b\n```\n```shell-session\nmake c\n```\n";
    assert_eq!(Script::parse("page.md", markdown).unwrap(), Script::default());
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
    let error = refused("```sh\n# exits with three\nmake a\n```\n");
    assert!(error.starts_with("page.md:2: `# exits with three` names no exit code"), "{error}");
    let error = refused("```sh\n# exits with 3\n```\n");
    assert_eq!(error, "page.md:3: an exit code is announced for no command");
}

#[test]
fn a_backslash_joins_two_lines() {
    let markdown = "```sh\nmake a \\\n  b\nmake c\n```\n";
    assert_eq!(texts(markdown), [("make a \\\n  b".to_owned(), 0), ("make c".to_owned(), 0)]);
}

#[test]
fn a_text_given_to_a_command_is_part_of_it_as_it_stands() {
    let text = "cat >a <<'END'\n#!/bin/sh\n\n  echo \\\nEND";
    assert_eq!(
        texts(&format!("```sh\n{text}\nmake a\n```\n")),
        [(text.to_owned(), 0), ("make a".to_owned(), 0)]
    );
}

#[test]
fn a_text_that_does_not_end_is_an_error() {
    let error = refused("```sh\ncat <<END\nmake a\n```\n");
    assert_eq!(error, "page.md:4: the block ends before the line `END`");
}

#[test]
fn a_word_given_to_a_command_takes_no_lines() {
    assert_eq!(texts("```sh\ncat <<<END\nmake a\n```\n").len(), 2);
}

#[test]
fn a_text_block_right_after_commands_is_what_they_print() {
    let markdown = "```sh\nmake a\n```\n```sh\nmake b\nmake c\n```\n\n```text\nok\n\nso\n```\n";
    let lines = vec![(10, "ok".to_owned()), (11, String::new()), (12, "so".to_owned())];
    assert_eq!(shown(markdown), [Shown { commands: 1..3, lines }]);
}

#[test]
fn a_text_block_elsewhere_is_text() {
    let after_words = "```sh\nmake a\n```\nIn a text file:\n```text\nok\n```\n";
    let after_another = "```sh\nmake a\n```\n```toml\nb = 1\n```\n```text\nok\n```\n";
    for markdown in ["```text\nok\n```\n", after_words, after_another] {
        assert_eq!(shown(markdown), []);
    }
}

#[test]
fn the_expected_exit_code_is_the_good_one() {
    let command = Command { line: 1, text: "make a".into(), expected: 3 };
    let ended = |code| Ended { code, trouble: String::new(), printed: String::new() };
    assert!(command.tell("page.md", &ended(Some(3))));
    assert!(!command.tell("page.md", &ended(Some(0))));
    assert!(!command.tell("page.md", &ended(None)));
}
