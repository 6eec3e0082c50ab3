//! Each rule with an input that breaks it and one that keeps it.

use super::*;

fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: Some(text.to_owned()) }
}

/// The rules that a file breaks, with the line of each.
fn broken(path: &str, text: &str) -> Vec<(&'static str, usize)> {
    let mut found = text::judge(path, text);
    if path.ends_with(".rs") {
        found.extend(rust::judge(path, text));
    }
    if is_named(path, "Cargo.toml") {
        found.extend(manifest::judge(path, text));
    }
    found.into_iter().map(|violation| (violation.rule, violation.line)).collect()
}

fn source(body: &str) -> String {
    format!("//! For a test.\n{body}\n")
}

/// Asserts that line 2 of `bad` breaks exactly `rule` and `good` breaks none.
fn tells(path: &str, rule: &'static str, bad: &str, good: &str) {
    assert_eq!(broken(path, &source(bad)), [(rule, 2)], "bad: {bad}");
    assert_eq!(broken(path, &source(good)), [], "good: {good}");
}

const LIB: &str = "crates/bus-x/src/noun.rs";

#[test]
fn a_violation_is_printed_with_its_place_and_rule() {
    let violation = Violation::new("a/b.rs", 3, "tab", "indent with spaces");
    assert_eq!(violation.to_string(), "a/b.rs:3: tab: indent with spaces");
}

#[test]
fn a_file_has_at_most_400_lines() {
    let lines = |count: usize| format!("//! Long.\n{}", "//\n".repeat(count - 1));
    assert_eq!(broken(LIB, &lines(400)), []);
    assert_eq!(broken(LIB, &lines(401)), [("length", 401)]);
}

#[test]
fn a_tests_file_has_at_most_800_lines() {
    let lines = |count: usize| format!("//! Long.\n{}", "//\n".repeat(count - 1));
    for path in ["crates/bus-x/src/noun/tests.rs", "crates/bus-x/tests/a.rs", "tests/stories/b.rs"]
    {
        assert_eq!(broken(path, &lines(800)), []);
        assert_eq!(broken(path, &lines(801)), [("length", 801)]);
    }
}

#[test]
fn the_first_line_says_what_the_file_is_for() {
    assert_eq!(broken(LIB, "//! A noun.\n"), []);
    for text in ["use std::fmt;\n", "//!\n", "// A noun.\n", "#![doc = \"x\"]\n", ""] {
        assert_eq!(broken(LIB, text), [("first-line", 1)], "{text}");
    }
}

#[test]
fn the_first_line_of_a_crate_may_include_its_readme() {
    let text = "#![doc = include_str!(\"../README.md\")]\n";
    assert_eq!(broken("crates/bus-x/src/lib.rs", text), []);
}

#[test]
fn no_test_is_switched_off() {
    tells(LIB, "ignored-test", "#[ignore = \"slow\"]", "// #[ignore]");
    tells(LIB, "ignored-test", "#[cfg_attr(windows, ignore)]", "fn ignore() {}");
}

#[test]
fn no_test_expects_a_panic() {
    tells(LIB, "should-panic", "#[should_panic]", "let text = \"#[should_panic]\";");
}

#[test]
fn no_code_is_unfinished() {
    tells(LIB, "stub", "fn f() { todo!() }", "// todo!()");
    tells(LIB, "stub", "fn f() { unimplemented!(\"x\") }", "fn f() { \"unimplemented!()\" }");
    tells(LIB, "stub", "let x = dbg!(y);", "let x = mydbg!(y);");
}

#[test]
fn no_lint_is_allowed_in_silence() {
    tells(LIB, "bare-allow", "#[allow(dead_code)]", "#[expect(dead_code, reason = \"x\")]");
    tells(LIB, "bare-allow", "#![allow(dead_code)]", "fn allow() {}");
    tells(LIB, "bare-allow", "#[cfg_attr(test, allow(dead_code))]", "acl.allow(x);");
}

#[test]
fn no_test_sleeps() {
    let test = "crates/bus-x/tests/story.rs";
    tells(test, "sleep", "tokio::time::sleep(wait).await;", "clock.elapse(wait).await;");
    tells(test, "sleep", "thread::sleep(wait);", "run([\"sleep(1)\"]);");
}

#[test]
fn the_sleep_rule_knows_tests_within_a_file() {
    let text = "fn f() { sleep(1); }\n#[cfg(test)]\nmod tests {\n    fn g() { sleep(1); }\n}";
    assert_eq!(broken(LIB, &source(text)), [("sleep", 5)]);
}

#[test]
fn a_comment_has_at_most_100_columns() {
    let line = |columns: usize| format!("// {}", "x".repeat(columns - 3));
    tells(LIB, "columns", &line(101), &line(100));
}

#[test]
fn a_literal_or_an_address_may_run_on() {
    let text = format!("let x = \"{}\";", "x".repeat(120));
    assert_eq!(broken(LIB, &source(&text)), []);
    let text = format!("// https://example.org/{}", "x".repeat(120));
    assert_eq!(broken(LIB, &source(&text)), []);
}

#[test]
fn no_line_ends_in_white_space() {
    tells(LIB, "trailing-space", "fn f() {} ", "fn f() {}");
    assert_eq!(broken("README.md", "one \r\n"), [("trailing-space", 1)]);
}

#[test]
fn no_line_holds_a_tab() {
    tells(LIB, "tab", "\tfn f() {}", "    let tab = '\\t';");
    assert_eq!(broken(".ci/run", "a\tb\n"), [("tab", 1)]);
}

#[test]
fn data_is_kept_as_it_came() {
    assert_eq!(broken("docs/spec/vectors/seal.json", "{\t} \n"), []);
}

#[test]
fn no_path_names_somebodys_machine() {
    for place in ["work/x", "root/x", "home/ann"] {
        tells(LIB, "machine-path", &format!("// see /{place}"), &format!("// see crates/{place}"));
        assert_eq!(broken("notes.json", &format!("\"/{place}\"")), [("machine-path", 1)]);
    }
    assert_eq!(broken("README.md", &format!("~/{0}, $HOME/{0}, /home/<name>", "work/x")), []);
}

#[test]
fn no_address_names_a_registry() {
    let address = |host: &str| format!("// sparse+https://{host}/x");
    tells(LIB, "registry-host", &address("my-registry.example"), &address("crates.io"));
    tells(LIB, "registry-host", &address("index.example.org"), &address("docs.rs/index.html"));
}

#[test]
fn the_lock_file_only_knows_one_source() {
    let lock = |source: &str| format!("[[package]]\nsource = \"{source}\"\n");
    let good = lock("registry+https://github.com/rust-lang/crates.io-index");
    assert_eq!(broken("Cargo.lock", &good), []);
    assert_eq!(broken("Cargo.lock", &lock("git+https://example.org/x")), [("lock-source", 2)]);
}

#[test]
fn each_dependency_says_what_it_is_for() {
    let good = "[workspace.dependencies]\n# Ours.\na = \"1\"\nb = \"1\"\n\nc = \"1\" # why\n";
    assert_eq!(broken("Cargo.toml", good), []);
    let bad = "[workspace.dependencies]\n# Ours.\na = \"1\"\n\nc = \"1#\"\n";
    assert_eq!(broken("Cargo.toml", bad), [("dependency-comment", 5)]);
}

#[test]
fn a_workspace_of_its_own_says_it_too() {
    let bad = "[workspace]\nmembers = []\n[dependencies]\nlibfuzzer-sys = \"0.4\"\n";
    assert_eq!(broken("fuzz/Cargo.toml", bad), [("dependency-comment", 4)]);
}

#[test]
fn no_crate_names_a_version_of_its_own() {
    let good = "[package]\nname = \"bus-x\"\nversion.workspace = true\n[dependencies]\n\
                a.workspace = true\nb = { workspace = true, features = [\n  \"rt\",\n] }\n\
                [target.'cfg(unix)'.dev-dependencies]\nc = {workspace=true}\n";
    assert_eq!(broken("crates/bus-x/Cargo.toml", good), []);
    let bad = "[package]\nversion = \"1.0.0\"\n[dependencies]\na = \"1\"\n\
               [target.'cfg(unix)'.dependencies]\nb = { version = \"1\" }\n\
               [dev-dependencies.c]\nversion = \"1\"\n";
    let found = broken("crates/bus-x/Cargo.toml", bad);
    let lines: Vec<usize> = found.iter().map(|(_, line)| *line).collect();
    assert!(found.iter().all(|(rule, _)| *rule == "own-version"));
    assert_eq!(lines, [2, 4, 6, 7, 8]);
}

fn tree(manifest: &str, folder: &str) -> Vec<File> {
    vec![
        file("CHANGELOG.md", ""),
        file("README.md", ""),
        file(".ci/run", ""),
        file(&format!("{folder}/Cargo.toml"), manifest),
        file(&format!("{folder}/README.md"), ""),
    ]
}

fn rules(files: &[File]) -> Vec<&'static str> {
    judge(files).into_iter().map(|violation| violation.rule).collect()
}

#[test]
fn a_crate_is_called_what_its_folder_is_called() {
    let manifest = "[package]\nname = \"bus-x\"\n";
    assert_eq!(rules(&tree(manifest, "crates/bus-x")), [""; 0]);
    assert_eq!(rules(&tree(manifest, "crates/bus-y")), ["crate-name"]);
    assert_eq!(rules(&tree("[package]\nname = \"bus-stories\"\n", "tests")), [""; 0]);
}

#[test]
fn each_crate_has_a_readme() {
    let mut files = tree("[package]\nname = \"bus-x\"\n", "crates/bus-x");
    files.pop();
    assert_eq!(rules(&files), ["crate-readme"]);
}

#[test]
fn the_changelog_exists() {
    let files = tree("[package]\nname = \"bus-x\"\n", "crates/bus-x");
    assert_eq!(rules(files.get(1..).unwrap()), ["missing-file"]);
}

#[test]
fn a_file_that_is_no_text_is_left_alone() {
    let mut files = tree("[package]\nname = \"bus-x\"\n", "crates/bus-x");
    files.push(File { path: "docs/picture.rs".to_owned(), text: None });
    assert_eq!(rules(&files), [""; 0]);
}
