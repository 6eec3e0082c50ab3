//! Rules for Rust source.

use super::lexer::{self, Line, has_word};
use super::{Violation, is_named};

/// Checks one source file.
pub(super) fn judge(path: &str, text: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    found.extend(length(path, text));
    found.extend(first_line(path, text));
    let in_tests = is_tests_file(path);
    for (number, (line, raw)) in (1..).zip(lexer::lines(text).iter().zip(text.lines())) {
        for (rule, advice) in code_rules(line, in_tests || line.is_test) {
            found.push(Violation::new(path, number, rule, advice));
        }
        found.extend(columns(path, number, line, raw));
    }
    found
}

/// One job a file. Tests in a file of their own get twice the room: they are a list that is read
/// one test at a time, but beyond that nobody finds the right one any more.
fn length(path: &str, text: &str) -> Option<Violation> {
    let limit = if is_tests_file(path) { TESTS_LINES_MAX } else { LINES_MAX };
    let lines = text.lines().count();
    (lines > limit).then(|| {
        Violation::new(path, limit + 1, "length", format!("{lines} lines, at most {limit}"))
    })
}

fn first_line(path: &str, text: &str) -> Option<Violation> {
    let first = text.lines().next().unwrap_or_default();
    let says = first.strip_prefix("//!").is_some_and(|rest| !rest.trim().is_empty());
    let includes = is_named(path, "lib.rs") && first.starts_with("#![doc");
    (!says && !includes).then(|| {
        Violation::new(path, 1, "first-line", "the first line is `//!`: what this file is for")
    })
}

fn code_rules(line: &Line, in_tests: bool) -> Vec<(&'static str, &'static str)> {
    let code = line.code.as_str();
    let mut broken = Vec::new();
    let attribute = |name: &str| {
        code.contains(&format!("#[{name}"))
            || code.contains(&format!("#![{name}"))
            || (code.contains("cfg_attr(") && has_word(code, name))
    };
    if attribute("ignore") {
        broken
            .push(("ignored-test", "declare and print what does not apply, do not switch it off"));
    }
    if has_word(code, "should_panic") {
        broken.push(("should-panic", "return an error and assert on it"));
    }
    if ["todo!", "unimplemented!", "dbg!"].iter().any(|stub| has_word(code, stub)) {
        broken.push(("stub", "no unfinished code"));
    }
    if attribute("allow") {
        broken.push(("bare-allow", "write `#[expect(lint, reason = \"..\")]`"));
    }
    if in_tests && has_word(code, "sleep(") && !code.contains("fn sleep(") {
        broken.push(("sleep", "stop the clock, or wait for an event with a limit"));
    }
    broken
}

/// rustfmt breaks code; comments and what it could not break are left to this rule. Literals and
/// addresses may run on, since breaking them makes them worse.
fn columns(path: &str, number: usize, line: &Line, raw: &str) -> Option<Violation> {
    let columns = raw.chars().count();
    let counted = columns.saturating_sub(line.literal_columns);
    (counted > COLUMNS_MAX && !raw.contains("://")).then(|| {
        Violation::new(path, number, "columns", format!("{columns} columns, at most {COLUMNS_MAX}"))
    })
}

fn is_tests_file(path: &str) -> bool {
    is_named(path, "tests.rs") || path.split('/').any(|dir| dir == "tests" || dir == "benches")
}

const LINES_MAX: usize = 400;
const TESTS_LINES_MAX: usize = 800;
const COLUMNS_MAX: usize = 100;
