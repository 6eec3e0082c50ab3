//! How the shell runs commands, and that it leaves nothing behind.

use super::*;
use crate::scratch::Scratch;

fn ends(commands: &[&str], wait_max: Duration) -> Vec<Ended> {
    let scratch = Scratch::new("shell").unwrap();
    let shell = Shell::new(scratch.path(), scratch.path()).wait_max(wait_max);
    let mut ended = Vec::new();
    let notes = scratch.folder("notes").unwrap();
    let tell = |end| {
        ended.push(end);
        true
    };
    shell.run(&notes, commands, tell).unwrap();
    assert!(scratch.path().exists());
    ended
}

fn run(commands: &[&str]) -> Vec<Ended> {
    ends(commands, Duration::from_secs(60))
}

fn codes_of(commands: &[&str]) -> Vec<Option<i32>> {
    run(commands).into_iter().map(|ended| ended.code).collect()
}

/// Whether a process is gone, or only waits for somebody to collect it.
fn is_ended(process: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.is_empty() || stat.contains(") Z")
}

#[test]
fn exit_codes_are_those_of_the_commands() {
    assert_eq!(
        codes_of(&["true", "false", "(exit 3)", "echo a \\\n b"]),
        [Some(0), Some(1), Some(3), Some(0)]
    );
}

#[test]
fn a_folder_and_a_variable_last_to_the_next_command() {
    let ended = run(&["mkdir inside && cd inside", "export NOUN=frame", "echo ${PWD##*/} $NOUN"]);
    assert_eq!(ended.last().unwrap().printed, "inside frame\n");
}

#[test]
fn what_a_command_prints_on_either_stream_is_kept() {
    let ended = run(&["echo out; echo err >&2"]);
    assert_eq!(ended.first().unwrap().printed, "out\nerr\n");
}

#[test]
fn a_command_that_is_no_shell_fails_alone() {
    assert_eq!(codes_of(&["echo 'open", "true"]).last(), Some(&Some(0)));
    assert_ne!(codes_of(&["echo 'open"]), [Some(0)]);
}

#[test]
fn a_command_that_ends_the_shell_is_the_last() {
    assert_eq!(codes_of(&["exit 0", "true"]), [None]);
}

#[test]
fn a_command_that_never_ends_is_ended() {
    let ended = ends(&["echo $$; tail -f /dev/null", "true"], Duration::from_millis(500));
    assert_eq!(ended.len(), 1, "{ended:?}");
    let ended = ended.first().unwrap();
    assert_eq!((ended.code, ended.trouble.as_str()), (None, "it did not end in 500ms"));
    assert!(ended.printed.is_empty() || is_ended(ended.printed.trim()), "{ended:?}");
}

#[test]
fn nothing_more_is_run_once_enough_was_told() {
    let scratch = Scratch::new("shell").unwrap();
    let notes = scratch.folder("notes").unwrap();
    let mut told = 0;
    let shell = Shell::new(scratch.path(), scratch.path());
    let tell = |_| {
        told += 1;
        false
    };
    shell.run(&notes, &["true", "tail -f /dev/null"], tell).unwrap();
    assert_eq!(told, 1);
}

#[test]
fn what_runs_in_the_background_ends_with_the_shell() {
    let ended = run(&["tail -f /dev/null & echo $!"]);
    let process = ended.first().unwrap().printed.trim().to_owned();
    assert!(is_ended(&process), "process {process} still runs");
}

#[test]
fn what_runs_in_the_background_may_end_in_order() {
    let scratch = Scratch::new("shell").unwrap();
    let notes = scratch.folder("notes").unwrap();
    let polite = "(trap 'echo in order; exit' TERM; tail -f /dev/null & echo ready; wait) &";
    let commands = ["true", polite, "until grep -q ready notes/1.out; do :; done"];
    Shell::new(scratch.path(), scratch.path()).run(&notes, &commands, |_| true).unwrap();
    assert_eq!(printed(&notes, 1), "ready\nin order\n");
}

#[test]
fn a_bare_shell_has_no_variable_of_ours() {
    let scratch = Scratch::new("shell").unwrap();
    let notes = scratch.folder("notes").unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let shell = Shell::new(scratch.path(), scratch.path()).bare().env("PATH", path);
    shell.run(&notes, &["echo \"[$HOME$CARGO$NOUN]\"", "echo \"[$@]\""], |_| true).unwrap();
    assert_eq!((printed(&notes, 0).as_str(), printed(&notes, 1).as_str()), ("[]\n", "[]\n"));
}

#[test]
fn a_shell_whose_owner_is_gone_ends_with_its_folder() {
    let scratch = Scratch::new("shell").unwrap();
    let doomed = scratch.folder("doomed").unwrap();
    let mut bash = Command::new("bash");
    bash.args(["-c", "tail -f /dev/null & wait"]).process_group(0).stdout(Stdio::null());
    let mut child = bash.spawn().unwrap();
    let guard = Guard::over(child.id(), &doomed).unwrap();
    let waited = std::thread::spawn(move || child.wait().unwrap());
    guard.abandon();
    assert!(!waited.join().unwrap().success());
    assert!(!doomed.exists());
}
