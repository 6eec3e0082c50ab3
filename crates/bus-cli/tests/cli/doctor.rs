//! `vakbus doctor`: what it sees of a bus that is well, of one that is not, and of none.

use bus_testserver::TestServer;
use serde_json::Value;

use crate::{
    daemon_support::{Daemon, lines},
    nats_support::Machine,
    nats_up::Up,
    support::{Outcome, Place},
};

/// What was found by a check, with its level.
fn found(outcome: &Outcome, check: &str) -> Vec<(String, Value)> {
    let findings = lines(outcome).into_iter().filter(|line| line["check"] == check);
    findings.map(|line| (line["level"].as_str().unwrap().to_owned(), line)).collect()
}

fn levels(outcome: &Outcome, check: &str) -> Vec<String> {
    found(outcome, check).into_iter().map(|(level, _)| level).collect()
}

/// Has the workspace's own operator and worker be there.
fn works(place: &Place) {
    assert_eq!(place.run(&["task", "send", "--role", "coder", "x"]).code, Some(0));
    let worked = place.run(&["worker", "--role", "coder", "--until-empty", "--", "true"]);
    assert_eq!(worked.code, Some(0), "{worked:?}");
}

#[test]
fn a_daemon_that_is_well_has_nothing_bad() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    works(&place);
    let outcome = place.run(&["doctor", "--json"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    for check in ["keys", "certificates", "engine", "sync", "partitions", "permissions"] {
        assert_eq!(levels(&outcome, check), ["ok"], "{check}: {outcome:?}");
    }
    let (_, permissions) = found(&outcome, "permissions").remove(0);
    assert!(permissions["found"].as_str().unwrap().starts_with("5 probes"), "{permissions}");
    assert_eq!(lines(&outcome).last().unwrap()["bad"], 0);
    daemon.stop();
}

/// The newest file of the receipts in the audit log.
fn audit_file(place: &Place) -> std::path::PathBuf {
    let dir = place.path("data/audit/default/receipts");
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|it| it.unwrap().path()).collect();
    files.sort();
    files.pop().unwrap()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test waits with a limit")]
fn an_audit_log_that_is_whole_is_ok_and_what_is_wrong_with_it_is_told() {
    let place = Place::new();
    works(&place);
    let daemon = Daemon::start(&place);
    assert_eq!(levels(&place.run(&["doctor", "--json"]), "audit"), ["ok"]);
    daemon.stop();
    let file = audit_file(&place);
    let whole = std::fs::read_to_string(&file).unwrap();
    let says = |text: &str, (level, said, mend): (&str, &str, &str)| {
        std::fs::write(&file, text).unwrap();
        let outcome = place.run(&["doctor", "--json"]);
        let all = found(&outcome, "audit");
        let is_it = |one: &Value| one["found"].as_str().is_some_and(|found| found.contains(said));
        let Some((is, one)) = all.iter().find(|(_, one)| is_it(one)) else {
            panic!("nothing says {said:?}: {outcome:?}");
        };
        assert_eq!(is, level, "{one}");
        assert!(one["mend"].as_str().unwrap().contains(mend), "{one}");
    };
    says(&format!("{whole}{{\"seq\":"), ("warn", "ends in the middle of a line", "vakbus up"));
    says(&format!("no record\n{whole}"), ("bad", "could not be", "is written again"));
    // The bus has another record than the last one at its position. The daemon has the log open and
    // reads it no more once its own first record is there.
    std::fs::write(&file, &whole).unwrap();
    let daemon = Daemon::start(&place);
    works(&place);
    let deadline = std::time::Instant::now() + crate::support::LIMIT;
    let grown = loop {
        let now = std::fs::read_to_string(&file).unwrap();
        if now.lines().count() > whole.lines().count() && now.ends_with('\n') {
            break now;
        }
        assert!(std::time::Instant::now() < deadline, "{now}");
        std::thread::yield_now();
    };
    let leaf = grown.rfind("\"leaf\":\"").unwrap() + "\"leaf\":\"".len();
    let mut other = grown.clone();
    other.replace_range(leaf..leaf + 8, "00000000");
    says(&other, ("bad", "another record of the receipts", "checkpoints and backups"));
    daemon.stop();
}

#[test]
fn it_changes_nothing() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    works(&place);
    let before = place.run(&["status", "--json"]).json();
    let agents = place.run(&["agent", "ls", "--json"]).stdout;
    assert_eq!(place.run(&["doctor"]).code, Some(0));
    assert_eq!(place.run(&["status", "--json"]).json(), before);
    assert_eq!(place.run(&["agent", "ls", "--json"]).stdout, agents);
    daemon.stop();
}

#[test]
fn a_stopped_daemon_is_5_and_the_disk_is_told() {
    let place = Place::new();
    let outcome = place.run(&["doctor", "--json"]);
    assert_eq!(outcome.code, Some(5), "{outcome:?}");
    assert_eq!(found(&outcome, "disk").len(), 1, "{outcome:?}");
    assert_eq!(levels(&outcome, "keys"), ["skipped"], "{outcome:?}");
    let (level, engine) = found(&outcome, "engine").remove(0);
    assert_eq!((level.as_str(), &engine["mend"]), ("bad", &"start one: vakbus up".into()));
    assert!(!place.path("data/workspaces").exists(), "it made nothing");
}

#[test]
fn a_daemon_that_syncs_late_is_a_warning_with_what_to_do() {
    let place = Place::new();
    let daemon = Daemon::with(&place, &["--sync", "100ms"]);
    let outcome = place.run(&["doctor"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let line = outcome.stdout.lines().find(|line| line.contains("sync ")).unwrap();
    assert!(line.starts_with("warn") && line.contains("→ mend: "), "{line}");
    daemon.stop();
}

#[test]
fn a_secret_that_others_can_read_is_bad() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let secret = place.workspace().join("secret");
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o644)).unwrap();
    let outcome = place.run(&["doctor", "--json"]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    daemon.stop();
}

#[test]
fn a_supervised_server_that_is_well_has_nothing_bad() {
    let place = Place::new();
    let up = Up::start(&place);
    works(&place);
    let outcome = place.run(&["doctor", "--json"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let checks = ["server-version", "clock", "replicas", "streams", "permissions", "receipts-room"];
    for check in checks {
        assert_eq!(levels(&outcome, check), ["ok"], "{check}: {outcome:?}");
    }
    up.stop();
    let outcome = place.run(&["doctor", "--json"]);
    assert_eq!((outcome.code, levels(&outcome, "engine")), (Some(5), vec!["bad".to_owned()]));
}

#[test]
fn a_server_that_enforces_no_roles_is_told() {
    let server = TestServer::start();
    let machine = Machine::new(&server);
    assert_eq!(machine.run(&["task", "send", "x"]).code, Some(0));
    let outcome = machine.run(&["doctor", "--json"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(levels(&outcome, "permissions"), ["warn"], "{outcome:?}");
    let (level, sync) = found(&outcome, "sync").remove(0);
    assert_eq!(level, "skipped");
    assert!(sync["found"].as_str().unwrap().contains("clients cannot see"), "{sync}");
}

#[test]
fn a_monitoring_port_is_for_servers_and_has_a_form() {
    let place = Place::new();
    let memory = place.run(&["doctor", "--memory"]);
    memory.is_wrong_call("rests on nothing");
    let password = place.run(&["doctor", "--monitor", "http://u:secret@host:1"]);
    password.is_wrong_call("without a login");
    assert!(!password.stderr.contains("secret"), "{password:?}");
    let outcome = place.run(&["doctor", "--monitor", "http://127.0.0.1:1"]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains("--nats-url"), "{outcome:?}");
}

#[test]
fn a_recording_stream_that_is_not_as_declared_is_told_of_a_foreign_server_too() {
    let server = TestServer::start();
    let machine = Machine::new(&server);
    assert_eq!(machine.run(&["task", "send", "x"]).code, Some(0));
    assert_eq!(levels(&machine.run(&["doctor", "--json"]), "streams"), ["ok"]);

    server.ask("$JS.API.STREAM.DELETE.VAK_REC_default", "").unwrap();
    let outcome = machine.run(&["doctor", "--json"]);
    let (level, stream) = found(&outcome, "streams").remove(0);
    assert_eq!((level.as_str(), outcome.code), ("warn", Some(0)), "{outcome:?}");
    assert!(stream["found"].as_str().unwrap().contains("VAK_REC_default is not there"));

    let small = r#"{"name":"VAK_REC_default","subjects":["vak.history.default.>"],"max_msgs":5}"#;
    server.ask("$JS.API.STREAM.CREATE.VAK_REC_default", small).unwrap();
    let outcome = machine.run(&["doctor", "--json"]);
    let (level, stream) = found(&outcome, "streams").remove(0);
    assert_eq!((level.as_str(), outcome.code), ("bad", Some(1)), "{outcome:?}");
    let said = stream["found"].as_str().unwrap();
    assert!(said.starts_with("VAK_REC_default: ") && said.contains("max_msgs"), "{said}");
}

#[test]
fn a_home_whose_agents_were_never_needed_says_what_makes_them() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let outcome = place.run(&["doctor", "--json"]);
    let skipped = found(&outcome, "permissions");
    assert!(!skipped.is_empty(), "{outcome:?}");
    for (level, finding) in skipped {
        assert_eq!(level, "skipped", "{finding}");
        assert!(finding["found"].as_str().unwrap().contains("has no agent cli"), "{finding}");
        assert!(finding["mend"].as_str().unwrap().contains("makes it"), "{finding}");
    }
    assert!(!outcome.stdout.contains("os error"), "{outcome:?}");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    daemon.stop();
}
