//! `vakbus backup` and `vakbus restore`: nothing acknowledged is missing, nothing damaged is used.

use std::{
    fs,
    process::Command,
    sync::mpsc::{self, Receiver},
    thread,
};

use crate::{
    daemon_support::{Daemon, ids},
    support::{LIMIT, Outcome, Place},
};

/// Sends a task and returns its id.
fn send(place: &Place) -> String {
    let sent = place.run(&["task", "send", "--role", "r", "text"]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    sent.stdout.trim().to_owned()
}

/// Sends tasks until nobody listens any more.
fn sent_on_and_on<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    place: &'scope Place,
) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    scope.spawn(move || while sender.send(send(place)).is_ok() {});
    receiver
}

/// What waits in the bus of `again`, once the keys have been put back beside it.
fn restored_tasks(place: &Place) -> Vec<String> {
    let mut copy = Command::new("cp");
    copy.arg("-a").arg(place.path("data/workspaces")).arg(place.path("again"));
    assert!(copy.status().unwrap().success());
    ids(&place.run(&["task", "ls", "--json", "--data-dir", "again"]))
}

fn restore(place: &Place) -> Outcome {
    place.run(&["restore", "backup", "--data-dir", "again", "--json"])
}

/// A place with a backup of one task, whose id is returned.
fn backed_up() -> (Place, String) {
    let place = Place::new();
    let id = send(&place);
    let made = place.run(&["backup", "backup"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    (place, id)
}

#[test]
fn a_backup_made_while_tasks_are_sent_has_all_that_were_acknowledged_before() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let (before, made) = thread::scope(|scope| {
        let sent = sent_on_and_on(scope, &place);
        let before: Vec<String> = (0..3).map(|_| sent.recv_timeout(LIMIT).unwrap()).collect();
        let made = place.run(&["backup", "backup", "--json"]);
        // The sender goes on as long as this is heard.
        sent.recv_timeout(LIMIT).unwrap();
        (before, made)
    });
    assert_eq!(daemon.stop().code, Some(0));
    assert_eq!(made.code, Some(0), "{made:?}");
    assert!(made.json()["files"].as_u64().unwrap() > 0, "{made:?}");
    let restored = restore(&place);
    assert_eq!(restored.code, Some(0), "{restored:?}");
    let kept = restored_tasks(&place);
    assert!(before.iter().all(|id| kept.contains(id)), "{before:?} {kept:?}");
}

#[test]
fn without_a_daemon_the_command_makes_the_backup_itself() {
    let (place, id) = backed_up();
    let verified = place.run(&["backup", "verify", "backup", "--json"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
    assert_eq!(restore(&place).code, Some(0));
    assert_eq!(restored_tasks(&place), [id]);
}

#[test]
fn a_restore_says_what_there_is_now() {
    let (place, _id) = backed_up();
    let told = restore(&place).json();
    assert_eq!(told["messages"], 1, "{told}");
    for count in ["streams", "position"] {
        assert!(told[count].as_u64().unwrap() > 0, "{told}");
    }
}

#[test]
fn keys_and_secrets_are_not_in_a_backup() {
    let (place, _id) = backed_up();
    let mut names: Vec<_> =
        fs::read_dir(place.path("backup")).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    let known = ["blobs", "journal", "manifest", "snapshot"];
    assert!(names.iter().all(|name| known.iter().any(|known| name == known)), "{names:?}");
    assert!(names.iter().any(|name| name == "manifest"), "{names:?}");
}

/// Damages the first segment of the backup, and returns its path.
fn damage(place: &Place) -> String {
    let segment = place.path("backup/journal/0000000000000001.seg");
    let mut bytes = fs::read(&segment).unwrap();
    bytes[100] ^= 1;
    fs::write(&segment, bytes).unwrap();
    "backup/journal/0000000000000001.seg".to_owned()
}

#[test]
fn a_damaged_backup_is_refused_by_the_name_of_the_file() {
    let (place, _id) = backed_up();
    let file = damage(&place);
    place.run(&["backup", "verify", "backup"]).failed_with(&file, "another backup");
}

#[test]
fn a_damaged_backup_is_not_restored() {
    let (place, _id) = backed_up();
    let file = damage(&place);
    restore(&place).failed_with(&file, "another backup");
    assert!(!place.path("again").exists());
}

#[test]
fn a_directory_without_a_manifest_is_no_backup() {
    let (place, _id) = backed_up();
    fs::remove_file(place.path("backup/manifest")).unwrap();
    restore(&place).failed_with("no manifest", "vakbus backup");
}

#[test]
fn a_data_directory_that_has_a_bus_is_left_as_it_is() {
    let (place, id) = backed_up();
    let later = send(&place);
    place.run(&["restore", "backup"]).failed_with("is there already", "--data-dir");
    let mut kept = ids(&place.run(&["task", "ls", "--json"]));
    let mut sent = vec![id, later];
    kept.sort();
    sent.sort();
    assert_eq!(kept, sent);
}

#[test]
fn nothing_is_restored_under_a_running_daemon() {
    let (place, _id) = backed_up();
    fs::rename(place.path("data/bus"), place.path("moved")).unwrap();
    let daemon = Daemon::with(&place, &["--memory"]);
    let refused = place.run(&["restore", "backup"]);
    assert_eq!(daemon.stop().code, Some(0));
    refused.failed_with("a daemon serves", "vakbus status");
    assert!(!place.path("data/bus").exists());
}

#[test]
fn a_daemon_makes_no_backup_in_the_data_that_it_copies() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let refused = place.run(&["backup", "data/backup"]);
    assert_eq!(daemon.stop().code, Some(0));
    refused.is_wrong_call("inside of the data directory");
    assert!(!place.path("data/backup").exists());
}

#[test]
fn a_daemon_that_keeps_nothing_says_so() {
    let place = Place::new();
    let daemon = Daemon::with(&place, &["--memory"]);
    let refused = place.run(&["backup", "backup"]);
    assert_eq!(daemon.stop().code, Some(0));
    refused.failed_with("keeps nothing", "-vv");
}

#[test]
fn a_worker_makes_no_backup_with_a_daemon_or_without() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    assert_eq!(place.run(&["agent", "add", "bob", "--role", "worker"]).code, Some(0));
    let with = place.run(&["backup", "backup", "--as", "bob"]);
    assert_eq!(daemon.stop().code, Some(0));
    let without = place.run(&["backup", "backup", "--as", "bob"]);
    assert_eq!((with.code, without.code), (Some(4), Some(4)), "{with:?} {without:?}");
    assert!(!place.path("backup").exists());
}

#[test]
fn where_nothing_is_kept_there_is_nothing_to_back_up() {
    let place = Place::new();
    place.run(&["backup", "backup"]).failed_with("keeps no bus yet", "--data-dir");
    assert!(!place.path("data").exists());
}

#[test]
fn a_directory_before_verify_is_a_wrong_call() {
    Place::new().run(&["backup", "a", "verify", "b"]).is_wrong_call("not both");
}
