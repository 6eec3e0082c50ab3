//! A use that is killed at any point is one use or none.

use std::sync::mpsc;

use bus_core::{Clock, SystemClock};
use rustix::process::Signal;
use serde_json::Value;

use crate::{
    daemon_support::Daemon,
    support::{Outcome, Place},
};

/// How many uses are killed, each a little later than the one before.
const ROUNDS: u32 = 12;

const WHAT: [&str; 4] = ["--action", "deploy", "--target", "web-1"];

fn allowed(place: &Place) -> String {
    let asked = place.run(&[&["approvals", "request"], &WHAT[..]].concat());
    let approval = asked.stdout.trim().to_owned();
    let answered = place.run(&["approvals", "resolve", &approval, "yes", "--yes"]);
    assert_eq!(answered.code, Some(0), "{answered:?}");
    approval
}

fn take(place: &Place, approval: &str) -> Outcome {
    // The killed process may have held the answer until its lease runs out.
    place.run(&[&["approvals", "use", approval, "--wait", "50s"], &WHAT[..]].concat())
}

#[test]
fn killed_at_any_point_an_approval_is_used_once_or_not_at_all() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let clock = SystemClock::new();
    let began = clock.now();
    assert_eq!(take(&place, &allowed(&place)).code, Some(0));
    let whole = clock.now().since(began);

    let mut killed = Vec::new();
    for round in 0..ROUNDS {
        let approval = allowed(&place);
        let args = [&["approvals", "use", &approval, "--wait", "50s"], &WHAT[..]].concat();
        let running = place.start(&args);
        // Nothing is waited for: it is killed wherever it is by then.
        let (_never, nothing) = mpsc::channel::<()>();
        let _passed: Result<(), _> = nothing.recv_timeout(whole * round / ROUNDS);
        running.signal(Signal::KILL);
        let ended = running.ended();
        assert!(ended.code.is_none_or(|code| code == 0), "{ended:?}");
        killed.push(approval);
    }
    for approval in killed {
        let shown = || -> Value { place.run(&["approvals", "show", &approval, "--json"]).json() };
        match shown()["state"].as_str().unwrap() {
            "consumed" => {
                let refused = take(&place, &approval);
                assert_eq!(refused.code, Some(4), "{refused:?}");
                assert!(refused.stderr.contains("decision-consumed"), "{refused:?}");
            }
            "resolved" => {
                let used = take(&place, &approval);
                assert_eq!(used.code, Some(0), "{used:?}");
                assert_eq!(shown()["state"], "consumed");
            }
            other => panic!("{approval} is {other}"),
        }
    }
    daemon.stop();
}
