//! Holds the code against the golden vectors beside this file; tests of several crates include it.
//!
//! `VAKBUS_BLESS=1` in the environment rewrites the `out` of every case instead of comparing.
#![expect(clippy::unwrap_used, reason = "a damaged vector file must fail the test")]

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// Walks the `count` cases of `file` and compares what `out` makes of each `in`.
///
/// # Panics
/// When a case differs, or there is another number of them.
pub(crate) fn check(file: &str, count: usize, out: impl Fn(&Value) -> Value) {
    let path = vectors().join(file);
    let mut vectors: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let mut differing = Vec::new();
    let cases = vectors.get_mut("cases").and_then(Value::as_array_mut).unwrap();
    for case in cases.iter_mut() {
        let found = out(case.get("in").unwrap());
        if case.get("out") != Some(&found) {
            let [id, written] = ["id", "out"].map(|name| case.get(name).cloned());
            differing.push(json!({ "id": id, "written": written, "found": found }));
            case.as_object_mut().unwrap().insert("out".to_owned(), found);
        }
    }
    let walked = cases.len();
    if is_blessing() {
        std::fs::write(&path, text(&vectors)).unwrap();
    } else {
        let report: String = differing.iter().map(|case| format!("{case}\n")).collect();
        assert!(differing.is_empty(), "{file}: {} cases differ\n{report}", differing.len());
    }
    assert_eq!(walked, count, "the number of cases in {file}");
}

/// Whether the files are to be rewritten.
pub(crate) fn is_blessing() -> bool {
    std::env::var_os("VAKBUS_BLESS").is_some_and(|value| value == "1")
}

/// The folder of the vectors.
pub(crate) fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/spec/vectors")
}

/// `about` first, then one case a line.
fn text(vectors: &Value) -> String {
    let cases = vectors.get("cases").and_then(Value::as_array).unwrap();
    let lines: Vec<String> = cases.iter().map(Value::to_string).collect();
    let about = vectors.get("about").unwrap();
    format!("{{\"about\":{about},\n\"cases\":[\n{}\n]}}\n", lines.join(",\n"))
}
