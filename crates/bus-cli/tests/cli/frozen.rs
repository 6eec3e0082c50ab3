//! A daemon that stands still under the commands: none of them waits for ever, and each says so.

use std::thread;

use rustix::process::Signal;

use crate::{
    daemon_support::Daemon,
    support::{Outcome, Place},
};

/// Every command that asks the daemon for something.
const COMMANDS: [&[&str]; 24] = [
    &["status"],
    &["doctor"],
    &["task", "send", "--role", "coder", "x"],
    &["task", "ls"],
    &["task", "result", "t-1"],
    &["task", "cancel", "t-1"],
    &["queue", "ls"],
    &["queue", "pause", "coder"],
    &["inbox", "send", "coder-1", "x"],
    &["inbox", "read"],
    &["approvals", "ls"],
    &["approvals", "request", "--action", "deploy", "--target", "x", "--wait", "1s"],
    &["dlq", "ls"],
    &["dlq", "redrive", "--all", "--yes"],
    &["receipts", "ls"],
    &["tail"],
    &["tail", "--follow"],
    &["trace", "t-1"],
    &["pub", "vak.events.default.s1.tokens", "x"],
    &["sub", "vak.events.default.>"],
    &["record", "--session", "s1"],
    &["top", "--once"],
    &["swarm", "--", "true"],
    &["worker", "--role", "coder", "--until-empty", "--", "true"],
];

#[test]
fn a_daemon_that_stands_still_holds_no_command_for_ever() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    // The agents are made, so that nothing but the daemon is waited for.
    assert_eq!(place.run(&["task", "send", "--role", "coder", "x"]).code, Some(0));
    let worked = place.run(&["worker", "--role", "coder", "--until-empty", "--", "true"]);
    assert_eq!(worked.code, Some(0), "{worked:?}");
    daemon.running.signal(Signal::STOP);
    let outcomes: Vec<(String, Outcome)> = thread::scope(|scope| {
        let running = COMMANDS.map(|args| {
            let place = &place;
            (args.join(" "), scope.spawn(move || place.run(args)))
        });
        running.map(|(args, running)| (args, running.join().unwrap())).into()
    });
    daemon.running.signal(Signal::CONT);
    for (args, outcome) in outcomes {
        assert_eq!(outcome.code, Some(5), "{args}: {outcome:?}");
        assert!(outcome.stderr.contains("next: ") || args == "doctor", "{args}: {outcome:?}");
    }
    daemon.stop();
}
