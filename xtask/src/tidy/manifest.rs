//! Rules for `Cargo.toml`: each dependency is named once, with what it is for.

use super::Violation;

/// Checks one manifest: a workspace's own table, or a member that must point to it.
pub(super) fn judge(path: &str, text: &str) -> Vec<Violation> {
    let entries = entries(text);
    let is_workspace = entries
        .iter()
        .any(|entry| entry.section == "workspace" || entry.section.starts_with("workspace."));
    let broken: Vec<Violation> = entries
        .iter()
        .filter_map(|entry| {
            let (rule, advice) = if is_workspace { table_rule(entry) } else { member_rule(entry) }?;
            Some(Violation::new(path, entry.line, rule, format!("{}: {advice}", entry.key)))
        })
        .collect();
    broken
}

/// Returns the name of the package that the manifest describes.
pub(super) fn package_name(text: &str) -> Option<(String, usize)> {
    let entry = entries(text).into_iter().find(|e| e.section == "package" && e.key == "name")?;
    Some((entry.value.trim_matches('"').to_owned(), entry.line))
}

/// In the manifest that holds the versions, each dependency says what it is for.
fn table_rule(entry: &Entry) -> Option<(&'static str, &'static str)> {
    let holds = entry.section == "workspace.dependencies" || is_dependencies(&entry.section);
    (holds && !entry.is_commented)
        .then_some(("dependency-comment", "say what it is for, on the line or above its group"))
}

/// A member names no version of its own.
fn member_rule(entry: &Entry) -> Option<(&'static str, &'static str)> {
    if entry.section == "package" && entry.key == "version" {
        return Some(("own-version", "write `version.workspace = true`"));
    }
    if entry.section.contains("dependencies.") {
        return Some(("own-version", "write the dependency on one line, `NAME.workspace = true`"));
    }
    let shared = entry.key.ends_with(".workspace") && entry.value == "true";
    let inline: String = entry.value.chars().filter(|c| !c.is_whitespace()).collect();
    let shared = shared || inline.contains("workspace=true");
    (is_dependencies(&entry.section) && !shared)
        .then_some(("own-version", "take it from the workspace: `workspace = true`"))
}

fn is_dependencies(section: &str) -> bool {
    DEPENDENCIES.iter().any(|name| {
        section == *name || section.strip_suffix(name).is_some_and(|head| head.ends_with('.'))
    })
}

/// A `key = value` of a manifest. This is not TOML in full: manifests hold no long texts.
#[derive(Debug, Default, Clone)]
struct Entry {
    section: String,
    key: String,
    value: String,
    line: usize,
    /// A comment stands on the line or above its group.
    is_commented: bool,
}

fn entries(text: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut section = String::new();
    let mut group_commented = false;
    let mut depth = 0_i32;
    for (number, raw) in (1..).zip(text.lines()) {
        let (line, has_comment) = without_comment(raw);
        let line = line.trim();
        if depth > 0 {
            if let Some(entry) = entries.last_mut() {
                entry.value.push_str(line);
                entry.is_commented |= has_comment;
            }
            depth += nesting(line);
        } else if line.is_empty() {
            group_commented = has_comment;
        } else if line.starts_with('[') {
            section = line.trim_matches(['[', ']']).trim().to_owned();
            group_commented = false;
            // An empty table still counts as a place where something is declared.
            entries.push(Entry { section: section.clone(), line: number, ..Entry::default() });
        } else if let Some((key, value)) = line.split_once('=') {
            depth = nesting(value);
            entries.push(Entry {
                section: section.clone(),
                key: key.trim().to_owned(),
                value: value.trim().to_owned(),
                line: number,
                is_commented: has_comment || group_commented,
            });
        }
    }
    entries.retain(|entry| !entry.key.is_empty() || entry.section.contains("dependencies."));
    entries
}

fn nesting(text: &str) -> i32 {
    text.chars().map(|c| i32::from("[{".contains(c)) - i32::from("]}".contains(c))).sum()
}

fn without_comment(line: &str) -> (&str, bool) {
    let mut quote = None;
    for (at, c) in line.char_indices() {
        match (c, quote) {
            ('#', None) => return (line.get(..at).unwrap_or_default(), true),
            ('"' | '\'', None) => quote = Some(c),
            (_, Some(open)) if c == open => quote = None,
            _ => {}
        }
    }
    (line, false)
}

const DEPENDENCIES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];
