//! Every command has a page, and pages are what formatters expect.

use std::collections::BTreeSet;

use super::*;

fn pages() -> Vec<(String, String)> {
    let root = described();
    let pages = all(&root).into_iter();
    pages.map(|command| (title(command).to_owned(), page(&root, command).unwrap())).collect()
}

fn paged(path: &[&str]) -> String {
    let root = described();
    let path: Vec<String> = path.iter().map(ToString::to_string).collect();
    page(&root, find(&root, &path).unwrap()).unwrap()
}

#[test]
fn every_command_has_a_page_under_its_full_name() {
    let names: BTreeSet<String> = pages().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), pages().len(), "two commands share a page");
    for name in ["vakbus", "vakbus-swarm", "vakbus-workspace", "vakbus-workspace-new"] {
        assert!(names.contains(name), "{names:?}");
    }
}

#[test]
fn every_page_has_the_sections_that_readers_expect() {
    for (name, page) in pages() {
        let title = format!(".TH {name} {SECTION} ");
        assert!(page.lines().any(|line| line.replace('\\', "").starts_with(&title)), "{page}");
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "\"SEE ALSO\""] {
            assert!(page.contains(&format!("\n.SH {section}\n")), "{name}: {section}\n{page}");
        }
    }
}

#[test]
fn every_page_shows_the_options_of_every_command() {
    for (name, page) in pages() {
        for option in ["json", "quiet", "verbose", "color"] {
            assert!(page.contains(&format!("\\-\\-{option}")), "{name}: {option}");
        }
    }
}

#[test]
fn pages_hold_no_request_that_is_not_meant() {
    let known = ["TH", "SH", "TP", "PP", "RS", "RE", "IP", "nf", "fi", "br", "ie", "el"];
    for (name, page) in pages() {
        for line in page.lines().filter(|line| line.starts_with(['.', '\''])) {
            let request = line.trim_start_matches(['.', '\'']).split(' ').next().unwrap();
            assert!(known.contains(&request), "{name}: {line}");
        }
    }
}

#[test]
fn examples_keep_their_lines() {
    let page = paged(&["swarm"]);
    let notes = page.split_once(".nf\n").unwrap().1.split_once("\n.fi").unwrap().0;
    assert!(notes.lines().any(|line| line.starts_with("  ls *.png | vakbus swarm")), "{notes}");
}

#[test]
fn pages_are_plain_ascii() {
    assert!(paged(&["verify"]).contains("A\\[u2026]"));
    assert!(pages().iter().all(|(_, page)| page.is_ascii()));
}

#[test]
fn a_page_leads_to_those_above_and_below() {
    let see = |path: &[&str]| paged(path).split_once("\"SEE ALSO\"\n").unwrap().1.replace('\\', "");
    assert!(see(&[]).contains("vakbus-swarm(1)"));
    assert!(see(&["workspace"]).starts_with("vakbus(1), vakbus-workspace-new(1)"));
    assert_eq!(see(&["workspace", "new"]), "vakbus-workspace(1)\n");
}

#[test]
fn a_command_that_does_not_exist_has_no_page() {
    let error = find(&described(), &["workspace".to_owned(), "old".to_owned()]).unwrap_err();
    assert_eq!(error.code(), Exit::Usage);
    assert!(error.to_string().contains("vakbus workspace has no command old"), "{error}");
}
