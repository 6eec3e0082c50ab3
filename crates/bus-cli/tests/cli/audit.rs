//! The audit log of a data home: every receipt on one line, whatever happens to the daemon or the
//! volume (S0.42, C18).

use std::{
    fs::{self, DirBuilder},
    os::unix::fs::{DirBuilderExt, PermissionsExt, symlink},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use bus_testserver::TestServer;
use serde_json::Value;

use crate::{
    daemon_support::Daemon,
    nats_support::Machine,
    nats_up::Up,
    receipts::{done, listed, work},
    support::{Lines, Place},
};

fn folder(place: &Place, name: &str) -> PathBuf {
    place.path("data/audit/default").join(name)
}

/// The records of one folder of the audit log, without the marks of fragments.
fn records(place: &Place, name: &str) -> Vec<Value> {
    let Ok(entries) = fs::read_dir(folder(place, name)) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let texts = files.iter().map(|file| fs::read_to_string(file).unwrap_or_default());
    let text: String = texts.collect();
    let parsed = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    parsed.filter(|line| line.get("vakbus_torn").is_none()).collect()
}

/// The leaf hashes in the audit log, in its order.
fn audited(place: &Place) -> Vec<String> {
    leaves(&records(place, "receipts"))
}

fn leaves(lines: &[Value]) -> Vec<String> {
    lines.iter().map(|line| line["leaf"].as_str().unwrap().to_owned()).collect()
}

/// What the bus holds.
fn stored(place: &Place) -> Vec<String> {
    leaves(&listed(place, &["--limit", "1000"]))
}

/// The largest checkpoint in the log is of `size` receipts, and an export of now holds against it.
#[track_caller]
fn holds(place: &Place, size: u64) {
    let signed = records(place, "checkpoints");
    let last = signed.iter().max_by_key(|line| line["size"].as_u64()).unwrap();
    assert_eq!(last["size"], size, "{signed:?}");
    place.write("kept", last["note"].as_str().unwrap());
    let origin = last["origin"].as_str().unwrap();
    let session = origin.strip_prefix("vakbus/default/").unwrap();
    let session = session.strip_suffix("/receipts").unwrap();
    place.run(&["receipts", "export", "out", "--session", session]);
    let checked = place.run(&["verify", "out", "--checkpoint", "kept"]);
    assert!(checked.stdout.contains("complete against the kept checkpoint"), "{checked:?}");
}

/// Hears the lines of the receipts' folder as they are written.
struct Heard {
    tail: Child,
    lines: Lines,
}

impl Heard {
    fn of(place: &Place) -> Self {
        let script = "cd \"$0\" && exec tail -q -n +1 -F \"$(date -u +%F).jsonl\" \
                      \"$(date -u -d tomorrow +%F).jsonl\"";
        let mut dir = DirBuilder::new();
        dir.recursive(true).mode(0o700).create(folder(place, "receipts")).unwrap();
        let mut tail = Command::new("sh")
            .args(["-c", script])
            .arg(folder(place, "receipts"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = Lines::of(tail.stdout.take().unwrap());
        Self { tail, lines }
    }

    /// Waits for the next record, and returns its leaf.
    fn next(&self) -> String {
        let line: Value = serde_json::from_str(&self.lines.next().unwrap()).unwrap();
        line["leaf"].as_str().unwrap().to_owned()
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        self.tail.kill().unwrap();
        self.tail.wait().unwrap();
    }
}

#[test]
fn without_a_daemon_each_command_leaves_what_it_did_in_the_log() {
    let place = done(&["t-1", "t-2"]);
    let lines = records(&place, "receipts");
    assert_eq!(leaves(&lines), stored(&place));
    assert_eq!((&lines[0]["stream"], lines.len()), (&"VAK_RECEIPTS".into(), 2));
    assert!(lines[0]["envelope"]["data_base64"].is_string(), "{}", lines[0]);
    work(&place, &["t-3"]);
    assert_eq!(audited(&place), stored(&place));
}

#[test]
fn a_place_where_nothing_was_done_has_no_log() {
    let place = Place::new();
    place.run(&["task", "ls"]);
    assert!(!place.path("data/audit").exists());
}

#[test]
fn a_daemon_follows_and_its_log_is_the_owners_alone() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    work(&place, &["t-1", "t-2"]);
    let heard = Heard::of(&place);
    assert_eq!([heard.next(), heard.next()], *stored(&place));
    drop(heard);
    daemon.stop();
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(place.path("data/audit")), 0o700);
    for entry in fs::read_dir(folder(&place, "receipts")).unwrap() {
        assert_eq!(mode(entry.unwrap().path()), 0o600);
    }
}

#[test]
fn a_killed_daemon_leaves_no_receipt_out() {
    let place = Place::new();
    for round in 0..6 {
        let daemon = Daemon::start(&place);
        work(&place, &[&format!("t-{round}")]);
        if round % 2 == 1 {
            let heard = Heard::of(&place);
            (0..=round).for_each(|_| drop(heard.next()));
        }
        daemon.kill();
    }
    Daemon::start(&place).stop();
    assert_eq!(audited(&place).len(), 6);
    assert_eq!(audited(&place), stored(&place));
}

#[test]
fn what_a_killed_daemon_left_unsigned_is_signed_by_the_next() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    work(&place, &["t-1", "t-2"]);
    let heard = Heard::of(&place);
    drop([heard.next(), heard.next()]);
    drop(heard);
    daemon.kill();
    assert!(records(&place, "checkpoints").is_empty());
    Daemon::start(&place).stop();
    holds(&place, 2);
}

#[test]
fn a_torn_line_costs_no_receipt() {
    let place = done(&["t-1", "t-2"]);
    let file = fs::read_dir(folder(&place, "receipts")).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 40]).unwrap();
    work(&place, &["t-3"]);
    assert_eq!(audited(&place), stored(&place));
}

#[test]
fn a_full_volume_stops_the_audit_and_not_the_work() {
    let place = Place::new();
    work(&place, &["t-1"]);
    let file = fs::read_dir(folder(&place, "receipts")).unwrap().next().unwrap().unwrap().path();
    // What is written there meets a device without room.
    let kept = place.path("kept");
    fs::rename(&file, &kept).unwrap();
    symlink("/dev/full", &file).unwrap();
    let mut daemon = Daemon::start(&place);
    work(&place, &["t-2", "t-3"]);
    daemon.running.says("the audit log is behind: ");
    assert_eq!(stored(&place).len(), 3);
    fs::remove_file(&file).unwrap();
    fs::rename(&kept, &file).unwrap();
    daemon.running.says("the audit log has everything again");
    assert_eq!(audited(&place), stored(&place));
    assert_eq!(audited(&place).len(), 3);
    daemon.stop();
    holds(&place, 2);
}

#[test]
fn another_bus_in_the_data_home_is_followed_from_its_beginning() {
    let place = done(&["t-1", "t-2"]);
    let before = audited(&place);
    fs::remove_dir_all(place.path("data/bus")).unwrap();
    work(&place, &["t-3"]);
    let expected: Vec<String> = before.into_iter().chain(stored(&place)).collect();
    assert_eq!(audited(&place), expected);
    work(&place, &["t-4"]);
    assert_eq!(audited(&place).len(), 4);
}

#[test]
fn a_checkpoint_of_the_daemon_holds_against_a_later_export() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    work(&place, &["t-1", "t-2"]);
    daemon.stop();
    holds(&place, 2);
}

#[test]
fn the_receipts_of_a_server_of_this_home_are_followed_as_well() {
    let place = Place::new();
    let up = Up::start(&place);
    work(&place, &["t-1", "t-2"]);
    let heard = Heard::of(&place);
    assert_eq!([heard.next(), heard.next()], *stored(&place));
    drop(heard);
    let stopped = up.stop();
    assert!(!stopped.stderr.contains("audit"), "{stopped:?}");
    assert_eq!(records(&place, "checkpoints").len(), 1);
}

#[test]
fn the_receipts_of_a_server_of_others_are_followed_as_well() {
    let server = TestServer::start();
    let machine = Machine::new(&server);
    let daemon = Daemon::of(machine.command(&["up", "--json"]));
    machine.does(&["task", "send", "--id", "t-1", "hello"]);
    machine.does(&["worker", "--until-empty", "--", "cat"]);
    let heard = Heard::of(&machine.place);
    let listed = machine.run(&["receipts", "ls", "--json"]).json();
    assert_eq!((&listed["task"], &listed["verified"]), (&"t-1".into(), &true.into()));
    assert_eq!(listed["leaf"], heard.next());
    drop(heard);
    let stopped = daemon.stop();
    assert!(!stopped.stderr.contains("audit"), "{stopped:?}");
}

#[test]
fn a_bus_in_memory_keeps_no_log() {
    let place = Place::new();
    let daemon = Daemon::with(&place, &["--memory"]);
    work(&place, &["t-1"]);
    assert_eq!(listed(&place, &[]).len(), 1);
    daemon.stop();
    assert!(!place.path("data/audit").exists());
}
