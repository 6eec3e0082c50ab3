//! Each exit code has one number and one chapter, and each error a next step.

use bus_core::{Error, ErrorKind};

use super::*;

const ALL: [Exit; 8] = [
    Exit::Done,
    Exit::Failed,
    Exit::Usage,
    Exit::Partly,
    Exit::Refused,
    Exit::Unreachable,
    Exit::Unknown,
    Exit::Timeout,
];

fn code_of(kind: ErrorKind) -> Exit {
    CliError::from(Error::new(kind, "append", "why")).code()
}

#[test]
fn the_numbers_are_those_that_scripts_rely_on() {
    assert_eq!(ALL.map(|exit| exit.row().number), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn every_code_has_a_chapter_in_the_guide() {
    let guide = include_str!("../../../../docs/guide/errors.md");
    for exit in ALL {
        let chapter = format!("\n## {}: ", exit.row().number);
        assert_eq!(guide.matches(&chapter).count(), 1, "{exit:?}");
    }
}

#[test]
fn the_guide_repeats_the_advice_word_for_word() {
    let guide = include_str!("../../../../docs/guide/errors.md");
    for exit in ALL.into_iter().filter(|exit| *exit != Exit::Done) {
        assert!(guide.contains(&format!("`next: {}`", exit.row().next)), "{exit:?}");
    }
}

#[test]
fn what_may_have_happened_is_unknown_whatever_failed() {
    for kind in [ErrorKind::Unavailable, ErrorKind::Timeout, ErrorKind::Denied] {
        let error = CliError::from(Error::new(kind, "append", "why").unknown());
        assert_eq!(error.code(), Exit::Unknown, "{kind:?}");
    }
}

#[test]
fn a_refusal_of_the_policy_is_refused() {
    assert_eq!(code_of(ErrorKind::Denied), Exit::Refused);
}

#[test]
fn an_engine_that_is_away_or_closed_is_unreachable() {
    assert_eq!(code_of(ErrorKind::Unavailable), Exit::Unreachable);
    assert_eq!(code_of(ErrorKind::Closed), Exit::Unreachable);
}

#[test]
fn no_answer_in_time_is_a_timeout() {
    assert_eq!(code_of(ErrorKind::Timeout), Exit::Timeout);
}

#[test]
fn what_the_caller_said_wrong_is_a_wrong_call() {
    assert_eq!(code_of(ErrorKind::Invalid), Exit::Usage);
}

#[test]
fn every_error_ends_with_a_next_step() {
    for exit in ALL {
        let told = CliError::new(exit, "what").to_string();
        assert_eq!(told, format!("error: what\n  next: {}", exit.row().next));
    }
}

#[test]
fn an_own_next_step_takes_the_place_of_the_general_one() {
    let told = CliError::usage("what").next("this").to_string();
    assert_eq!(told, "error: what\n  next: this");
}

#[test]
fn what_could_steer_a_terminal_is_in_no_error_and_in_no_warning() {
    let error = CliError::usage("a\u{1b}b").next("c\u{1b}d");
    let alone = CliError::usage("a\u{1b}b");
    for told in [error.to_string(), error.as_warning(), alone.as_warning()] {
        assert!(told.contains("a b") && !told.contains('\u{1b}'), "{told:?}");
    }
}
