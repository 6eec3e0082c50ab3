//! Keys that change while tasks wait: rotated ones still open, withdrawn and revoked ones do not.

use rustix::process::Signal;

use crate::{
    daemon_support::Daemon,
    support::{Outcome, Place},
};

fn done(place: &Place, args: &[&str]) -> Outcome {
    let outcome = place.run(args);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    outcome
}

/// A place with a running daemon in which the task `old` waits that `sender` handed out.
fn with_waiting_task(sender: &str) -> (Place, Daemon) {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    done(&place, &["agent", "add", sender, "--role", "orchestrator"]);
    done(&place, &["task", "send", "--role", "r", "--as", sender, "old"]);
    (place, daemon)
}

/// Serves the queue until a task that is sent now is done: the one that waited had its turn before.
fn serve(place: &Place) {
    let mut worker = place.start(&["worker", "--role", "r", "--", "touch", "{}"]);
    worker.says("serving r");
    done(place, &["task", "send", "--role", "r", "--wait", "new"]);
    worker.signal(Signal::TERM);
    let outcome = worker.ended();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(place.path("new").exists());
}

#[test]
fn what_was_sealed_before_a_rotation_is_still_done() {
    let (place, daemon) = with_waiting_task("boss");
    done(&place, &["keys", "rotate"]);
    serve(&place);
    assert!(place.path("old").exists());
    assert_eq!(daemon.stop().code, Some(0));
}

#[test]
fn what_was_sealed_under_a_withdrawn_secret_is_not_done() {
    let (place, daemon) = with_waiting_task("boss");
    done(&place, &["keys", "rotate"]);
    done(&place, &["keys", "withdraw", "v1", "--yes"]);
    serve(&place);
    assert!(!place.path("old").exists());
    assert_eq!(daemon.stop().code, Some(0));
}

#[test]
fn what_a_revoked_agent_handed_out_is_not_done() {
    let (place, daemon) = with_waiting_task("boss");
    done(&place, &["agent", "revoke", "boss", "--yes"]);
    serve(&place);
    assert!(!place.path("old").exists());
    assert_eq!(daemon.stop().code, Some(0));
}

#[test]
fn a_revoked_agent_acts_no_more() {
    let (place, daemon) = with_waiting_task("boss");
    done(&place, &["agent", "revoke", "boss", "--yes"]);
    let outcome = place.run(&["task", "send", "--role", "r", "--as", "boss", "more"]);
    outcome.is_wrong_call("there is no agent boss in workspace default");
    assert_eq!(daemon.stop().code, Some(0));
}
