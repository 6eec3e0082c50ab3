//! What makes the command pleasant in a shell: completions, manual pages, hints, quiet and colours.

use std::{fs, path::Path};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Lines, Outcome, Place, run};

/// What bash offers for the last of these words, in one line.
fn offered(words: &str) -> String {
    let script = format!(
        "eval \"$(\"$0\" completions bash)\"
         COMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
         _vakbus vakbus \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"
         echo \"${{COMPREPLY[*]}}\""
    );
    let outcome = run(Place::new().bash(&script), "");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
    outcome.stdout.trim_end().to_owned()
}

#[test]
fn bash_takes_its_completions() {
    let outcome = run(Place::new().bash("\"$0\" completions bash | bash -n"), "");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
}

#[test]
fn bash_completes_a_command() {
    assert_eq!(offered("vakbus sw"), "swarm");
}

#[test]
fn bash_completes_the_verb_of_a_noun() {
    assert_eq!(offered("vakbus workspace n"), "new");
}

#[test]
fn bash_completes_an_option() {
    assert_eq!(offered("vakbus swarm --wor"), "--workers --workspace");
}

#[test]
fn bash_completes_a_value() {
    assert_eq!(offered("vakbus --color al"), "always");
}

#[test]
fn every_shell_gets_the_names_of_all_commands() {
    let place = Place::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let outcome = place.run(&["completions", shell]);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
        for name in leaves(&place).iter().flat_map(|leaf| leaf.split('-').skip(1)) {
            assert!(outcome.stdout.contains(name), "{shell}: {name}");
        }
    }
}

#[test]
fn a_shell_that_is_not_known_is_refused_with_those_that_are() {
    Place::new().run(&["completions", "ksh"]).is_wrong_call("bash, elvish, fish, powershell, zsh");
}

/// The names of the pages of all commands that have none below them: `vakbus-workspace-ls`.
fn leaves(place: &Place) -> Vec<String> {
    let pages = place.run(&["man", "--out", "pages", "--json"]);
    assert_eq!(pages.code, Some(0), "{pages:?}");
    let page = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        value["page"].as_str().unwrap().to_owned()
    };
    let names: Vec<String> = pages.stdout.lines().map(page).collect();
    let is_leaf =
        |name: &&String| !names.iter().any(|other| other.starts_with(&format!("{name}-")));
    names.iter().filter(is_leaf).cloned().collect()
}

#[test]
fn a_page_goes_to_stdout() {
    let outcome = Place::new().run(&["man", "workspace", "new"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
    assert!(outcome.stdout.contains(".TH vakbus-workspace-new 1"), "{outcome:?}");
}

#[test]
fn all_pages_go_to_a_directory_and_their_paths_are_told() {
    let place = Place::new();
    let outcome = place.run(&["man", "--out", "share/man1"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let told: Vec<&str> = outcome.stdout.lines().collect();
    assert!(told.contains(&"share/man1/vakbus-swarm.1"), "{told:?}");
    assert_eq!(told.len(), fs::read_dir(place.path("share/man1")).unwrap().count());
    let page = place.run(&["man", "swarm"]).stdout;
    assert_eq!(place.read("share/man1/vakbus-swarm.1"), page);
}

#[test]
fn pages_that_cannot_be_written_are_a_failure_with_a_next_step() {
    let place = Place::new();
    place.write("file", "");
    place.run(&["man", "--out", "file/man1"]).failed_with("cannot write file/man1: ", "--out");
}

#[test]
fn a_page_of_no_command_is_a_wrong_call() {
    let outcome = Place::new().run(&["man", "workspace", "old"]);
    outcome.is_wrong_call("vakbus workspace has no command old\n  next: vakbus workspace --help");
}

#[test]
fn man_shows_every_page_without_a_warning() {
    let place = Place::new();
    place.run(&["man", "--out", "pages"]);
    // Where there is no formatter the structure of the pages is still held by the unit tests.
    for page in fs::read_dir(place.path("pages")).unwrap() {
        let page = page.unwrap().path();
        let Some(outcome) = formatted(&place, &page) else { return };
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
        assert!(outcome.stdout.contains("SYNOPSIS"), "{outcome:?}");
    }
}

fn formatted(place: &Place, page: &Path) -> Option<Outcome> {
    let call = format!("groff -ww -man -Tutf8 -P-cbou '{}'", page.display());
    let outcome = run(place.bash(&format!("command -v groff >where && {call}")), "");
    (!place.read("where").is_empty()).then_some(outcome)
}

#[test]
fn a_mistyped_command_is_answered_with_the_right_one() {
    Place::new().run(&["swrm"]).is_wrong_call("tip: a similar subcommand exists: 'swarm'");
}

#[test]
fn a_mistyped_verb_is_answered_with_the_right_one() {
    Place::new().run(&["workspace", "shwo"]).is_wrong_call("'show'");
}

#[test]
fn a_mistyped_value_is_answered_with_the_right_one() {
    Place::new().run(&["--color", "alway", "workspace", "ls"]).is_wrong_call("'always'");
}

/// The arguments that a command which shows something cannot do without.
const NEEDED: [(&str, &[&str]); 4] = [
    ("vakbus-approvals-show", &["ask-1"]),
    ("vakbus-task-show", &["task-1"]),
    ("vakbus-dlq-show", &["1"]),
    ("vakbus-receipts-show", &["done-1"]),
];

/// Runs what the page of this name is about with --json.
fn shown(place: &Place, leaf: &str) -> Outcome {
    let mut args: Vec<&str> = leaf.split('-').skip(1).chain(["--json"]).collect();
    args.extend(NEEDED.iter().find(|(name, _)| *name == leaf).map_or(&[][..], |(_, more)| more));
    place.run(&args)
}

/// Asserts that it printed JSON objects, one a line, and nothing else.
fn is_for_programs(what: &str, outcome: &Outcome) {
    let values = outcome.stdout.lines().map(serde_json::from_str::<Value>);
    let objects = values.filter(|value| value.as_ref().is_ok_and(Value::is_object)).count();
    assert_eq!(objects, outcome.stdout.lines().count(), "{what}: {outcome:?}");
    assert!(objects >= 1, "{what}: {outcome:?}");
}

#[test]
fn every_listing_has_a_form_for_programs() {
    let place = Place::new();
    // A hub that nobody serves.
    let mut daemon = place.start(&["up", "--memory", "--hub-url", "nats://127.0.0.1:1"]);
    let said = Lines::of(daemon.take_stdout());
    let is_ready = said.next().is_some_and(|line| line.starts_with("ready"));
    let added = place.run(&["agent", "add", "bob", "--role", "worker"]);
    place.run(&["task", "send", "--role", "other", "--id", "done-1", "text"]);
    let done = place.run(&["worker", "--role", "other", "--until-empty", "--", "true"]);
    let sent = place.run(&["task", "send", "--id", "task-1", "text"]);
    let given_up = place.run(&["task", "send", "--id", "task-2", "text"]);
    let cancelled = place.run(&["task", "cancel", "task-2"]);
    let waits = place.run(&["task", "send", "--to-hub", "text"]);
    let ask = ["approvals", "request", "--action", "a", "--target", "t", "--id", "ask-1"];
    let asked = place.run(&ask);
    let ends = ["-ls", "-show", "-path", "-status"];
    let mut listings = leaves(&place);
    listings.retain(|leaf| ends.iter().any(|end| leaf.ends_with(end)));
    // It is about servers, and there is none here.
    listings.retain(|leaf| !leaf.ends_with("auth-status"));
    let outcomes: Vec<Outcome> = listings.iter().map(|leaf| shown(&place, leaf)).collect();
    daemon.signal(Signal::TERM);
    let ended = daemon.ended();
    assert_eq!((is_ready, ended.code), (true, Some(0)), "{ended:?}");
    assert_eq!((added.code, sent.code), (Some(0), Some(0)), "{added:?} {sent:?}");
    assert_eq!((given_up.code, cancelled.code), (Some(0), Some(0)), "{given_up:?} {cancelled:?}");
    assert_eq!((waits.code, done.code), (Some(0), Some(0)), "{waits:?} {done:?}");
    assert_eq!(asked.code, Some(0), "{asked:?}");
    assert!(listings.len() >= 8, "{listings:?}");
    for (leaf, outcome) in listings.iter().zip(&outcomes) {
        assert_eq!(outcome.code, Some(0), "{leaf}: {outcome:?}");
        is_for_programs(leaf, outcome);
    }
}

#[test]
fn a_daemon_that_does_not_run_is_told_to_programs_too() {
    let outcome = shown(&Place::new(), "vakbus-status");
    assert_eq!(outcome.code, Some(5), "{outcome:?}");
    is_for_programs("status", &outcome);
}
