//! How a page is judged, with a program of our own in the place of `vakbus`.

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::scratch::Scratch;

/// What becomes of a page whose `vakbus` prints its arguments.
fn judged(text: &str, wait_max: Duration) -> Option<bool> {
    let scratch = Scratch::new("program").unwrap();
    let program = scratch.path().join("vakbus");
    fs::write(&program, "#!/bin/sh\necho \"vakbus $*\"\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    Page { name: "page.md", text }.judge(&program, None, wait_max).unwrap()
}

fn judge(text: &str) -> Option<bool> {
    judged(text, Duration::from_secs(60))
}

#[test]
fn a_page_whose_commands_do_what_it_says_is_good() {
    let text = "```sh\nvakbus up\n# exits with 3\n(exit 3)\n```\n\n```text\nvakbus up\n```\n";
    assert_eq!(judge(text), Some(true));
}

#[test]
fn a_page_with_a_wrong_exit_code_is_not() {
    assert_eq!(judge("```sh\nfalse\n```\n"), Some(false));
    assert_eq!(judge("```sh\n# exits with 3\ntrue\n```\n"), Some(false));
}

#[test]
fn a_page_that_shows_what_is_not_printed_is_not_good() {
    assert_eq!(judge("```sh\nvakbus up\n```\n```text\nready\n```\n"), Some(false));
}

#[test]
fn a_page_shows_what_its_own_block_prints() {
    let text = "```sh\nvakbus one\n```\n```sh\nvakbus two\n```\n```text\nvakbus one\n```\n";
    assert_eq!(judge(text), Some(false));
}

#[test]
fn what_the_background_prints_later_is_shown_too() {
    let later = "(until [ -e go ]; do :; done; echo later) &";
    let text = format!("```sh\n{later}\n```\n```text\nlater\n```\n```sh\ntouch go; wait\n```\n");
    assert_eq!(judge(&text), Some(true));
}

#[test]
fn a_page_with_a_command_that_hangs_is_not_good_and_ends() {
    let text = "```sh\ntail -f /dev/null\ntrue\n```\n";
    assert_eq!(judged(text, Duration::from_millis(300)), Some(false));
}

#[test]
fn after_a_command_that_went_wrong_none_is_run() {
    let scratch = Scratch::new("mark").unwrap();
    let mark = scratch.path().join("mark");
    let text = format!("```sh\nfalse\ntail -f /dev/null\ntouch {}\n```\n", mark.display());
    assert_eq!(judge(&text), Some(false));
    assert!(!mark.exists());
}

#[test]
fn a_page_begins_in_an_empty_home_with_nothing_of_ours_set() {
    let text = "```sh\n[ -z \"$(ls -A)\" ] && [ \"$(ls -A ~)\" = work ]\n[ -z \"$CARGO\" ]\n```\n";
    assert_eq!(judge(text), Some(true));
}

#[test]
fn a_page_without_commands_is_not_judged() {
    assert_eq!(judge("```text\nvakbus up\n```\n"), None);
}

#[test]
fn a_page_that_the_index_does_not_link_is_named() {
    let pages = ["README.md", "start.md", "swarm.md"].map(str::to_owned);
    assert_eq!(unlisted("[Start](start.md) and swarm.md", &pages), ["swarm.md"]);
}
