//! Rules about which files there must be.

use super::{File, Violation, is_named, manifest};

/// Checks the tree as a whole.
pub(super) fn judge(files: &[File]) -> Vec<Violation> {
    let has = |path: &str| files.iter().any(|file| file.path == path);
    let mut found = Vec::new();
    for path in NEEDED {
        if !has(path) {
            found.push(Violation::new(path, 1, "missing-file", "this file must exist"));
        }
    }
    for File { path, text } in files.iter().filter(|file| is_named(&file.path, "Cargo.toml")) {
        let Some((folder, _)) = path.rsplit_once('/') else {
            continue;
        };
        if folder.starts_with("crates/") && !has(&format!("{folder}/README.md")) {
            let advice = "the crate needs a README.md, its front page";
            found.push(Violation::new(path, 1, "crate-readme", advice));
        }
        let Some((name, line)) = text.as_deref().and_then(manifest::package_name) else {
            continue;
        };
        let wanted = NAMED_OTHERWISE.iter().find(|(place, _)| *place == folder);
        let wanted = wanted.map_or_else(|| folder.rsplit('/').next(), |(_, name)| Some(*name));
        if wanted != Some(name.as_str()) {
            let advice = format!("package `{name}` lives in `{folder}`: give both one name");
            found.push(Violation::new(path, line, "crate-name", advice));
        }
    }
    found
}

const NEEDED: [&str; 3] = ["CHANGELOG.md", "README.md", ".ci/run"];
/// Packages at the top level whose folder says what they are and not what they are called.
const NAMED_OTHERWISE: [(&str, &str); 3] =
    [("benches", "bus-bench"), ("tests", "bus-stories"), ("fuzz", "bus-fuzz")];
