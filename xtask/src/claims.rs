//! The page that says which tests hold which security claim, against the tests there are.

use std::collections::BTreeSet;
use std::fmt;

use anyhow::{Context, Result};

use crate::repo::Repo;

/// Where the claims stand.
const PAGE: &str = "docs/claims.md";

/// Cases that every engine runs, and faults, are tests without the attribute.
const CASES: [&str; 2] = ["crates/bus-conformance/src/", "crates/bus-nats/tests/faults/"];

/// How a list of tests begins that a macro makes.
const MAKERS: [&str; 2] = ["replays! {", "with_both_ends! {"];

/// Prints what is wrong with the page; `true` when each claim has a test and each test exists.
///
/// # Errors
/// When git or the disk fails.
pub(crate) fn run(repo: &Repo) -> Result<bool> {
    let mut tests = BTreeSet::new();
    for path in repo.files()?.iter().filter(|path| path.ends_with(".rs")) {
        let place = repo.root().join(path);
        if let Ok(text) = std::fs::read_to_string(place) {
            let cases = CASES.iter().any(|folder| path.starts_with(folder));
            tests.extend(tests_of(&text, cases));
        }
    }
    let page = std::fs::read_to_string(repo.root().join(PAGE)).context(PAGE)?;
    let (claims, faults) = judge(&page, &tests);
    for fault in &faults {
        eprintln!("{fault}");
    }
    println!("claims: {claims} claims, {} faults", faults.len());
    Ok(claims > 0 && faults.is_empty())
}

/// A row of the page that proves nothing.
#[derive(Debug, PartialEq, Eq)]
struct Fault {
    line: usize,
    text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PAGE}:{}: {}", self.line, self.text)
    }
}

/// How many claims the page makes, and which of them no test holds.
fn judge(page: &str, tests: &BTreeSet<String>) -> (usize, Vec<Fault>) {
    let (mut claims, mut faults) = (0, Vec::new());
    for (line, row) in (1..).zip(page.lines()) {
        let Some(named) = tests_of_row(row) else { continue };
        claims += 1;
        if named.is_empty() {
            faults.push(Fault { line, text: "a claim without a test".to_owned() });
        }
        for name in named.into_iter().filter(|name| !tests.contains(*name)) {
            faults.push(Fault { line, text: format!("no test is called `{name}`") });
        }
    }
    (claims, faults)
}

/// What stands between back quotes in the last cell, when the line is a row of a claim.
fn tests_of_row(line: &str) -> Option<Vec<&str>> {
    let cells = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let (claim, tests) = cells.rsplit_once('|')?;
    let (claim, tests) = (claim.trim(), tests.trim());
    let is_head = tests == "tests" || tests.chars().all(|c| matches!(c, '-' | ':'));
    if is_head || claim.is_empty() {
        return None;
    }
    Some(tests.split('`').skip(1).step_by(2).collect())
}

/// The tests that a file defines; in a file of cases each function is one.
fn tests_of(text: &str, cases: bool) -> BTreeSet<String> {
    let (mut names, mut marked, mut listed) = (BTreeSet::new(), false, false);
    for line in text.lines() {
        // A macro that makes a test of each line between its braces.
        if listed || MAKERS.contains(&line) {
            names.extend(listed.then(|| first_word(line.trim())).flatten().map(str::to_owned));
            listed = line != "}";
            continue;
        }
        let line = line.trim();
        if line.starts_with("#[") {
            marked |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            continue;
        }
        if let Some(name) = function(line) {
            if marked || cases {
                names.insert(name.to_owned());
            }
            marked = false;
        } else if line.ends_with('}') {
            marked = false;
        }
    }
    names
}

/// The name that a line begins with.
fn first_word(line: &str) -> Option<&str> {
    let word = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
    (!word.is_empty()).then_some(word)
}

/// The name of the function that a line begins.
fn function(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let line = line.strip_prefix("async ").unwrap_or(line);
    let rest = line.strip_prefix("fn ")?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    rest.get(..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_claim_whose_tests_exist_is_good() {
        let page = "| claim | tests |\n|---|---|\n| it holds | `a_rule_holds`, `another` |\n";
        assert_eq!(judge(page, &known(&["a_rule_holds", "another"])), (1, Vec::new()));
    }

    #[test]
    fn a_test_that_is_not_there_is_named_with_its_line() {
        let page = "# Claims\n\n| it holds | `a_rule_holds` |\n";
        let text = "no test is called `a_rule_holds`".to_owned();
        assert_eq!(judge(page, &known(&[])), (1, vec![Fault { line: 3, text }]));
    }

    #[test]
    fn a_claim_without_a_test_is_a_fault() {
        let (claims, faults) = judge("| it holds | believe us |", &known(&[]));
        assert_eq!((claims, faults.len()), (1, 1));
    }

    #[test]
    fn what_a_macro_makes_tests_of_are_tests() {
        let text = "replays! {\n    a_rule_holds = \"a\";\n}\nwith_both_ends! {\n    b,\n    c\n}\n\
                    fn d() {\n}\n";
        assert_eq!(tests_of(text, false), known(&["a_rule_holds", "b", "c"]));
    }

    #[test]
    fn only_what_is_marked_as_a_test_is_one() {
        let text = "fn helper() {\n}\n#[test]\nfn a_rule_holds() {\n}\n\
                    #[tokio::test(start_paused = true)]\n#[expect(x)]\nasync fn b() {\n}\n";
        assert_eq!(tests_of(text, false), known(&["a_rule_holds", "b"]));
    }

    #[test]
    fn each_function_among_the_cases_is_one() {
        assert_eq!(tests_of("pub async fn case(x: X) {\n", true), known(&["case"]));
    }
}
